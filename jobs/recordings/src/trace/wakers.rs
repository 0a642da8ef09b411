//! Which put ended a wait, and who came last to a collective.
//!
//! Calls come in the order in which they ended. A put may return after the wait that it ended, so a wait is settled
//! only when every PE has come to a call that began behind the wait's end. What is held until then is bounded: of the
//! words that somebody waits for, the last writes; of waits and collectives that cannot be settled, N.

use angara_abi::clock::Comparison;
use angara_abi::desc::Region;
use angara_protocol::calls::{Action, Blocks, Call, Members, Memory};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Writes of a word that are remembered: more than PEs are likely to have under way at once.
const WRITES: usize = 64;
/// Words that writes are remembered of; waits for others have no known cause.
const WORDS: usize = 1 << 20;
/// Events that are held back until they can be settled; beyond that the oldest goes out as it is.
const HELD: usize = 1 << 20;

/// A call of a PE, with what was found out about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// PE that called.
    pub(super) pe: u32,
    /// The call; its routine is a number of the trace.
    pub(super) call: Call,
    /// Why its wait could end.
    pub(super) cause: Option<Cause>,
}

/// Why a call could end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// This call changed the word.
    Write(Origin),
    /// This PE came last, and when.
    Last(u32, u64),
}

/// A call that changed a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    /// PE that called.
    pub(super) pe: u32,
    /// Thread that called.
    pub(super) thread: u16,
    /// When it began, ns.
    pub(super) start: u64,
    /// When it ended, ns.
    pub(super) end: u64,
}

/// A write to a word that somebody waits for.
#[derive(Clone, Copy)]
struct Write {
    by: Origin,
    /// Value of the word, if known.
    value: Option<u64>,
}

/// A word, or another place of a PE: region and offset.
type At = (bool, u64);

/// Place of symmetric memory, in an order.
fn at(memory: Memory) -> Option<At> {
    match memory {
        Memory::Symmetric(place) => Some((place.region == Region::Static, place.offset)),
        Memory::Private(_) => None,
    }
}

/// By how much times of PEs may be wrong against each other.
#[derive(Default)]
pub(super) struct Errors {
    /// By PE: the number of its host, and by how much its clock may be wrong, ns.
    of: Vec<(usize, u64)>,
    /// Greatest error between any two PEs, ns.
    most: u64,
}

impl Errors {
    /// Takes each PE's host and the error of its clock; PEs of one host share a clock.
    pub(super) fn new(of: Vec<(usize, u64)>) -> Errors {
        let several = of.iter().any(|(host, _)| *host != of[0].0);
        let most = of.iter().map(|(_, error)| *error).max().unwrap_or(0).saturating_mul(2);
        Errors { of, most: if several { most } else { 0 } }
    }

    fn between(&self, a: u32, b: u32) -> u64 {
        match (self.of.get(a as usize), self.of.get(b as usize)) {
            (Some((host, a)), Some((other, b))) if host != other => a.saturating_add(*b),
            _ => 0,
        }
    }
}

/// Words that PEs wait for.
#[derive(Default)]
pub(super) struct Watched {
    /// By PE and place.
    words: HashMap<u32, BTreeMap<At, VecDeque<Write>>>,
    /// How many.
    count: usize,
    /// How well times can be compared.
    errors: Errors,
}

impl Watched {
    /// No words yet, of PEs with such clocks.
    pub(super) fn new(errors: Errors) -> Watched {
        Watched { errors, ..Watched::default() }
    }

    /// `pe` made this call.
    pub(super) fn add(&mut self, pe: u32, call: &Call) {
        if let Action::Wait { at: first, count, comparison, .. } = call.action {
            let words = self.words.entry(pe).or_default();
            let before = words.len();
            words.extend(
                words_of(first, count, comparison).take(WORDS - self.count).map(|word| (word, VecDeque::new())),
            );
            self.count += words.len() - before;
        }
    }

    /// A call that may have written words that are waited for.
    fn note(&mut self, pe: u32, call: &Call) {
        let by = Origin { pe, thread: call.thread, start: call.start, end: call.end };
        match call.action {
            Action::Put { pe: to, remote, blocks, value, .. } => self.wrote(to, remote, &blocks, Write { by, value }),
            Action::Atomic { pe: to, remote, width, writes: true, operand, stores, .. } => {
                let value = stores.then_some(operand);
                self.wrote(to, remote, &Blocks::one(width.into()), Write { by, value });
            }
            _ => {}
        }
    }

    fn wrote(&mut self, to: u32, remote: Memory, blocks: &Blocks, write: Write) {
        let (Some(words), Some((is_static, start))) = (self.words.get_mut(&to), at(remote)) else { return };
        // For a put with more blocks, the first ones stand for all.
        for i in 0..blocks.count.min(1 << 16) {
            let from = start.saturating_add(i.saturating_mul(blocks.remote_step));
            let range = (is_static, from)..(is_static, from.saturating_add(blocks.block));
            for (_, writes) in words.range_mut(range) {
                writes.push_back(write);
                if writes.len() > WRITES {
                    writes.pop_front();
                }
            }
        }
    }

    /// Returns who ended this wait of `pe`: of those that had begun by its end, the last one to have ended by then, or
    /// to have been under way, with a value that is waited for. One that seems to have begun later, by no more than
    /// clocks may be wrong, comes before those that ended earlier.
    fn waker(&self, pe: u32, call: &Call) -> Option<Origin> {
        let Action::Wait { at: first, count, comparison, satisfied: true, .. } = call.action else { return None };
        let words = self.words.get(&pe)?;
        let fits = |write: &&Write| {
            let latest = call.end.saturating_add(self.errors.between(pe, write.by.pe));
            write.by.start <= latest && write.value.is_none_or(|value| comparison.holds(value))
        };
        let writes = words_of(first, count, comparison).filter_map(|word| words.get(&word)).flatten().filter(fits);
        let rank = |by: &Origin| {
            let begun = by.start <= call.end;
            (by.end.min(call.end), begun, if begun { by.start } else { u64::MAX - by.start })
        };
        writes.map(|write| write.by).max_by_key(rank)
    }
}

fn words_of(first: Memory, count: u64, comparison: Comparison) -> impl Iterator<Item = At> {
    // A wait for more than that is for all of an array: the first ones stand for it.
    const COUNTED: u64 = 4096;
    let width = u64::from(comparison.width.max(1));
    at(first).into_iter().flat_map(move |(is_static, offset)| {
        (0..count.min(COUNTED)).map(move |i| (is_static, offset.saturating_add(i * width)))
    })
}

/// A collective that not all members have ended.
struct Meet {
    /// Members whose call has been seen.
    seen: u32,
    /// The last to come.
    last: (u64, u32),
    /// Numbers of the events held back for it.
    held: Vec<u64>,
}

/// Finds causes, and gives events back when they are known.
pub(super) struct Causes {
    watched: Watched,
    /// The start of the last call seen of each PE.
    fronts: Vec<u64>,
    /// A PE of which that is the least.
    slowest: usize,
    /// How many collectives of each team a PE has been in.
    counts: HashMap<(u32, Members), u64>,
    meets: HashMap<(Members, u64), Meet>,
    /// Events held back, the oldest first, with the number of the first.
    held: VecDeque<Event>,
    first: u64,
}

impl Causes {
    /// For a job of `pes` PEs, in which these words are waited for.
    pub(super) fn new(pes: usize, watched: Watched) -> Causes {
        Causes {
            watched,
            fronts: vec![0; pes],
            slowest: 0,
            counts: HashMap::new(),
            meets: HashMap::new(),
            held: VecDeque::new(),
            first: 0,
        }
    }

    /// The next call, in the order of ends; `give` gets events that are settled.
    pub(super) fn add<E>(
        &mut self,
        pe: u32,
        call: Call,
        give: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        self.watched.note(pe, &call);
        if call.depth == 0 {
            self.advance(pe, call.start);
        }
        let number = self.first + self.held.len() as u64;
        self.held.push_back(Event { pe, call, cause: None });
        if let Action::Meet { members, .. } = call.action {
            self.met(pe, members, call.start, number);
        }
        self.settle(give)
    }

    /// PE `pe` writes no more calls.
    pub(super) fn ended(&mut self, pe: u32) {
        self.advance(pe, u64::MAX);
    }

    fn advance(&mut self, pe: u32, start: u64) {
        self.fronts[pe as usize] = start;
        if pe as usize == self.slowest {
            self.slowest = (0..self.fronts.len()).min_by_key(|pe| self.fronts[*pe]).unwrap_or(0);
        }
    }

    /// There are no more calls.
    pub(super) fn finish<E>(mut self, give: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
        self.fronts.fill(u64::MAX);
        self.meets.clear();
        self.settle(give)
    }

    fn met(&mut self, pe: u32, members: Members, start: u64, number: u64) {
        let count = self.counts.entry((pe, members)).or_default();
        let key = (members, *count);
        *count += 1;
        let meet = self.meets.entry(key).or_insert(Meet { seen: 0, last: (0, pe), held: Vec::new() });
        meet.seen += 1;
        meet.last = meet.last.max((start, pe));
        meet.held.push(number);
        if meet.seen < members.size {
            return;
        }
        let meet = self.meets.remove(&key).expect("found above");
        for number in meet.held {
            // Events given out already were too many to hold.
            if let Some(event) = number.checked_sub(self.first).and_then(|i| self.held.get_mut(i as usize)) {
                event.cause = Some(Cause::Last(meet.last.1, meet.last.0));
            }
        }
    }

    /// Gives out the oldest events, as far as nothing more can be learnt of them.
    fn settle<E>(&mut self, give: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
        let front = self.fronts.get(self.slowest).copied().unwrap_or(u64::MAX);
        while let Some(event) = self.held.front() {
            let ready = match event.call.action {
                Action::Wait { .. } => front > event.call.end.saturating_add(self.watched.errors.most),
                Action::Meet { .. } => event.cause.is_some() || self.meets.is_empty(),
                _ => true,
            };
            if !ready && self.held.len() <= HELD {
                return Ok(());
            }
            let mut event = *event;
            if let Action::Wait { .. } = event.call.action {
                event.cause = self.watched.waker(event.pe, &event.call).map(Cause::Write);
            }
            self.held.pop_front();
            self.first += 1;
            give(event)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::desc::Place;
    use angara_protocol::calls::Meeting;

    fn word(offset: u64) -> Memory {
        Memory::Symmetric(Place { region: Region::Heap, offset })
    }

    fn call(start: u64, end: u64, action: Action) -> Call {
        Call { routine: 1, site: 0, thread: 0, depth: 0, start, end, action }
    }

    fn put(to: u32, offset: u64, value: u64) -> Action {
        let blocks = Blocks::one(8);
        Action::Put {
            ctx: 1,
            pe: to,
            remote: word(offset),
            local: Memory::Private(8),
            blocks,
            blocking: true,
            value: Some(value),
        }
    }

    fn wait(offset: u64, value: u64) -> Action {
        let comparison = Comparison { width: 8, signed: true, relation: 1, value };
        Action::Wait { at: word(offset), count: 1, comparison, satisfied: true, test: false }
    }

    fn meet(size: u32) -> Action {
        let members = Members { start: 0, stride: 1, size, stream: 0 };
        let none = Memory::Private(0);
        Action::Meet {
            meeting: Meeting::Barrier,
            members,
            root: 0,
            dest: none,
            dest_len: 0,
            source: none,
            source_len: 0,
            work: None,
        }
    }

    fn watching(pes: usize, errors: Errors, calls: &[(u32, Call)]) -> Causes {
        let mut watched = Watched::new(errors);
        calls.iter().for_each(|(pe, call)| watched.add(*pe, call));
        Causes::new(pes, watched)
    }

    /// Events with their causes, of calls in the order of their ends.
    fn events(pes: usize, calls: &[(u32, Call)]) -> Vec<Event> {
        let (mut causes, mut out) = (watching(pes, Errors::default(), calls), Vec::new());
        let mut give = |event| -> Result<(), ()> {
            out.push(event);
            Ok(())
        };
        for (pe, call) in calls {
            causes.add(*pe, *call, &mut give).unwrap();
        }
        causes.finish(&mut give).unwrap();
        out
    }

    fn cause(events: &[Event], pe: u32) -> Option<Cause> {
        events.iter().rfind(|e| e.pe == pe).and_then(|e| e.cause)
    }

    #[test]
    fn a_put_that_returns_after_the_wait_has_ended_it() {
        let all = [(1, call(5, 20, wait(64, 7))), (0, call(15, 25, put(1, 64, 7)))];
        let Some(Cause::Write(by)) = cause(&events(2, &all), 1) else { panic!("no cause") };
        assert_eq!((by.pe, by.start), (0, 15));
    }

    #[test]
    fn a_put_of_another_host_may_seem_to_have_begun_after_the_wait_ended() {
        let found = |start, other| {
            let calls =
                [(0, call(1, 2, put(1, 64, 7))), (1, call(5, 20, wait(64, 7))), (0, call(start, 40, put(1, 64, 7)))];
            let errors = Errors::new(vec![(other, 10), (0, 0)]);
            let (mut causes, mut out) = (watching(2, errors, &calls), Vec::new());
            let mut give = |event| -> Result<(), ()> {
                out.push(event);
                Ok(())
            };
            calls.iter().for_each(|(pe, call)| causes.add(*pe, *call, &mut give).unwrap());
            causes.finish(&mut give).unwrap();
            let Some(Cause::Write(by)) = cause(&out, 1) else { panic!("no cause") };
            by.start
        };
        assert_eq!([found(30, 1), found(31, 1), found(30, 0)], [30, 1, 1]);
    }

    #[test]
    fn of_several_writes_it_is_the_last_with_a_value_that_was_waited_for() {
        let all = [
            (0, call(1, 2, put(1, 64, 7))),
            (2, call(8, 9, put(1, 64, 3))),
            (2, call(9, 10, put(1, 72, 7))),
            (1, call(5, 20, wait(64, 7))),
            (0, call(30, 31, put(1, 64, 7))),
        ];
        let Some(Cause::Write(by)) = cause(&events(3, &all), 1) else { panic!("no cause") };
        assert_eq!((by.pe, by.start), (0, 1), "not the later value, not the other word, not the later put");
    }

    #[test]
    fn the_last_to_come_to_a_barrier_is_known_to_all() {
        let all = [
            (0, call(1, 10, meet(2))),
            (1, call(9, 11, meet(2))),
            (1, call(20, 30, meet(2))),
            (0, call(25, 30, meet(2))),
        ];
        let found = events(2, &all);
        assert_eq!(
            found.iter().map(|e| e.cause).collect::<Vec<_>>(),
            [Some(Cause::Last(1, 9)), Some(Cause::Last(1, 9)), Some(Cause::Last(0, 25)), Some(Cause::Last(0, 25)),]
        );
    }

    #[test]
    fn a_collective_that_never_ends_does_not_keep_its_events() {
        let found = events(2, &[(0, call(1, 10, meet(2))), (0, call(11, 12, put(1, 0, 1)))]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].cause, None);
    }
}
