//! The `generic` router with wormhole switching: flits are events, and a packet may be in several routers at once.
//!
//! Allocators, delays and phases are those of [`crate::generic`]. What differs is that every flit asks for the switch and
//! takes a credit of its own. The flits of a packet in one buffer are contiguous and packets do not overtake each other
//! there, so a buffer is a number of flits and a queue of packets: the first packet has as many of those flits as it
//! still has to send, at most.
//!
//! A packet has flits behind the front of a buffer in one router at most: where its head is. It waits in one queue only.

mod changes;
mod engine;
mod routers;
mod state;
mod switch;

pub(crate) use state::Wormhole;
