//! Links that carry less than a flit per cycle.

use crate::topology::{FULL_RATE, LinkRate};
use std::collections::VecDeque;

/// The link that leaves by a port.
#[derive(Clone, Copy)]
struct Rate {
    ppm: u32,
    /// What the packets so far have left of their last cycle, in parts of `ppm`.
    rest: u32,
}

/// A rate from a cycle on.
struct Change {
    cycle: u64,
    /// Number of the port.
    place: usize,
    ppm: u32,
}

/// Rates of the ports of a range of routers, by port; of none if all are full.
#[derive(Default)]
pub(crate) struct SlowLinks {
    rates: Vec<Rate>,
    /// In order of time.
    due: VecDeque<Change>,
    /// Some rate changes under way, here or in another part.
    change: bool,
}

/// Cycles until a packet would have passed at a rate, if it began with a whole cycle.
fn nominal(flits: u16, ppm: u32) -> u64 {
    (u64::from(flits) * u64::from(FULL_RATE)).div_ceil(ppm.into())
}

/// Most cycles of a packet of so many flits on one of these links.
pub(crate) fn longest_span(rates: &[LinkRate], flits: u16) -> u64 {
    rates.iter().map(|link| nominal(flits, link.ppm) + 1).max().unwrap_or(0)
}

impl SlowLinks {
    /// Of `routers` routers from `first` on, with `ports` places for ports; a cycle takes so many picoseconds.
    pub(crate) fn new(rates: &[LinkRate], cycle: u64, first: u32, routers: usize, ports: usize) -> SlowLinks {
        let mut slow = SlowLinks { change: rates.iter().any(|link| link.since > 0), ..SlowLinks::default() };
        if !rates.is_empty() {
            slow.rates = vec![Rate { ppm: FULL_RATE, rest: 0 }; routers * ports];
        }
        for &LinkRate { from: (router, port), ppm, since, .. } in rates {
            let router = router.wrapping_sub(first) as usize;
            let place = router * ports + usize::from(port);
            match since {
                _ if router >= routers => {}
                0 => slow.rates[place].ppm = ppm,
                since => slow.due.push_back(Change { cycle: since.div_ceil(cycle), place, ppm }),
            }
        }
        slow.due.make_contiguous().sort_by_key(|change| change.cycle);
        slow
    }

    #[inline(always)]
    pub(crate) fn are_any(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Lets what is due at a cycle happen. Returns the cycle of the next change.
    #[inline(always)]
    pub(crate) fn until(&mut self, now: u64) -> Option<u64> {
        while let Some(due) = self.due.front() {
            if due.cycle > now {
                return Some(due.cycle);
            }
            self.rates[due.place] = Rate { ppm: due.ppm, rest: 0 };
            self.due.pop_front();
        }
        None
    }

    /// The link at `place` is slow.
    #[inline(always)]
    pub(crate) fn has(&self, place: usize) -> bool {
        self.rates[place].ppm < FULL_RATE
    }

    /// Cycles that a packet takes on the link at `place`.
    pub(crate) fn span(&mut self, place: usize, flits: u16) -> usize {
        let Rate { ppm, rest } = &mut self.rates[place];
        let all = u64::from(flits) * u64::from(FULL_RATE) + u64::from(*rest);
        *rest = (all % u64::from(*ppm)) as u32;
        (all / u64::from(*ppm)) as usize
    }

    /// Cycles that it would take if it began with a whole one.
    pub(crate) fn nominal(&self, place: usize, flits: u16) -> u16 {
        nominal(flits, self.rates[place].ppm).try_into().expect("packets that take longer are refused")
    }

    /// Cycles that a packet which came in `came` nominal ones waits, so that it does not run out of flits where it leaves:
    /// by the port at `out`, or else at the full rate, which a link that changes may have by then.
    pub(crate) fn wait(&self, came: u16, out: Option<usize>, flits: u16) -> usize {
        let out = out.filter(|_| !self.change).map_or(FULL_RATE, |out| self.rates[out].ppm);
        u64::from(came).saturating_sub(nominal(flits, out)) as usize
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rates.capacity() * size_of::<Rate>() + self.due.capacity() * size_of::<Change>()
    }
}
