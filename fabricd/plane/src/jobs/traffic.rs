//! Traffic of a job: what each pair of PEs exchanged, and what that put on each link.
//!
//! On the direct path nothing crosses the emulated links, so what the PEs counted is folded
//! through the route tables: packets out along the route to the target, answers back along the
//! other one. On the ring path the links count packets themselves. When routes change, everything
//! counted so far is first folded with the routes it was counted under; a report folds the rest, into a
//! sum of its own.

use super::job::{Folded, Jobs, OpenJob};
use super::memory::PeMemory;
use angara_abi::account::{Class, Load, Traffic};
use angara_fabric::{Link, Routes};
use std::collections::BTreeMap;

impl OpenJob {
    /// What a PE has counted since routes changed, for those it reaches without the network.
    fn fresh(&self, pe: &PeMemory, mut each: impl FnMut(usize, Class, Traffic, Traffic)) {
        for (target, class, now) in pe.counted().into_iter().filter(|(target, _, _)| self.memory.direct(*target)) {
            let before = self.account.counted.get(&(pe.pe, target, class)).copied().unwrap_or_default();
            each(target, class, now, since(now, before));
        }
    }

    /// Adds what a PE has counted since routes changed.
    pub(crate) fn fold_pe(&self, pe: &PeMemory, routes: &Routes, folded: &mut Folded) {
        let node = |pe: usize| self.memory.entries[pe].node;
        self.fresh(pe, |target, class, _, new| folded.carry_both(routes, node(pe.pe), node(target), class, new));
    }

    /// Another process will count from zero in place of this PE: what it has counted is folded, and its memory let go.
    pub(crate) fn retire(&mut self, pe: usize, routes: &Routes) {
        let Some(memory) = self.pes[pe].take() else { return };
        let mut folded = std::mem::take(&mut self.account.folded);
        self.fold_pe(&memory, routes, &mut folded);
        folded.changes += 1;
        self.account.folded = folded;
        self.account.counted.retain(|(from, _, _), _| *from != pe);
    }

    /// Folds everything, because routes are about to be others.
    fn fold(&mut self, routes: &Routes) {
        let mut folded = std::mem::take(&mut self.account.folded);
        let mut counted = Vec::new();
        for pe in self.pes.iter().flatten() {
            let node = |pe: usize| self.memory.entries[pe].node;
            self.fresh(pe, |target, class, now, new| {
                folded.carry_both(routes, node(pe.pe), node(target), class, new);
                counted.push(((pe.pe, target, class), now));
            });
        }
        folded.changes += 1;
        self.account.counted.extend(counted);
        self.account.folded = folded;
    }
}

/// Returns what was counted between two readings. A client may have written nonsense: never below zero.
fn since(now: Traffic, before: Traffic) -> Traffic {
    let load = |a: Load, b: Load| Load {
        packets: a.packets.saturating_sub(b.packets),
        flits: a.flits.saturating_sub(b.flits),
        bytes: a.bytes.saturating_sub(b.bytes),
    };
    Traffic {
        ops: now.ops.saturating_sub(before.ops),
        out: load(now.out, before.out),
        back: load(now.back, before.back),
    }
}

/// What traffic that needs no network has put on links.
pub(crate) struct LinkAccounts {
    /// The route tables as they were when traffic was last counted into links.
    routes: Routes,
    /// What closed jobs have put on links, if somebody may look at counters: they never go back.
    past: Option<BTreeMap<Link, Load>>,
}

impl LinkAccounts {
    pub(crate) fn new(routes: Routes, watched: bool) -> LinkAccounts {
        LinkAccounts { routes, past: watched.then(BTreeMap::new) }
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Routes have changed: what has been counted so far went by the old ones.
    pub(crate) fn routes_changed(&mut self, jobs: &mut Jobs, routes: &Routes) {
        for job in jobs.values_mut() {
            job.fold(&self.routes);
        }
        self.routes = routes.clone();
    }

    /// A job is over. What it has put on links without the network stays in the sums, if somebody looks at them.
    pub(crate) fn remember(&mut self, job: &OpenJob) {
        let Some(past) = &mut self.past else { return };
        let mut folded = job.account.folded.clone();
        for pe in job.pes.iter().flatten() {
            job.fold_pe(pe, &self.routes, &mut folded);
        }
        for (link, load) in folded.sums() {
            past.entry(link).or_default().add(load);
        }
    }

    /// What closed jobs have put on a link.
    pub(crate) fn past(&self, link: Link) -> Option<Load> {
        self.past.as_ref()?.get(&link).copied()
    }
}
