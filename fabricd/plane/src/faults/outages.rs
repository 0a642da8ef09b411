//! Links and nodes that go out of service, and come back.

use super::book::FaultBook;
use crate::command::Recovery;
use crate::jobs::routing::Routing;
use crate::notice::{Notice, Reports};
use crate::trunks::Trunks;
use crate::virtual_time::standing::VirtualRun;
use angara_fabric::{Ledger, Outage};
use angara_net::Link;
use angara_net::fault::{Book, Clear, Fault, Site};

/// Parts of a data plane that faults concern.
pub(crate) struct Outages<'p> {
    pub(crate) book: &'p mut FaultBook,
    pub(crate) routing: Routing<'p>,
    pub(crate) trunks: Option<&'p mut Trunks>,
    pub(crate) time: Option<&'p mut VirtualRun>,
    pub(crate) reports: &'p mut Reports,
}

impl Outages<'_> {
    /// Puts a fault in force, now.
    pub(crate) fn put_in_force(&mut self, fault: Fault) -> Result<(), String> {
        let fault = fault.now();
        let mut in_force = self.book.in_force.clone();
        in_force.set(fault);
        match fault.is_down() {
            true => self.routing.fabric.set_fault(fault).map_err(|e| e.to_string())?,
            false => self.impair_links(&in_force)?,
        }
        tracing::info!(fault = fault.show(&self.routing.fabric.shape()), "fault in force");
        self.book.in_force = in_force;
        self.routing.changed();
        Ok(())
    }

    /// Has packets suffer what this book says, and only that.
    fn impair_links(&mut self, book: &Book) -> Result<(), String> {
        let shape = self.routing.fabric.shape();
        let before = self.book.in_force.impairments(&shape);
        let mut links = book.impairments(&shape);
        before.into_keys().for_each(|link| _ = links.entry(link).or_default());
        self.routing.fabric.set_impairments(&links).map_err(|e| e.to_string())
    }

    /// Takes back faults whose time has not come. Returns whether there were any.
    pub(crate) fn forget_coming(&mut self, what: Clear) -> bool {
        let planned = self.time.as_mut().is_some_and(|run| run.forget_faults(what));
        self.book.forget_coming(what) || planned
    }

    /// Takes faults out of force and forgets those still to come.
    pub(crate) fn clear_fault(&mut self, what: Clear) -> Result<(), String> {
        let mut kept = self.book.in_force.clone();
        let cleared = kept.clear(what);
        self.impair_links(&kept)?;
        self.book.in_force = kept;
        let mut any = self.forget_coming(what) || !cleared.is_empty();
        for fault in &cleared {
            if fault.is_down() {
                self.routing.fabric.clear_fault(*fault);
            }
            tracing::info!(fault = fault.show(&self.routing.fabric.shape()), "fault cleared");
        }
        let meant = |link: &Link| what.site().is_none_or(|site| site == Site::Link(*link));
        let (again, down): (Vec<_>, Vec<_>) = std::mem::take(&mut self.book.given_up).into_iter().partition(meant);
        self.book.given_up = down;
        for link in again {
            any = true;
            self.routing.fabric.clear_fault(Fault::link_down(link));
        }
        match (any, what.site()) {
            (false, Some(site)) => Err(format!("no fault is set on {}", site.show(&self.routing.fabric.shape()))),
            _ => {
                self.routing.changed();
                Ok(())
            }
        }
    }

    /// The network gave a link up.
    pub(crate) fn link_failed(&mut self, link: Link, change: u64) {
        tracing::warn!(
            link = link.show(&self.routing.fabric.shape()),
            "link taken out of service after repeated CRC errors"
        );
        if self.trunks.is_some() {
            // All hosts take it out of service together.
            return self.reports.say(Notice::GaveUp(link, change));
        }
        self.book.given_up.push(link);
        self.routing.changed();
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
        self.routing.fabric.recover(number, &dead, &ledger).map_err(|e| e.to_string())?;
        if let Some(trunks) = &mut self.trunks {
            trunks.recovered(&live);
        }
        self.book.in_force = faults;
        self.routing.changed();
        Ok(())
    }
}
