//! Faults in force and faults still to come.

use crate::config::Clock;
use angara_net::Link;
use angara_net::fault::{Book, Clear, Fault};
use angara_net::torus::Shape;
use std::time::{Duration, Instant};

/// The faults of a data plane.
#[derive(Default)]
pub(crate) struct FaultBook {
    pub(super) in_force: Book,
    /// Links the network itself took out of service.
    pub(super) given_up: Vec<Link>,
    /// `None`: counted from the moment the first job is complete.
    waiting: Vec<(Option<Instant>, Fault)>,
    running: bool,
}

/// How long after it is set a fault takes effect.
fn delay(fault: &Fault) -> Duration {
    Duration::from_nanos(fault.at.unwrap_or(0) / 1000)
}

impl FaultBook {
    /// All PEs of a job are there. Delays of faults set before any job ran count from now: a run
    /// with `@2ms` fails two milliseconds into the program, however long the start took.
    pub(crate) fn job_complete(&mut self, now: Instant) {
        if std::mem::replace(&mut self.running, true) {
            return;
        }
        for (due, fault) in &mut self.waiting {
            due.get_or_insert(now + delay(fault));
        }
    }

    /// A job has gone; `others`: another complete one still runs.
    pub(crate) fn job_closed(&mut self, others: bool) {
        self.running = others;
    }

    /// When the next fault takes effect.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|(due, _)| *due).min()
    }

    /// Keeps a fault until its time comes.
    pub(crate) fn plan(&mut self, fault: Fault, clock: Clock) {
        let due = self.running.then(|| clock() + delay(&fault));
        self.waiting.push((due, fault));
    }

    /// Takes back faults whose time has not come. Returns whether there were any.
    pub(super) fn forget_coming(&mut self, what: Clear) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(_, f)| !what.concerns(f));
        self.waiting.len() < before
    }

    /// Takes the faults whose time has come.
    #[inline]
    pub(crate) fn take_due(&mut self, clock: Clock) -> Vec<Fault> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let now = clock();
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(due, _)| due.is_some_and(|d| d <= now));
        self.waiting = later;
        due.into_iter().map(|(_, fault)| fault).collect()
    }

    /// Every fault as text.
    pub(crate) fn show(&self, now: Instant, shape: &Shape) -> Vec<String> {
        let coming = self.waiting.iter().map(|(due, fault)| match due {
            Some(due) => format!("{} (in {:?})", fault.show(shape), due.saturating_duration_since(now)),
            None => format!("{} (after the next job has started)", fault.show(shape)),
        });
        let failed = self.given_up.iter().map(|l| format!("{} (gave up)", Fault::link_down(*l).show(shape)));
        let in_force = self.in_force.faults().iter().map(|fault| fault.show(shape));
        in_force.chain(failed).chain(coming).collect()
    }
}
