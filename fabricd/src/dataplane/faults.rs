//! Faults in force and faults still to come.

use super::engine::Engine;
use super::notice::Notice;
use crate::faults::fault::{ClearSpec, Failing, FaultSpec, Site, impairments};
use angara_cluster::HostId;
use angara_fabric::{Blame, Fault, FaultKind, Ledger, Link};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Rounds the network gets to come to rest before routes change.
const SETTLE_ROUNDS: usize = 1024;

/// The faults of this daemon.
#[derive(Default)]
pub(super) struct FaultBook {
    in_force: Vec<FaultSpec>,
    /// Links the network itself took out of service.
    given_up: Vec<Link>,
    /// `None`: counted from the moment the first job is complete.
    waiting: Vec<(Option<Instant>, FaultSpec)>,
    running: bool,
}

impl FaultBook {
    /// All PEs of a job are there. Delays of faults set before any job ran count from now: a run
    /// with `@2ms` fails two milliseconds into the program, however long the start took.
    pub(super) fn job_complete(&mut self) {
        if std::mem::replace(&mut self.running, true) {
            return;
        }
        let now = Instant::now();
        for (due, fault) in &mut self.waiting {
            due.get_or_insert(now + fault.after.unwrap_or_default());
        }
    }

    /// A job has gone; `others`: another complete one still runs.
    pub(super) fn job_closed(&mut self, others: bool) {
        self.running = others;
    }

    /// When the next fault takes effect.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|(due, _)| *due).min()
    }
}

impl Engine {
    /// Puts a fault in force, now or when its time comes.
    pub(crate) fn set_fault(&mut self, fault: FaultSpec) -> Result<(), String> {
        match fault.after {
            None => self.apply_fault(fault),
            Some(after) if self.virtual_time.is_some() => {
                self.plan_fault(after, fault);
                Ok(())
            }
            Some(after) => {
                let due = self.faults.running.then(|| Instant::now() + after);
                tracing::info!(%fault, "fault set for later");
                self.faults.waiting.push((due, fault));
                Ok(())
            }
        }
    }

    /// Has packets suffer what these faults say, and only that.
    fn impair_links(&mut self, faults: &[FaultSpec]) -> Result<(), String> {
        let before = impairments(&self.faults.in_force, self.shape);
        let mut links = impairments(faults, self.shape);
        before.into_keys().for_each(|link| _ = links.entry(link).or_default());
        self.fabric.set_impairments(&links).map_err(|e| e.to_string())
    }

    /// Takes back faults whose time has not come; whether there were any.
    pub(crate) fn forget_coming(&mut self, what: ClearSpec) -> bool {
        let planned = self.virtual_time.as_mut().is_some_and(|run| run.forget_faults(what));
        let before = self.faults.waiting.len();
        self.faults.waiting.retain(|(_, f)| !what.concerns(f));
        planned || self.faults.waiting.len() < before
    }

    pub(super) fn apply_fault(&mut self, fault: FaultSpec) -> Result<(), String> {
        // A tree moves to other links only between two packets. In virtual time the fault comes when it comes.
        for _ in 0..SETTLE_ROUNDS {
            if self.virtual_time.is_some() || !self.run_network(&mut self.turn()) {
                break;
            }
        }
        let mut in_force = self.faults.in_force.clone();
        in_force.retain(|f| !(f.site == fault.site && f.failing.same_kind(fault.failing)));
        if !fault.failing.is_none() {
            in_force.push(FaultSpec { after: None, ..fault.clone() });
        }
        if fault.failing == Failing::Down {
            let kind = outage(fault.site).ok_or("every link down is no network")?;
            self.fabric.set_fault(Fault { kind, at: None }).map_err(|e| e.to_string())?;
        } else {
            self.impair_links(&in_force)?;
        }
        tracing::info!(%fault, "fault in force");
        self.faults.in_force = in_force;
        self.routes_changed();
        Ok(())
    }

    /// Puts faults in force whose time has come; whether there were any.
    pub(super) fn faults_due(&mut self) -> bool {
        if self.faults.waiting.is_empty() {
            return false;
        }
        let now = Instant::now();
        let (due, later) =
            std::mem::take(&mut self.faults.waiting).into_iter().partition(|(due, _)| due.is_some_and(|d| d <= now));
        self.faults.waiting = later;
        let due: Vec<(Option<Instant>, FaultSpec)> = due;
        for (_, fault) in &due {
            if self.trunks.is_some() {
                // All hosts must agree on it.
                self.notice(Notice::Due(FaultSpec { after: None, ..fault.clone() }.to_string()));
            } else if let Err(why) = self.apply_fault(fault.clone()) {
                tracing::warn!(%fault, why, "fault refused");
            }
        }
        !due.is_empty()
    }

    /// Takes faults out of force and forgets those still to come.
    pub(crate) fn clear_fault(&mut self, what: ClearSpec) -> Result<(), String> {
        let (cleared, kept): (Vec<_>, Vec<_>) = self.faults.in_force.iter().cloned().partition(|f| what.concerns(f));
        self.impair_links(&kept)?;
        self.faults.in_force = kept;
        let mut any = self.forget_coming(what) || !cleared.is_empty();
        for fault in &cleared {
            if let Some(kind) = outage(fault.site).filter(|_| fault.failing == Failing::Down) {
                self.fabric.clear_fault(kind);
            }
            tracing::info!(%fault, "fault cleared");
        }
        let meant = |link: &Link| what.site().is_none_or(|site| site == Site::Link(link.node, link.dir));
        let (again, down): (Vec<_>, Vec<_>) = std::mem::take(&mut self.faults.given_up).into_iter().partition(meant);
        self.faults.given_up = down;
        for link in again {
            any = true;
            self.fabric.clear_fault(FaultKind::LinkDown(link));
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
    pub(super) fn link_failed(&mut self, link: Link, change: u64) {
        let text = link.show(&self.shape);
        tracing::warn!(link = text, "link taken out of service after repeated CRC errors");
        if self.trunks.is_some() {
            // All hosts take it out of service together.
            return self.notice(Notice::GaveUp(text, change));
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

    /// In a cluster: goes on with exactly these faults in force, without what is `dead` besides, over the trunks that are
    /// `live` (host and number of the session). `ledger` is that of all hosts.
    pub(crate) fn recover(
        &mut self,
        number: u64,
        dead: Vec<Blame>,
        faults: Vec<FaultSpec>,
        ledger: &[u8],
        live: BTreeMap<HostId, u32>,
    ) -> Result<(), String> {
        let ledger = Ledger::from_bytes(ledger).map_err(|e| e.to_string())?;
        self.impair_links(&faults)?;
        let down = faults.iter().filter(|f| f.failing == Failing::Down).filter_map(|f| match f.site {
            Site::Link(node, dir) => Some(Blame::Link(Link { node, dir })),
            Site::Node(node) => Some(Blame::Node(node)),
            Site::EveryLink => None,
        });
        let dead: Vec<Blame> = dead.into_iter().chain(down).collect();
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
        let now = Instant::now();
        let coming = self.faults.waiting.iter().map(|(due, f)| match due {
            Some(due) => format!("{f} (in {:?})", due.saturating_duration_since(now)),
            None => format!("{f} (after the next job has started)"),
        });
        let failed = self.faults.given_up.iter().map(|l| format!("link {} down (gave up)", l.show(&self.shape)));
        let trunks = self.trunks.as_ref().map_or(Vec::new(), |t| t.impaired());
        self.faults.in_force.iter().map(FaultSpec::to_string).chain(failed).chain(coming).chain(trunks).collect()
    }
}

/// A site that carries nothing.
fn outage(site: Site) -> Option<FaultKind> {
    match site {
        Site::Link(node, dir) => Some(FaultKind::LinkDown(Link { node, dir })),
        Site::Node(node) => Some(FaultKind::NodeDown(node)),
        Site::EveryLink => None,
    }
}
