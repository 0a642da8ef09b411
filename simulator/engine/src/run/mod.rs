//! One simulation: a network, traffic on it, and what was measured.
//!
//! [`keys`] are the user's settings, the same names in a TOML file and on the command line;
//! [`experiment`] turns them into a network of `model` and a workload; [`driver`] lets it
//! run until it has settled, measures until the mean latency is known well enough, and says so
//! early when the network is saturated; [`outcome`] is what comes out.

mod balance;
pub mod driver;
pub mod experiment;
pub mod keys;
pub mod knee;
pub mod latencies;
pub mod outcome;
pub mod presets;
mod record;
pub mod stats;
mod together;
pub(crate) mod verdict;

pub use balance::Fairness;
pub use experiment::Experiment;
pub use keys::Keys;
pub use outcome::Outcome;
pub use together::Together;

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
