//! What a workload must be able to do, and what it may ask of a run.

use crate::Error;
use crate::run::report::Report;
use crate::run::{Experiment, Watch};
use angara_model::AnyTopology;
use std::fmt;
use std::sync::Arc;

/// A workload with its arguments.
pub trait Workload: fmt::Debug + Send + Sync {
    /// The traffic settings it reads, among those of [`TRAFFIC_KEYS`]; giving another one is an error.
    fn keys(&self) -> &'static [&'static str];

    /// Its longest packet in flits, if `length` does not say that: the buffers of a generic network
    /// must hold it.
    fn packet_flits_max(&self) -> Option<u16> {
        None
    }

    /// Refuses a router whose packets have at most `flits_max` flits; called before [`Workload::check`].
    /// Without an answer of its own the length is refused as a setting.
    ///
    /// # Errors
    /// Says which packet is too long.
    fn check_length(&self, _flits_max: u16) -> Result<(), Error> {
        Ok(())
    }

    /// Returns what can be drawn of it.
    fn shows(&self) -> Shows {
        Shows::default()
    }

    /// The machine that it brings, where none is given.
    fn defaults(&self) -> Option<Brought> {
        None
    }

    /// Refuses a machine it cannot run on; called before [`Workload::run`].
    ///
    /// # Errors
    /// Says what does not fit and what would.
    fn check(&self, _experiment: &Experiment) -> Result<(), Error> {
        Ok(())
    }

    /// True if several processes can simulate it together.
    fn spans_processes(&self) -> bool {
        false
    }
    /// Runs to its end.
    ///
    /// # Errors
    /// A network that cannot be built, or [`Error::Interrupted`] if `watch` broke and there is nothing
    /// worth reporting.
    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error>;
}

/// Pictures that can be drawn of a workload.
#[derive(Clone, Copy, Default, Debug)]
pub struct Shows {
    /// The distribution of latencies.
    pub histogram: bool,
    /// The load of every link.
    pub links: bool,
    /// Its packets; one network alone has sent them.
    pub packets: bool,
}

/// Settings that describe traffic rather than the machine.
pub const TRAFFIC_KEYS: [&str; 11] = [
    "length",
    "load",
    "pattern",
    "rates",
    "process",
    "probe",
    "warmup",
    "cycles",
    "precision",
    "cycles-max",
    "find-saturation",
];

/// A kind of workload.
pub struct WorkloadKind {
    /// Name, written before the colon.
    pub name: &'static str,
    /// How it is written, with its arguments.
    pub form: &'static str,
    /// Description, one line.
    pub about: &'static str,
    /// Reads the arguments, the text behind the colon; empty without one.
    pub parse: fn(&str) -> Result<Arc<dyn Workload>, Error>,
}

/// The machine of a workload that was recorded on one.
#[derive(Clone, Debug)]
pub struct Brought {
    /// How its routers are wired.
    pub topology: Option<AnyTopology>,
    /// Changes of its values.
    pub set: Option<Vec<String>>,
    /// Decides everything random.
    pub seed: u64,
}

/// Exactly `N` whole numbers separated by commas, the arguments of many a workload.
///
/// # Errors
/// Another number of them, or something else between the commas.
pub fn numbers<const N: usize>(arguments: &str) -> Result<[u64; N], Error> {
    let parts: Result<Vec<u64>, _> = arguments.split(',').map(|n| n.trim().parse()).collect();
    let parts = parts.ok().and_then(|p| <[u64; N]>::try_from(p).ok());
    parts.ok_or_else(|| {
        Error::invalid("workload", arguments, format!("give {N} whole number{}", if N == 1 { "" } else { "s" }))
    })
}
