//! Faults and what follows from them: dead links and nodes, links that packets do not cross as they should.
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
    /// Packets do not cross as they should.
    Impaired {
        /// This link only (one direction), or all.
        link: Option<Link>,
        /// What befalls them.
        how: Impair,
    },
}

/// One thing that befalls the packets of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Impair {
    /// So many transmissions per million are damaged.
    Corrupt(u32),
    /// So many packets per million are sent twice.
    Duplicate(u32),
    /// So many packets per million are held back until another has overtaken them.
    Reorder(u32),
    /// They take so much longer, and so do credits and word of errors the other way.
    Delay(Tick),
    /// The link sends at most so many bytes of flits per second; 0: as many as it can.
    Rate(u64),
    /// Which packets suffer follows from this number, and the network's seed no more; `None`: from that again.
    Seed(Option<u64>),
}

/// All that befalls the packets of a link; the default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Impairment {
    /// Transmissions damaged (or lost, which the receiver answers alike), per million.
    pub wrong: u32,
    /// Packets sent twice, per million.
    pub twice: u32,
    /// Packets held back until another has overtaken them, per million.
    pub late: u32,
    /// Added to the link's flight time, and to that of credits and word of errors the other way.
    pub delay_ps: Tick,
    /// Bytes of flits per second at most; 0: no limit.
    pub rate: u64,
    /// What random numbers are drawn from instead of the network's seed, counted from when what befalls the link changed last.
    pub seed: Option<u64>,
}

const SECOND: Tick = 1_000_000_000_000;
/// Longest delay of a link.
const DELAY_MAX: Tick = SECOND;
/// Least rate of a link, bytes per second.
const RATE_MIN: u64 = 1_000;

impl Impairment {
    /// The same but for one thing.
    pub fn with(self, how: Impair) -> Impairment {
        match how {
            Impair::Corrupt(wrong) => Impairment { wrong, ..self },
            Impair::Duplicate(twice) => Impairment { twice, ..self },
            Impair::Reorder(late) => Impairment { late, ..self },
            Impair::Delay(delay_ps) => Impairment { delay_ps, ..self },
            Impair::Rate(rate) => Impairment { rate, ..self },
            Impair::Seed(seed) => Impairment { seed, ..self },
        }
    }
    /// Whether a link can be so.
    pub fn check(&self) -> Result<(), FaultError> {
        match [self.wrong, self.twice, self.late].into_iter().find(|share| *share > 1_000_000) {
            Some(share) => Err(FaultError::Share(share)),
            None if self.delay_ps > DELAY_MAX => Err(FaultError::Delay(self.delay_ps)),
            None if (1..RATE_MIN).contains(&self.rate) => Err(FaultError::Rate(self.rate)),
            None => Ok(()),
        }
    }
    /// Nothing befalls packets.
    pub fn is_none(&self) -> bool {
        Impairment { seed: None, ..*self } == Impairment::default()
    }
    /// Packets take longer than on the chip's links.
    pub fn is_slow(&self) -> bool {
        self.delay_ps > 0 || self.rate > 0
    }
    /// Packets need numbers and checksums.
    pub(crate) fn numbers(&self) -> bool {
        self.wrong > 0 || self.twice > 0 || self.late > 0
    }
    /// Time of so many flits at the rate.
    pub(crate) fn span(&self, flits: u16) -> Tick {
        if self.rate == 0 { 0 } else { (flits as u64 * abi::FLIT_BYTES as u64 * SECOND).div_ceil(self.rate) }
    }
}

impl Impair {
    /// Reads `corrupt=1%`, `dup=1%`, `reorder=1%`, `delay=2us`, `rate=10M` or `seed=7`; `None` if it is none of these.
    pub fn parse(word: &str) -> Option<Impair> {
        let (name, value) = word.split_once('=')?;
        Some(match name {
            "corrupt" => Impair::Corrupt(parse_share(value)?),
            "dup" => Impair::Duplicate(parse_share(value)?),
            "reorder" => Impair::Reorder(parse_share(value)?),
            "delay" => Impair::Delay(parse_time(value)?),
            "rate" => Impair::Rate(parse_bytes(value)?),
            "seed" => Impair::Seed(if value == "none" { None } else { Some(value.parse().ok()?) }),
            _ => return None,
        })
    }
    /// Nothing of this kind.
    pub fn none(self) -> Impair {
        match self {
            Impair::Corrupt(_) => Impair::Corrupt(0),
            Impair::Duplicate(_) => Impair::Duplicate(0),
            Impair::Reorder(_) => Impair::Reorder(0),
            Impair::Delay(_) => Impair::Delay(0),
            Impair::Rate(_) => Impair::Rate(0),
            Impair::Seed(_) => Impair::Seed(None),
        }
    }
}

impl fmt::Display for Impair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |per_million: u32| per_million as f64 / 1e4;
        match *self {
            Impair::Corrupt(n) => write!(f, "corrupt={}%", share(n)),
            Impair::Duplicate(n) => write!(f, "dup={}%", share(n)),
            Impair::Reorder(n) => write!(f, "reorder={}%", share(n)),
            Impair::Delay(time) => {
                let units = [("s", SECOND), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)];
                let unit = units.into_iter().find(|u| time % u.1 == 0 && time > 0).unwrap_or(("ps", 1));
                write!(f, "delay={}{}", time / unit.1, unit.0)
            }
            Impair::Rate(bytes) => {
                let units = [("G", 30), ("M", 20), ("K", 10)];
                let unit = units.into_iter().find(|u| bytes > 0 && bytes % (1 << u.1) == 0).unwrap_or(("", 0));
                write!(f, "rate={}{}", bytes >> unit.1, unit.0)
            }
            Impair::Seed(None) => f.write_str("seed=none"),
            Impair::Seed(Some(seed)) => write!(f, "seed={seed}"),
        }
    }
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
    /// A share above 1.
    #[error("{0} packets per million: give at most 1000000")]
    Share(u32),
    /// A delay that would let model time overflow.
    #[error("a delay of {0} ps: give at most 1s")]
    Delay(Tick),
    /// A rate that would let model time overflow.
    #[error("a rate of {0} bytes per second: give at least 1000, or 0 for no limit")]
    Rate(u64),
    /// Text that is not a fault.
    #[error(
        "fault `{0}`: write `link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%` (or `dup=1%`, `reorder=1%`, `delay=2us`, `rate=10M`, `seed=7`), `node 1,0,0 down` or `corrupt=0.1%` (of every link), each optionally followed by `@2ms`"
    )]
    Form(String),
}

impl Fault {
    /// Reads a fault as users write it: `link 0,0,0 +X down`, `link 1,0 -Y corrupt=1%` (or another [`Impair`]),
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
        let how = |w: &str| Impair::parse(w).ok_or_else(form);
        let kind = match words[..] {
            ["link", n, d, "down"] => FaultKind::LinkDown(link(n, d)?),
            ["link", n, d, r] => FaultKind::Impaired { link: Some(link(n, d)?), how: how(r)? },
            ["node", n, "down"] => FaultKind::NodeDown(node(n)?),
            [r] => FaultKind::Impaired { link: None, how: how(r)? },
            _ => return Err(form()),
        };
        Ok(Fault { kind, at })
    }

    /// The fault as [`Fault::parse`] reads it.
    pub fn show(&self, shape: &Shape) -> String {
        let mut text = match self.kind {
            FaultKind::LinkDown(link) => format!("link {} down", link.show(shape)),
            FaultKind::NodeDown(node) => format!("node {} down", shape.show(shape.coords(node))),
            FaultKind::Impaired { link: Some(link), how } => format!("link {} {how}", link.show(shape)),
            FaultKind::Impaired { link: None, how } => how.to_string(),
        };
        if let Some(at) = self.at {
            text += &format!(" @{at}ps");
        }
        text
    }
}

/// `1%`, `0.5%`, `0.01` or `200ppm` as parts per million.
fn parse_share(text: &str) -> Option<u32> {
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

/// `10M` as bytes, in powers of 1024.
fn parse_bytes(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    let number = if shift > 0 { &text[..text.len() - 1] } else { text };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl FaultKind {
    /// The other one says something else about the same thing.
    fn is_replaced_by(self, other: FaultKind) -> bool {
        match (self, other) {
            (FaultKind::Impaired { link: a, how: x }, FaultKind::Impaired { link: b, how: y }) => {
                a == b && x.none() == y.none()
            }
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::LinkDown(l) => write!(f, "link {} of node {} down", l.dir, l.node),
            FaultKind::NodeDown(n) => write!(f, "node {n} down"),
            FaultKind::Impaired { link: Some(l), how } => write!(f, "link {} of node {} {how}", l.dir, l.node),
            FaultKind::Impaired { link: None, how } => write!(f, "every link {how}"),
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

    pub(crate) fn check_link(&self, link: &Link) -> Result<(), FaultError> {
        if (link.node as usize) < self.net.nodes && self.net.neighbour(link.node, link.dir.index()) != NONE {
            return Ok(());
        }
        Err(FaultError::NoLink(format!("{} of node {}", link.dir, link.node), self.net.shape))
    }

    pub(crate) fn check_fault(&self, kind: &FaultKind) -> Result<(), FaultError> {
        let (nodes, shape) = (self.net.nodes, self.net.shape);
        match kind {
            FaultKind::LinkDown(link) => self.check_link(link),
            FaultKind::NodeDown(node) if *node as usize >= nodes => Err(FaultError::NoNode(*node, shape)),
            FaultKind::NodeDown(_) => Ok(()),
            FaultKind::Impaired { link, how } => {
                Impairment::default().with(*how).check()?;
                link.as_ref().map_or(Ok(()), |link| self.check_link(link))
            }
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
            FaultKind::Impaired { link, how } => {
                self.impair_links(link, how);
                self.remember(fault.kind);
            }
        }
    }

    fn remember(&mut self, kind: FaultKind) {
        self.faults.retain(|f| !f.kind.is_replaced_by(kind));
        self.faults.push(Fault { kind, at: Some(self.now) });
    }

    fn impair_links(&mut self, link: Option<Link>, how: Impair) {
        for node in 0..self.net.nodes as u32 {
            for dir in 0..DIRS {
                let this = Link { node, dir: Direction::ALL[dir] };
                if self.net.neighbour(node, dir) != NONE && link.is_none_or(|l| l == this) {
                    self.impair(this, self.impairment(this).with(how));
                }
            }
        }
        self.impaired_otherwise();
    }

    /// Takes back a fault in force or planned. A link that failed by itself is cleared like one set.
    pub fn clear_fault(&mut self, kind: FaultKind) {
        for planned in &mut self.planned {
            if planned.is_some_and(|f| f.kind == kind) {
                *planned = None;
            }
        }
        match kind {
            FaultKind::Impaired { link, how } => {
                self.faults.retain(|f| !f.kind.is_replaced_by(kind));
                self.impair_links(link, how.none());
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
