//! One simulation: a network, traffic on it, and what was measured.
//!
//! [`experiment`] is what there is to run; [`driver`] offers open-loop traffic to it and lets it
//! run until it has settled, measures until the mean latency is known well enough, and says so
//! early when the network is saturated; [`outcome`] is what comes out, and [`report`] what any
//! workload hands to its user.

mod balance;
pub mod driver;
pub mod experiment;
pub mod knee;
pub mod latencies;
pub mod notes;
pub mod outcome;
mod record;
pub mod report;
pub mod router;
pub mod stats;
mod together;
pub(crate) mod verdict;

pub use balance::Fairness;
pub use experiment::Experiment;
pub use outcome::Outcome;
pub use together::Together;

use std::ops::ControlFlow;

/// How far a run has come, for a progress bar.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Present phase of the run.
    pub doing: &'static str,
    /// Steps done.
    pub done: u64,
    /// Steps in all if the present estimate holds.
    pub of: u64,
}

/// Told how far a run has come; breaks when the user wants it to end.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;
