//! A timing wheel for picosecond times: events wait in buckets of 256 ps until their bucket opens,
//! are sorted there, and come out in groups of equal time.
//!
//! The order inside a group is the order of insertion, which no result may depend on: whoever
//! handles a group applies all of it before deciding anything.

use super::Tick;

const SHIFT: u32 = 8;

/// Something that happens to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) node: u32,
    pub(crate) packet: u32,
    /// Picoseconds after the bucket's start.
    offset: u16,
    pub(crate) local: u8,
    pub(crate) kind: u8,
}

/// The wheel. Events beyond its reach are kept aside and filed when their time comes near.
pub(crate) struct Wheel {
    buckets: Vec<Vec<Event>>,
    /// One bit per bucket that is not empty.
    filled: Vec<u64>,
    /// Number of the open bucket since time 0.
    open: u64,
    /// Sorted events of the open bucket from `next` on.
    current: Vec<Event>,
    next: usize,
    far: std::collections::BTreeMap<Tick, Vec<Event>>,
    count: usize,
}

impl Wheel {
    /// A wheel that reaches at least `reach` picoseconds ahead.
    pub(crate) fn new(reach: Tick) -> Wheel {
        let buckets = ((reach >> SHIFT) as usize + 2).next_power_of_two().max(64);
        Wheel {
            buckets: vec![Vec::new(); buckets],
            filled: vec![0; buckets / 64],
            open: 0,
            current: Vec::new(),
            next: 0,
            far: Default::default(),
            count: 0,
        }
    }
    /// Adds an event at `at`, which must be later than every event taken so far.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: Tick, kind: u8, node: u32, local: u8, packet: u32) {
        let event = Event { node, packet, offset: (at & ((1 << SHIFT) - 1)) as u16, local, kind };
        let bucket = at >> SHIFT;
        debug_assert!(bucket >= self.open, "event in the past");
        self.count += 1;
        if bucket == self.open {
            let place = self.next + self.current[self.next..].partition_point(|e| e.offset <= event.offset);
            self.current.insert(place, event);
        } else if bucket - self.open < self.buckets.len() as u64 {
            let slot = bucket as usize & (self.buckets.len() - 1);
            self.buckets[slot].push(event);
            self.filled[slot / 64] |= 1 << (slot % 64);
        } else {
            self.far.entry(at).or_default().push(event);
        }
    }
    /// The time of the next event. Opens its bucket unless that starts after `limit`.
    pub(crate) fn peek(&mut self, limit: Tick) -> Option<Tick> {
        loop {
            if let Some(e) = self.current.get(self.next) {
                return Some((self.open << SHIFT) + e.offset as u64);
            }
            if self.count == 0 {
                return None;
            }
            let near = self.next_filled();
            let far = self.far.keys().next().map(|t| t >> SHIFT);
            let bucket = near.into_iter().chain(far).min()?;
            if bucket << SHIFT > limit {
                return Some(bucket << SHIFT);
            }
            self.open_bucket(bucket);
        }
    }
    fn next_filled(&self) -> Option<u64> {
        let n = self.buckets.len();
        let start = self.open as usize & (n - 1);
        let words = n / 64;
        for k in 0..=words {
            let w = (start / 64 + k) % words;
            let mut word = self.filled[w];
            if k == 0 {
                word &= u64::MAX << (start % 64);
            } else if k == words {
                word &= !(u64::MAX << (start % 64));
            }
            if word != 0 {
                let slot = w * 64 + word.trailing_zeros() as usize;
                return Some(self.open + ((slot + n - start) & (n - 1)) as u64);
            }
        }
        None
    }
    fn open_bucket(&mut self, bucket: u64) {
        self.open = bucket;
        self.next = 0;
        self.current.clear();
        let slot = bucket as usize & (self.buckets.len() - 1);
        std::mem::swap(&mut self.current, &mut self.buckets[slot]);
        self.filled[slot / 64] &= !(1 << (slot % 64));
        while let Some(e) = self.far.first_entry().filter(|e| e.key() >> SHIFT == bucket) {
            self.current.extend(e.remove());
        }
        self.current.sort_unstable_by_key(|e| e.offset);
    }
    /// Takes the next event if it is due exactly at `at`, the time [`Wheel::peek`] returned.
    #[inline(always)]
    pub(crate) fn take(&mut self, at: Tick) -> Option<Event> {
        let e = *self.current.get(self.next)?;
        if (self.open << SHIFT) + e.offset as u64 != at {
            return None;
        }
        self.next += 1;
        self.count -= 1;
        Some(e)
    }
    /// When something may be due next, without opening anything: exact in the open bucket, else the
    /// start of a bucket.
    pub(crate) fn next_time(&self) -> Option<Tick> {
        if let Some(e) = self.current.get(self.next) {
            return Some((self.open << SHIFT) + e.offset as u64);
        }
        let near = self.next_filled().map(|b| {
            let earliest = self.buckets[b as usize & (self.buckets.len() - 1)].iter().map(|e| e.offset).min();
            (b << SHIFT) + earliest.unwrap_or(0) as u64
        });
        near.into_iter().chain(self.far.keys().next().copied()).min()
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        let inner: usize = self.buckets.iter().map(Vec::capacity).sum::<usize>() + self.current.capacity();
        inner * size_of::<Event>() + self.buckets.len() * size_of::<Vec<Event>>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::mix;
    use super::*;

    #[test]
    fn events_come_out_in_time_order_like_from_a_sorted_map() {
        let mut wheel = Wheel::new(20_000);
        let mut expected = std::collections::BTreeMap::<Tick, usize>::new();
        let mut now = 0;
        let mut n = 0u64;
        let mut add = |wheel: &mut Wheel, expected: &mut std::collections::BTreeMap<Tick, usize>, now: Tick| {
            n += 1;
            let delay = match mix(n) % 4 {
                0 => 1 + mix(n + 1000) % 200,
                1 => 2000,
                2 => mix(n + 1000) % 20_000 + 1,
                _ => mix(n + 1000) % 90_000 + 1,
            };
            wheel.push(now + delay, 0, n as u32, 0, 0);
            *expected.entry(now + delay).or_default() += 1;
        };
        for _ in 0..20 {
            add(&mut wheel, &mut expected, 0);
        }
        for round in 0..20_000 {
            let Some(t) = wheel.peek(Tick::MAX) else { break };
            let (&want, &count) = expected.iter().next().unwrap();
            assert_eq!(t, want);
            assert_eq!(wheel.next_time(), Some(t));
            now = now.max(t);
            let mut got = 0;
            while wheel.take(t).is_some() {
                got += 1;
            }
            assert_eq!(got, count);
            expected.remove(&t);
            if round < 15_000 {
                for _ in 0..count {
                    add(&mut wheel, &mut expected, now);
                }
            }
        }
        assert!(expected.is_empty() && wheel.peek(Tick::MAX).is_none());
    }
}
