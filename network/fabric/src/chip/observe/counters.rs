//! Counters per link, job and class. A packet is counted once on every link it crosses, so the
//! links of a run sum to hops × flits; a packet whose source and target are one node is on none.

use crate::packet::packets_for;
use crate::routes::DIRS;
use crate::types::JobSlot;
use angara_abi::account::{CLASSES, Load};
use std::collections::BTreeMap;

/// Events worth knowing that belong to no link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounters {
    /// Packets dropped at ejection: no such endpoint, or an endpoint of another job.
    pub foreign_drops: u64,
    /// Packets dropped because no route was left.
    pub unreachable_drops: u64,
    /// Packets delivered to the host.
    pub ejected: u64,
}

#[derive(Debug)]
pub(crate) struct Counters {
    /// Per link: everything but what open jobs have sent; empty before the first job.
    links: Vec<[Load; CLASSES]>,
    jobs: BTreeMap<JobSlot, Vec<[Load; CLASSES]>>,
    /// The job counted last, taken out of `jobs`: most packets in a row belong to one job.
    hot: Option<(JobSlot, Vec<[Load; CLASSES]>)>,
    pub(crate) nodes: Vec<NodeCounters>,
    /// Boundary frames with a wrong checksum, by link.
    damaged: BTreeMap<usize, u64>,
}

impl Counters {
    pub(crate) fn new(nodes: usize) -> Counters {
        Counters {
            links: Vec::new(),
            jobs: BTreeMap::new(),
            hot: None,
            nodes: vec![NodeCounters::default(); nodes],
            damaged: BTreeMap::new(),
        }
    }
    fn links(&mut self) -> &mut Vec<[Load; CLASSES]> {
        if self.links.is_empty() {
            self.links = vec![[Load::default(); CLASSES]; self.nodes.len() * DIRS];
        }
        &mut self.links
    }
    pub(crate) fn open(&mut self, job: JobSlot) {
        self.close(job);
        self.jobs.insert(job, vec![[Load::default(); CLASSES]; self.nodes.len() * DIRS]);
    }
    pub(crate) fn close(&mut self, job: JobSlot) {
        let hot = self.hot.take_if(|(j, _)| *j == job).map(|(_, loads)| loads);
        let Some(loads) = hot.or_else(|| self.jobs.remove(&job)) else { return };
        for (link, loads) in self.links().iter_mut().zip(loads) {
            link.iter_mut().zip(loads).for_each(|(sum, load)| sum.add(load));
        }
    }
    #[inline]
    pub(crate) fn count_sent(&mut self, job: JobSlot, link: usize, class: u8, flits: u16, bytes: u16) {
        let load = Load { packets: packets_for(bytes), flits: flits as u64, bytes: bytes as u64 };
        if self.hot.as_ref().is_none_or(|(j, _)| *j != job) {
            self.heat(job);
        }
        match &mut self.hot {
            Some((_, loads)) => loads[link][class as usize].add(load),
            None => self.links()[link][class as usize].add(load),
        }
    }
    #[cold]
    fn heat(&mut self, job: JobSlot) {
        let next = self.jobs.remove(&job).map(|loads| (job, loads));
        if let Some((old, loads)) = std::mem::replace(&mut self.hot, next) {
            self.jobs.insert(old, loads);
        }
    }
    pub(crate) fn count_damaged(&mut self, link: usize) {
        *self.damaged.entry(link).or_default() += 1;
    }
    pub(crate) fn damaged(&self, link: usize) -> u64 {
        self.damaged.get(&link).copied().unwrap_or(0)
    }
    /// Sent on a link, by class.
    pub(crate) fn link(&self, link: usize) -> [Load; CLASSES] {
        let mut sum = self.links.get(link).copied().unwrap_or_default();
        let hot = self.hot.iter().map(|(_, loads)| loads);
        for loads in self.jobs.values().chain(hot) {
            sum.iter_mut().zip(loads[link]).for_each(|(sum, load)| sum.add(load));
        }
        sum
    }
    pub(crate) fn job_link(&self, job: JobSlot, link: usize) -> [Load; CLASSES] {
        let loads = match &self.hot {
            Some((j, loads)) if *j == job => Some(loads),
            _ => self.jobs.get(&job),
        };
        loads.map_or([Load::default(); CLASSES], |l| l[link])
    }
}
