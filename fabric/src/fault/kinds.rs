//! Kinds of faults: dead links and nodes, links that packets do not cross as they should.

use crate::types::{Link, Tick};
pub use angara_abi::fault::Impair;
use angara_abi::fault::{Effect, Failing, KINDS, Place, Site, examples, remedy};
use angara_abi::torus::{NodeId, Shape};
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
        if self.rate == 0 { 0 } else { (flits as u64 * angara_abi::FLIT_BYTES as u64 * SECOND).div_ceil(self.rate) }
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
    #[error("fault `{text}`: {why}; {}", remedy(text, forms))]
    Form {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Whose fault it would be.
fn about(site: Site) -> &'static str {
    match site {
        Site::Link(..) | Site::EveryLink => "link",
        Site::Node(_) => "node",
    }
}

/// What is read, for messages.
fn forms() -> String {
    let others = examples(KINDS.iter().filter(|k| !matches!(k.name, "corrupt" | "drop")), "`, `");
    format!(
        "`link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%` (or `{others}`), `node 1,0,0 down` or `corrupt=0.1%` (of every link), \
         each optionally followed by `@2ms`"
    )
}

impl Fault {
    /// Reads one of the faults that [`angara_abi::fault`] describes: a link or node that is down, or what befalls the packets of a
    /// link or of every one, from the beginning or from a time such as `@2ms` on.
    pub fn parse(text: &str, shape: &Shape) -> Result<Fault, FaultError> {
        let form = |why: String| FaultError::Form { text: text.to_string(), why };
        let command = angara_abi::fault::parse(text, shape).map_err(|mistake| form(mistake.why))?;
        let Place::Site(site) = command.place else {
            return Err(form("it is about neither a link nor a node".into()));
        };
        let kind = match (site, &command.effects[..]) {
            (Site::Link(node, dir), [Effect::Set(Failing::Down)]) => FaultKind::LinkDown(Link { node, dir }),
            (Site::Node(node), [Effect::Set(Failing::Down)]) => FaultKind::NodeDown(node),
            (Site::Link(node, dir), &[Effect::Set(Failing::Impaired(how))]) => {
                FaultKind::Impaired { link: Some(Link { node, dir }), how }
            }
            (Site::EveryLink, &[Effect::Set(Failing::Impaired(how))]) => FaultKind::Impaired { link: None, how },
            (_, []) => return Err(form("what happens to it is missing".into())),
            (_, [effect]) => return Err(form(format!("`{effect}` is no fault of a simulated {}", about(site)))),
            _ => return Err(form("exactly one fault is expected here".into())),
        };
        Ok(Fault { kind, at: command.after })
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

impl FaultKind {
    /// The other one says something else about the same thing.
    pub(super) fn is_replaced_by(self, other: FaultKind) -> bool {
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
