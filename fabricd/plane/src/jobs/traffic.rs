//! Traffic of a job: what each pair of PEs exchanged, and what that put on each link.
//!
//! On the direct path nothing crosses the emulated links, so what the PEs counted is folded
//! through the route tables: packets out along the route to the target, answers back along the
//! other one. On the ring path the links count packets themselves. When routes change, everything
//! counted so far is first folded with the routes it was counted under; a report folds the rest, into a
//! sum of its own.

use crate::jobs::job::{Folded, Loads, OpenJob};
use crate::jobs::memory::PeMemory;
use crate::plane::{DataPlane, Ways};
use angara_abi::account::{Class, Load, Traffic};
use angara_fabric::{BarrierCheck, JobSlot, Link, Routes};
use angara_protocol::msg::LinkReport;
use std::ops::Range;
use std::sync::Arc;

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

impl DataPlane {
    /// Returns what was folded when routes changed: where a report begins.
    pub(crate) fn folded(&self, slot: JobSlot) -> Folded {
        self.jobs.get(slot).map(|job| job.account.folded.clone()).unwrap_or_default()
    }

    /// Adds what one PE has counted since then.
    pub(crate) fn fold_pe(&self, slot: JobSlot, pe: usize, mut folded: Folded) -> Folded {
        if let Some(job) = self.jobs.get(slot)
            && let Some(Some(pe)) = job.pes.get(pe)
        {
            job.fold_pe(pe, &self.routes, &mut folded);
        }
        folded
    }

    /// Routes have not changed since [`DataPlane::folded`].
    fn is_current(&self, slot: JobSlot, folded: &Folded) -> bool {
        self.jobs.get(slot).is_none_or(|job| job.account.folded.changes == folded.changes)
    }

    /// Counters of those of these PEs that have ever attached.
    pub(crate) fn pe_memory(&self, slot: JobSlot, pes: Range<usize>) -> Vec<Arc<PeMemory>> {
        let all = self.jobs.get(slot).and_then(|job| job.pes.get(pes));
        all.into_iter().flatten().flatten().cloned().collect()
    }

    /// Links, barriers and remarks of a job with so many PEs, all of which have been folded.
    pub(crate) fn job_links(
        &self,
        slot: JobSlot,
        pes: usize,
        mut folded: Folded,
    ) -> (Vec<LinkReport>, BarrierCheck, Vec<String>) {
        // Routes that changed meanwhile would have some traffic counted twice or not at all.
        if !self.is_current(slot, &folded) {
            folded = (0..pes).fold(self.folded(slot), |folded, pe| self.fold_pe(slot, pe, folded));
        }
        self.links_of(slot, &folded)
    }

    /// Links and remarks of a job whose PEs' counters have been folded.
    fn links_of(&self, slot: JobSlot, folded: &Folded) -> (Vec<LinkReport>, BarrierCheck, Vec<String>) {
        if self.jobs.get(slot).is_none() {
            return Default::default();
        }
        let none = Loads::default();
        let links = self.links().filter_map(|link| {
            let mut loads = *folded.links.get(&link).unwrap_or(&none);
            let counted = self.fabric.job_link_counters(slot, link);
            loads.iter_mut().zip(counted).for_each(|(l, c)| l.add(c));
            self.link_report(link, loads)
        });
        let mut notes = Vec::new();
        let stranded = folded.stranded.iter().map(|l| l.packets).sum::<u64>();
        if stranded > 0 {
            notes.push(format!("{stranded} packets of pairs without a route are in no link's figures"));
        }
        let check = self.fabric.barrier_check(slot);
        if !check.held() {
            notes.push("the model's barriers did not keep their guarantee; see the counters".into());
        }
        let order = self.fabric.order_check(slot);
        if !order.held() {
            let (overtaken, unfinished) = (order.overtaken, order.unfinished);
            notes.push(format!(
                "the model's fences and flushes did not keep their guarantee: {overtaken} packets came too early, \
                 {unfinished} flushes ended too early"
            ));
        }
        (links.collect(), check, notes)
    }

    /// Links of the whole network that carried anything, failed, or are down.
    pub(crate) fn counters(&mut self) -> Vec<LinkReport> {
        let links = self.links().filter_map(|link| {
            let loads = self.fabric.link_counters(link).tx;
            self.link_report(link, loads)
        });
        links.collect()
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = Link> + use<> {
        Link::all(self.shape)
    }

    fn link_report(&self, link: Link, loads: Loads) -> Option<LinkReport> {
        let counters = self.fabric.link_counters(link);
        let up = self.fabric.routes().link_works(link);
        let idle = loads.iter().all(|l| *l == Load::default());
        let trouble = counters.crc_errors + counters.replays + counters.duplicates + counters.reordered;
        if idle && up && trouble == 0 {
            return None;
        }
        Some(LinkReport {
            node: link.node,
            dir: link.dir,
            to: self.shape.neighbour(link.node, link.dir)?,
            load: Class::ALL.into_iter().zip(loads).filter(|(_, l)| *l != Load::default()).collect(),
            crc_errors: counters.crc_errors,
            replays: counters.replays,
            duplicates: counters.duplicates,
            reordered: counters.reordered,
            up,
        })
    }

    /// Routes have changed: counts old traffic under the old ones, then shows who is reachable.
    pub(crate) fn routes_changed(&mut self) {
        for job in self.jobs.values_mut() {
            job.fold(&self.routes);
        }
        self.routes = self.fabric.routes().clone();
        self.stale = true;
        let slots: Vec<JobSlot> = self.jobs.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.show_reach(slot, Ways::All);
            if let Some(job) = self.jobs.get(slot) {
                for pe in 0..job.memory.pes {
                    job.memory.sync.alert(pe);
                }
            }
        }
    }
}
