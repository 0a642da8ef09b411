//! The network model: flit-exact timing at the cost of one event per packet and hop.
//!
//! A [`Network`] is a machine without sockets, threads or clocks. You hand it packets
//! ([`Network::inject`]), tell it how far time may go ([`Network::advance`]) and collect what
//! arrived ([`Network::poll_delivery`]). A packet that wins an output streams its flits without a gap,
//! so one head time, a rate and a length give the time of every flit, and only packets cost work.
//! With wormhole switching ([`Switching`]) each flit is an event.
//! Two kinds of router exist ([`Profile`]): `generic`, a textbook router comparable with BookSim, and
//! `angara`, the EC8430. `docs/explain/model.md` states every rule both follow.
//!
//! Nothing depends on the order in which simultaneous events were put in: everything that happens at
//! one instant first updates state (arrivals, credits, timers), then every router that has something
//! to decide decides, in order of node number. Random choices are functions of (seed, packet).
//!
//! ```
//! use angara_model::{Setup, Generic, Network, Injection, Profile};
//! let config = Setup { shape: "torus:4x4".parse()?, profile: Profile::Generic(Generic::default()), seed: 1,
//!     faults: Vec::new(), sets: Vec::new() };
//! let mut net = Network::new(&config)?;
//! net.inject(Injection { src: 0, dst: 5, flits: 1, at: 0, tag: 7, ..Injection::default() });
//! net.run_until_idle();
//! let d = net.poll_delivery().expect("an empty network delivers");
//! // Two hops pass three routers of four cycles each; entering and leaving takes two more.
//! assert_eq!((d.tag, d.routers, d.tail / net.cycle()), (7, 3, 14));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod angara;
mod engine;
mod generic;
mod member;
mod network;
mod parallel;
pub mod peers;
mod pool;
mod profile;
mod routers;
pub mod setup;
pub mod topology;
mod wait_place;
mod waits;
mod wormhole;

pub use angara_fabric::raw::{
    Delivery, Inconsistent, Injection, LinkLoad, Lost, Stage, Totals, TraceEvent, TrafficClass,
};
pub use network::{Listener, Network};
pub use parallel::PartsError;
pub use peers::Peers;
pub use setup::{Angara, Generic, Profile, Rate, Setup, SetupError, Switching};
pub use topology::{AnyTopology, Topology};
pub use waits::Waits;

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
