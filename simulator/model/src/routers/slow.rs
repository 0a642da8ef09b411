//! Links that carry less than a flit per cycle.

use crate::topology::{FULL_RATE, LinkRate};

/// The two directions of a port.
#[derive(Clone, Copy)]
struct Rates {
    /// Of the link that leaves by it, and of the one that arrives.
    out: u32,
    into: u32,
    /// What the packets so far have left of their last cycle, in parts of `out`.
    rest: u32,
}

/// Rates of the ports of a range of routers, by port; of none if all are full.
#[derive(Default)]
pub(crate) struct SlowLinks(Vec<Rates>);

/// Cycles until a packet would have passed at a rate, if it began with a whole cycle.
fn nominal(flits: u16, rate: u32) -> u64 {
    (u64::from(flits) * u64::from(FULL_RATE)).div_ceil(rate.into())
}

/// Most cycles of a packet of so many flits on one of these links.
pub(crate) fn longest_span(rates: &[LinkRate], flits: u16) -> u64 {
    rates.iter().map(|link| nominal(flits, link.ppm) + 1).max().unwrap_or(0)
}

impl SlowLinks {
    /// Of `routers` routers from `first` on, with `ports` places for ports.
    pub(crate) fn new(rates: &[LinkRate], first: u32, routers: usize, ports: usize) -> SlowLinks {
        let mut all = Vec::new();
        let at = |router: u32, port: u8| {
            let router = router.wrapping_sub(first) as usize;
            (router < routers).then_some(router * ports + usize::from(port))
        };
        if !rates.is_empty() {
            all = vec![Rates { out: FULL_RATE, into: FULL_RATE, rest: 0 }; routers * ports];
        }
        for link in rates {
            let [from, to] = [link.from, link.to].map(|(router, port)| at(router, port));
            from.into_iter().for_each(|place| all[place].out = link.ppm);
            to.into_iter().for_each(|place| all[place].into = link.ppm);
        }
        SlowLinks(all)
    }

    #[inline(always)]
    pub(crate) fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The link at `place` is slow.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.0[place].out < FULL_RATE
    }

    /// Cycles that a packet takes on the link at `place`.
    pub(crate) fn span(&mut self, place: usize, flits: u16) -> usize {
        let rates = &mut self.0[place];
        let all = u64::from(flits) * u64::from(FULL_RATE) + u64::from(rates.rest);
        rates.rest = (all % u64::from(rates.out)) as u32;
        (all / u64::from(rates.out)) as usize
    }

    /// Cycles that a packet which came by the port at `into` waits, so that it does not run out of flits where it leaves:
    /// by the port at `out`, or else at the full rate.
    pub(crate) fn wait(&self, into: usize, out: Option<usize>, flits: u16) -> usize {
        let out = out.map_or(FULL_RATE, |out| self.0[out].out);
        nominal(flits, self.0[into].into).saturating_sub(nominal(flits, out)) as usize
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Rates>()
    }
}
