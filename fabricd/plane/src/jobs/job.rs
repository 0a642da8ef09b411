//! A job in the network, and what it has put on links.

use crate::jobs::memory::{JobMemory, PeMemory};
use angara_abi::account::{CLASSES, Class, Load, Traffic};
use angara_fabric::{JobSlot, Link, Routes};
use angara_net::torus::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Loads by class.
pub(crate) type Loads = [Load; CLASSES];

/// A job in the network.
pub(crate) struct OpenJob {
    pub(crate) memory: Arc<JobMemory>,
    /// Memory of every PE that has ever attached; counters outlive their PE.
    pub(crate) pes: Vec<Option<Arc<PeMemory>>>,
    /// PEs of this host that have ever attached, and that are to.
    pub(crate) attached: usize,
    pub(crate) expected: usize,
    /// Lane of each attached PE.
    pub(crate) lanes: Vec<Option<usize>>,
    /// PEs that went without a goodbye, and empty seats of an open job.
    pub(crate) lost: Vec<bool>,
    pub(crate) account: Account,
}

/// Jobs in the network, by slot: every post and every effect looks for its job.
#[derive(Default)]
pub(crate) struct Jobs {
    slots: Vec<Option<OpenJob>>,
    open: usize,
}

impl Jobs {
    /// Enters a job that the network has taken, which bounds its slot.
    pub(crate) fn insert(&mut self, job: OpenJob) {
        let at = job.memory.slot.index();
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.open += usize::from(self.slots[at].replace(job).is_none());
    }
    pub(crate) fn remove(&mut self, slot: JobSlot) -> Option<OpenJob> {
        let job = self.slots.get_mut(slot.index()).and_then(Option::take)?;
        self.open -= 1;
        Some(job)
    }
    #[inline]
    pub(crate) fn get(&self, slot: JobSlot) -> Option<&OpenJob> {
        self.slots.get(slot.index())?.as_ref()
    }
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: JobSlot) -> Option<&mut OpenJob> {
        self.slots.get_mut(slot.index())?.as_mut()
    }
    /// All, by slot.
    #[inline]
    pub(crate) fn values(&self) -> impl Iterator<Item = &OpenJob> {
        self.slots.iter().flatten()
    }
    /// The same.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut OpenJob> {
        self.slots.iter_mut().flatten()
    }
    /// The same, with their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobSlot, &OpenJob)> {
        self.values().map(|job| (job.memory.slot, job))
    }
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.open
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }
}

impl OpenJob {
    /// Every PE of this host has attached at some time; in an open job, anybody sits here.
    pub(crate) fn complete(&self) -> bool {
        self.attached >= if self.memory.open { 1 } else { self.expected }
    }
}

/// Loads of a job's traffic on links.
#[derive(Clone, Default)]
pub struct Folded {
    pub(crate) links: BTreeMap<Link, Loads>,
    /// Traffic of pairs that had no route any more when it was folded.
    pub(crate) stranded: Loads,
    /// How often routes had changed.
    pub(crate) changes: u64,
}

/// Loads that were folded when routes changed.
#[derive(Default)]
pub(crate) struct Account {
    /// Counters as they were then, of pairs that need no network.
    pub(crate) counted: BTreeMap<(usize, usize, Class), Traffic>,
    pub(crate) folded: Folded,
}

impl Folded {
    pub(crate) fn carry_both(&mut self, routes: &Routes, here: NodeId, there: NodeId, class: Class, new: Traffic) {
        for (from, to, load) in [(here, there, new.out), (there, here, new.back)] {
            if load != Load::default() {
                self.carry(routes.path(from, to), class, load);
            }
        }
    }

    pub(crate) fn carry(&mut self, path: Option<Vec<Link>>, class: Class, load: Load) {
        match path {
            None => self.stranded[class as usize].add(load),
            Some(links) => {
                for link in links {
                    self.links.entry(link).or_default()[class as usize].add(load);
                }
            }
        }
    }

    /// Sums over all classes.
    pub fn sums(&self) -> BTreeMap<Link, Load> {
        let sum = |loads: &[Load]| {
            loads.iter().fold(Load::default(), |mut sum, load| {
                sum.add(*load);
                sum
            })
        };
        self.links.iter().map(|(link, loads)| (*link, sum(loads))).collect()
    }
}
