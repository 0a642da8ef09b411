//! Networks of chips without adapters: packets have a length and two ends, no operation, no contents, no effects.
//!
//! Simulations hand packets to injection channels ([`RawFabric::inject`]) and find them when they have arrived
//! ([`RawFabric::deliveries`]). Routers, links and faults are those of a [`crate::Fabric`].

mod network;
mod packed;

pub use crate::chip::{
    Crossing, Delivery, Inconsistent, Injection, LinkLoad, Lost, Stage, Totals, TraceEvent, Tracer, TrafficClass,
};
pub use crate::packet::PacketHandle;
pub use network::{RawConfig, RawFabric, chip_shape};
pub use packed::Packed;
pub(crate) use packed::packed;

/// Most endpoints, or ports, of the nodes of a network of so many dimensions.
pub fn channels_max(dims: usize) -> usize {
    crate::chip::layout::channels_max(if dims > 4 { 12 } else { 8 })
}
