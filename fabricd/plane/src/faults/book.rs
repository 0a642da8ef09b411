//! Faults in force and faults still to come.

use crate::command::Recovery;
use crate::notice::Notice;
use crate::plane::DataPlane;
use angara_fabric::{Ledger, Outage};
use angara_net::Link;
use angara_net::fault::{Book, Clear, Fault, Site};
use std::time::{Duration, Instant};

/// Rounds the network gets to come to rest before routes change.
const SETTLE_ROUNDS: usize = 1024;

/// The faults of a data plane.
#[derive(Default)]
pub(crate) struct FaultBook {
    in_force: Book,
    /// Links the network itself took out of service.
    given_up: Vec<Link>,
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
}

impl DataPlane {
    /// Puts a fault in force, now or when its time comes.
    pub(crate) fn set_fault(&mut self, fault: Fault) -> Result<(), String> {
        match fault.at {
            None => self.apply_fault(fault),
            Some(at) if self.virtual_time.is_some() => {
                self.plan_fault(at, fault);
                Ok(())
            }
            Some(_) => {
                let due = self.faults.running.then(|| (self.clock)() + delay(&fault));
                tracing::info!(fault = fault.show(&self.shape), "fault set for later");
                self.faults.waiting.push((due, fault));
                Ok(())
            }
        }
    }

    /// Has packets suffer what this book says, and only that.
    fn impair_links(&mut self, book: &Book) -> Result<(), String> {
        let before = self.faults.in_force.impairments(&self.shape);
        let mut links = book.impairments(&self.shape);
        before.into_keys().for_each(|link| _ = links.entry(link).or_default());
        self.fabric.set_impairments(&links).map_err(|e| e.to_string())
    }

    /// Takes back faults whose time has not come; whether there were any.
    pub(crate) fn forget_coming(&mut self, what: Clear) -> bool {
        let planned = self.virtual_time.as_mut().is_some_and(|run| run.forget_faults(what));
        let before = self.faults.waiting.len();
        self.faults.waiting.retain(|(_, f)| !what.concerns(f));
        planned || self.faults.waiting.len() < before
    }

    pub(crate) fn apply_fault(&mut self, fault: Fault) -> Result<(), String> {
        // A tree moves to other links only between two packets. In virtual time the fault comes when it comes.
        for _ in 0..SETTLE_ROUNDS {
            if self.virtual_time.is_some() || !self.run_network(&mut self.turn()) {
                break;
            }
        }
        let fault = fault.now();
        let mut in_force = self.faults.in_force.clone();
        in_force.set(fault);
        match fault.is_down() {
            true => self.fabric.set_fault(fault).map_err(|e| e.to_string())?,
            false => self.impair_links(&in_force)?,
        }
        tracing::info!(fault = fault.show(&self.shape), "fault in force");
        self.faults.in_force = in_force;
        self.routes_changed();
        Ok(())
    }

    /// Puts faults in force whose time has come; whether there were any.
    pub(crate) fn faults_due(&mut self) -> bool {
        if self.faults.waiting.is_empty() {
            return false;
        }
        let now = (self.clock)();
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.faults.waiting).into_iter().partition(|(due, _)| due.is_some_and(|d| d <= now));
        self.faults.waiting = later;
        for (_, fault) in &due {
            if self.trunks.is_some() {
                // All hosts must agree on it.
                self.notice(Notice::Due(fault.now()));
            } else if let Err(why) = self.apply_fault(*fault) {
                tracing::warn!(fault = fault.show(&self.shape), why, "fault refused");
            }
        }
        !due.is_empty()
    }

    /// Takes faults out of force and forgets those still to come.
    pub(crate) fn clear_fault(&mut self, what: Clear) -> Result<(), String> {
        let mut kept = self.faults.in_force.clone();
        let cleared = kept.clear(what);
        self.impair_links(&kept)?;
        self.faults.in_force = kept;
        let mut any = self.forget_coming(what) || !cleared.is_empty();
        for fault in &cleared {
            if fault.is_down() {
                self.fabric.clear_fault(*fault);
            }
            tracing::info!(fault = fault.show(&self.shape), "fault cleared");
        }
        let meant = |link: &Link| what.site().is_none_or(|site| site == Site::Link(*link));
        let (again, down): (Vec<_>, Vec<_>) = std::mem::take(&mut self.faults.given_up).into_iter().partition(meant);
        self.faults.given_up = down;
        for link in again {
            any = true;
            self.fabric.clear_fault(Fault::link_down(link));
        }
        match (any, what.site()) {
            (false, Some(site)) => Err(format!("no fault is set on {}", site.show(&self.shape))),
            _ => {
                self.routes_changed();
                Ok(())
            }
        }
    }

    /// The network gave a link up.
    pub(crate) fn link_failed(&mut self, link: Link, change: u64) {
        tracing::warn!(link = link.show(&self.shape), "link taken out of service after repeated CRC errors");
        if self.trunks.is_some() {
            // All hosts take it out of service together.
            return self.notice(Notice::GaveUp(link, change));
        }
        self.faults.given_up.push(link);
        self.routes_changed();
    }

    /// In a cluster: lets nothing move any more; what the other hosts must know to recover the network. What has been
    /// ejected counts, whether or not it is in memory yet: that is done in order, before or after the network recovers.
    pub(crate) fn hold(&mut self) -> Vec<u8> {
        self.fabric.hold();
        self.fabric.ledger().to_bytes()
    }

    /// In a cluster: goes on as all hosts have agreed.
    pub(crate) fn recover(&mut self, recovery: Recovery) -> Result<(), String> {
        let Recovery { number, dead, faults, ledger, live } = recovery;
        let ledger = Ledger::from_bytes(&ledger).map_err(|e| e.to_string())?;
        self.impair_links(&faults)?;
        let down = faults.down().filter_map(|site| match site {
            Site::Link(link) => Some(Outage::Link(link)),
            Site::Node(node) => Some(Outage::Node(node)),
            Site::EveryLink => None,
        });
        let dead: Vec<Outage> = dead.into_iter().chain(down).collect();
        self.fabric.recover(number, &dead, &ledger).map_err(|e| e.to_string())?;
        if let Some(trunks) = &mut self.trunks {
            trunks.recovered(&live);
        }
        self.faults.in_force = faults;
        self.routes_changed();
        Ok(())
    }

    /// Every fault as text.
    pub(crate) fn faults(&self) -> Vec<String> {
        let (now, shape) = ((self.clock)(), &self.shape);
        let coming = self.faults.waiting.iter().map(|(due, fault)| match due {
            Some(due) => format!("{} (in {:?})", fault.show(shape), due.saturating_duration_since(now)),
            None => format!("{} (after the next job has started)", fault.show(shape)),
        });
        let failed = self.faults.given_up.iter().map(|l| format!("{} (gave up)", Fault::link_down(*l).show(shape)));
        let trunks = self.trunks.as_ref().map_or(Vec::new(), |t| t.impaired());
        let in_force = self.faults.in_force.faults().iter().map(|fault| fault.show(shape));
        in_force.chain(failed).chain(coming).chain(trunks).collect()
    }
}
