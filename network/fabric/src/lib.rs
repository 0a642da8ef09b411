//! The Angara network as a pure state machine.
//!
//! A [`Fabric`] holds the adapters, routers and links of some or all nodes of a torus or mesh. It
//! opens no socket, starts no thread and reads no clock: a driver posts operations
//! ([`Fabric::inject`]), lets time pass ([`Fabric::advance`] or [`Fabric::run_free`]), applies what
//! the network does to memory ([`Fabric::poll_effect`]) and hears what became of its operations
//! ([`Fabric::poll_completion`]). The live daemon, virtual-time runs and simulations drive the same
//! code. Same configuration and same calls give the same results on every machine.
//!
//! A driver's loop:
//!
//! ```
//! use angara_abi::account::Class;
//! use angara_abi::desc::{Place, Region};
//! use angara_abi::packet::Vc;
//! use angara_fabric::{Config, Effect, Fabric, JobSlot, Op, OpState, Port, Source};
//!
//! let mut fabric = Fabric::new(Config::new("2x2x2".parse().unwrap())).unwrap();
//! let (a, b) = (Port { node: 0, endpoint: 0 }, Port { node: 7, endpoint: 0 });
//! let job = JobSlot::new(0);
//! fabric.open_job(job, &[a, b]).unwrap();
//! let place = Place { region: Region::Heap, offset: 64 };
//! let op = Op::Write { to: b, place, source: Source::Inline(b"hello"), vc: Vc::Request, adaptive: false };
//! fabric.inject(a, job, Class::Put, op, 0, 1).unwrap();
//! fabric.run_free();
//! let Some(Effect::Write { at, data, time, .. }) = fabric.poll_effect() else { panic!("no write") };
//! assert_eq!((at, fabric.payload(data)), (b, &b"hello"[..]));
//! assert!(time >= 300_000 + 3 * 129_000 + 300_000);
//! assert_eq!(fabric.poll_completion().unwrap().state, OpState::Injected);
//! ```
//!
//! Folders, from the ground up: [`routes`] (which way), `packet` (in memory and as flits), `chip` (routers, links, who may
//! go), `faults`, `adapter` (operations and packets), `barrier`, [`collective`], `split` (several fabrics that model
//! one network), `fabric` (all of them together). [`raw`] is the chip without adapters, for simulations.
//! `docs/explain/model.md` and `docs/explain/fabric.md` state the rules.
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod adapter;
mod barrier;
pub mod bits;
mod chip;
pub mod collective;
mod config;
mod fabric;
mod faults;
mod op;
mod packet;
pub mod raw;
pub mod rng;
pub mod routes;
mod split;
#[cfg(test)]
mod tests;
mod types;

pub use adapter::OrderCheck;
pub use barrier::{BarrierCheck, BarrierFamily, BarrierWork};
pub use chip::layout::CHANNELS_MAX as PORTS_MAX;
pub use chip::{ChannelUse, Filter, Heard, LISTENERS_MAX, NodeCounters, SLOTS_MAX};
pub use collective::{TreeError, TreeRow, TreeRows};
pub use config::{Config, ConfigError, FlitTime, NodePath, Params, Quiet};
pub use fabric::Fabric;
pub use faults::FaultError;
pub use op::{Answer, Ends, Meeting, Op, Source};
pub use packet::{Frame, FrameError, Meta};
pub use routes::{BALANCED_NODES, Links, Route, Routes, TABLE_NODES, Ways};
pub use split::{Ledger, LedgerError};
pub use types::*;

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
