//! The last minute, as far as it has been seen.

use super::sample::Frame;
use angara_net::Link;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long looks are remembered.
const KEPT: Duration = Duration::from_secs(60);
/// Most of them.
const LOOKS_MAX: usize = 60;
/// From nothing to the most.
const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bytes a second at each look.
#[derive(Default)]
pub(super) struct History {
    looks: VecDeque<(Instant, HashMap<Link, f64>)>,
}

impl History {
    /// Adds a look. Of those that come faster than one a second only the latest is kept.
    pub(super) fn push(&mut self, frame: &Frame) {
        let busy = frame.links.iter().filter(|link| link.bytes > 0.0);
        let close = |at: &Instant| frame.at.duration_since(*at) < KEPT / LOOKS_MAX as u32;
        let before = self.looks.iter().rev().nth(1).is_some_and(|(at, _)| close(at));
        if before {
            self.looks.pop_back();
        }
        self.looks.push_back((frame.at, busy.map(|link| (link.place, link.bytes)).collect()));
        while self.looks.front().is_some_and(|(at, _)| frame.at.duration_since(*at) > KEPT) {
            self.looks.pop_front();
        }
    }

    /// Bytes a second of the links that are wanted at each look, the oldest first.
    pub(super) fn of(&self, wanted: impl Fn(&Link) -> bool) -> Vec<f64> {
        let sum =
            |links: &HashMap<Link, f64>| links.iter().filter(|(link, _)| wanted(link)).map(|(_, bytes)| bytes).sum();
        self.looks.iter().map(|(_, links)| sum(links)).collect()
    }
}

/// A block for each value, as high as it is beside the highest.
pub(super) fn drawn(values: &[f64]) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let block = |value: &f64| match *value {
        value if value <= 0.0 => BARS[0],
        value => BARS[((value / highest * 8.0).ceil() as usize).clamp(1, 8)],
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    #[test]
    fn a_minute_is_kept_and_no_more() {
        let start = Instant::now();
        let mut history = History::default();
        let look = |s: u64| sample(start, s, &[(0, "+X", 1000 * s), (1, "-X", 10)]);
        (1..100).for_each(|s| history.push(&Frame::between(&look(s - 1), &look(s))));
        let first = Link { node: 0, dir: "+X".parse().expect("a direction") };
        let seen = history.of(|link| *link == first);
        assert!((60..=61).contains(&seen.len()) && seen.iter().all(|rate| *rate == 1000.0), "{seen:?}");
        assert_eq!(drawn(&[0.0, 1.0, 4.0, 8.0]), "·▁▄█");
    }
}
