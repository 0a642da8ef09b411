//! How PEs reach each other, as their target tables say.

use super::job::{Jobs, OpenJob};
use super::memory::PeMemory;
use super::traffic::LinkAccounts;
use crate::registers::RegisterPages;
use angara_abi::job::Reach;
use angara_abi::shm::Source;
use angara_fabric::Fabric;
use std::sync::Arc;

/// Ways between PEs of a job. One that comes or goes changes its own: a large job has many others.
#[derive(Clone, Copy)]
pub(crate) enum Ways {
    All,
    From(usize),
    To(usize),
}

impl OpenJob {
    /// Its PEs are in this process, and share a table.
    pub(crate) fn shares_reach(&self) -> bool {
        matches!(self.memory.source(), Source::Arena(_))
    }

    /// Writes how its PEs reach each other.
    pub(crate) fn show_reach(&self, fabric: &Fabric, ways: Ways) {
        let (from, to) = match ways {
            Ways::All => (0..self.pes.len(), 0..self.memory.pes),
            Ways::From(pe) => (pe..pe + 1, 0..self.memory.pes),
            Ways::To(pe) => (0..self.pes.len(), pe..pe + 1),
        };
        // Where all share one table, a PE of a node that works speaks for all.
        let up = |pe: &&Arc<PeMemory>| fabric.routes().node_up(self.memory.entries[pe.pe].node);
        let speaker = self.pes.iter().flatten().find(up).filter(|_| self.shares_reach());
        let speakers: Vec<&Arc<PeMemory>> = match speaker {
            Some(pe) => vec![pe],
            None => self.pes[from].iter().flatten().collect(),
        };
        for pe in speakers {
            let here = self.memory.entries[pe.pe].node;
            for target in to.clone() {
                let there = self.memory.entries[target].node;
                let both_ways = fabric.reachable(here, there) && fabric.reachable(there, here);
                let usual = if self.memory.direct(target) { Reach::Direct } else { Reach::Ring };
                let reach = if self.lost[target] || !both_ways { Reach::Unreachable } else { usual };
                if pe.targets.get(target) != reach {
                    pe.targets.set(target, reach);
                }
            }
        }
    }
}

/// Parts of a data plane that depend on routes.
pub(crate) struct Routing<'p> {
    pub(crate) fabric: &'p mut Fabric,
    pub(crate) jobs: &'p mut Jobs,
    pub(crate) accounts: &'p mut LinkAccounts,
    pub(crate) registers: &'p mut RegisterPages,
}

impl Routing<'_> {
    /// Routes have changed: counts old traffic under the old ones, then shows who is reachable.
    pub(crate) fn changed(&mut self) {
        self.accounts.routes_changed(self.jobs, self.fabric.routes());
        self.registers.are_stale();
        for job in self.jobs.values() {
            job.show_reach(self.fabric, Ways::All);
            for pe in 0..job.memory.pes {
                job.memory.sync.alert(pe);
            }
        }
    }
}
