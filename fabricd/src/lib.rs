//! `fabricd`, the daemon that plays the Angara chip.
//!
//! One process hosts any set of nodes of a torus or mesh. It owns all memory that programs share
//! with their adapters (heaps, rings, descriptor queues, register pages), runs the emulated
//! network between the nodes, and answers the control requests of the `angara` command.
//!
//! Two halves. The *control plane* ([`run`]) is a single-threaded tokio loop: it listens on two
//! unix sockets in the runtime directory, creates jobs, hands memory to their processes and cleans
//! up behind them. The *data plane* is one plain thread: it takes posts from the injection
//! channels, moves packets through the `fabric` crate's state machines and applies their effects to
//! memory. They talk through one command queue; memory is the only other thing they share.
//!
//! Rooms: `jobs` (from request to report), `hosts` (what daemons of a cluster say and agree on), `sockets` and `users` (who
//! asks, and how much), `faults`, [`watch`] with `metrics` and `web` (for whoever looks on); `simulation` runs all of it for whole clusters in one process. `daemon` is
//! what the control plane knows, `start` brings it up and down.
//!
//! Everything a client writes is hostile until checked: see `docs/explain/architecture.md`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod ask;
pub mod config;
mod daemon;
mod failure;
mod faults;
mod hosts;
mod jobs;
mod limits;
mod machine;
mod metrics;
mod runtime_dir;
mod service;
#[cfg(test)]
mod simulation;
mod sockets;
mod start;
pub mod users;
pub mod watch;
mod web;

pub use config::{Options, Ready};
pub use start::{RunError, Started, run, run_with};
