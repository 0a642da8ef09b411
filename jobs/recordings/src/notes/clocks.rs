//! Clocks of other hosts: what ours shows when one of theirs shows some time, and how sure that is.
//!
//! Hosts have clocks that began at different times and run at rates that differ a little. The other host asks for our time
//! several times in a row, and keeps the answer that came fastest ([`Look`]): ours was read somewhere between question and
//! answer, so to take it as read in the middle is wrong by half of that time at most, whichever of the two ways was the
//! slower one. It does so before a job and behind it; times between are interpolated.

use serde::{Deserialize, Serialize};

/// A clock that a kernel steers by its usual means gains or loses at most one nanosecond in this many; two of them twice that.
const DRIFT: u64 = 1000;

/// One look at both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// Time of the other host's clock, ns.
    pub there: u64,
    /// Time of our clock at that moment, ns.
    pub here: u64,
    /// Bound on the error of `here`, ns.
    pub error: u64,
}

impl Look {
    /// Our clock showed `here` at some time between `asked` and `answered` of theirs.
    pub fn between(asked: u64, answered: u64, here: u64) -> Look {
        let took = answered.saturating_sub(asked);
        // Their clock took that long, which may be a little more or less of ours.
        Look { there: asked + took / 2, here, error: took.div_ceil(2) + took.div_ceil(DRIFT) }
    }

    /// Returns what is to be added to their time.
    fn offset(self) -> i128 {
        i128::from(self.here) - i128::from(self.there)
    }
}

/// How a clock of another host and ours belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    first: Look,
    last: Look,
    /// By how much a time may be wrong, ns.
    pub error: u64,
}

impl Clock {
    /// From a look before all times of interest and one behind them.
    pub fn new(first: Look, last: Look) -> Clock {
        let span = last.there.saturating_sub(first.there);
        if (last.offset() - first.offset()).unsigned_abs() <= u128::from(span / DRIFT) {
            return Clock { first, last, error: first.error.max(last.error) };
        }
        // Too little time between them: what they differ by is their errors, not the clocks'.
        let best = if first.error <= last.error { first } else { last };
        Clock { first: best, last: best, error: best.error.saturating_add(span / DRIFT) }
    }

    /// Returns what our clock showed when theirs showed `there`.
    pub fn here(&self, there: u64) -> u64 {
        let Clock { first, last, .. } = *self;
        let (span, since) = (last.there.saturating_sub(first.there), there.saturating_sub(first.there));
        let drift = last.offset() - first.offset();
        let part = if span == 0 { 0 } else { drift * i128::from(since.min(span)) / i128::from(span) };
        (i128::from(there) + first.offset() + part).clamp(0, u64::MAX.into()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::random::SplitMix;

    #[test]
    fn a_time_is_never_wrong_by_more_than_is_said() {
        let mut random = SplitMix(1);
        for _ in 0..100_000 {
            // Theirs began at another time and runs faster or slower by up to 0.05 %; asking takes up to 1 ms.
            let (began, rate) = (random.below(1 << 50), random.below(1001) as i128 - 500);
            let theirs = |ours: u64| (i128::from(began) + i128::from(ours) * (1_000_000 + rate) / 1_000_000) as u64;
            let mut look = |at: u64| {
                let (to, back) = (random.below(500_000), random.below(500_000));
                Look::between(theirs(at), theirs(at + to + back), at + to)
            };
            let start = 1 << 40;
            let (first, long) = (look(start), 2_000_000 + 1_000 * (began % 100_000_000));
            let clock = Clock::new(first, look(start + long));
            let mut before = 0;
            for ours in (0..=10).map(|tenth| start + 1_000_000 + (long - 1_000_000) * tenth / 10) {
                let here = clock.here(theirs(ours));
                assert!(here.abs_diff(ours) <= clock.error + 2, "{here} for {ours}: {clock:?}");
                assert!(here >= before, "{here} behind {before}: {clock:?}");
                before = here;
            }
        }
    }

    #[test]
    fn what_two_looks_say_is_kept_within_what_numbers_hold() {
        let look = |there, here| Look { there, here, error: u64::MAX / 4 };
        for (first, last) in [(look(0, u64::MAX), look(u64::MAX, 0)), (look(u64::MAX, 0), look(0, 0))] {
            let clock = Clock::new(first, last);
            assert!([0, 1 << 40, u64::MAX].map(|there| clock.here(there)).is_sorted(), "{clock:?}");
        }
    }
}
