//! The event queue: what happens next, in an order that does not depend on who asked first.
//!
//! Events at one tick come out by kind, node and argument: faults first, then everything that
//! updates state. An event is one word, so that sorting and moving them is cheap. Those of the next
//! half microsecond wait in a wheel of 256 ps buckets that are sorted when they open; nearly every
//! delay of the network is shorter than that. Later ones wait in a heap. Buckets are lists of chunks of
//! one cache line, and the chunk freed last is used first: what is pushed stays in the nearest cache.

use crate::types::Tick;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// Argument: index of the scheduled fault.
    Fault = 0,
    /// The sender of the link with errors in direction (argument) has heard of one.
    Heard = 1,
    /// Something is due on the impaired link in direction (argument).
    Line = 2,
    /// The front packet of a queue (argument) may ask for outputs.
    Head = 3,
    /// The front packet of a queue (argument) may leave the adaptive channel, if it still asks.
    Escape = 4,
    /// Decide output (argument).
    Wake = 5,
    /// A port (argument) may go on with its operations.
    Pump = 6,
    /// A packet (argument) has reached the host.
    Deliver = 7,
    /// Credits to the processor are due at this node.
    TreeTimer = 8,
    /// The adapter starts a barrier phase for job (argument).
    Phase = 9,
}

/// By number; more than there are, so that none is out of range.
const KINDS: [EventKind; 16] = [
    EventKind::Fault,
    EventKind::Heard,
    EventKind::Line,
    EventKind::Head,
    EventKind::Escape,
    EventKind::Wake,
    EventKind::Pump,
    EventKind::Deliver,
    EventKind::TreeTimer,
    EventKind::Phase,
    EventKind::Phase,
    EventKind::Phase,
    EventKind::Phase,
    EventKind::Phase,
    EventKind::Phase,
    EventKind::Phase,
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) node: u32,
    pub(crate) arg: u32,
}

/// Bits of an event word, from the top: picoseconds within the bucket, kind, node, argument.
const SHIFT: u32 = 8;
pub(crate) const NODE_BITS: u32 = 24;
const ARG_BITS: u32 = 28;
const KEY: u64 = u64::MAX >> SHIFT;
/// Buckets of the wheel.
const BUCKETS: usize = 2048;
/// As many as bits in the word that says which of them are not zero.
const WORDS: usize = BUCKETS / 64;
const _: () = assert!(WORDS == u32::BITS as usize);
/// Events of a chunk.
const CHUNK: usize = 7;
const NO_CHUNK: u32 = u32::MAX;

/// Some events of a bucket. Later chunks of it precede earlier ones, and in a chunk later events precede earlier
/// ones, since buckets are emptied from the back.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    words: [u64; CHUNK],
    next: u32,
    /// Free places, at the front.
    free: u32,
}

/// Events by time and key.
#[derive(Debug)]
pub(crate) struct Events {
    /// The rest of the open bucket, the next event last.
    current: Vec<u64>,
    open: u64,
    /// First chunk of every bucket.
    buckets: Box<[u32; BUCKETS]>,
    chunks: Vec<Chunk>,
    /// First of the chunks in no bucket.
    spare: u32,
    /// One bit per bucket that is not empty.
    filled: [u64; WORDS],
    /// One bit per word of `filled` that is not zero.
    filled_words: u32,
    /// Events beyond the wheel's reach when they were pushed.
    far: BinaryHeap<Reverse<(Tick, u64)>>,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            current: Vec::new(),
            open: 0,
            buckets: Box::new([NO_CHUNK; BUCKETS]),
            chunks: Vec::new(),
            spare: NO_CHUNK,
            filled: [0; WORDS],
            filled_words: 0,
            far: BinaryHeap::new(),
        }
    }
}

#[inline(always)]
fn word(time: Tick, key: u64) -> u64 {
    time << (64 - SHIFT) | key
}

impl Events {
    /// Adds an event, not before the last bucket opened.
    #[inline]
    pub(crate) fn push(&mut self, time: Tick, kind: EventKind, node: u32, arg: u32) {
        debug_assert!(node >> NODE_BITS == 0 && arg >> ARG_BITS == 0, "{node} or {arg} does not fit an event");
        let key = (kind as u64) << (NODE_BITS + ARG_BITS) | (node as u64) << ARG_BITS | arg as u64;
        let bucket = time >> SHIFT;
        debug_assert!(bucket >= self.open, "event at {time}, bucket {} is open", self.open);
        let ahead = bucket.wrapping_sub(self.open);
        if ahead.wrapping_sub(1) >= BUCKETS as u64 - 1 {
            return self.push_elsewhere(time, key);
        }
        let slot = bucket as usize % BUCKETS;
        let chunk = match self.chunks.get_mut(self.buckets[slot] as usize) {
            Some(chunk) if chunk.free > 0 => chunk,
            _ => self.grow(slot),
        };
        chunk.free -= 1;
        chunk.words[chunk.free as usize] = word(time, key);
    }

    /// Adds an event of the open bucket or beyond the wheel.
    #[inline(never)]
    fn push_elsewhere(&mut self, time: Tick, key: u64) {
        if time >> SHIFT == self.open {
            let entry = word(time, key);
            let at = self.current.partition_point(|e| *e > entry);
            self.current.insert(at, entry);
        } else {
            self.far.push(Reverse((time, key)));
        }
    }

    /// Gives a bucket whose first chunk is full, or which has none, another one.
    #[inline(never)]
    fn grow(&mut self, slot: usize) -> &mut Chunk {
        let next = self.buckets[slot];
        let new = match self.spare {
            NO_CHUNK => {
                self.chunks.push(Chunk { words: [0; CHUNK], next, free: CHUNK as u32 });
                self.chunks.len() as u32 - 1
            }
            spare => spare,
        };
        let chunk = &mut self.chunks[new as usize];
        if new == self.spare {
            self.spare = std::mem::replace(&mut chunk.next, next);
            chunk.free = CHUNK as u32;
        }
        self.buckets[slot] = new;
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.filled_words |= 1 << (slot / 64);
        chunk
    }

    /// The next bucket after the open one that has events.
    fn next_bucket(&self) -> Option<u64> {
        let start = (self.open as usize + 1) % BUCKETS;
        let here = self.filled[start / 64] & u64::MAX << (start % 64);
        let slot = if here != 0 {
            start / 64 * 64 + here.trailing_zeros() as usize
        } else {
            // The words behind this one, then those before it, itself last.
            let behind = self.filled_words.rotate_right((start / 64 + 1) as u32 % WORDS as u32);
            if behind == 0 {
                return None;
            }
            let w = (start / 64 + 1 + behind.trailing_zeros() as usize) % WORDS;
            w * 64 + self.filled[w].trailing_zeros() as usize
        };
        Some(self.open + 1 + ((slot + BUCKETS - start) % BUCKETS) as u64)
    }

    /// Opens the next bucket that has events, unless it starts after `limit`.
    #[inline(never)]
    fn refill(&mut self, limit: Tick) {
        let near = self.next_bucket().unwrap_or(u64::MAX);
        let far = self.far.peek().map_or(u64::MAX, |e| e.0.0 >> SHIFT);
        let bucket = near.min(far);
        if bucket > limit >> SHIFT {
            return;
        }
        self.open = bucket;
        if near == bucket {
            let slot = bucket as usize % BUCKETS;
            self.filled[slot / 64] &= !(1 << (slot % 64));
            self.filled_words &= !(u32::from(self.filled[slot / 64] == 0) << (slot / 64));
            let mut at = std::mem::replace(&mut self.buckets[slot], NO_CHUNK);
            while let Some(chunk) = self.chunks.get_mut(at as usize) {
                self.current.extend_from_slice(&chunk.words[chunk.free as usize..]);
                let next = std::mem::replace(&mut chunk.next, self.spare);
                self.spare = std::mem::replace(&mut at, next);
            }
        }
        if far == bucket {
            while let Some(Reverse((time, key))) = self.far.peek().copied().filter(|e| e.0.0 >> SHIFT == bucket) {
                self.far.pop();
                self.current.push(word(time, key));
            }
        }
        // Where little is under way, most buckets hold one event.
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// When the next event is due, if it is due by `limit`.
    #[inline]
    pub(crate) fn peek(&mut self, limit: Tick) -> Option<Tick> {
        if self.current.is_empty() {
            self.refill(limit);
        }
        let entry = *self.current.last()?;
        let time = self.open << SHIFT | entry >> (64 - SHIFT);
        (time <= limit).then_some(time)
    }

    /// [`Events::peek`] that never opens a bucket in which nothing is due by `limit`, so that events between the time
    /// of the last one and `limit` may still be added.
    #[inline]
    pub(crate) fn peek_due(&mut self, limit: Tick) -> Option<Tick> {
        if self.current.is_empty() {
            let near = self.next_bucket().unwrap_or(u64::MAX);
            let bucket = near.min(self.far.peek().map_or(u64::MAX, |e| e.0.0 >> SHIFT));
            // All of an earlier bucket is due; in the last one it is the first event that counts.
            if bucket > limit >> SHIFT || bucket == limit >> SHIFT && self.next_time().is_none_or(|next| next > limit) {
                return None;
            }
        }
        self.peek(limit)
    }

    /// True if nothing is going to happen.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.filled_words == 0 && self.far.is_empty()
    }

    /// True if the open bucket is used up, so that [`Events::peek`] will open another.
    #[inline(always)]
    pub(crate) fn is_used_up(&self) -> bool {
        self.current.is_empty()
    }

    /// Events left in the open bucket.
    pub(crate) fn open_events(&self) -> usize {
        self.current.len()
    }

    /// Node and queue of the heads in the open bucket.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (usize, usize)> {
        let kind = |word: u64| (word & KEY) >> (NODE_BITS + ARG_BITS);
        let heads = self.current.iter().filter(move |word| kind(**word) == EventKind::Head as u64);
        heads.map(|word| {
            let (node, arg) = (word >> ARG_BITS & ((1 << NODE_BITS) - 1), word & ((1 << ARG_BITS) - 1));
            (node as usize, arg as usize)
        })
    }

    /// When the next event is due, without opening a bucket.
    pub(crate) fn next_time(&self) -> Option<Tick> {
        let time = |bucket: u64, entry: u64| bucket << SHIFT | entry >> (64 - SHIFT);
        if let Some(e) = self.current.last() {
            return Some(time(self.open, *e));
        }
        let near = self.next_bucket().and_then(|bucket| {
            let first = self.chunks.get(self.buckets[bucket as usize % BUCKETS] as usize);
            let chunks = std::iter::successors(first, |chunk| self.chunks.get(chunk.next as usize));
            chunks.flat_map(|c| &c.words[c.free as usize..]).min().map(|e| time(bucket, *e))
        });
        near.into_iter().chain(self.far.peek().map(|e| e.0.0)).min()
    }

    /// True if the next event is a head at `node` and due at `time`, the time of the last one taken.
    #[inline(always)]
    pub(crate) fn next_is_head(&self, time: Tick, node: u32) -> bool {
        let head = (EventKind::Head as u64) << (NODE_BITS + ARG_BITS) | (node as u64) << ARG_BITS;
        self.current.last().is_some_and(|next| (next ^ word(time, head)) >> ARG_BITS == 0)
    }

    /// The next event if it is due at `time`, which must be what `peek` returned.
    #[inline(always)]
    pub(crate) fn pop_at(&mut self, time: Tick) -> Option<Event> {
        let top = *self.current.last()?;
        if top >> (64 - SHIFT) != time & ((1 << SHIFT) - 1) {
            return None;
        }
        self.current.pop();
        let key = top & KEY;
        Some(Event {
            kind: KINDS[(key >> (NODE_BITS + ARG_BITS)) as usize & (KINDS.len() - 1)],
            node: (key >> ARG_BITS) as u32 & ((1 << NODE_BITS) - 1),
            arg: key as u32 & ((1 << ARG_BITS) - 1),
        })
    }

    /// Takes out everything, in no order.
    pub(crate) fn drain(&mut self) -> Vec<(Tick, Event)> {
        let (open, mut all) = (self.open, Vec::new());
        while let Some(time) = self.peek(Tick::MAX) {
            all.extend(self.pop_at(time).map(|event| (time, event)));
        }
        self.open = open; // what is pushed next may be earlier than the last of these
        all
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + size_of_val(&*self.buckets)
            + self.current.capacity() * 8
            + self.far.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn events_come_out_in_the_order_of_a_sorted_set() {
        for seed in 0..20 {
            let dice = |n: u64, m: u64| crate::rng::random(seed, n, m, 0) % m;
            let (mut events, mut model) = (Events::default(), BTreeSet::new());
            let (mut now, mut n) = (0, 0);
            for round in 0..3000 {
                for _ in 0..dice(round, 4) {
                    n += 1;
                    let delay = [0, dice(n, 3000), dice(n, 400_000), dice(n, 9_000_000)][dice(n + 7, 4) as usize];
                    let (node, arg) = (dice(n, 3) as u32, n as u32);
                    if model.insert((now + delay, node, arg)) {
                        events.push(now + delay, EventKind::Head, node, arg);
                    }
                }
                assert_eq!(events.next_time(), model.first().map(|e| e.0), "seed {seed}");
                let limit = now + dice(round + 1, 600);
                let due = events.peek_due(limit);
                assert_eq!(due, model.first().map(|e| e.0).filter(|t| *t <= limit), "seed {seed}");
                now = due.unwrap_or(now); // `limit` has not passed: earlier events may still come
                if dice(round, 3) == 0 {
                    let limit = now + dice(round, 5000);
                    let due = events.peek(limit);
                    assert_eq!(due, model.first().map(|e| e.0).filter(|t| *t <= limit));
                    now = due.unwrap_or(limit); // what comes later may still be before the next event
                    continue;
                }
                let Some(time) = events.peek(Tick::MAX) else { continue };
                now = time;
                let first = model.pop_first().unwrap();
                let event = events.pop_at(time).unwrap();
                assert_eq!((time, event.node, event.arg), first, "seed {seed}");
            }
        }
    }
}
