//! The event queue: what happens next, in an order that does not depend on who asked first.
//!
//! Events at one tick run in phases: faults, then everything that updates state (packets reaching
//! the head of a queue, deliveries, timers), then arbitration of outputs in order of node and
//! output. The key holds phase, node, kind and argument, so equal ticks have one fixed order.
//!
//! Events of the next microsecond wait in a wheel of 1 ns buckets that are sorted when they open;
//! nearly every delay of the network is shorter than that. Later ones wait in a heap.

use crate::types::Tick;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Argument: index of the scheduled fault.
    Fault = 0,
    /// The front packet of a queue (argument) has arrived and may ask for outputs.
    Head = 1,
    /// A port (argument) may go on with its operations.
    Pump = 2,
    /// A packet (argument) has reached the host.
    Deliver = 3,
    /// The next transmission on the lossy link in direction (argument) has arrived.
    Arrive = 4,
    /// The sender of the lossy link in direction (argument) has heard of an error.
    Replay = 5,
    /// Credits to the processor are due at this node.
    TreeTimer = 6,
    /// The adapter starts a barrier phase for job (argument).
    Phase = 7,
    /// Arbitrate output (argument).
    Arbitrate = 8,
}

const KINDS: [Kind; 9] = [
    Kind::Fault,
    Kind::Head,
    Kind::Pump,
    Kind::Deliver,
    Kind::Arrive,
    Kind::Replay,
    Kind::TreeTimer,
    Kind::Phase,
    Kind::Arbitrate,
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    time: Tick,
    key: u64,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) node: u32,
    pub(crate) arg: u32,
}

/// Picoseconds of a bucket, as a shift.
const SHIFT: u32 = 10;
/// Buckets of the wheel.
const BUCKETS: usize = 1024;
const WORDS: usize = BUCKETS / 64;

/// Events by time and key.
#[derive(Debug)]
pub(crate) struct Events {
    /// Everything up to and including bucket `open`, latest first.
    current: Vec<Entry>,
    open: u64,
    buckets: Vec<Vec<Entry>>,
    /// One bit per bucket that is not empty.
    filled: [u64; WORDS],
    /// What was beyond the wheel's reach when it was pushed.
    far: BinaryHeap<Reverse<Entry>>,
}

impl Default for Events {
    fn default() -> Events {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        Events { current: Vec::new(), open: 0, buckets, filled: [0; WORDS], far: BinaryHeap::new() }
    }
}

impl Events {
    #[inline]
    pub(crate) fn push(&mut self, time: Tick, kind: Kind, node: u32, arg: u32) {
        let phase = match kind {
            Kind::Fault => 0,
            Kind::Arbitrate => 2,
            _ => 1,
        };
        let key = phase << 56 | (node as u64) << 36 | (kind as u64) << 32 | arg as u64;
        let entry = Entry { time, key };
        let bucket = time >> SHIFT;
        if bucket <= self.open {
            let at = self.current.partition_point(|e| *e > entry);
            self.current.insert(at, entry);
        } else if bucket - self.open < BUCKETS as u64 {
            let slot = bucket as usize % BUCKETS;
            self.buckets[slot].push(entry);
            self.filled[slot / 64] |= 1 << (slot % 64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// The next bucket after the open one that has events.
    fn next_bucket(&self) -> Option<u64> {
        let start = (self.open as usize + 1) % BUCKETS;
        (0..=WORDS).find_map(|k| {
            let w = (start / 64 + k) % WORDS;
            let mask = u64::MAX << (start % 64);
            let word = self.filled[w]
                & if k == 0 {
                    mask
                } else if k == WORDS {
                    !mask
                } else {
                    u64::MAX
                };
            let slot = w * 64 + word.trailing_zeros() as usize;
            (word != 0).then(|| self.open + 1 + ((slot + BUCKETS - start) % BUCKETS) as u64)
        })
    }

    /// Opens the next bucket that has events, if nothing earlier is left.
    fn refill(&mut self) {
        if !self.current.is_empty() {
            return;
        }
        let near = self.next_bucket();
        let far = self.far.peek().map(|e| e.0.time >> SHIFT);
        let Some(bucket) = near.into_iter().chain(far).min() else { return };
        self.open = bucket;
        if near == Some(bucket) {
            let slot = bucket as usize % BUCKETS;
            std::mem::swap(&mut self.current, &mut self.buckets[slot]);
            self.filled[slot / 64] &= !(1 << (slot % 64));
        }
        while self.far.peek().is_some_and(|e| e.0.time >> SHIFT == bucket) {
            self.current.extend(self.far.pop().map(|e| e.0));
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// When the next event is due.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<Tick> {
        self.refill();
        self.current.last().map(|e| e.time)
    }

    /// As [`Events::peek`], without opening a bucket.
    pub(crate) fn next_time(&self) -> Option<Tick> {
        if let Some(e) = self.current.last() {
            return Some(e.time);
        }
        let near = self.next_bucket().map(|b| &self.buckets[b as usize % BUCKETS]);
        let near = near.and_then(|b| b.iter().map(|e| e.time).min());
        near.into_iter().chain(self.far.peek().map(|e| e.0.time)).min()
    }

    /// The next event if it is due at `time`, which must be what `peek` returned.
    #[inline]
    pub(crate) fn pop_at(&mut self, time: Tick) -> Option<Event> {
        let top = *self.current.last()?;
        if top.time > time {
            return None;
        }
        self.current.pop();
        Some(Event {
            kind: KINDS[(top.key >> 32 & 15) as usize],
            node: (top.key >> 36 & 0xf_ffff) as u32,
            arg: top.key as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn events_come_out_in_the_order_of_a_sorted_set() {
        for seed in 0..20 {
            let dice = |n: u64, m: u64| crate::link::random(seed, n, m, 0) % m;
            let (mut events, mut model) = (Events::default(), BTreeSet::new());
            let (mut now, mut n) = (0, 0);
            for round in 0..3000 {
                for _ in 0..dice(round, 4) {
                    n += 1;
                    let delay = [0, dice(n, 3000), dice(n, 400_000), dice(n, 9_000_000)][dice(n + 7, 4) as usize];
                    let (node, arg) = (dice(n, 3) as u32, n as u32);
                    if model.insert((now + delay, node, arg)) {
                        events.push(now + delay, Kind::Head, node, arg);
                    }
                }
                assert_eq!(events.next_time(), model.first().map(|e| e.0), "seed {seed}");
                let Some(time) = events.peek() else { continue };
                if dice(round, 3) == 0 {
                    continue; // a peek must not change what later pushes do
                }
                now = time;
                let first = model.pop_first().unwrap();
                let event = events.pop_at(time).unwrap();
                assert_eq!((time, event.node, event.arg), first, "seed {seed}");
            }
        }
    }
}
