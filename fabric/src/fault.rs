//! Faults and what follows from them: dead links and nodes, links that corrupt packets.
//! What happens to packets under way is in [`crate::reroute`].

use crate::Fabric;
use crate::event::Kind;
use crate::topology::{DIRS, NONE};
use crate::types::{Blame, Link, Tick};
use abi::torus::{Direction, NodeId, Shape};
use std::fmt;

/// Something that is wrong with the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A cable is cut: both directions.
    LinkDown(Link),
    /// A node neither forwards nor injects nor ejects.
    NodeDown(NodeId),
    /// Packets are corrupted.
    Corrupt {
        /// On this link only (one direction), or on all.
        link: Option<Link>,
        /// Corrupted packets per million.
        per_million: u32,
    },
}

/// A fault and when it begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When; `None` is at once.
    pub at: Option<Tick>,
}

/// Why a fault was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultError {
    /// No such link.
    #[error("there is no link {0} in {1}")]
    NoLink(String, Shape),
    /// No such node.
    #[error("there is no node {0} in {1}")]
    NoNode(NodeId, Shape),
    /// A rate above 1.
    #[error("{0} corrupted packets per million: give at most 1000000")]
    Rate(u32),
    /// Text that is not a fault.
    #[error(
        "fault `{0}`: write `link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%`, `node 1,0,0 down` or `corrupt=0.1%`, each optionally followed by `@2ms`"
    )]
    Form(String),
}

impl Fault {
    /// Reads a fault as users write it: `link 0,0,0 +X down`, `link 1,0 -Y corrupt=1%`,
    /// `node 1,0,0 down` or `corrupt=0.1%`, optionally followed by a time such as `@2ms`.
    pub fn parse(text: &str, shape: &Shape) -> Result<Fault, FaultError> {
        let form = || FaultError::Form(text.to_string());
        let (body, at) = match text.split_once('@') {
            Some((body, time)) => (body, Some(parse_time(time.trim()).ok_or_else(form)?)),
            None => (text, None),
        };
        let words: Vec<&str> = body.split_whitespace().collect();
        let node = |w: &str| shape.parse_coords(w).ok().and_then(|c| shape.id(c)).ok_or_else(form);
        let link = |n: &str, d: &str| Ok(Link { node: node(n)?, dir: d.parse().map_err(|_| form())? });
        let rate = |w: &str| w.strip_prefix("corrupt=").and_then(parse_rate).ok_or_else(form);
        let kind = match words[..] {
            ["link", n, d, "down"] => FaultKind::LinkDown(link(n, d)?),
            ["link", n, d, r] => FaultKind::Corrupt { link: Some(link(n, d)?), per_million: rate(r)? },
            ["node", n, "down"] => FaultKind::NodeDown(node(n)?),
            [r] => FaultKind::Corrupt { link: None, per_million: rate(r)? },
            _ => return Err(form()),
        };
        Ok(Fault { kind, at })
    }

    /// The fault as [`Fault::parse`] reads it.
    pub fn show(&self, shape: &Shape) -> String {
        let rate = |m: u32| format!("corrupt={}%", m as f64 / 10_000.0);
        let mut text = match self.kind {
            FaultKind::LinkDown(link) => format!("link {} down", link.show(shape)),
            FaultKind::NodeDown(node) => format!("node {} down", shape.show(shape.coords(node))),
            FaultKind::Corrupt { link: Some(link), per_million } => {
                format!("link {} {}", link.show(shape), rate(per_million))
            }
            FaultKind::Corrupt { link: None, per_million } => rate(per_million),
        };
        if let Some(at) = self.at {
            text += &format!(" @{at}ps");
        }
        text
    }
}

/// `1%`, `0.5%`, `0.01` or `200ppm` as parts per million.
fn parse_rate(text: &str) -> Option<u32> {
    let (number, scale) = match (text.strip_suffix('%'), text.strip_suffix("ppm")) {
        (Some(n), _) => (n, 10_000.0),
        (_, Some(n)) => (n, 1.0),
        _ => (text, 1_000_000.0),
    };
    let value = number.parse::<f64>().ok()? * scale;
    (0.0..=1_000_000.0).contains(&value).then_some(value.round() as u32)
}

/// `2ms`, `1.5us`, `300ns`, `1s` or `5ps` as picoseconds.
fn parse_time(text: &str) -> Option<Tick> {
    let units = [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)];
    let (number, scale) = units.iter().find_map(|(u, s)| text.strip_suffix(u).map(|n| (n, s)))?;
    let value = number.trim().parse::<f64>().ok()? * scale;
    (0.0..1e18).contains(&value).then_some(value.round() as Tick)
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::LinkDown(l) => write!(f, "link {} of node {} down", l.dir, l.node),
            FaultKind::NodeDown(n) => write!(f, "node {n} down"),
            FaultKind::Corrupt { link: Some(l), per_million } => {
                write!(f, "link {} of node {} corrupts {per_million} packets per million", l.dir, l.node)
            }
            FaultKind::Corrupt { link: None, per_million } => {
                write!(f, "every link corrupts {per_million} packets per million")
            }
        }
    }
}

impl Fabric {
    /// Sets a fault now, or plans it for its time. Setting one twice changes nothing.
    pub fn set_fault(&mut self, fault: Fault) -> Result<(), FaultError> {
        self.check_fault(&fault.kind)?;
        match fault.at {
            Some(at) if at > self.now => {
                self.planned.push(Some(fault));
                self.events.push(at, Kind::Fault, 0, self.planned.len() as u32 - 1);
            }
            _ => self.begin_fault(fault),
        }
        Ok(())
    }

    pub(crate) fn check_fault(&self, kind: &FaultKind) -> Result<(), FaultError> {
        let (nodes, shape) = (self.net.nodes, self.net.shape);
        let link_ok = |l: &Link| {
            if (l.node as usize) < nodes && self.net.neighbour(l.node, l.dir.index()) != NONE {
                return Ok(());
            }
            Err(FaultError::NoLink(format!("{} of node {}", l.dir, l.node), shape))
        };
        match kind {
            FaultKind::LinkDown(link) => link_ok(link),
            FaultKind::NodeDown(node) if *node as usize >= nodes => Err(FaultError::NoNode(*node, shape)),
            FaultKind::NodeDown(_) => Ok(()),
            FaultKind::Corrupt { per_million, .. } if *per_million > 1_000_000 => Err(FaultError::Rate(*per_million)),
            FaultKind::Corrupt { link, .. } => link.as_ref().map_or(Ok(()), link_ok),
        }
    }

    /// Faults in force and planned.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.iter().copied().chain(self.planned.iter().flatten().copied()).collect()
    }

    /// [`Kind::Fault`]: a planned fault begins.
    pub(crate) fn on_fault(&mut self, index: u32) {
        if let Some(fault) = self.planned[index as usize].take() {
            self.begin_fault(fault);
        }
    }

    fn begin_fault(&mut self, fault: Fault) {
        match fault.kind {
            FaultKind::LinkDown(link) => self.fail(Blame::Link(link)),
            FaultKind::NodeDown(node) => self.fail(Blame::Node(node)),
            FaultKind::Corrupt { link, per_million } => {
                self.corrupt(link, per_million);
                self.remember(fault.kind);
            }
        }
    }

    fn remember(&mut self, kind: FaultKind) {
        let same = |f: &Fault| match (f.kind, kind) {
            (FaultKind::Corrupt { link: a, .. }, FaultKind::Corrupt { link: b, .. }) => a == b,
            (a, b) => a == b,
        };
        self.faults.retain(|f| !same(f));
        self.faults.push(Fault { kind, at: Some(self.now) });
    }

    fn corrupt(&mut self, link: Option<Link>, per_million: u32) {
        for node in 0..self.net.nodes as u32 {
            for dir in 0..DIRS {
                let this = Link { node, dir: Direction::ALL[dir] };
                if self.net.neighbour(node, dir) != NONE && link.is_none_or(|l| l == this) {
                    self.set_error_rate(node, dir, per_million);
                }
            }
        }
    }

    /// Takes back a fault in force or planned. A link that failed by itself is cleared like one set.
    pub fn clear_fault(&mut self, kind: FaultKind) {
        for planned in &mut self.planned {
            if planned.is_some_and(|f| f.kind == kind) {
                *planned = None;
            }
        }
        match kind {
            FaultKind::Corrupt { link, .. } => {
                self.faults.retain(|f| !matches!(f.kind, FaultKind::Corrupt { link: l, .. } if l == link));
                self.corrupt(link, 0);
            }
            FaultKind::LinkDown(link) => {
                let back = self.net.reverse(link);
                self.faults.retain(|f| !matches!(f.kind, FaultKind::LinkDown(l) if l == link || Some(l) == back));
                self.change_routes(Blame::Link(link), false);
            }
            FaultKind::NodeDown(node) => {
                self.faults.retain(|f| f.kind != kind);
                self.change_routes(Blame::Node(node), false);
            }
        }
    }

    /// Takes a link or node out of service.
    pub(crate) fn fail(&mut self, what: Blame) {
        let kind = match what {
            Blame::Link(link) => FaultKind::LinkDown(link),
            Blame::Node(node) => FaultKind::NodeDown(node),
        };
        self.remember(kind);
        self.change_routes(what, true);
    }
}
