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

use crate::clock::Comparison;
use crate::desc::{Place, Region};
pub use file::CallFile;

/// Names the directory where PEs note their calls.
pub const ENV_CALLS: &str = "ANGARA_CALLS";

/// Set beside [`ENV_CALLS`] where calls say from which line of the program they come.
pub const ENV_SITES: &str = "ANGARA_CALL_SITES";

/// Bytes of a record.
pub const RECORD: usize = 96;
/// Words of a record.
const WORDS: usize = RECORD / 8;
/// Bytes of a text that one record holds; longer ones are cut.
pub const TEXT_MAX: usize = RECORD - 8;
/// Records of a file start with these bytes in their first one.
const MAGIC: u64 = u64::from_le_bytes(*b"ANGCALL\x01");

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
        /// What it says.
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
    /// What it did.
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

/// Marks an address as symmetric, in the highest bit; the next one says that it is static.
const SYMMETRIC: u64 = 1 << 63;
const STATIC: u64 = 1 << 62;

impl Memory {
    fn word(self) -> u64 {
        match self {
            Memory::Symmetric(Place { region: Region::Static, offset }) => SYMMETRIC | STATIC | offset,
            Memory::Symmetric(Place { offset, .. }) => SYMMETRIC | offset,
            Memory::Private(address) => address & !SYMMETRIC,
        }
    }

    fn from_word(word: u64) -> Memory {
        let region = if word & STATIC != 0 { Region::Static } else { Region::Heap };
        match word & SYMMETRIC {
            0 => Memory::Private(word),
            _ => Memory::Symmetric(Place { region, offset: word & !(SYMMETRIC | STATIC) }),
        }
    }
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

impl Meeting {
    fn from_bits(bits: u8) -> Option<Meeting> {
        use Meeting::*;
        [Sync, Barrier, Broadcast, Collect, Alltoall, Reduce, Scan, Memory, Other].get(bits as usize).copied()
    }
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

/// What a routine of MPI is there for.
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

impl MpiKind {
    fn from_bits(bits: u16) -> Option<MpiKind> {
        use MpiKind::*;
        [Send, Receive, Exchange, Wait, Test, Collective, OneSided, Other].get(usize::from(bits)).copied()
    }
}

/// What happened to a message between two PEs, at the one or at the other.
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

impl Step {
    fn from_bits(bits: u8) -> Option<Step> {
        use Step::*;
        [Sent, Received, Wanted, Fetched].get(usize::from(bits)).copied()
    }
}

/// What a call did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Something of which no more is noted.
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
        /// What was put, where that is one element of 4 or 8 bytes.
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
        /// Of this context.
        ctx: u16,
    },
    /// Everything issued is complete; at these PEs only where `pe` is given.
    Quiet {
        /// Of this context.
        ctx: u16,
        /// At this PE alone.
        pe: Option<u32>,
    },
    /// A wait or a test of own variables.
    Wait {
        /// The first variable.
        at: Memory,
        /// How many lie there in a row.
        count: u64,
        /// What is asked of them.
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
        /// Of whom.
        members: Members,
        /// Number of the root within the team.
        root: u32,
        /// Where results go; nothing if `dest_len` is 0.
        dest: Memory,
        /// Bytes there.
        dest_len: u64,
        /// What goes in; nothing if `source_len` is 0.
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
        /// What it is there for.
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

/// Kinds of records, in their first byte; 0 is none.
mod tag {
    pub(super) const TEXT: u8 = 1;
    pub(super) const FULL: u8 = 2;
    pub(super) const OTHER: u8 = 3;
    pub(super) const PUT: u8 = 4;
    pub(super) const GET: u8 = 5;
    pub(super) const ATOMIC: u8 = 6;
    pub(super) const FENCE: u8 = 7;
    pub(super) const QUIET: u8 = 8;
    pub(super) const WAIT: u8 = 9;
    pub(super) const MEET: u8 = 10;
    pub(super) const LOCK: u8 = 11;
    pub(super) const UNLOCK: u8 = 12;
    pub(super) const ACCESS: u8 = 13;
    pub(super) const MPI: u8 = 14;
    pub(super) const MESSAGE: u8 = 15;
}

/// Bits of a record's flags.
mod flag {
    pub(super) const BLOCKING: u8 = 1;
    pub(super) const VALUE: u8 = 2;
    pub(super) const WRITES: u8 = 1;
    pub(super) const FETCHES: u8 = 2;
    pub(super) const SIGNALS: u8 = 4;
    pub(super) const STORES: u8 = 8;
    pub(super) const SATISFIED: u8 = 1;
    pub(super) const TEST: u8 = 2;
    pub(super) const SIGNED: u8 = 4;
    pub(super) const ONE_PE: u8 = 1;
    pub(super) const TAKEN: u8 = 1;
    pub(super) const ATOMIC: u8 = 2;
    pub(super) const TO: u8 = 1;
    pub(super) const FROM: u8 = 2;
    pub(super) const TAG: u8 = 4;
}

/// What an action is in a record: its tag, flags, a half word, a word of 4 bytes, and what comes behind.
struct Fields {
    tag: u8,
    flags: u8,
    half: u16,
    pe: u32,
    words: [u64; 7],
}

fn flags(all: &[(bool, u8)]) -> u8 {
    all.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn bytes_of(words: [u64; WORDS]) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    for (to, word) in record.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    record
}

fn words_of(record: &[u8; RECORD]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(record.chunks_exact(8)) {
        *word = u64::from_le_bytes(from.try_into().expect("chunks of 8"));
    }
    words
}

impl Head {
    /// Its record.
    pub fn encode(&self) -> [u8; RECORD] {
        let mut words = [0; WORDS];
        words[..4].copy_from_slice(&[
            MAGIC,
            pair(self.pe, self.pes),
            pair(self.node, self.pid),
            self.virtual_time.into(),
        ]);
        bytes_of(words)
    }

    /// What the first record of a file says; `None` if it is no file of calls.
    pub fn decode(record: &[u8; RECORD]) -> Option<Head> {
        let [magic, of, at, virtual_time, ..] = words_of(record);
        let ((pe, pes), (node, pid)) = (halves(of), halves(at));
        let known = magic == MAGIC && pe < pes && pes as usize <= crate::job::PES_MAX && virtual_time <= 1;
        known.then_some(Head { pe, pes, node, pid, virtual_time: virtual_time == 1 })
    }
}

/// A text's record.
pub fn encode_text(id: u32, text: &str) -> [u8; RECORD] {
    let mut len = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    let mut record = [0; RECORD];
    (record[0], record[1]) = (tag::TEXT, len as u8);
    record[4..8].copy_from_slice(&id.to_le_bytes());
    record[8..8 + len].copy_from_slice(&text.as_bytes()[..len]);
    record
}

/// The record that says that there was no room for more.
pub fn encode_full() -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[0] = tag::FULL;
    record
}

impl Record {
    /// What a record says; `None` for one of zeroes and for what makes no sense.
    pub fn decode(record: &[u8; RECORD]) -> Option<Record> {
        match record[0] {
            tag::TEXT => {
                let id = u32::from_le_bytes(record[4..8].try_into().expect("4 bytes"));
                let text = record[8..].get(..usize::from(record[1]))?;
                Some(Record::Text { id, text: String::from_utf8_lossy(text).into_owned() })
            }
            tag::FULL => Some(Record::Full),
            _ => Call::decode(record).map(Record::Call),
        }
    }
}

impl Call {
    /// Its record.
    pub fn encode(&self) -> [u8; RECORD] {
        let Fields { tag, flags, half, pe, words } = self.action.fields();
        let first = u64::from_le_bytes([tag, flags, self.depth, 0, 0, 0, 0, 0])
            | u64::from(self.thread) << 32
            | u64::from(half) << 48;
        let [a, b, c, d, e, f, g] = words;
        let took = self.end.saturating_sub(self.start);
        bytes_of([first, self.start, took, pair(self.routine, self.site), pe.into(), a, b, c, d, e, f, g])
    }

    fn decode(record: &[u8; RECORD]) -> Option<Call> {
        let [first, start, took, routine, pe, words @ ..] = words_of(record);
        let [tag, flags, depth, ..] = first.to_le_bytes();
        let fields = Fields { tag, flags, half: (first >> 48) as u16, pe: pe as u32, words };
        let action = Action::of(&fields)?;
        let ((routine, site), thread) = (halves(routine), (first >> 32) as u16);
        Some(Call { routine, site, thread, depth, start, end: start.checked_add(took)?, action })
    }
}

impl Action {
    fn fields(&self) -> Fields {
        let fields = |tag, flags, half, pe, words: &[u64]| {
            let mut all = [0; 7];
            all[..words.len()].copy_from_slice(words);
            Fields { tag, flags, half, pe, words: all }
        };
        match *self {
            Action::Other => fields(tag::OTHER, 0, 0, 0, &[]),
            Action::Put { ctx, pe, remote, local, blocks, blocking, value } => {
                let bits = flags(&[(blocking, flag::BLOCKING), (value.is_some(), flag::VALUE)]);
                let Blocks { count, block, remote_step, local_step } = blocks;
                let value = value.unwrap_or(0);
                fields(
                    tag::PUT,
                    bits,
                    ctx,
                    pe,
                    &[remote.word(), local.word(), count, block, remote_step, local_step, value],
                )
            }
            Action::Get { ctx, pe, remote, local, blocks, blocking } => {
                let bits = flags(&[(blocking, flag::BLOCKING)]);
                let Blocks { count, block, remote_step, local_step } = blocks;
                fields(tag::GET, bits, ctx, pe, &[remote.word(), local.word(), count, block, remote_step, local_step])
            }
            Action::Atomic { ctx, pe, remote, width, writes, fetches, signals, operand, stores } => {
                let kinds = [(writes, flag::WRITES), (fetches, flag::FETCHES), (signals, flag::SIGNALS)];
                let bits = flags(&kinds) | flags(&[(stores, flag::STORES)]);
                fields(tag::ATOMIC, bits, ctx, pe, &[remote.word(), width.into(), operand])
            }
            Action::Fence { ctx } => fields(tag::FENCE, 0, ctx, 0, &[]),
            Action::Quiet { ctx, pe } => {
                fields(tag::QUIET, flags(&[(pe.is_some(), flag::ONE_PE)]), ctx, pe.unwrap_or(0), &[])
            }
            Action::Wait { at, count, comparison, satisfied, test } => {
                let Comparison { width, signed, relation, value } = comparison;
                let bits = flags(&[(satisfied, flag::SATISFIED), (test, flag::TEST), (signed, flag::SIGNED)]);
                fields(tag::WAIT, bits, 0, 0, &[at.word(), count, pair(width.into(), relation.into()), value])
            }
            Action::Meet { meeting, members, root, dest, dest_len, source, source_len, work } => {
                let Members { start, stride, size, stream } = members;
                let (who, how) = (pair(start, size), pair(stride as u32, stream));
                let work = work.map_or(0, |place| Memory::Symmetric(place).word());
                let words = [dest.word(), dest_len, source.word(), source_len, who, how, work];
                fields(tag::MEET, meeting as u8, 0, root, &words)
            }
            Action::Lock { at, taken } => fields(tag::LOCK, flags(&[(taken, flag::TAKEN)]), 0, 0, &[at.word()]),
            Action::Unlock { at } => fields(tag::UNLOCK, 0, 0, 0, &[at.word()]),
            Action::Access { pe, at, len, writes, atomic } => {
                fields(tag::ACCESS, flags(&[(writes, flag::WRITES), (atomic, flag::ATOMIC)]), 0, pe, &[at.word(), len])
            }
            Action::Mpi { kind, to, from, tag, bytes, pes } => {
                let bits = flags(&[(to.is_some(), flag::TO), (from.is_some(), flag::FROM), (tag.is_some(), flag::TAG)]);
                let (who, tag) = (pair(from.unwrap_or(0), pes), tag.unwrap_or(0) as u32);
                fields(tag::MPI, bits, kind as u16, to.unwrap_or(0), &[who, bytes, tag.into()])
            }
            Action::Message { step, pe, number, bytes } => fields(tag::MESSAGE, step as u8, 0, pe, &[number, bytes]),
        }
    }

    fn of(fields: &Fields) -> Option<Action> {
        let Fields { tag, flags, half: ctx, pe, words } = *fields;
        let has = |bit: u8| flags & bit != 0;
        let [a, b, c, d, e, f, g] = words;
        let (first, second) = (Memory::from_word(a), Memory::from_word(b));
        let blocks = Blocks { count: c, block: d, remote_step: e, local_step: f };
        Some(match tag {
            tag::OTHER => Action::Other,
            tag::PUT => {
                let value = has(flag::VALUE).then_some(g);
                Action::Put { ctx, pe, remote: first, local: second, blocks, blocking: has(flag::BLOCKING), value }
            }
            tag::GET => Action::Get { ctx, pe, remote: first, local: second, blocks, blocking: has(flag::BLOCKING) },
            tag::ATOMIC => Action::Atomic {
                ctx,
                pe,
                remote: first,
                width: b as u8,
                writes: has(flag::WRITES),
                fetches: has(flag::FETCHES),
                signals: has(flag::SIGNALS),
                operand: c,
                stores: has(flag::STORES),
            },
            tag::FENCE => Action::Fence { ctx },
            tag::QUIET => Action::Quiet { ctx, pe: has(flag::ONE_PE).then_some(pe) },
            tag::WAIT => {
                let (width, relation) = halves(c);
                let (width, relation) = (width as u8, relation as u8);
                let comparison = Comparison { width, signed: has(flag::SIGNED), relation, value: d };
                let (satisfied, test) = (has(flag::SATISFIED), has(flag::TEST));
                Action::Wait { at: first, count: b, comparison, satisfied, test }
            }
            tag::MEET => {
                let ((start, size), (stride, stream)) = (halves(e), halves(f));
                let members = Members { start, stride: stride as i32, size, stream };
                let (source, meeting) = (Memory::from_word(c), Meeting::from_bits(flags)?);
                let work = match Memory::from_word(g) {
                    Memory::Symmetric(place) => Some(place),
                    Memory::Private(_) => None,
                };
                Action::Meet { meeting, members, root: pe, dest: first, dest_len: b, source, source_len: d, work }
            }
            tag::LOCK => Action::Lock { at: first, taken: has(flag::TAKEN) },
            tag::UNLOCK => Action::Unlock { at: first },
            tag::ACCESS => {
                Action::Access { pe, at: first, len: b, writes: has(flag::WRITES), atomic: has(flag::ATOMIC) }
            }
            tag::MPI => {
                let (from, pes) = halves(a);
                Action::Mpi {
                    kind: MpiKind::from_bits(ctx)?,
                    to: has(flag::TO).then_some(pe),
                    from: has(flag::FROM).then_some(from),
                    tag: has(flag::TAG).then_some(c as i32),
                    bytes: b,
                    pes,
                }
            }
            tag::MESSAGE => Action::Message { step: Step::from_bits(flags)?, pe, number: a, bytes: b },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory() -> impl Strategy<Value = Memory> {
        let place = |(heap, offset)| {
            let region = if heap { Region::Heap } else { Region::Static };
            Memory::Symmetric(Place { region, offset })
        };
        prop_oneof![(any::<bool>(), 0..1u64 << 48).prop_map(place), (0..1u64 << 57).prop_map(Memory::Private)]
    }

    fn blocks() -> impl Strategy<Value = Blocks> {
        any::<[u64; 4]>().prop_map(|[count, block, remote_step, local_step]| Blocks {
            count,
            block,
            remote_step,
            local_step,
        })
    }

    fn action() -> impl Strategy<Value = Action> {
        let put = (any::<(u16, u32, bool, Option<u64>)>(), memory(), memory(), blocks()).prop_map(
            |((ctx, pe, blocking, value), remote, local, blocks)| Action::Put {
                ctx,
                pe,
                remote,
                local,
                blocks,
                blocking,
                value,
            },
        );
        let get = (any::<(u16, u32, bool)>(), memory(), memory(), blocks()).prop_map(
            |((ctx, pe, blocking), remote, local, blocks)| Action::Get { ctx, pe, remote, local, blocks, blocking },
        );
        let atomic = (any::<(u16, u32, u8, [bool; 4], u64)>(), memory()).prop_map(
            |((ctx, pe, width, [writes, fetches, signals, stores], operand), remote)| Action::Atomic {
                ctx,
                pe,
                remote,
                width,
                writes,
                fetches,
                signals,
                operand,
                stores,
            },
        );
        let wait = (any::<(u64, u8, u8, [bool; 3], u64)>(), memory()).prop_map(
            |((count, width, relation, [signed, satisfied, test], value), at)| {
                let comparison = Comparison { width, signed, relation, value };
                Action::Wait { at, count, comparison, satisfied, test }
            },
        );
        let meet = (any::<(u32, i32, [u32; 3], [u64; 2])>(), 0..9u8, [memory(), memory(), memory()]).prop_map(
            |((start, stride, [size, stream, root], [dest_len, source_len]), meeting, [dest, source, work])| {
                Action::Meet {
                    meeting: Meeting::from_bits(meeting).unwrap(),
                    members: Members { start, stride, size, stream },
                    root,
                    dest,
                    dest_len,
                    source,
                    source_len,
                    work: match work {
                        Memory::Symmetric(place) => Some(place),
                        Memory::Private(_) => None,
                    },
                }
            },
        );
        let access = (any::<(u32, u64, bool, bool)>(), memory())
            .prop_map(|((pe, len, writes, atomic), at)| Action::Access { pe, at, len, writes, atomic });
        let mpi =
            any::<(u16, [Option<u32>; 2], Option<i32>, u64, u32)>().prop_map(|(kind, [to, from], tag, bytes, pes)| {
                Action::Mpi { kind: MpiKind::from_bits(kind % 8).unwrap(), to, from, tag, bytes, pes }
            });
        let message = any::<(u8, u32, u64, u64)>().prop_map(|(step, pe, number, bytes)| Action::Message {
            step: Step::from_bits(step % 4).unwrap(),
            pe,
            number,
            bytes,
        });
        let quiet = any::<(u16, Option<u32>)>().prop_map(|(ctx, pe)| Action::Quiet { ctx, pe });
        let lock = (memory(), any::<bool>()).prop_map(|(at, taken)| Action::Lock { at, taken });
        prop_oneof![
            put,
            get,
            atomic,
            wait,
            meet,
            quiet,
            lock,
            access,
            mpi,
            message,
            memory().prop_map(|at| Action::Unlock { at }),
            any::<u16>().prop_map(|ctx| Action::Fence { ctx }),
            Just(Action::Other),
        ]
    }

    proptest! {
        #[test]
        fn what_is_noted_is_read_again(
            action in action(), [routine, site]: [u32; 2], thread: u16, depth: u8, start in 0..1u64 << 62, took in 0..1u64 << 62
        ) {
            let call = Call { routine, site, thread, depth, start, end: start + took, action };
            prop_assert_eq!(Record::decode(&call.encode()), Some(Record::Call(call)));
        }

        #[test]
        fn no_bytes_are_too_strange_to_be_read(record: [u8; 32], from in 0..RECORD - 32) {
            let mut all = [0xff; RECORD];
            all[from..from + 32].copy_from_slice(&record);
            let _ = (Record::decode(&all), Head::decode(&all));
        }
    }

    #[test]
    fn heads_and_texts() {
        let head = Head { pe: 3, pes: 4, node: 7, pid: 99, virtual_time: true };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(&[0; RECORD]), None);
        let long = "ä".repeat(80);
        let Some(Record::Text { id: 5, text }) = Record::decode(&encode_text(5, &long)) else { panic!("a text") };
        assert!(long.starts_with(&text) && text.len() == TEXT_MAX, "cut between characters");
        assert_eq!(Record::decode(&[0; RECORD]), None, "not yet written");
        assert_eq!(Record::decode(&encode_full()), Some(Record::Full));
    }
}
