//! The words of the public interface: what goes into a [`crate::Fabric`] and what comes out.
//!
//! Everything here is plain data. Times are [`Tick`]s, picoseconds since the fabric was made.

use angara_abi::account::{CLASSES, Load};
use angara_abi::desc::{AmoOp, Place};
pub use angara_net::Link;
use angara_net::torus::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A time or a length of time in picoseconds.
pub type Tick = u64;

/// A job's slot in the network; names its barrier group and its counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobSlot(u16);

impl JobSlot {
    /// The slot of packets that belong to no job.
    pub(crate) const NONE: JobSlot = JobSlot(u16::MAX);

    /// From a number that came from outside. The network may not keep such a slot.
    #[inline(always)]
    pub const fn new(number: u16) -> JobSlot {
        JobSlot(number)
    }
    /// As it goes out.
    #[inline(always)]
    pub const fn number(self) -> u16 {
        self.0
    }
    /// Its place in tables of jobs.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The first `count` slots, of which there are no more than [`JOBS_MAX`].
    pub fn first(count: usize) -> impl Iterator<Item = JobSlot> {
        (0..count as u16).map(JobSlot)
    }
}

impl fmt::Display for JobSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Most jobs open at once.
pub const JOBS_MAX: usize = 1024;

/// Most endpoints of one node (the packet's endpoint field has 10 bits).
pub const ENDPOINTS_MAX: usize = 1024;

/// An injection/ejection channel of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Port {
    /// The node.
    pub node: NodeId,
    /// The channel at that node, below [`ENDPOINTS_MAX`].
    pub endpoint: u16,
}

/// Why a job could not be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobError {
    /// Slot number too large.
    #[error("job slot {0} is beyond the {JOBS_MAX} this network keeps")]
    Slot(JobSlot),
    /// Slot taken.
    #[error("job slot {0} is open already; close it first")]
    Open(JobSlot),
    /// Port taken by another job.
    #[error("endpoint {} of node {} belongs to job {} already", .0.endpoint, .0.node, .1)]
    Port(Port, JobSlot),
    /// Port that does not exist.
    #[error("endpoint {} of node {} does not exist", .0.endpoint, .0.node)]
    NoPort(Port),
    /// No such job.
    #[error("job slot {0} is not open")]
    NotOpen(JobSlot),
    /// Barriers of another kind may be under way.
    #[error("job {0} has used its barrier; choose the kind before the first one")]
    BarrierUsed(JobSlot),
    /// The same port twice, or no port at all.
    #[error("a job needs at least one port and every port once")]
    Ports,
    /// A node that cannot belong to the job's set.
    #[error("node {0} does not exist, is named twice, or belongs to the node set of another job")]
    SetNode(NodeId),
    /// A port elsewhere than in the job's set.
    #[error("endpoint {} of node {} is not in the job's node set", .0.endpoint, .0.node)]
    OutsideSet(Port),
}

/// An outage on the way between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outage {
    /// A link that is down.
    Link(Link),
    /// A node that is down.
    Node(NodeId),
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outage::Link(l) => write!(f, "link {} of node {} is down", l.dir, l.node),
            Outage::Node(n) => write!(f, "node {n} is down"),
        }
    }
}

/// Why an operation was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InjectError {
    /// The port's queue is full; try again after some completions or [`crate::Fabric::advance`].
    #[error("the port's operation queue is full")]
    Busy,
    /// No route to the target.
    #[error("node {from} cannot reach node {to}: {outage}")]
    Unreachable {
        /// Injecting node.
        from: NodeId,
        /// Target node.
        to: NodeId,
        /// The outage on the default route.
        outage: Outage,
    },
    /// The port is not open, or open for another job.
    #[error("endpoint {} of node {} is not a port of this job", .0.endpoint, .0.node)]
    NotOpen(Port),
    /// The tree is not loaded, belongs to another job, or this port is not a participant.
    #[error("tree {0} is not loaded for this port")]
    NoTree(u8),
    /// A length, width, channel or target outside what the operation takes.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Names data that came with an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadRef {
    pub(crate) slot: u32,
    pub(crate) len: u16,
}

impl PayloadRef {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }
    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Names memory the fabric waits for. Stale tokens are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FetchToken(pub(crate) u64);

/// Whose operation does something to another's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The port that posted it.
    pub from: Port,
    /// When, as [`crate::Fabric::inject`] was told.
    pub posted: Tick,
}

/// Change of memory by the network. The driver applies effects strictly in the order polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Store `data` at `place` of `at`.
    Write {
        /// Owner of the memory.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// First byte.
        place: Place,
        /// The bytes; see [`crate::Fabric::payload`].
        data: PayloadRef,
        /// When.
        time: Tick,
        /// Last packet of its operation.
        last: bool,
        /// The write behind it; none for what this port asked for itself, or a tree brings.
        cause: Option<Cause>,
    },
    /// Read `len` bytes at `place` of `at` and hand them to [`crate::Fabric::supply`]. At the
    /// injecting port (source of a write; ≤ 256 bytes) or at the target of a read (≤ 32 KiB).
    Fetch {
        /// Owner of the memory.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// First byte.
        place: Place,
        /// Bytes.
        len: u32,
        /// For [`crate::Fabric::supply`] or [`crate::Fabric::refuse`].
        token: FetchToken,
        /// When.
        time: Tick,
    },
    /// Change one word atomically; hand the old value (8 bytes, little-endian) to
    /// [`crate::Fabric::supply`] if there is a token.
    Amo {
        /// Owner of the memory.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// The word.
        place: Place,
        /// The operation.
        op: AmoOp,
        /// 4 or 8.
        width: u8,
        /// Operand.
        operand: u64,
        /// Comparand.
        comparand: u64,
        /// Where the old value goes, if it is wanted.
        token: Option<FetchToken>,
        /// When.
        time: Tick,
        /// The operation behind it; none if it was posted in another part of the network.
        cause: Option<Cause>,
    },
    /// Store the result of a collective at `place` of `at`, then show `count` as the tree's
    /// number of finished reductions (or broadcasts) of this participant.
    TreeResult {
        /// Participant.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// TreeId.
        tree: u8,
        /// First byte.
        place: Place,
        /// The bytes.
        data: PayloadRef,
        /// A broadcast, not a reduction.
        bcast: bool,
        /// Broadcasts delivered, or reductions finished in sequence, on this tree since it was loaded.
        count: u64,
        /// When.
        time: Tick,
    },
    /// Credit to the processor (paper 000, section 2.4): reductions whose result goes elsewhere
    /// are finished as far as this participant is concerned. Show `count` like a result's.
    TreeCredit {
        /// Participant.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// TreeId.
        tree: u8,
        /// Reductions finished in sequence on this tree since it was loaded.
        count: u64,
        /// When.
        time: Tick,
    },
    /// Something a port's job must hear of.
    Error {
        /// The port concerned: the injector of a lost packet, a participant of a tree.
        at: Port,
        /// Its job.
        job: JobSlot,
        /// The event.
        what: NetError,
        /// When.
        time: Tick,
    },
    /// The network itself took a link (both directions) out of service after 16 replays without
    /// success. Routes have been rebuilt: look at [`crate::Fabric::reachable`] again. In a fabric that is one
    /// part of a network they have not: the link says nothing more until [`crate::Fabric::recover`].
    LinkDown {
        /// The direction that failed.
        link: Link,
        /// When.
        time: Tick,
        /// After which route change: nothing is said of the link as a later one leaves it.
        change: u64,
    },
}

impl Effect {
    /// Bytes that applying it copies.
    pub fn bytes(&self) -> usize {
        match self {
            Effect::Write { data, .. } | Effect::TreeResult { data, .. } => data.len(),
            Effect::Fetch { len, .. } => *len as usize,
            _ => 0,
        }
    }
}

/// Errors that an [`Effect::Error`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NetError {
    /// A packet was dropped because no route is left. Never for pairs that are reachable.
    #[error("a packet from node {from} to node {to} was dropped: {outage}")]
    Unreachable {
        /// Source node.
        from: NodeId,
        /// Target node.
        to: NodeId,
        /// The outage.
        outage: Outage,
    },
    /// Contributions of one reduction disagree in operation, element, length or receiver. The slot was reset.
    #[error("contributions to reduction {reduce} of tree {tree} disagree at node {node}; the slot was reset")]
    ReduceMismatch {
        /// TreeId.
        tree: u8,
        /// ReduceId.
        reduce: u8,
        /// Where it was noticed.
        node: NodeId,
    },
    /// A ReduceId out of sequence; the contribution was dropped.
    #[error("reduction {got} of tree {tree} posted where {expected} comes next; it was dropped")]
    ReduceOrder {
        /// TreeId.
        tree: u8,
        /// Posted ReduceId.
        got: u8,
        /// The one due.
        expected: u8,
    },
    /// A fault broke the tree; it has been unloaded.
    #[error("tree {tree} was unloaded: {outage}")]
    TreeDown {
        /// TreeId.
        tree: u8,
        /// The outage.
        outage: Outage,
    },
    /// The network was recovered while packets of the tree were under way; it has been unloaded.
    #[error("tree {tree} was unloaded: routes changed while its packets were under way")]
    TreeLost {
        /// TreeId.
        tree: u8,
    },
    /// Some nodes entered a half-barrier, others a full one.
    #[error("node {node} entered another kind of barrier than its neighbour")]
    BarrierMismatch {
        /// Where it was noticed.
        node: NodeId,
    },
    /// A barrier let a node go before all had entered: an error of the barrier, not of the program.
    #[error("node {node} left a barrier that not all nodes had entered")]
    EarlyExit {
        /// The node.
        node: NodeId,
    },
    /// A barrier let a node go before a packet sent to it earlier had arrived.
    #[error("a packet from node {from} came to node {to} after the barrier it was sent before")]
    LatePacket {
        /// Sender.
        from: NodeId,
        /// Target.
        to: NodeId,
    },
    /// A full barrier let a node go before all it had sent was delivered and answered.
    #[error("node {node} left a barrier before all it had sent was delivered and answered")]
    Unfinished {
        /// The node.
        node: NodeId,
    },
    /// A write came before one that was posted before a fence: an error of the network, not of the program.
    #[error("a packet from node {from} to node {to} came before one that was posted before a fence")]
    Overtaken {
        /// Sender.
        from: NodeId,
        /// Target.
        to: NodeId,
    },
    /// A flush ended before what had been written before it was in memory: as above.
    #[error("a flush from node {from} to node {to} ended before what was written before it was there")]
    Unflushed {
        /// Sender.
        from: NodeId,
        /// Target.
        to: NodeId,
    },
    /// Members of the job can no longer reach each other: no barrier can complete.
    #[error("the barrier cannot complete: node {from} cannot reach node {to}: {outage}")]
    BarrierCut {
        /// One member.
        from: NodeId,
        /// Another.
        to: NodeId,
        /// The outage.
        outage: Outage,
    },
}

/// States of an operation (paper 001) that the adapter reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpState {
    /// All source bytes have been read ([`Source::Memory`] only; otherwise true when posted).
    Copied,
    /// Every packet is in the network. The last state of a write and of an atomic without result.
    Injected,
    /// The result is in memory; a fence or barrier is passed.
    Complete,
    /// It failed and nothing more will be reported.
    Failed(OpFault),
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpFault {
    /// A packet of it was dropped.
    #[error("node {to} became unreachable: {outage}")]
    Unreachable {
        /// Target node.
        to: NodeId,
        /// The outage.
        outage: Outage,
    },
    /// The memory at one end was refused by its owner ([`crate::Fabric::refuse`]) or has gone.
    #[error("the memory named is not there")]
    Refused,
    /// The tree is gone.
    #[error("tree {0} is gone")]
    NoTree(u8),
    /// The ReduceId was not the next one.
    #[error("reduction {got} posted where {expected} comes next")]
    ReduceOrder {
        /// Posted.
        got: u8,
        /// Due.
        expected: u8,
    },
    /// The barrier cannot complete any more.
    #[error("the barrier was broken: {0}")]
    Barrier(Outage),
}

/// A state an operation reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The port that posted it.
    pub from: Port,
    /// Its job.
    pub job: JobSlot,
    /// The tag given to [`crate::Fabric::inject`].
    pub tag: u64,
    /// The state reached.
    pub state: OpState,
    /// When.
    pub time: Tick,
}

/// Counters of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Sent, by class; replayed packets count once.
    pub tx: [Load; CLASSES],
    /// Packets accepted at the far end.
    pub rx_packets: u64,
    /// Packets whose CRC-32C failed at the far end.
    pub crc_errors: u64,
    /// Packets sent again.
    pub replays: u64,
    /// Packets that came a second time and were discarded.
    pub duplicates: u64,
    /// Packets that had overtaken another and were discarded.
    pub reordered: u64,
}

impl LinkCounters {
    /// Sum over the classes.
    pub fn total(&self) -> Load {
        let mut sum = Load::default();
        self.tx.iter().for_each(|l| sum.add(*l));
        sum
    }
}
