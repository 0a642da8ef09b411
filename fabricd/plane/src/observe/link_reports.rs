//! Links as jobs have used them, for reports.

use crate::jobs::job::{Folded, Jobs, Loads};
use crate::jobs::memory::PeMemory;
use crate::jobs::traffic::LinkAccounts;
use angara_abi::account::{Class, Load};
use angara_fabric::{BarrierCheck, Fabric, JobSlot, Link};
use angara_protocol::msg::LinkReport;
use std::ops::Range;
use std::sync::Arc;

/// All links of the network.
pub(crate) fn links(fabric: &Fabric) -> impl Iterator<Item = Link> + use<> {
    Link::all(fabric.shape())
}

/// Parts of a data plane that know what is on links: counters of the network, and those of PEs.
pub(crate) struct LinkReports<'p> {
    pub(crate) fabric: &'p Fabric,
    pub(crate) jobs: &'p Jobs,
    pub(crate) accounts: &'p LinkAccounts,
}

impl LinkReports<'_> {
    /// Returns what was folded when routes changed: where a report begins.
    pub(crate) fn folded(&self, slot: JobSlot) -> Folded {
        self.jobs.get(slot).map(|job| job.account.folded.clone()).unwrap_or_default()
    }

    /// Adds what one PE has counted since then.
    pub(crate) fn fold_pe(&self, slot: JobSlot, pe: usize, mut folded: Folded) -> Folded {
        if let Some(job) = self.jobs.get(slot)
            && let Some(Some(pe)) = job.pes.get(pe)
        {
            job.fold_pe(pe, self.accounts.routes(), &mut folded);
        }
        folded
    }

    /// Routes have not changed since [`LinkReports::folded`].
    fn is_current(&self, slot: JobSlot, folded: &Folded) -> bool {
        self.jobs.get(slot).is_none_or(|job| job.account.folded.changes == folded.changes)
    }

    /// Counters of those of these PEs that have ever attached.
    pub(crate) fn pe_memory(&self, slot: JobSlot, pes: Range<usize>) -> Vec<Arc<PeMemory>> {
        let all = self.jobs.get(slot).and_then(|job| job.pes.get(pes));
        all.into_iter().flatten().flatten().cloned().collect()
    }

    /// Links, barriers and remarks of a job with N PEs, all of which have been folded.
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
        let links = links(self.fabric).filter_map(|link| {
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
    pub(crate) fn counters(&self) -> Vec<LinkReport> {
        let links = links(self.fabric).filter_map(|link| {
            let loads = self.fabric.link_counters(link).tx;
            self.link_report(link, loads)
        });
        links.collect()
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
            to: self.fabric.shape().neighbour(link.node, link.dir)?,
            load: Class::ALL.into_iter().zip(loads).filter(|(_, l)| *l != Load::default()).collect(),
            crc_errors: counters.crc_errors,
            replays: counters.replays,
            duplicates: counters.duplicates,
            reordered: counters.reordered,
            up,
        })
    }
}
