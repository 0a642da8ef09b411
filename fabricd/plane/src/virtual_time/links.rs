//! What links carried, by time: equally long times, which double when there are too many.

use angara_fabric::{Link, Tick};
use angara_protocol::msg::BUCKETS;
use std::collections::BTreeMap;

/// How long each time is at first.
const FIRST: Tick = 1_000_000;

/// Loads of links, by time.
pub(super) struct LinkHistory {
    /// Picoseconds of each time.
    pub(super) width: Tick,
    /// Those that are over.
    over: usize,
    /// Flits of each link so far, and in each of these times.
    links: BTreeMap<Link, (u64, Vec<u64>)>,
}

impl Default for LinkHistory {
    fn default() -> LinkHistory {
        LinkHistory { width: FIRST, over: 0, links: BTreeMap::new() }
    }
}

impl LinkHistory {
    /// When to look again.
    pub(super) fn next(&self) -> Tick {
        self.width.saturating_mul(self.over as Tick + 1)
    }

    /// Before anything at `time` or later: what each link has carried so far.
    pub(super) fn look(&mut self, time: Tick, carried: impl Iterator<Item = (Link, u64)>) {
        for (link, flits) in carried.filter(|(_, flits)| *flits > 0) {
            let (before, times) = self.links.entry(link).or_default();
            times.resize(self.over, 0);
            times.push(flits.saturating_sub(std::mem::replace(before, flits)));
        }
        self.over += 1;
        self.halve();
        // In the times until then nothing happened.
        while self.next() <= time {
            self.over += 1;
            self.halve();
        }
    }

    /// Makes two times one if there are too many.
    fn halve(&mut self) {
        if self.over < BUCKETS {
            return;
        }
        for (_, times) in self.links.values_mut() {
            *times = times.chunks(2).map(|two| two.iter().sum()).collect();
        }
        (self.over, self.width) = (self.over / 2, self.width * 2);
    }

    /// Returns what a link has carried in each time, of which the last is not over.
    pub(super) fn of(&self, link: Link, carried: u64) -> Vec<u64> {
        let (before, mut times) = self.links.get(&link).cloned().unwrap_or_default();
        times.resize(self.over, 0);
        times.push(carried.saturating_sub(before));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::torus::Direction;

    #[test]
    fn times_double_and_nothing_is_lost_or_moved() {
        let link = Link { node: 0, dir: Direction::ALL[0] };
        let mut history = LinkHistory::default();
        let (mut carried, mut at) = (0, Vec::new());
        // Something every 700 ns, and a long silence.
        for time in (1..200).map(|i| i * 700_000 + if i > 100 { 1_000_000_000 } else { 0 }) {
            if time >= history.next() {
                history.look(time, [(link, carried)].into_iter());
            }
            assert!(time < history.next());
            carried += 3;
            at.push(time);
        }
        let times = history.of(link, carried);
        assert!(times.len() <= BUCKETS && history.width == 32_000_000, "{} of {}", times.len(), history.width);
        for (i, flits) in times.iter().enumerate() {
            let span = history.width * i as Tick..history.width * (i as Tick + 1);
            assert_eq!(*flits, 3 * at.iter().filter(|t| span.contains(t)).count() as u64, "{span:?}");
        }
    }
}
