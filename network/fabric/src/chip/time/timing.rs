//! Flit times: how long packets of each length occupy a stage at each rate.

use crate::config::FlitTime;
use crate::packet::rate;
use crate::types::Tick;
use angara_abi::PACKET_FLITS_MAX;

/// Tables of what happens most often.
#[derive(Debug)]
pub(crate) struct Timing {
    /// By rate and flits.
    spans: [[Tick; PACKET_FLITS_MAX + 1]; rate::COUNT],
    rates: [FlitTime; rate::COUNT],
    /// The rate of a packet after a port of the node and after a link.
    after: [[u8; 2]; rate::COUNT],
}

impl Timing {
    pub(crate) fn new(core: FlitTime, link: FlitTime, port: Option<FlitTime>) -> Timing {
        let slower = |a: FlitTime, b: FlitTime| a.num as u128 * b.den as u128 > b.num as u128 * a.den as u128;
        let rates = [port.filter(|port| slower(*port, core)).unwrap_or(core), link, core];
        let after = |r: usize, stage: usize| if slower(rates[r], rates[stage]) { r } else { stage } as u8;
        Timing {
            spans: rates.map(|r| std::array::from_fn(|n| r.of(n as u64))),
            rates,
            after: std::array::from_fn(|r| [after(r, rate::PORT as usize), after(r, rate::LINK as usize)]),
        }
    }
    /// Time of `flits` flits at a rate.
    #[inline(always)]
    pub(crate) fn span(&self, rate: u8, flits: u16) -> Tick {
        match self.spans[rate as usize].get(flits as usize) {
            Some(span) => *span,
            None => self.train(rate, flits),
        }
    }
    /// The same for more flits than a packet has.
    #[cold]
    fn train(&self, rate: u8, flits: u16) -> Tick {
        self.rates[rate as usize].of(flits as u64)
    }
    /// The slower of a packet's rate so far and that of the stage it enters.
    #[inline(always)]
    pub(crate) fn after(&self, rate: u8, link: bool) -> u8 {
        self.after[rate as usize][link as usize]
    }
    /// Time of `flits` flits through a port of the node.
    pub(crate) fn port(&self, flits: u16) -> Tick {
        self.span(rate::PORT, flits)
    }
    /// The same inside the chip.
    pub(crate) fn inside(&self, flits: u16) -> Tick {
        self.span(rate::WHOLE, flits)
    }
}
