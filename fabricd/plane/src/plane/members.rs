//! Jobs and PEs that come and go: every part is told.

use super::DataPlane;
use crate::channels::lane::Lane;
use crate::jobs::job::{Account, OpenJob};
use crate::jobs::memory::{JobMemory, PeMemory};
use crate::jobs::routing::Ways;
use crate::jobs::seats::JobKey;
use crate::registers::RegisterPage;
use angara_abi::job::Barrier;
use angara_fabric::{BarrierFamily, JobSlot, Port};
use std::io;
use std::sync::Arc;

/// Rounds a departing PE's channel is served on, so that its last posts are not lost.
const DRAIN_ROUNDS: usize = 1024;

impl DataPlane {
    /// Enters a job into the network.
    pub(crate) fn open_job(&mut self, memory: Arc<JobMemory>) -> Result<(), String> {
        let ports: Vec<Port> = memory.entries.iter().map(|e| Port { node: e.node, endpoint: e.endpoint }).collect();
        let opened = match &memory.set {
            Some(set) => self.fabric.open_job_in(memory.slot, memory.generation, &ports, set),
            None => self.fabric.open_job_as(memory.slot, memory.generation, &ports),
        };
        opened.map_err(|e| e.to_string())?;
        if memory.set.is_some() {
            self.routing().changed();
        }
        let family = memory.page.geometry().and_then(|g| family(g.barrier)).unwrap_or_default();
        self.fabric.set_barrier_family(memory.slot, family).map_err(|e| e.to_string())?;
        let (pes, open, expected) = (memory.pes, memory.open, memory.pes_here());
        let job = OpenJob {
            memory,
            attached: 0,
            expected,
            pes: (0..pes).map(|_| None).collect(),
            lanes: vec![None; pes],
            lost: vec![open; pes],
            account: Account::default(),
        };
        self.seats.enter(job);
        self.captures.jobs_changed(&self.seats.jobs, &mut self.fabric);
        match self.virtual_time.as_mut().and_then(|run| run.record.as_mut()) {
            Some(record) => record.begin(&self.shape, &ports, family),
            None => Ok(()),
        }
    }

    /// Removes a job and all it has in the network.
    pub(super) fn close_job(&mut self, slot: JobSlot) {
        let Some(job) = self.seats.jobs.remove(slot) else { return };
        if let Some(run) = &mut self.virtual_time {
            run.end_record();
        }
        self.accounts.remember(&job);
        for lane in job.lanes.iter().flatten() {
            self.drop_lane(*lane);
        }
        self.tree_loader().job_closed(slot);
        self.fabric.close_job(slot);
        if job.memory.set.is_some() {
            self.routing().changed();
        }
        self.seats.clear(&job);
        self.faults.job_closed(self.seats.jobs.values().any(OpenJob::complete));
        if let Some(run) = self.virtual_time.as_mut().filter(|_| self.seats.jobs.is_empty()) {
            run.over = false;
        }
        self.captures.jobs_changed(&self.seats.jobs, &mut self.fabric);
    }

    /// Serves the channel of a PE, process `pid`, from now on; returns its node's register page.
    pub(crate) fn attach(&mut self, slot: JobSlot, pe: Arc<PeMemory>, pid: i32) -> io::Result<RegisterPage> {
        let gone = || io::Error::other("the job has ended");
        let memory = self.seats.jobs.get(slot).ok_or_else(gone)?.memory.clone();
        let entry = memory.entries[pe.pe];
        let page = self.registers.page(&self.fabric, entry.node, memory.source())?;
        if let Some(doorbell) = &pe.doorbell {
            self.bells.add(doorbell)?;
        }
        let job = self.seats.jobs.get_mut(slot).ok_or_else(gone)?;
        let port = Port { node: entry.node, endpoint: entry.endpoint };
        let lane = Lane::new(port, job.memory.clone(), pe.clone(), pid);
        let index = self.channels.lanes.open(lane);
        if let Some(run) = &mut self.virtual_time {
            run.runs(index);
        }
        job.lanes[pe.pe] = Some(index);
        job.attached += usize::from(job.pes[pe.pe].replace(pe.clone()).is_none());
        if job.complete() {
            self.faults.job_complete((self.clock)());
        }
        // At a seat that was empty others reach somebody from now on.
        let was_lost = std::mem::replace(&mut job.lost[pe.pe], false);
        // PEs in this process have one table, which the first has filled.
        if !job.shares_reach() || self.channels.lanes.active().len() == 1 {
            job.show_reach(&self.fabric, Ways::From(pe.pe));
        }
        if was_lost {
            job.show_reach(&self.fabric, Ways::To(pe.pe));
        }
        Ok(page)
    }

    /// Stops serving the channel of a PE of a job. `lost`: it did not say goodbye.
    pub(super) fn detach(&mut self, key: JobKey, pe: usize, lost: bool) {
        if !self.seats.has_job(key) {
            return;
        }
        let slot = key.0;
        let lane = self.seats.jobs.get(slot).and_then(|j| *j.lanes.get(pe)?);
        let Some(lane) = lane else { return };
        if self.virtual_time.is_some() {
            self.turns().leaves(lane, lost);
        } else if !lost {
            for _ in 0..DRAIN_ROUNDS {
                if !self.service().poll_lane(lane) && !self.run_network(&mut self.turn()) {
                    break;
                }
            }
        }
        self.drop_lane(lane);
        let Some(job) = self.seats.jobs.get_mut(slot) else { return };
        job.lanes[pe] = None;
        if job.memory.open {
            job.retire(pe, self.accounts.routes());
        }
        if lost || job.memory.open {
            job.lost[pe] = true;
            job.show_reach(&self.fabric, Ways::To(pe));
        }
    }

    fn drop_lane(&mut self, index: usize) {
        if let Some(lane) = self.channels.close(index)
            && let Some(bell) = &lane.memory.doorbell
        {
            self.bells.remove(bell);
        }
    }

    /// A process on another host has become a PE of an open job, or a PE there has gone: nobody reaches it any more.
    pub(super) fn set_elsewhere(&mut self, slot: JobSlot, pe: usize, there: bool) {
        let Some(job) = self.seats.jobs.get_mut(slot) else { return };
        if let Some(lost) = job.lost.get_mut(pe) {
            *lost = !there;
            job.show_reach(&self.fabric, Ways::To(pe));
        }
    }
}

/// Returns what the adapters do; `None` for barriers that are none of theirs.
fn family(barrier: Barrier) -> Option<BarrierFamily> {
    Some(match barrier {
        Barrier::Multiphase => BarrierFamily::Multiphase,
        Barrier::AllToAll => BarrierFamily::AllToAll,
        Barrier::Tree => BarrierFamily::Tree,
        Barrier::Hypercube => BarrierFamily::Hypercube,
        Barrier::Master => BarrierFamily::Master,
        Barrier::Counting => BarrierFamily::Counting,
        Barrier::Auto | Barrier::Counter | Barrier::Dissemination => return None,
    })
}
