//! How long a round trip takes (RFC 6298 and 9002, in nanoseconds).

use crate::clock::Nanos;

pub(crate) const MICROS: Nanos = 1_000;
pub(crate) const MILLIS: Nanos = 1_000_000;

/// Longest an acknowledgement waits for data to travel with.
pub(crate) const ACK_DELAY: Nanos = 100 * MICROS;
/// Much less, and most timeouts would hit peers that are merely not running.
const TIMEOUT_MIN: Nanos = 400 * MICROS;
const TIMEOUT_MAX: Nanos = 100 * MILLIS;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) smoothed: Nanos,
    pub(crate) variation: Nanos,
    pub(crate) minimum: Nanos,
    latest: Nanos,
    sampled: bool,
}

impl Rtt {
    pub(crate) fn new() -> Self {
        Rtt { smoothed: MILLIS, variation: MILLIS / 2, minimum: Nanos::MAX, latest: MILLIS, sampled: false }
    }

    pub(crate) fn sampled(&self) -> bool {
        self.sampled
    }

    /// A frame was acknowledged after `rtt`, of which the peer held the acknowledgement back `delay`.
    pub(crate) fn sample(&mut self, rtt: Nanos, delay: Nanos) {
        self.minimum = self.minimum.min(rtt);
        let rtt = rtt.checked_sub(delay).filter(|rtt| *rtt >= self.minimum).unwrap_or(rtt);
        self.latest = rtt;
        if self.sampled {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        } else {
            (self.smoothed, self.variation, self.sampled) = (rtt, rtt / 2, true);
        }
    }

    /// Wait for an acknowledgement before something is sent again, after `backoff` waits in vain.
    pub(crate) fn timeout(&self, backoff: u32) -> Nanos {
        let wait = self.smoothed + (4 * self.variation).max(ACK_DELAY) + ACK_DELAY;
        (wait.max(TIMEOUT_MIN) << backoff.min(10)).min(TIMEOUT_MAX.max(wait))
    }

    /// A frame sent this long before an acknowledged one is lost, not overtaken.
    pub(crate) fn loss_delay(&self) -> Nanos {
        let longest = self.smoothed.max(self.latest);
        (longest + longest / 8).max(50 * MICROS)
    }
}
