//! Uses of virtual time: parts of a report.

use angara_net::torus::{Direction, NodeId};
use serde::{Deserialize, Serialize};

/// Use of virtual time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// Picoseconds of a flit on a link.
    pub flit_ps: f64,
    /// Picoseconds that a call of the library takes.
    pub call_ps: u64,
    /// Picoseconds of each of the times in which links were looked at ([`LinkUse`]).
    #[serde(default)]
    pub bucket_ps: u64,
    /// By PE.
    pub pes: Vec<PeTimes>,
    /// The critical path to the end.
    #[serde(default)]
    pub path: Box<CriticalPath>,
}

/// Where the virtual time of a PE went, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeTimes {
    /// When it ended, or its clock now, since the programs began.
    pub end: u64,
    /// Waiting for what others write to its memory.
    pub for_data: u64,
    /// Waiting for its own operations: gets, fetching atomics, quiet, barriers, room in queues.
    pub for_network: u64,
    /// Computing: what `--compute` counts, and `shmemx_compute`.
    #[serde(default)]
    pub compute: u64,
    /// Cost of calls of the library, and of looks at memory.
    #[serde(default)]
    pub software: u64,
    /// Operations that it has posted.
    pub posts: u64,
}

/// Why something has taken until it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The PE ran.
    Run,
    /// A write or an atomic of another PE was on its way.
    Data,
    /// An operation of the PE itself was under way.
    Answer,
    /// The PE that entered a barrier last was on its way out of it.
    Barrier,
    /// The last contribution of a reduction, or a broadcast, was in the routers.
    Tree,
}

/// The chain of runs and messages at whose end the last PE ended, found from its end backward: what a PE waited for takes
/// the path to the PE that sent it, at the time it posted it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CriticalPath {
    /// When it begins: 0, unless PEs have stopped more often than are remembered.
    pub from: u64,
    /// When it ends.
    pub end: u64,
    /// PE that ended last.
    pub pe: u32,
    /// Picoseconds of it in which a PE computed,
    pub compute: u64,
    /// in which one called the library,
    pub software: u64,
    /// and in which one slept or looked at clocks.
    pub other: u64,
    /// Picoseconds in which writes and atomics were on their way to another PE that waited for them,
    pub data: u64,
    /// in which a PE's own operations were under way,
    pub answers: u64,
    /// in which barriers ended that all had entered,
    pub barriers: u64,
    /// and in which reductions and broadcasts of the routers did.
    pub trees: u64,
    /// PEs visited.
    pub pes: u32,
    /// Times that it goes from one PE to another.
    pub turns: u64,
    /// Where most of it was spent, most first; at most [`PATH_MAX`].
    pub most: Vec<PathShare>,
    /// Its last steps, last first; at most [`PATH_MAX`].
    pub last: Vec<PathStep>,
}

/// Most rows of each list of a path.
pub const PATH_MAX: usize = 32;

/// All steps of a path for one reason between two PEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathShare {
    /// Why.
    pub why: Why,
    /// PE that ran or waited.
    pub pe: u32,
    /// PE that it waited for; itself, if it ran.
    pub whom: u32,
    /// How often.
    pub times: u64,
    /// Picoseconds.
    pub ps: u64,
}

/// A step of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathStep {
    /// Why.
    pub why: Why,
    /// PE that ran or waited.
    pub pe: u32,
    /// PE that it waited for; itself, if it ran.
    pub whom: u32,
    /// Begin in picoseconds.
    pub from: u64,
    /// End in picoseconds.
    pub until: u64,
}

/// A piece of what is too much for a [`Times`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TimesPiece {
    /// Waits of PEs.
    pub waits: Vec<WaitRow>,
    /// Calls of PEs.
    pub routines: Vec<RoutineRow>,
    /// Loads of links.
    pub links: Vec<LinkUse>,
    /// Where to go on, unless that was all.
    pub next: Option<u32>,
}

/// Numbers in a piece after which it ends.
pub const PIECE_NUMBERS: usize = 16 * 1024;
/// PEs that are told apart among those that one PE waited for; of large jobs the first ones.
pub const WHOM_MAX: usize = 64;
/// Times of a link that are told apart.
pub const BUCKETS: usize = 64;
/// Routines that a PE may tell of at once.
pub const ROUTINES_MAX: usize = 256;
/// Longest name of a routine, in characters.
pub const ROUTINE_NAME_MAX: usize = 64;

/// How long a PE waited for another one: PE, whom (itself, or nobody in particular, if that is the PE), how often, and
/// picoseconds. With `None` for all that are not told apart.
pub type WaitRow = (u32, Option<u32>, u64, u64);

/// Cost of a routine to a PE: PE, name, calls, picoseconds, and bytes that it asked the network to carry.
pub type RoutineRow = (u32, String, u64, u64, u64);

/// Cost of a routine of a library to its PE.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Routine {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Picoseconds from each call to the last thing that it did.
    pub ps: u64,
    /// Bytes that it asked the network to carry.
    pub bytes: u64,
}

/// Flits of a link in each of [`Times::bucket_ps`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkUse {
    /// Node at the sending end.
    pub node: NodeId,
    /// Direction, such as `+X`.
    pub dir: Direction,
    /// Flits whose transmission began then.
    pub flits: Vec<u64>,
}
