//! How much may be under way at a place of the network, so that its links can be kept busy.

use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX};
use angara_fabric::{FlitTime, SLOTS_MAX, Tick};

/// Most slots of a virtual channel, and as many of what else may be under way.
pub(crate) const WINDOW_MAX: u16 = SLOTS_MAX;
/// Bytes of the longest packet on a link.
pub(crate) const PACKET_BYTES: u64 = (PACKET_FLITS_MAX * FLIT_BYTES) as u64;
/// Reads from so far away keep a link busy.
pub(crate) const READ_HOPS: Tick = 32;

/// How many packets, or groups of them, may be under way at a place where each stays for a time beyond its own on a link.
pub(crate) struct Window {
    pub(crate) name: &'static str,
    /// What the file says; as many as are needed, and at least `least`, if it says nothing.
    pub(crate) said: Option<u16>,
    pub(crate) least: u16,
    /// Bytes and time of each on a link.
    pub(crate) bytes: u64,
    pub(crate) unit: Tick,
    /// The time beyond that.
    pub(crate) time: Tick,
}

impl Window {
    /// With so many the link's rate is kept: one more than are under way, since whoever enters a ring leaves one free.
    pub(crate) fn needed(&self) -> u64 {
        (self.time + self.unit).div_ceil(self.unit) + 1
    }
    pub(crate) fn count(&self) -> u16 {
        self.said.unwrap_or_else(|| self.needed().clamp(self.least.into(), WINDOW_MAX.into()) as u16)
    }
    /// The rate that its count lets through.
    pub(crate) fn rate(&self) -> FlitTime {
        let megabytes = u64::from(self.count() - 1) * self.bytes * 1_000_000 / (self.time + self.unit);
        FlitTime::of_rate(megabytes.clamp(1, 1_000_000))
    }
}
