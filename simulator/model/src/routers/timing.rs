//! Delays of the routers of either switching, in cycles.

use angara_fabric::Tick;

/// From a source's decision to the head's arrival at its router.
pub(crate) const SOURCE_TO_ARRIVAL: usize = 2;
/// From a switch grant until the head is on the link or on its way to the endpoint.
pub(crate) const CROSSBAR: u64 = 1;

/// From a switch grant to the head's arrival at the next router, over a link of one cycle: crossbar 1, link 2 (one in
/// flight, one to be written and read). A longer link takes so much longer.
pub(crate) const GRANT_TO_ARRIVAL: usize = 3;
/// From a switch grant to its credit being usable upstream: channel 2, processing 2.
pub(crate) const GRANT_TO_CREDIT: usize = 4;
/// From a switch grant to an ejection channel until its credit is back: 3 to the endpoint, then 4.
pub(crate) const EJECT_TO_CREDIT: usize = 7;
/// From a switch grant to its credit being usable by the source.
pub(crate) const GRANT_TO_SOURCE_CREDIT: usize = 2;

/// Cycles that a block or part may be taken through before the others have been.
pub(crate) const WINDOW: u64 =
    if GRANT_TO_ARRIVAL < GRANT_TO_CREDIT { GRANT_TO_ARRIVAL } else { GRANT_TO_CREDIT } as u64;

/// Cycles for which things are kept that are due soon, if the longest link takes `extra` cycles more than one: a power
/// of two, and no more than necessary, so that the lists stay in a cache. Another block may be a window behind the one that
/// makes an entry.
pub(crate) fn soon_cycles(extra: u16) -> usize {
    (EJECT_TO_CREDIT + 1).max(GRANT_TO_CREDIT + usize::from(extra) + WINDOW as usize).next_power_of_two()
}

/// The time of a cycle, and the number of the cycle in which something may begin.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) cycle: Tick,
    /// Time at both ends of a packet's way.
    pub(crate) ends: Tick,
}

impl Clock {
    #[inline(always)]
    pub(crate) fn time(self, cycle: u64) -> Tick {
        cycle * self.cycle
    }
    /// The first cycle in which a source may send what it is given at `time`.
    #[inline(always)]
    pub(crate) fn ready(self, time: Tick) -> u64 {
        (time + self.ends).div_ceil(self.cycle)
    }
}
