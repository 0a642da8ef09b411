//! `fabricd`, the daemon that plays the Angara chip.
//!
//! One process hosts any set of nodes of a torus or mesh. It owns all memory that programs share
//! with their adapters (heaps, rings, descriptor queues, register pages), runs the emulated
//! network between the nodes, and answers the control requests of the `angara` command.
//!
//! This crate is its *control plane* ([`run`]): a single-threaded tokio loop that listens on two unix sockets in the runtime
//! directory, creates jobs, hands memory to their processes and cleans up behind them. The *data plane* is the crate
//! `angara-plane`, on a thread of its own. The two talk by commands and notices; memory is the only other thing they share.
//!
//! | folder | what is in it |
//! |---|---|
//! | `jobs` | the table of jobs, from request to report |
//! | `hosts` | the other hosts of a cluster: what they say and agree on |
//! | `users`, `sockets` | who asks, for how much, and over which connection |
//! | `faults` | fault commands, done here or on every host |
//! | [`watch`], `metrics`, `web` | samples for observers, and where they are served |
//! | `simulation` | all of it for whole clusters in one process (tests) |
//!
//! `daemon` has what the control plane knows, in tables with owners of their own; `ask` is how it asks the data plane; `start`
//! brings the whole up and down.
//!
//! Everything a client writes is hostile until checked: see `docs/explain/architecture.md`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod aside;
mod ask;
pub mod config;
mod daemon;
mod failure;
mod faults;
mod hosts;
mod jobs;
mod limits;
pub mod log;
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
pub use jobs::inside;
pub use start::{RunError, Started, run, run_around, run_with};
