//! A simulated batch queue: jobs of a log or a model, a scheduler, and a search for node sets.
//!
//! [`simulate`] is a discrete-event simulation in whole seconds. At every instant jobs end first, then
//! new ones are submitted, then the [`Scheduler`](schedule::Scheduler) starts what may start. A job
//! that could not start on the empty machine is rejected when it is submitted.

pub mod engine;
pub mod lublin;
pub mod metrics;
pub mod picture;
mod random;
pub mod schedule;
pub mod swf;

pub use engine::{Outcome, Ran, simulate};

/// One job of a queue. Times are seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the log.
    pub number: u64,
    /// When it is submitted, after the beginning of the log.
    pub submit: u64,
    /// Nodes for processes.
    pub nodes: usize,
    /// How long it runs, at least 1.
    pub run: u64,
    /// How long its user says that it runs, at least `run`: schedulers know nothing else.
    pub estimate: u64,
}
