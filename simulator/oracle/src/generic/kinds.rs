//! The networks that the oracle knows.

use super::net::Net;
use super::{adaptive, cayley, clos, dragonfly, express, fly, graph, grid, hyperx, tree};
use proptest::prelude::*;

type Read = fn(kind: &str, rest: &str) -> Box<dyn Net>;
type Shapes = fn() -> BoxedStrategy<String>;

/// Every topology: its kinds, how its text is read, and how often which random ones are tried.
const TOPOLOGIES: [(&[&str], Read, u32, Shapes); 10] = [
    (&["torus", "mesh"], grid::read, 6, grid::shapes),
    (&["fat-tree"], tree::read, 2, tree::shapes),
    (&["fly"], fly::read, 2, fly::shapes),
    (&["clos"], clos::read, 2, clos::shapes),
    (&["cayley"], cayley::read, 3, cayley::shapes),
    (&["random", "slimfly"], graph::read, 2, graph::shapes),
    // Tests have the texts of files: `graph::of`.
    (&["graph", "anynet"], graph::read_file, 0, graph::shapes),
    (&["dragonfly"], dragonfly::read, 2, dragonfly::shapes),
    (&["hyperx"], hyperx::read, 2, hyperx::shapes),
    (&["express"], express::read, 2, express::shapes),
];

pub fn knows(kind: &str) -> bool {
    TOPOLOGIES.iter().any(|t| t.0.contains(&kind))
}

/// The network of a text as users write it.
pub fn read(text: &str) -> Box<dyn Net> {
    let (kind, rest) = text.split_once(':').unwrap();
    TOPOLOGIES.iter().find(|t| t.0.contains(&kind)).unwrap().1(kind, rest)
}

/// The same with adaptive packets; a torus, mesh or HyperX.
pub fn read_adaptive(text: &str) -> Box<dyn Net> {
    adaptive::of(read(text), if text.starts_with("torus") { 2 } else { 1 })
}

/// Texts of small networks of every kind.
pub fn any_shape() -> impl Strategy<Value = String> {
    prop::strategy::Union::new_weighted(TOPOLOGIES.iter().filter(|t| t.2 > 0).map(|t| (t.2, t.3())).collect())
}
