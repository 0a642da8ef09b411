//! What can be wrong with the network: a [`Fault`] is what fails ([`Site`]) and how ([`Failing`]).
//!
//! [`grammar`] reads and prints them as people write them. A [`Book`] is a list of faults in force; what all of them together do
//! to the packets of a link is an [`Impairment`]. Trunks between hosts fail in the same ways ([`TrunkChange`]).

mod book;
pub mod command;
pub mod grammar;
mod impairment;
mod trunk;

pub use book::{Action, Book, BookError, Clear};
pub use command::{Command, Target};
pub use grammar::{KINDS, Mistake, examples, near, remedy};
pub use impairment::{Impair, Impairment, ImpairmentError};
pub use trunk::{TrunkChange, TrunkState};

use crate::link::Link;
use crate::torus::{NodeId, Shape};
use crate::units::show_time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// A link: in one direction, or the cable if it is down.
    Link(Link),
    /// A whole node.
    Node(NodeId),
    /// Every link.
    EveryLink,
}

impl Site {
    /// Why `shape` has no such part.
    pub fn check(self, shape: &Shape) -> Result<(), String> {
        match self {
            Site::Link(link) if link.node as usize >= shape.nodes() => {
                Err(format!("there is no node {} in {shape}", link.node))
            }
            Site::Link(link) if !link.exists(shape) => {
                Err(format!("{} has no link {} in {shape}", shape.show(shape.coords(link.node)), link.dir))
            }
            Site::Node(node) if node as usize >= shape.nodes() => Err(format!("there is no node {node} in {shape}")),
            _ => Ok(()),
        }
    }

    /// The links whose packets suffer if it is impaired: of a node, those that begin or end there.
    pub fn links(self, shape: &Shape) -> Vec<Link> {
        match self {
            Site::Link(link) => vec![link],
            Site::Node(node) => {
                Link::of_node(node, *shape).flat_map(|link| [Some(link), link.reverse(shape)]).flatten().collect()
            }
            Site::EveryLink => Link::all(*shape).collect(),
        }
    }

    /// As it is typed.
    pub fn show(&self, shape: &Shape) -> String {
        match *self {
            Site::Link(link) => format!("link {}", link.show(shape)),
            Site::Node(id) => format!("node {}", shape.show(shape.coords(id))),
            Site::EveryLink => "every link".into(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Link(link) => write!(f, "link {} of node {}", link.dir, link.node),
            Site::Node(node) => write!(f, "node {node}"),
            Site::EveryLink => f.write_str("every link"),
        }
    }
}

/// How something fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failing {
    /// Carries nothing.
    Down,
    /// Packets do not cross as they should.
    Impaired(Impair),
}

impl Failing {
    /// Two of one kind replace each other.
    pub fn same_kind(self, other: Failing) -> bool {
        match (self, other) {
            (Failing::Impaired(a), Failing::Impaired(b)) => a.none() == b.none(),
            (a, b) => a == b,
        }
    }
    /// Nothing is wrong.
    pub fn is_none(self) -> bool {
        matches!(self, Failing::Impaired(how) if how == how.none())
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failing::Down => f.write_str("down"),
            Failing::Impaired(how) => how.fmt(f),
        }
    }
}

/// Something that is or will be wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Where.
    pub site: Site,
    /// How.
    pub failing: Failing,
    /// Picoseconds from when it is set, or of the time of a simulation, until it takes effect; `None`: at once.
    pub at: Option<u64>,
}

impl Fault {
    /// A cable is cut, both ways.
    pub fn link_down(link: Link) -> Fault {
        Fault { site: Site::Link(link), failing: Failing::Down, at: None }
    }
    /// A node neither forwards nor injects nor ejects.
    pub fn node_down(node: NodeId) -> Fault {
        Fault { site: Site::Node(node), failing: Failing::Down, at: None }
    }
    /// Packets do not cross a part of the network as they should.
    pub fn impaired(site: Site, how: Impair) -> Fault {
        Fault { site, failing: Failing::Impaired(how), at: None }
    }
    /// The same, but later.
    pub fn at(self, ps: u64) -> Fault {
        Fault { at: Some(ps), ..self }
    }
    /// The same, but at once.
    pub fn now(self) -> Fault {
        Fault { at: None, ..self }
    }
    /// It is down.
    pub fn is_down(&self) -> bool {
        self.failing == Failing::Down
    }
    /// The other one says something else about the same thing.
    pub fn is_replaced_by(&self, other: &Fault) -> bool {
        self.site == other.site && self.failing.same_kind(other.failing)
    }
    /// Reads one fault of a network of `shape`.
    pub fn parse(text: &str, shape: &Shape) -> Result<Fault, Mistake> {
        match Command::parse(text, shape)? {
            Command { target: Target::Network(actions), .. } => match actions[..] {
                [Action::Set(fault)] => Ok(fault),
                _ => Err(Mistake::new(text, "exactly one fault is expected here")),
            },
            Command { target: Target::Trunk { .. }, .. } => {
                Err(Mistake::new(text, "it is about neither a link nor a node"))
            }
        }
    }
    /// As [`Fault::parse`] reads it.
    pub fn show(&self, shape: &Shape) -> String {
        let mut text = match self.site {
            Site::EveryLink => String::new(),
            site => format!("{} ", site.show(shape)),
        };
        text += &self.failing.to_string();
        if let Some(at) = self.at {
            text += &format!(" @{}", show_time(at));
        }
        text
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.site, self.failing)
    }
}
