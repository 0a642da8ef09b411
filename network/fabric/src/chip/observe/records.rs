//! Packets that enter a network without adapters, and those that leave it: plain data.
//!
//! Endpoints are sources and sinks of packets, numbered from 0: channel c of node n is endpoint
//! n · channels + c.

use crate::types::Tick;

/// Traffic class of a packet: which deterministic virtual channel of the chip it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum TrafficClass {
    /// vc0: responses, and writes that need no order with requests.
    Response,
    /// vc1: requests, atomics, ordered writes.
    #[default]
    Request,
}

/// A packet to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injection {
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// Length in flits, at least 1 (the chip's packets: at most 18).
    pub flits: u16,
    /// Which deterministic channel of the chip.
    pub class: TrafficClass,
    /// May use the chip's adaptive channel.
    pub adaptive: bool,
    /// When its source has it ready, in picoseconds. Packets of one source must be injected in order of `at`, and
    /// `at` must not be before the network's present time.
    pub at: Tick,
    /// Returned with the delivery.
    pub tag: u64,
    /// Everything that happens to it is noted; see [`crate::raw::TraceEvent`].
    pub traced: bool,
}

/// A packet that has reached its destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Delivery {
    /// When its last flit was received.
    pub tail: Tick,
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// As injected.
    pub tag: u64,
    /// As injected.
    pub at: Tick,
    /// Length in flits.
    pub flits: u16,
    /// Routers passed, those of source and destination included.
    pub routers: u16,
}

/// Totals of a network since it was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets injected.
    pub injected: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Flits delivered.
    pub delivered_flits: u64,
    /// Packets that left a router (through a link or to an endpoint).
    pub packet_hops: u64,
    /// Flits that left a router.
    pub flit_hops: u64,
    /// Packets dropped because no route was left.
    pub lost: u64,
}

impl Totals {
    /// A packet left a router.
    #[inline(always)]
    pub fn hop(&mut self, flits: u16) {
        self.packet_hops += 1;
        self.flit_hops += flits as u64;
    }
}

/// A packet that was dropped because no route to its destination was left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lost {
    /// When.
    pub time: Tick,
    /// Source endpoint.
    pub src: u32,
    /// Destination endpoint.
    pub dst: u32,
    /// As injected.
    pub tag: u64,
}

/// Packets and flits that left a router through one port since counting began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkLoad {
    /// Packets, each counted once.
    pub packets: u64,
    /// Their flits.
    pub flits: u64,
    /// Packets the link sent again.
    pub replays: u64,
    /// Packets that arrived with a wrong checksum.
    pub crc_errors: u64,
    /// Packets that arrived a second time.
    pub duplicates: u64,
    /// Packets that arrived before one sent earlier.
    pub reordered: u64,
}

/// A broken conservation law, found in a network that is idle: always a bug of the network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("model inconsistency: {0}")]
pub struct Inconsistent(pub String);
