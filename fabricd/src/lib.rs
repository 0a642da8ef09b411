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
//! Everything a client writes is hostile until checked: see `docs/architecture.md`.
#![forbid(unsafe_code)]

mod adapter_socket;
mod agent;
mod agree;
pub mod cluster;
mod commands;
pub mod config;
mod control;
mod create;
mod daemon;
mod dataplane;
pub mod fault;
mod impair;
mod job;
mod limits;
mod linkstate;
mod memory;
mod merge;
mod peers;
mod placement;
mod relay;
mod rotate;
pub mod runtime_dir;
mod seldom;
mod seqpacket;
mod service;
mod span;
mod streams;
mod strict;
mod user;

pub use config::{Options, Ready};
pub use daemon::{RunError, Started, run, run_with};
