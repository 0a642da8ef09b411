//! Tests that cross crate borders: whole jobs of real processes on a real daemon.
//!
//! The tests themselves lie in `tests/process`, C programs they compile in `tests/c`. This library
//! holds what they share: [`Test`] (a scratch directory, a private environment and the proof that
//! nothing is left behind), [`Running`] (a process that cannot outlive its time limit),
//! [`daemon::Daemon`] (a `fabricd` with its control connection), [`angara_cluster::Cluster`] (several of them), [`terminal::Terminal`] (a terminal
//! with a user's shell on it) and [`client::Client`] (an adapter client that speaks `abi` without `libangara`, so that it can misbehave).
//!
//! Nothing here assumes a spare core or a fast machine: every wait has a generous limit, ends on an
//! event, and says on failure what it waited for and what the processes were doing.
#![forbid(unsafe_code)]

pub mod client;
pub mod cluster;
pub mod daemon;
pub mod freeze;
pub mod hostile;
pub mod mpi;
pub mod pmi;
pub mod process;
pub mod python;
pub mod random_calls;
pub mod rng;
pub mod terminal;
pub mod tools;
pub mod trunks;
pub mod users;
pub mod web;

pub use process::{Finished, Running, Test};
pub use rng::Rng;
