//! Calls of a library, as each PE notes them in a file of its own, for timelines and for finding races.
//!
//! [`CallFile`] writes it. Calls of MPI are noted by the library that wraps them, which is preloaded, and messages between PEs by
//! the provider, into one file ([`mpi`]).
//!
//! A file is a row of records of [`RECORD`] bytes. The first says whose it is ([`Head`]); then come names of
//! routines, each before the first call that refers to it, and calls in the order in which they
//! ended. Records of zeroes follow where the file was made longer ahead of need. What a process that is killed has
//! written is there, as the file is a shared mapping.
//!
//! All numbers are little-endian.

mod file;
pub mod mpi;
mod record;

use angara_abi::clock::Comparison;
use angara_abi::desc::Place;
pub use file::CallFile;

/// Names the directory where PEs note their calls.
pub const ENV_CALLS: &str = "ANGARA_CALLS";

/// Set beside [`ENV_CALLS`] where calls say from which line of the program they come.
pub const ENV_SITES: &str = "ANGARA_CALL_SITES";

/// Bytes of a record.
pub const RECORD: usize = 96;

/// Nanoseconds of the clock that all processes of a host share: times of calls where time is not virtual.
pub fn wall_now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // rustix looks for the kernel's page of clocks by itself, which ends the program under valgrind.
    // SAFETY: a place of our own for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The name of the file of `pe` in the directory for calls.
pub fn file_name(pe: u32) -> String {
    format!("pe-{pe}.calls")
}

/// Tells whether a file may be one of these.
pub fn is_file_name(name: &str) -> bool {
    name.strip_prefix("pe-").and_then(|rest| rest.strip_suffix(".calls")).is_some_and(|pe| pe.parse::<u32>().is_ok())
}

/// Whose file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// PE that writes it.
    pub pe: u32,
    /// PEs of the job.
    pub pes: u32,
    /// Number of its node.
    pub node: u32,
    /// Process id.
    pub pid: u32,
    /// Times are virtual, from the start of the program on; else those of the monotonic clock of the host.
    pub virtual_time: bool,
}

/// Something in a file of calls.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A text that calls name by `id`, from 1 on.
    Text {
        /// Its number.
        id: u32,
        /// The text.
        text: String,
    },
    /// A call that has ended.
    Call(Call),
    /// From here on calls are missing, because the file could not grow.
    Full,
}

/// One call of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Text with the name of the routine.
    pub routine: u32,
    /// Text with the line of the program that called; 0 where that is not noted.
    pub site: u32,
    /// Thread of the PE, from 0 on.
    pub thread: u16,
    /// Calls of the library within which this one was made, on the same thread.
    pub depth: u8,
    /// When it began, ns.
    pub start: u64,
    /// When it ended, ns.
    pub end: u64,
    /// The operation.
    pub action: Action,
}

/// Bytes in memory of a PE: `count` blocks of `block` bytes, which start `step` bytes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// How many.
    pub count: u64,
    /// Bytes of each.
    pub block: u64,
    /// Bytes from one to the next where the memory is remote.
    pub remote_step: u64,
    /// Bytes from one to the next where the memory is the caller's.
    pub local_step: u64,
}

impl Blocks {
    /// One block.
    pub fn one(len: usize) -> Blocks {
        Blocks { count: 1, block: len as u64, remote_step: 0, local_step: 0 }
    }

    /// Bytes moved.
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.block)
    }
}

/// Memory that a call names: symmetric, or an address of the calling process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// In symmetric memory.
    Symmetric(Place),
    /// Elsewhere: an address.
    Private(u64),
}

/// How a call synchronises or moves data between the PEs of a team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Meeting {
    /// Arrival only.
    Sync = 0,
    /// Arrival, and everything issued before is complete everywhere.
    Barrier = 1,
    /// From one to all.
    Broadcast = 2,
    /// From all to all: the same blocks for everybody.
    Collect = 3,
    /// From all to all: a block of its own for everybody.
    Alltoall = 4,
    /// Combined elementwise for all.
    Reduce = 5,
    /// Combined with those of lower PEs.
    Scan = 6,
    /// Symmetric memory is given out or taken back, behind a barrier.
    Memory = 7,
    /// Another team, tree or the like is made or given up.
    Other = 8,
}

/// PEs that meet: `size` of them from `start` on, `stride` apart; `stream` tells teams of the same PEs apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Members {
    /// The first PE.
    pub start: u32,
    /// From one to the next.
    pub stride: i32,
    /// How many.
    pub size: u32,
    /// Where they talk.
    pub stream: u32,
}

/// Purpose of an MPI routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MpiKind {
    /// Sends, or begins to.
    Send = 0,
    /// Receives, or begins to.
    Receive = 1,
    /// Both.
    Exchange = 2,
    /// Waits for requests or for a message.
    Wait = 3,
    /// Looks for them.
    Test = 4,
    /// Brings all PEs of a communicator together.
    Collective = 5,
    /// Puts, gets and their order.
    OneSided = 6,
    /// Files and whatever else there is.
    Other = 7,
}

/// Step of a message between two PEs, noted by one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    /// It was sent to this PE. Messages from one PE to another are numbered in this order.
    Sent = 0,
    /// It has come from this PE, and a receive has it.
    Received = 1,
    /// A receive wants it that this PE has offered. Offers have numbers of their own.
    Wanted = 2,
    /// This PE has fetched what was offered.
    Fetched = 3,
}

/// Operation of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// An operation of which no more is noted.
    Other,
    /// A put.
    Put {
        /// Context, as the program knows it, in its low bits.
        ctx: u16,
        /// Target.
        pe: u32,
        /// At the target.
        remote: Memory,
        /// Where it came from.
        local: Memory,
        /// How much.
        blocks: Blocks,
        /// The source may be written again when the call returns.
        blocking: bool,
        /// Value put, if it is one element of 4 or 8 bytes.
        value: Option<u64>,
    },
    /// A get.
    Get {
        /// Context, as the program knows it, in its low bits.
        ctx: u16,
        /// Target.
        pe: u32,
        /// At the target.
        remote: Memory,
        /// Where it went.
        local: Memory,
        /// How much.
        blocks: Blocks,
        /// The data is there when the call returns.
        blocking: bool,
    },
    /// An atomic or a signal: it changes a word, reads it, or both.
    Atomic {
        /// Context, as the program knows it, in its low bits.
        ctx: u16,
        /// Target.
        pe: u32,
        /// The word.
        remote: Memory,
        /// Bytes of it.
        width: u8,
        /// It changes the word.
        writes: bool,
        /// The old value is the caller's.
        fetches: bool,
        /// It signals data that was put before it by the same call.
        signals: bool,
        /// The new value, where it does not depend on the old one; else what is added, and so on.
        operand: u64,
        /// It stores the operand, whatever was there.
        stores: bool,
    },
    /// Earlier puts and atomics come before later ones.
    Fence {
        /// Context, as the program knows it, in its low bits.
        ctx: u16,
    },
    /// Everything issued is complete; at these PEs only where `pe` is given.
    Quiet {
        /// Context, as the program knows it, in its low bits.
        ctx: u16,
        /// PE whose operations are complete; all if absent.
        pe: Option<u32>,
    },
    /// A wait or a test of own variables.
    Wait {
        /// The first variable.
        at: Memory,
        /// How many lie there in a row.
        count: u64,
        /// Condition that they must meet.
        comparison: Comparison,
        /// It was so when the call returned.
        satisfied: bool,
        /// The call may return before it is so.
        test: bool,
    },
    /// A collective.
    Meet {
        /// Which.
        meeting: Meeting,
        /// Members of the team.
        members: Members,
        /// Number of the root within the team.
        root: u32,
        /// Where results go; nothing if `dest_len` is 0.
        dest: Memory,
        /// Bytes there.
        dest_len: u64,
        /// Address of the data that goes in; nothing if `source_len` is 0.
        source: Memory,
        /// Bytes there.
        source_len: u64,
        /// The array that the program lends for synchronisation (`pSync`), if the routine has one.
        work: Option<Place>,
    },
    /// A lock was taken.
    Lock {
        /// It.
        at: Memory,
        /// It was; `false` if somebody else had it.
        taken: bool,
    },
    /// A lock was given back.
    Unlock {
        /// It.
        at: Memory,
    },
    /// The program itself read or wrote memory, between calls.
    Access {
        /// Whose memory, where it is symmetric.
        pe: u32,
        /// Where.
        at: Memory,
        /// Bytes there.
        len: u64,
        /// It wrote.
        writes: bool,
        /// The access was one of the compiler's atomics.
        atomic: bool,
    },
    /// A routine of MPI.
    Mpi {
        /// Purpose of the routine.
        kind: MpiKind,
        /// PE that something goes to.
        to: Option<u32>,
        /// PE that something comes from.
        from: Option<u32>,
        /// Tag of what is sent, or else of what is received.
        tag: Option<i32>,
        /// Bytes that it was about on this PE.
        bytes: u64,
        /// PEs of the communicator; 0 if no communicator was named.
        pes: u32,
    },
    /// No call, but something that happened to a message.
    Message {
        /// What.
        step: Step,
        /// The PE at the other end.
        pe: u32,
        /// Which message.
        number: u64,
        /// Bytes of it.
        bytes: u64,
    },
}
