//! Complaints about what others send. They could otherwise fill the log with them.

use std::time::{Duration, Instant};

/// Least time between two complaints about one sender.
const PAUSE: Duration = Duration::from_secs(1);

/// Complaints about one sender.
#[derive(Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Whether to complain now; then how many complaints have been left out since the last one.
    pub(crate) fn now(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + PAUSE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_complaint_is_made_or_counted() {
        let (start, mut seldom) = (Instant::now(), Seldom::default());
        let mut said = Vec::new();
        for ms in (0..3_000).step_by(10) {
            said.extend(seldom.now(start + Duration::from_millis(ms)));
        }
        assert_eq!(said, [0, 99, 99]);
        assert_eq!(seldom.now(start + 5 * PAUSE), Some(99));
        assert_eq!(seldom.now(start + 7 * PAUSE), Some(0));
    }
}
