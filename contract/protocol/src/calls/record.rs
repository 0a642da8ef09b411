//! Records of a file of calls, as bytes. Whoever wrote them may be hostile: every reader checks.

use super::{Action, Blocks, Call, Head, Meeting, Members, Memory, MpiKind, RECORD, Record, Step};
use angara_abi::clock::Comparison;
use angara_abi::desc::{Place, Region};

/// Words of a record.
const WORDS: usize = RECORD / 8;
/// Bytes of a text that one record holds; longer ones are cut.
const TEXT_MAX: usize = RECORD - 8;
/// Records of a file start with these bytes in their first one.
const MAGIC: u64 = u64::from_le_bytes(*b"ANGCALL\x01");

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

impl Meeting {
    fn from_bits(bits: u8) -> Option<Meeting> {
        use Meeting::*;
        [Sync, Barrier, Broadcast, Collect, Alltoall, Reduce, Scan, Memory, Other].get(bits as usize).copied()
    }
}

impl MpiKind {
    fn from_bits(bits: u16) -> Option<MpiKind> {
        use MpiKind::*;
        [Send, Receive, Exchange, Wait, Test, Collective, OneSided, Other].get(usize::from(bits)).copied()
    }
}

impl Step {
    fn from_bits(bits: u8) -> Option<Step> {
        use Step::*;
        [Sent, Received, Wanted, Fetched].get(usize::from(bits)).copied()
    }
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

/// Encoding of an action in a record: its tag, flags, a half word, a word of 4 bytes, and further words.
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

    /// Returns what the first record of a file says; `None` if it is no file of calls.
    pub fn decode(record: &[u8; RECORD]) -> Option<Head> {
        let [magic, of, at, virtual_time, ..] = words_of(record);
        let ((pe, pes), (node, pid)) = (halves(of), halves(at));
        let known = magic == MAGIC && pe < pes && pes as usize <= angara_abi::job::PES_MAX && virtual_time <= 1;
        known.then_some(Head { pe, pes, node, pid, virtual_time: virtual_time == 1 })
    }
}

pub(super) fn encode_text(id: u32, text: &str) -> [u8; RECORD] {
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
pub(super) fn encode_full() -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[0] = tag::FULL;
    record
}

impl Record {
    /// Returns what a record says; `None` for one of zeroes and for what makes no sense.
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

    fn meet() -> impl Strategy<Value = Action> {
        (any::<(u32, i32, [u32; 3], [u64; 2])>(), 0..9u8, [memory(), memory(), memory()]).prop_map(
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
        )
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
            meet(),
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
