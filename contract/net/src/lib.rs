//! Nouns of the network that the network itself, daemons, drivers, simulations and commands share.
//!
//! [`torus`] has shapes, coordinates and directions, [`Link`] and [`HostId`] name links and hosts, [`fault`] says what can be
//! wrong with links, nodes and trunks. Text is read here once, where it comes in, and printed once; everybody else passes the
//! typed noun on. Nothing here knows memory, processes or time.
#![warn(missing_docs)] // others read them
#![forbid(unsafe_code)]

pub mod fault;
mod host_id;
mod link;
mod node_set;
pub mod packed;
pub mod torus;
pub mod units;
pub mod words;

pub use host_id::HostId;
pub use link::Link;
pub use node_set::NodeSet;

/// Bytes of the smallest datagram between two hosts; IPv6 carries it everywhere.
pub const DATAGRAM_MIN: usize = 1_200;

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
