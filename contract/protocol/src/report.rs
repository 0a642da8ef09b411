//! Reports: what PEs have exchanged and what that put on the links, and where time is virtual what that went for.

pub use crate::history::*;
use crate::msg::Path;
pub use crate::times::*;
use angara_abi::JobId;
use angara_abi::account::{Class, Load, Traffic};
use angara_abi::job::Barrier;
use angara_net::NodeSet;
use angara_net::torus::{Direction, NodeId, Shape};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Traffic of one link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Node at the sending end.
    pub node: NodeId,
    /// Direction, such as `+X`.
    pub dir: Direction,
    /// Node at the receiving end.
    pub to: NodeId,
    /// Traffic by class (`put`, `get`, `amo`, `sync`).
    pub load: BTreeMap<Class, Load>,
    /// Packets received with a wrong CRC.
    pub crc_errors: u64,
    /// Packets sent again.
    pub replays: u64,
    /// Packets that came a second time.
    #[serde(default)]
    pub duplicates: u64,
    /// Packets that had overtaken another.
    #[serde(default)]
    pub reordered: u64,
    /// It works; packets between two node sets do not cross it all the same.
    pub up: bool,
}

/// Loads of links since the daemon's start, all jobs together.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkLoads {
    /// When that was, on the monotonic clock of the host, in nanoseconds.
    pub at_ns: u64,
    /// So long the answer stays the same: nanoseconds until another sample may be taken.
    pub next_ns: u64,
    /// Links that have carried anything: number of the sending node × 8 + number of the direction, and flits.
    pub flits: Vec<(u32, u64)>,
}

/// Traffic between two PEs. There may be millions, so in JSON one is a list: source, target, class, operations,
/// then packets, flits and bytes there, and packets, flits and bytes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "PairRow", into = "PairRow")]
pub struct PairReport {
    /// Source PE.
    pub from: u32,
    /// Target PE.
    pub to: u32,
    /// Class of the operations: put, get, atomic, sync.
    pub class: Class,
    /// Operations and what they put on the network.
    pub traffic: Traffic,
}

type PairRow = (u32, u32, Class, u64, u64, u64, u64, u64, u64, u64);

impl From<PairReport> for PairRow {
    fn from(pair: PairReport) -> PairRow {
        let PairReport { from, to, class, traffic: Traffic { ops, out, back } } = pair;
        (from, to, class, ops, out.packets, out.flits, out.bytes, back.packets, back.flits, back.bytes)
    }
}

impl From<PairRow> for PairReport {
    fn from((from, to, class, ops, op, of, ob, bp, bf, bb): PairRow) -> PairReport {
        let load = |packets, flits, bytes| Load { packets, flits, bytes };
        PairReport { from, to, class, traffic: Traffic { ops, out: load(op, of, ob), back: load(bp, bf, bb) } }
    }
}

/// A piece of the traffic between PEs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pairs {
    /// In order of source, target and class; pairs that exchanged nothing are left out. At most [`PAIRS_MAX`].
    pub pairs: Vec<PairReport>,
    /// Source and target to ask for next, unless that was all.
    pub next: Option<(u32, u32)>,
}

/// Most rows of one answer: together less than [`crate::msg::MESSAGE_MAX`].
pub const PAIRS_MAX: usize = 4096;

/// Everything known about a job's traffic.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Job id.
    pub job: JobId,
    /// Name of the job.
    pub name: String,
    /// Shape of the network.
    pub shape: Shape,
    /// How PEs reached each other.
    pub path: Path,
    /// Node of each PE.
    pub placement: Vec<NodeId>,
    /// Nodes that it had for itself, if it asked for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<NodeSet>,
    /// Seconds since creation; in virtual time until the last PE ended, by the job's clock.
    pub wall_s: f64,
    /// Where time is virtual: what it went for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<Times>,
    /// PE×PE traffic by class, pairs that exchanged nothing left out. Empty in answers of the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairReport>,
    /// Links with traffic of this job. On the direct path: the PEs' counters folded through the
    /// route table. On the ring path: counted packet by packet on the link.
    pub links: Vec<LinkReport>,
    /// How the job did barriers, and what the network saw of them.
    pub barriers: BarrierReport,
    /// Violations, unreachable targets, things to know.
    pub notes: Vec<String>,
}

/// How a job does barriers, and what the network saw of those its adapters did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BarrierReport {
    /// Family of barriers in use.
    pub family: Barrier,
    /// Times a node left a barrier.
    pub left: u64,
    /// ... before every node had entered it; always 0 unless the network model is wrong.
    pub early: u64,
    /// ... before what it had sent was delivered and answered, though it asked for that; as `early`.
    pub unfinished: u64,
    /// Packets that came after the barrier they were sent before; as `early`.
    pub late: u64,
}
