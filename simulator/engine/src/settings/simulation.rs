//! A run that is ready to begin.

use crate::Error;
use crate::run::report::Report;
use crate::run::{Experiment, Together, Watch, notes};
use crate::workload::Chosen;

/// A workload, and the run that it is lent.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The network and its traffic.
    pub experiment: Experiment,
    /// Program of the nodes.
    pub workload: Chosen,
}

impl Simulation {
    /// Has the processes of `together` simulate it, each its part.
    ///
    /// # Errors
    /// It is something that several processes cannot simulate.
    pub fn among(&mut self, together: Together) -> Result<(), Error> {
        if !self.workload.workload.spans_processes() {
            let why = "several processes simulate open-loop traffic only; leave it out, or start one process";
            return Err(Error::invalid("workload", &self.workload, why));
        }
        self.experiment.among(together)
    }

    /// Runs to its end.
    ///
    /// # Errors
    /// A network that cannot be built, or [`Error::Interrupted`] if `watch` broke and there is nothing
    /// worth reporting.
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut report = self.workload.workload.run(&self.experiment, watch)?;
        let notes = notes::of(&self.experiment);
        notes.iter().for_each(|note| report.line("note", note));
        report.set("notes", notes);
        Ok(report)
    }
}
