//! Which datagram size the path carries, found with padded probes (RFC 8899).

use crate::clock::Nanos;
use crate::rtt::MILLIS;
use std::ops::Range;

/// Sizes worth trying: Ethernet and jumbo frames over IPv6 and IPv4, then what only loopback carries.
const LADDER: [usize; 7] = [1_452, 1_472, 4_048, 8_952, 8_972, 16_336, 65_448];
const TRIES: u8 = 3;
const SEARCH_AGAIN: Nanos = 60_000 * MILLIS;
const AFTER_BLACK_HOLE: Nanos = 20 * MILLIS;

#[derive(Debug)]
struct Probe {
    number: u64,
    size: usize,
    sent: Nanos,
    deadline: Nanos,
}

#[derive(Debug)]
pub(crate) struct Mtu {
    floor: usize,
    max: usize,
    current: usize,
    /// Under way.
    probe: Option<Probe>,
    tries: u8,
    search_at: Nanos,
}

impl Mtu {
    pub(crate) fn new(start: usize, max: usize, now: Nanos) -> Self {
        let max = max.max(start);
        Mtu { floor: start, max, current: start, probe: None, tries: 0, search_at: now }
    }

    pub(crate) fn current(&self) -> usize {
        self.current
    }

    fn larger(&self) -> Option<usize> {
        let size = LADDER.iter().copied().find(|s| *s > self.current).unwrap_or(self.max).min(self.max);
        (size > self.current).then_some(size)
    }

    /// When something is to be done.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.larger()?;
        Some(self.probe.as_ref().map_or(self.search_at, |p| p.deadline))
    }

    /// The size of a probe to send now.
    pub(crate) fn due(&self, now: Nanos) -> Option<usize> {
        if self.probe.is_some() || self.search_at > now { None } else { self.larger() }
    }

    pub(crate) fn sent(&mut self, number: u64, size: usize, sent: Nanos, deadline: Nanos) {
        self.probe = Some(Probe { number, size, sent, deadline });
    }

    pub(crate) fn acknowledged(&mut self, numbers: &[Range<u64>]) {
        if let Some(probe) = self.probe.take_if(|p| numbers.iter().any(|r| r.contains(&p.number))) {
            self.current = probe.size.max(self.current);
            self.tries = 0;
        }
    }

    /// Gives up a probe that has not come back in time. If the peer was heard meanwhile, it did not fit, or was
    /// lost like any frame, and a few of them decide; if not, it says nothing. Returns whether to ask the peer
    /// for a sign of life, so that the next one does.
    pub(crate) fn expire(&mut self, now: Nanos, heard: Nanos) -> bool {
        let Some(probe) = self.probe.take_if(|p| p.deadline <= now) else { return false };
        if heard <= probe.sent {
            return true;
        }
        self.tries += 1;
        if self.tries == TRIES {
            self.tries = 0;
            self.search_at = now + SEARCH_AGAIN;
        }
        false
    }

    /// Nothing comes through any more: perhaps only small datagrams do.
    pub(crate) fn black_hole(&mut self, now: Nanos) {
        if self.current > self.floor {
            self.current = self.floor;
            (self.probe, self.tries) = (None, 0);
            self.search_at = now + AFTER_BLACK_HOLE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes a path that carries `limit` until nothing is left to try.
    fn search(mtu: &mut Mtu, limit: usize, mut now: Nanos) {
        for number in 0..100 {
            if let Some(size) = mtu.due(now) {
                mtu.sent(number, size, now, now + MILLIS);
                if size <= limit {
                    mtu.acknowledged(std::slice::from_ref(&(number..number + 1)));
                } else {
                    now += MILLIS;
                    mtu.expire(now, now);
                }
            }
        }
    }

    #[test]
    fn finds_what_the_path_carries() {
        for (limit, found) in [(1_300, 1_200), (1_472, 1_472), (9_000, 8_972), (65_507, 65_507)] {
            let mut mtu = Mtu::new(1_200, 65_507, 0);
            search(&mut mtu, limit, 0);
            assert_eq!(mtu.current(), found, "path of {limit}");
        }
    }

    #[test]
    fn falls_back_and_searches_again() {
        let mut mtu = Mtu::new(1_200, 9_000, 0);
        search(&mut mtu, 9_000, 0);
        assert_eq!(mtu.current(), 9_000);
        mtu.black_hole(5 * MILLIS);
        assert_eq!((mtu.current(), mtu.due(6 * MILLIS)), (1_200, None));
        for number in 0..20 {
            let now = (30 + number) * MILLIS;
            mtu.sent(number, mtu.due(now).expect("silence decides nothing"), now, now + MILLIS);
            assert!(mtu.expire(now + MILLIS, 5 * MILLIS), "a sign of life is wanted");
        }
        search(&mut mtu, 1_472, 2_000 * MILLIS);
        assert_eq!(mtu.current(), 1_472);
    }
}
