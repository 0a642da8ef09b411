//! Shapes of networks: which port of which router is wired to what, and the way a packet takes.
//!
//! A topology answers three questions: what hangs on an output port, what a packet must remember
//! when it sets out ([`Topology::start`]), and which output it wants at the router it has reached
//! ([`Topology::next`]). Everything a packet remembers is one small [`Route`]; routers hold no tables.

mod cayley;
mod clos;
mod fat_tree;
mod grid;

use super::rng;
pub use cayley::{Cayley, Group, Presentation};
pub use clos::Clos;
pub use fat_tree::FatTree;
pub use grid::Grid;
use std::fmt;
use std::str::FromStr;

/// Most ports of one router.
pub const PORTS_MAX: usize = 64;
/// Most dimensions of a torus or mesh.
pub const DIMS_MAX: usize = 6;

/// What a packet remembers of its way; its meaning belongs to the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

impl Route {
    /// The next random word of a route that keeps its last one in `hi`.
    #[inline(always)]
    fn advance(&mut self) -> u64 {
        self.hi = rng::mix(self.hi.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.hi
    }
}

/// Which virtual channels of an output a packet of the generic profile may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The lower half of the virtual channels (before the dateline).
    Lower,
    /// The upper half (after the dateline).
    Upper,
    /// Any.
    Any,
    /// Those of a packet's hop of this number, from 0: channel v of V is in class ⌊v·classes/V⌋.
    Step(u8),
}

impl Class {
    /// Values of [`Class::index`]: there are at most 8 virtual channels, so as many steps.
    pub(crate) const COUNT: usize = 11;

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        match self {
            Class::Lower => 0,
            Class::Upper => 1,
            Class::Any => 2,
            Class::Step(k) => 3 + k as usize,
        }
    }
    /// The channels of every class, as masks, if there are `vcs` of them and `classes` classes.
    pub(crate) fn channels(vcs: u32, classes: u32) -> [u32; Class::COUNT] {
        let all = (1 << vcs) - 1;
        let lower = (1 << (vcs / 2)) - 1;
        let mut masks = [0; Class::COUNT];
        masks[Class::Lower.index()] = lower;
        masks[Class::Upper.index()] = all & !lower;
        masks[Class::Any.index()] = all;
        for v in 0..vcs {
            masks[Class::Step((v * classes / vcs) as u8).index() % Class::COUNT] |= 1 << v;
        }
        masks
    }
}

/// The output a packet wants at a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Output port.
    pub port: u8,
    /// Virtual channels it may take there.
    pub class: Class,
}

/// What is wired to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Port `port` of router `router`.
    Router {
        /// The router.
        router: u32,
        /// Its port.
        port: u8,
    },
    /// An endpoint (a source and sink of packets).
    Endpoint(u32),
    /// Nothing.
    Open,
}

/// A network's shape and deterministic routing.
pub trait Topology: Send + Sync {
    /// Sources and sinks of packets.
    fn endpoints(&self) -> usize;
    /// Routers.
    fn routers(&self) -> usize;
    /// Ports of the largest router, those to endpoints included.
    fn ports(&self) -> usize;
    /// What output `port` of `router` leads to; for a link, the input port it arrives at.
    fn output(&self, router: u32, port: u8) -> End;
    /// The router and port (input and output alike) of an endpoint.
    fn attach(&self, endpoint: u32) -> (u32, u8);
    /// What a packet from `src` to `dst` remembers; `random` decides free choices.
    fn start(&self, src: u32, dst: u32, random: u64) -> Route;
    /// The output the packet wants at `router`, updating what it remembers for the next one.
    fn next(&self, router: u32, route: &mut Route) -> Hop;
    /// Classes of virtual channels that keep the generic profile from deadlock: 1 if any channel will do, 2
    /// with [`Class::Lower`] and [`Class::Upper`], else as many as there are values of [`Class::Step`].
    fn classes(&self) -> u32 {
        1
    }
}

/// A topology as written on a command line: `torus:8x8x8`, `mesh:4x4`, `fat-tree:8,3`, `clos:4,8,16`,
/// `cayley:13:1,5` (see [`Presentation`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Torus or mesh of 1 to 6 dimensions.
    Grid {
        /// Sizes, X first.
        dims: Vec<u16>,
        /// Links wrap around (torus).
        wrap: bool,
    },
    /// k-ary n-tree: `arity`^`levels` endpoints, `levels` ranks of `arity`^(`levels`-1) routers.
    FatTree {
        /// Down-links (and up-links) of a router.
        arity: u16,
        /// Ranks of routers.
        levels: u8,
    },
    /// Folded Clos of three stages.
    Clos {
        /// Switches that join all leaves.
        spines: u16,
        /// Endpoints of a leaf.
        endpoints: u16,
        /// Leaf switches.
        leaves: u16,
    },
    /// Cayley graph.
    Cayley(Presentation),
}

/// Why a shape was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// Not a known form.
    #[error(
        "topology `{0}`: write torus:8x8x8, mesh:4x4, fat-tree:ARITY,LEVELS, clos:SPINES,ENDPOINTS,LEAVES or cayley:GROUP:GENERATORS"
    )]
    Form(String),
    /// Bad sizes.
    #[error("topology `{0}`: give 1 to 6 sizes, each from 1 to 4096")]
    Size(String),
    /// Bad tree.
    #[error("topology `{0}`: a fat tree needs 2 to 32 down-links per router and 1 to 16 levels")]
    Tree(String),
    /// Bad Clos network.
    #[error(
        "topology `{0}`: give 1 to 63 spines, endpoints per leaf and leaves, of a leaf endpoints + spines at most {max}",
        max = PORTS_MAX
    )]
    Clos(String),
    /// Bad group or generators.
    #[error("topology `{0}`: {1}")]
    Cayley(String, String),
    /// Too large for 32-bit channel numbers.
    #[error("topology `{0}` has {1} nodes; at most {max} are supported", max = NODES_MAX)]
    Nodes(String, u64),
}

/// Most endpoints or routers of a network.
pub const NODES_MAX: u64 = 1 << 24;

impl Shape {
    /// Checks sizes and counts.
    pub fn validate(&self) -> Result<(), ShapeError> {
        let nodes = match self {
            Shape::Grid { dims, .. } => {
                if dims.is_empty() || dims.len() > DIMS_MAX || dims.iter().any(|&d| d == 0 || d > 4096) {
                    return Err(ShapeError::Size(self.to_string()));
                }
                dims.iter().map(|&d| d as u64).product()
            }
            Shape::FatTree { arity, levels } => {
                if !(2..=32).contains(arity) || !(1..=16).contains(levels) {
                    return Err(ShapeError::Tree(self.to_string()));
                }
                (*arity as u64).saturating_pow(*levels as u32)
            }
            Shape::Clos { spines, endpoints, leaves } => {
                let counts = [spines, endpoints, leaves].map(|&n| n as u64);
                if counts.iter().any(|n| !(1..64).contains(n)) || counts[0] + counts[1] > PORTS_MAX as u64 {
                    return Err(ShapeError::Clos(self.to_string()));
                }
                counts[1] * counts[2]
            }
            Shape::Cayley(p) => Cayley::new(p)?.endpoints() as u64,
        };
        if nodes > NODES_MAX { Err(ShapeError::Nodes(self.to_string(), nodes)) } else { Ok(()) }
    }
    /// The network of this shape, which must be valid.
    pub fn topology(&self) -> Box<dyn Topology> {
        match self {
            Shape::Grid { dims, wrap } => Box::new(Grid::new(dims, *wrap)),
            Shape::FatTree { arity, levels } => Box::new(FatTree::new(*arity, *levels)),
            Shape::Clos { spines, endpoints, leaves } => Box::new(Clos::new(*spines, *endpoints, *leaves)),
            Shape::Cayley(p) => Box::new(Cayley::new(p).expect("a valid shape")),
        }
    }
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        match self {
            Shape::Grid { dims, .. } => dims.iter().map(|&d| d as usize).product(),
            Shape::FatTree { arity, levels } => (*arity as usize).pow(*levels as u32),
            Shape::Clos { endpoints, leaves, .. } => *endpoints as usize * *leaves as usize,
            Shape::Cayley(p) => Cayley::new(p).map_or(0, |c| c.endpoints()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Grid { dims, wrap } => {
                let sizes = dims.iter().map(u16::to_string).collect::<Vec<_>>().join("x");
                write!(f, "{}:{sizes}", if *wrap { "torus" } else { "mesh" })
            }
            Shape::FatTree { arity, levels } => write!(f, "fat-tree:{arity},{levels}"),
            Shape::Clos { spines, endpoints, leaves } => write!(f, "clos:{spines},{endpoints},{leaves}"),
            Shape::Cayley(p) => write!(f, "cayley:{p}"),
        }
    }
}

impl FromStr for Shape {
    type Err = ShapeError;
    fn from_str(s: &str) -> Result<Shape, ShapeError> {
        let form = || ShapeError::Form(s.to_string());
        let shape = match s.split_once(':').ok_or_else(form)? {
            (kind @ ("torus" | "mesh"), sizes) => {
                let dims: Result<Vec<u16>, _> = sizes.split('x').map(str::parse).collect();
                Shape::Grid { dims: dims.map_err(|_| form())?, wrap: kind == "torus" }
            }
            ("fat-tree", rest) => {
                let (a, l) = rest.split_once(',').ok_or_else(form)?;
                Shape::FatTree { arity: a.parse().map_err(|_| form())?, levels: l.parse().map_err(|_| form())? }
            }
            ("clos", rest) => {
                let counts: Vec<u16> = rest.split(',').map_while(|c| c.parse().ok()).collect();
                match counts[..] {
                    [spines, endpoints, leaves] => Shape::Clos { spines, endpoints, leaves },
                    _ => return Err(form()),
                }
            }
            ("cayley", rest) => Shape::Cayley(rest.parse().map_err(|why| ShapeError::Cayley(s.to_string(), why))?),
            _ => return Err(form()),
        };
        shape.validate()?;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With their diameters.
    const CAYLEY: [(&str, u32); 6] = [
        ("cayley:13:1,5", 2),                  // every element is a sum of at most two of ±1, ±5
        ("cayley:5x4:1.0,0.1", 4),             // a torus
        ("cayley:2x2x2:1.0.0,0.1.0,0.0.1", 3), // a hypercube
        ("cayley:s4:2134,3214,4231", 4),       // the star graph of 24 routers
        ("cayley:s4:2134,3214,4321", 4),       // the pancake graph
        ("cayley:s4:2314,2143", 3),            // the alternating group only
    ];

    fn walk(t: &dyn Topology, src: u32, dst: u32, random: u64) -> usize {
        let mut route = t.start(src, dst, random);
        let (mut at, _) = t.attach(src);
        for routers in 1..1000 {
            let hop = t.next(at, &mut route);
            match t.output(at, hop.port) {
                End::Router { router, .. } => at = router,
                End::Endpoint(e) => {
                    assert_eq!(e, dst);
                    return routers;
                }
                End::Open => panic!("{src}→{dst} leaves the network at router {at} port {}", hop.port),
            }
        }
        panic!("{src}→{dst} does not arrive")
    }

    fn check(t: &dyn Topology) {
        for r in 0..t.routers() as u32 {
            for p in 0..t.ports() as u8 {
                match t.output(r, p) {
                    End::Router { router, port } => {
                        assert_eq!(t.output(router, port), End::Router { router: r, port: p }, "link of {r}.{p}");
                    }
                    End::Endpoint(e) => assert_eq!(t.attach(e), (r, p)),
                    End::Open => {}
                }
            }
        }
        for s in 0..t.endpoints() as u32 {
            for d in 0..t.endpoints() as u32 {
                walk(t, s, d, rng::mix((s * 977 + d) as u64));
            }
        }
    }

    #[test]
    fn every_link_has_two_ends_and_every_packet_arrives() {
        for (dims, wrap) in
            [(&[5u16][..], true), (&[4, 3, 2], true), (&[3, 4], false), (&[2, 2, 2, 2, 3, 2], true), (&[1, 6], true)]
        {
            check(&Grid::new(dims, wrap));
        }
        for (k, n) in [(2, 1), (2, 4), (3, 3), (4, 2)] {
            check(&FatTree::new(k, n));
        }
        for (m, n, r) in [(1, 1, 1), (3, 2, 5), (4, 4, 4)] {
            check(&Clos::new(m, n, r));
        }
        for (text, diameter) in CAYLEY {
            let Ok(Shape::Cayley(p)) = text.parse() else { panic!("{text}") };
            let t = Cayley::new(&p).unwrap();
            check(&t);
            // From anywhere, the farthest router is as far as from the identity.
            let farthest = |s| (0..t.endpoints() as u32).map(|d| walk(&t, s, d, 5) as u32 - 1).max().unwrap();
            assert_eq!((farthest(0), farthest(1), t.classes()), (diameter, diameter, diameter), "{text}");
        }
    }

    #[test]
    fn torus_routes_are_minimal() {
        let t = Grid::new(&[5, 4, 2], true);
        for s in 0..40 {
            for d in 0..40 {
                let far: u32 = (0..3)
                    .map(|i| {
                        let (a, b, n) = (t.coordinate(s, i), t.coordinate(d, i), t.size(i));
                        a.abs_diff(b).min(n - a.abs_diff(b))
                    })
                    .sum();
                assert_eq!(walk(&t, s, d, 3), far as usize + 1);
            }
        }
    }

    #[test]
    fn shapes_are_read_and_refused() {
        let cayley = CAYLEY.iter().map(|c| c.0);
        for s in
            ["torus:8x8x8", "mesh:4x4", "fat-tree:8,3", "torus:2x2x2x2x2x2", "clos:4,8,16"].into_iter().chain(cayley)
        {
            assert_eq!(s.parse::<Shape>().unwrap().to_string(), s);
        }
        for s in
            ["8x8", "torus:0x3", "torus:2x2x2x2x2x2x2", "fat-tree:8", "fat-tree:1,3", "mesh:9999", "torus:4096x4096x2"]
        {
            assert!(s.parse::<Shape>().is_err(), "{s}");
        }
        for (s, why) in [
            ("clos:4,8", "SPINES"),
            ("clos:40,30,2", "endpoints + spines"),
            ("cayley:13", "group and generators"),
            ("cayley:8x8:1", "2 numbers"),
            ("cayley:8x8:2.0,0.1", "32 of 64"),
            ("cayley:6:0", "identity"),
            ("cayley:s4:2135", "once"),
            ("cayley:s10:21", "2 to 9"),
        ] {
            let error = s.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(why), "{s}: {error}");
        }
    }
}
