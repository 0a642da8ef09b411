//! Observers of packets: counts per link, plain records of what goes in and comes out, traces, taps for captures and what these hear; and how
//! full channels are.

pub(super) mod capture;
pub(super) mod counters;
pub(super) mod listen;
pub(super) mod occupancy;
pub(super) mod records;
pub(super) mod trace;

use capture::Taps;
use counters::Counters;
use trace::Tracer;

/// Observers of packets; they change nothing.
#[derive(Debug)]
pub(crate) struct Observers {
    pub(crate) counters: Counters,
    pub(crate) tracer: Tracer,
    /// Captures.
    pub(crate) taps: Taps,
}

impl Observers {
    pub(super) fn new(nodes: usize) -> Observers {
        Observers { counters: Counters::new(nodes), tracer: Tracer::default(), taps: Taps::default() }
    }
}
