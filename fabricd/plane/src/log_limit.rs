//! Complaints about what others send. They could otherwise fill the log with them.

use std::time::Duration;
use std::time::Instant;

/// Time in which only this many complaints about one sender are made.
const PAUSE: Duration = Duration::from_secs(1);

/// Complaints about one sender.
#[derive(Default)]
pub struct LogLimit {
    /// When the first of the latest complaints was made, and how many have been since.
    last: Option<(Instant, u64)>,
    left_out: u64,
}

impl LogLimit {
    /// Tells whether to complain now; then how many complaints have been left out since the last one.
    pub fn allow(&mut self, now: Instant) -> Option<u64> {
        self.allow_up_to(now, 1)
    }

    /// The same with `most` complaints a second.
    pub fn allow_up_to(&mut self, now: Instant, most: u64) -> Option<u64> {
        match &mut self.last {
            Some((since, said)) if now < *since + PAUSE => {
                if *said >= most {
                    self.left_out += 1;
                    return None;
                }
                *said += 1;
            }
            last => *last = Some((now, 1)),
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_complaint_is_made_or_counted() {
        let (start, mut limit) = (Instant::now(), LogLimit::default());
        let mut said = Vec::new();
        for ms in (0..3_000).step_by(10) {
            said.extend(limit.allow(start + Duration::from_millis(ms)));
        }
        assert_eq!(said, [0, 99, 99]);
        assert_eq!(limit.allow(start + 5 * PAUSE), Some(99));
        assert_eq!(limit.allow(start + 7 * PAUSE), Some(0));
    }

    #[test]
    fn several_a_second_if_so_many_are_allowed() {
        let (start, mut limit) = (Instant::now(), LogLimit::default());
        let said: Vec<u64> = (0..100).filter_map(|_| limit.allow_up_to(start, 3)).collect();
        assert_eq!(said, [0, 0, 0]);
        assert_eq!(limit.allow_up_to(start + PAUSE, 3), Some(97));
    }
}
