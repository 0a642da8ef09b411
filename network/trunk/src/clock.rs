//! Time as an association lives it.
//!
//! A process that was stopped for ten seconds must not conclude that its peer was silent for ten
//! seconds, and a clock that jumps back must not stop every timer. So time only advances by what passed
//! between two calls, and by a bounded step per call.

use std::time::Duration;

/// Nanoseconds of attended time.
pub(crate) type Nanos = u64;

/// A duration as nanoseconds; 584 years are enough.
pub(crate) fn nanos(d: Duration) -> Nanos {
    d.as_nanos().min(u128::from(u64::MAX / 4)) as Nanos
}

#[derive(Debug)]
pub(crate) struct Clock {
    outside: Nanos,
    inside: Nanos,
    step_max: Nanos,
}

impl Clock {
    pub(crate) fn new(now: Duration, step_max: Nanos) -> Self {
        Clock { outside: nanos(now), inside: 0, step_max }
    }

    /// No call is expected to come later after the last than this.
    pub(crate) fn set_step_max(&mut self, step_max: Nanos) {
        self.step_max = step_max;
    }

    /// The caller's clock shows `now`: attended time.
    pub(crate) fn observe(&mut self, now: Duration) -> Nanos {
        let outside = nanos(now);
        self.inside += outside.saturating_sub(self.outside).min(self.step_max);
        self.outside = outside;
        self.inside
    }

    /// Attended time at the last call.
    pub(crate) fn now(&self) -> Nanos {
        self.inside
    }

    /// Returns what the caller's clock will show when attended time reaches `deadline`.
    pub(crate) fn outside(&self, deadline: Nanos) -> Duration {
        Duration::from_nanos(self.outside + deadline.saturating_sub(self.inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_neither_stop_time_nor_make_it_run() {
        let ms = Duration::from_millis;
        let mut clock = Clock::new(ms(5_000), nanos(ms(100)));
        assert_eq!(clock.observe(ms(5_010)), nanos(ms(10)));
        assert_eq!(clock.observe(ms(90_000)), nanos(ms(110)), "a long absence counts as one step");
        assert_eq!(clock.observe(ms(1_000)), nanos(ms(110)), "back: stands still once");
        assert_eq!(clock.observe(ms(1_007)), nanos(ms(117)), "and runs on");
        assert_eq!(clock.outside(nanos(ms(120))), ms(1_010));
    }
}
