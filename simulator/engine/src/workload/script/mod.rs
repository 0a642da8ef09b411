//! Programs of PEs on the whole chip: adapters, collective trees and barriers included.
//!
//! A program is a list of [`Step`]s per PE. The PE's processor goes through them in order; a step
//! that waits holds it until what it waits for has come, and a step that hands something to the
//! adapter costs a software overhead first. [`Stage`] runs the programs of all PEs on
//! `angara_fabric::Fabric`, with lengths instead of data. Everything between posting and arrival is
//! simulated packet by packet; only what happens inside a processor is a given number of nanoseconds.
//! Most workloads have one PE on every node and mean the node when they name a PE.

mod file;
mod stage;
mod workload;

pub use file::Script;
pub use stage::Stage;
pub(super) use workload::KIND;

use crate::Error;
use crate::observe::Capture;
use crate::run::Experiment;
use angara_abi::desc::AmoOp;
use angara_fabric::{BarrierCheck, Config, JobSlot, Params, Tick};
use angara_model::Profile;
use angara_net::fault::{Fault, Site};
use angara_net::torus::{NodeId, Shape};

/// The only job.
pub(super) const JOB: JobSlot = JobSlot::new(0);
/// Bytes of a collective packet.
const TREE_BYTES: u64 = 256;

/// One step of a PE's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The processor computes for this long, ps.
    Compute(Tick),
    /// Sends a message to PE `to`; costs the software overhead.
    Send {
        /// Target node.
        to: NodeId,
        /// Bytes, below 4 GiB.
        bytes: u32,
        /// Tag that the target's [`Step::Receive`] asks for.
        tag: u16,
    },
    /// Waits for a whole message.
    Receive(u16),
    /// Contributes to reductions of one 256-byte packet after the other; costs the overhead once.
    Reduce {
        /// TreeId.
        tree: u8,
        /// Bytes, a multiple of 8.
        bytes: u32,
        /// Node that gets the result; everybody without.
        to: Option<NodeId>,
    },
    /// Broadcasts packet after packet on a tree; costs the overhead once.
    Broadcast {
        /// TreeId.
        tree: u8,
        /// Bytes.
        bytes: u32,
    },
    /// Waits until this many packets of reductions have come to the node, on all trees since the start.
    Reduced(u64),
    /// Waits until this many packets of broadcasts have come to the node.
    Heard(u64),
    /// Posts an operation that [`Stage::operation`] has numbered; costs the software overhead.
    Operation(u32),
    /// Waits until every get that was started has its data.
    Gets,
    /// Later operations follow what was posted before; costs the software overhead.
    Fence,
    /// Flushes every PE that was written to since the last quiet or full barrier, all at once, each for the software
    /// overhead, and waits for these and for all gets.
    Quiet,
    /// Waits until a word of this PE has at least this value.
    Wait {
        /// Which of the PE's words of 8 bytes.
        word: u32,
        /// Least value that ends the wait.
        value: u64,
    },
    /// Enters the barrier and waits to leave.
    Barrier {
        /// Only until everything sent to this PE has arrived.
        half: bool,
    },
}

/// Operation of a PE on another one's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Writes bytes; goes on when they are posted.
    Put {
        /// Target.
        to: NodeId,
        /// Bytes, below 4 GiB.
        bytes: u32,
        /// Store into the target's words; `None` if the bytes change none.
        store: Option<Store>,
    },
    /// Reads bytes.
    Get {
        /// Target.
        from: NodeId,
        /// Bytes, below 4 GiB.
        bytes: u32,
        /// Waits for them.
        wait: bool,
    },
    /// Changes one word.
    Atomic {
        /// Target.
        at: NodeId,
        /// Which of its words.
        word: u32,
        /// Change of the word.
        op: AmoOp,
        /// Operand.
        operand: u64,
        /// Comparand of [`AmoOp::CompareSwap`].
        comparand: u64,
        /// Waits for the old value.
        fetch: bool,
    },
}

/// All words that a put writes get one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store {
    /// The first of them.
    pub word: u32,
    /// Their value.
    pub value: u64,
}

/// Steps of one PE.
pub type Program = Vec<Step>;

/// Packets that carry `bytes` on a tree.
pub fn tree_packets(bytes: u64) -> u64 {
    bytes.div_ceil(TREE_BYTES).max(1)
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// When the last PE had finished, ps.
    pub time: Tick,
    /// When each PE had.
    pub ends: Vec<Tick>,
    /// When each step of each PE had ended, if [`Stage::keep_ends`] asked for it.
    pub steps: Vec<Vec<Tick>>,
    /// Packets that came to a host.
    pub packets: u64,
    /// Packets sent over links, each link counted.
    pub packet_hops: u64,
    /// Flits sent over links.
    pub flit_hops: u64,
    /// Barriers that the model checked.
    pub barriers: BarrierCheck,
}

/// The chip's network, and its faults, present and scheduled.
#[derive(Clone, Debug)]
pub struct Chip {
    /// The network.
    pub config: Config,
    /// Links that fail or corrupt packets.
    pub faults: Vec<Fault>,
    /// Where its packets are kept.
    pub capture: Option<Capture>,
}

impl From<Config> for Chip {
    fn from(config: Config) -> Chip {
        Chip { config, faults: Vec::new(), capture: None }
    }
}

/// The chip's network that `experiment` describes, without data.
///
/// # Errors
/// A network without the chip's adapters and trees.
pub fn chip(experiment: &Experiment) -> Result<Chip, Error> {
    if experiment.adaptive {
        let why = "know a message's end by its last packet, which must not be overtaken";
        return refuse("routing", &"adaptive", why);
    }
    any_chip(experiment)
}

/// The same, also where packets overtake each other.
pub(super) fn any_chip(experiment: &Experiment) -> Result<Chip, Error> {
    let needs = "this workload uses the chip's adapters; give a torus or mesh of up to four sizes and router angara";
    let Profile::Angara(a) = &experiment.network.profile else {
        return Err(Error::invalid("router", "generic", needs));
    };
    refuse_impossible(experiment)?;
    let text = experiment.settings.topology.clone();
    let shape: Shape =
        text.strip_prefix("torus:").unwrap_or(&text).parse().map_err(|_| Error::invalid("topology", &text, needs))?;
    let faults = &experiment.settings.fault;
    let faults = faults.iter().map(|text| Fault::parse(text, &shape)).collect::<Result<Vec<_>, _>>();
    let faults = faults.map_err(|e| Error::Network(e.to_string()))?;
    if let Some(dead) = faults.iter().find(|f| f.is_down() && matches!(f.site, Site::Node(_))) {
        let why = "every node has its part in a collective, barrier or application; let links fail instead";
        return Err(Error::invalid("fault", dead.show(&shape), why));
    }
    Ok(Chip {
        config: Config {
            params: Params { adaptive: experiment.adaptive, ..a.params() },
            payload: false,
            seed: experiment.seed,
            ..Config::new(shape)
        },
        faults,
        capture: experiment.observe.capture.clone(),
    })
}

fn refuse<T>(key: &str, value: &dyn ToString, why: &str) -> Result<T, Error> {
    let why = format!("collectives, barriers, applications and scripts {why}; leave it out");
    Err(Error::invalid(key, value.to_string(), why))
}

/// Returns what a script cannot do is refused.
fn refuse_impossible(experiment: &Experiment) -> Result<(), Error> {
    if let Some(packets) = &experiment.observe.packets {
        return refuse(
            "trace",
            packets,
            "make their packets in the adapter, where none has a number to be followed by",
        );
    }
    if experiment.threads > 1 {
        let why = "have trees and barriers that span all parts of the network and are simulated by one thread";
        return refuse("threads", &experiment.threads, why);
    }
    Ok(())
}

/// Nanoseconds as ps.
pub fn ns(value: f64) -> Tick {
    (value * 1000.0).round() as Tick
}
