//! Trees of the collective subnet: given to jobs, and loaded into the routers.

use crate::jobs::seats::{JobKey, Seats};
use crate::registers::RegisterPages;
use crate::virtual_time::standing::VirtualRun;
use angara_abi::TREES;
use angara_abi::channel::status;
use angara_fabric::{Fabric, JobSlot, Port};
use std::sync::atomic::Ordering;

/// Owner of each tree.
#[derive(Default)]
pub(crate) struct Trees([Option<JobSlot>; TREES]);

impl Trees {
    pub(crate) fn owner(&self, tree: u8) -> Option<JobSlot> {
        *self.0.get(usize::from(tree))?
    }

    /// How many are in use.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// Trees, and what notices when one comes or goes.
pub(crate) struct TreeLoader<'p> {
    pub(crate) trees: &'p mut Trees,
    pub(crate) fabric: &'p mut Fabric,
    pub(crate) seats: &'p Seats,
    pub(crate) registers: &'p mut RegisterPages,
    pub(crate) time: Option<&'p mut VirtualRun>,
}

impl TreeLoader<'_> {
    /// Finds a tree that nobody uses, at or after `first`, and loads it for a job; its number.
    pub(crate) fn open(&mut self, job: JobKey, first: u8, root: u32, pes: &[u32]) -> Result<u8, String> {
        if !self.seats.has_job(job) {
            return Err("the job has ended".into());
        }
        let free = (first..TREES as u8).find(|t| self.trees.0[*t as usize].is_none());
        let tree = free.ok_or("all 16 trees are in use")?;
        self.load(job.0, tree, root, pes).map(|()| tree)
    }

    /// Builds tree `tree` over the nodes of `pes` and loads the rows of this host's nodes.
    pub(crate) fn load(&mut self, slot: JobSlot, tree: u8, root: u32, pes: &[u32]) -> Result<(), String> {
        let job = self.seats.jobs.get(slot).ok_or("the job has ended")?;
        let count = job.memory.pes;
        let entry = |pe: usize| {
            let e = job
                .memory
                .entries
                .get(pe)
                .ok_or_else(|| format!("PE {pe} is out of range: the job has {count} PEs"))?;
            Ok::<_, String>(Port { node: e.node, endpoint: e.endpoint })
        };
        let root_pe = root;
        let root = entry(root as usize)?.node;
        let members = pes.iter().map(|&pe| entry(pe as usize)).collect::<Result<Vec<_>, _>>()?;
        let tree = tree as usize;
        match self.trees.0.get(tree) {
            Some(None) => {}
            Some(Some(_)) => return Err(format!("tree {tree} is in use")),
            None => return Err(format!("there is no tree {tree}")),
        }
        let rows = self.fabric.build_tree(root, &members).map_err(|e| e.to_string())?;
        self.fabric.load_tree(tree as u8, slot, &rows).map_err(|e| e.to_string())?;
        self.trees.0[tree] = Some(slot);
        if let Some(record) = self.time.as_mut().and_then(|run| run.record.as_mut()) {
            record.tree_loaded(tree as u8, root_pe, pes);
        }
        self.registers.are_stale();
        // Counts on a tree begin at zero for every new tree of that number.
        for pe in pes {
            if let Some(memory) = self.seats.jobs.get(slot).and_then(|j| j.pes.get(*pe as usize)?.as_ref()) {
                for base in [status::TREE_RESULTS, status::TREE_BCASTS] {
                    memory.channel.status_u32(base + tree * 4).store(0, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    /// Takes a tree of the job back.
    pub(crate) fn close(&mut self, job: JobKey, tree: u8) -> Result<(), String> {
        if !self.seats.has_job(job) {
            return Err("the job has ended".into());
        }
        match self.trees.0.get_mut(tree as usize) {
            Some(owner) if *owner == Some(job.0) => *owner = None,
            _ => return Err(format!("tree {tree} does not belong to this job")),
        }
        self.unload(tree);
        self.registers.are_stale();
        Ok(())
    }

    /// Takes all trees of a job back, which has ended.
    pub(crate) fn job_closed(&mut self, slot: JobSlot) {
        for tree in 0..TREES {
            if self.trees.0[tree] == Some(slot) {
                self.trees.0[tree] = None;
                self.unload(tree as u8);
            }
        }
    }

    fn unload(&mut self, tree: u8) {
        self.fabric.unload_tree(tree);
        if let Some(run) = &mut self.time {
            run.forget_tree(tree);
        }
    }
}
