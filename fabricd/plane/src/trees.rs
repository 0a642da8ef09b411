//! Trees of the collective subnet: given to jobs, loaded into the routers, shown in registers.

use crate::command::JobKey;
use crate::plane::DataPlane;
use crate::registers::Registers;
use angara_abi::channel::status;
use angara_abi::csr;
use angara_fabric::{JobSlot, Port, TreeRow};
use angara_net::torus::NodeId;
use std::sync::atomic::Ordering;

impl DataPlane {
    /// Finds a tree that nobody uses, at or after `first`, and loads it for a job; its number.
    pub(crate) fn tree_open(&mut self, (slot, id): JobKey, first: u8, root: u32, pes: &[u32]) -> Result<u8, String> {
        if !self.has_job(slot, id) {
            return Err("the job has ended".into());
        }
        let free = (first..angara_abi::TREES as u8).find(|t| self.trees[*t as usize].is_none());
        let tree = free.ok_or("all 16 trees are in use")?;
        self.tree_load(slot, tree, root, pes).map(|()| tree)
    }

    /// Builds tree `tree` over the nodes of `pes` and loads the rows of this host's nodes.
    pub(crate) fn tree_load(&mut self, slot: JobSlot, tree: u8, root: u32, pes: &[u32]) -> Result<(), String> {
        let job = self.jobs.get(slot).ok_or("the job has ended")?;
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
        match self.trees.get(tree) {
            Some(None) => {}
            Some(Some(_)) => return Err(format!("tree {tree} is in use")),
            None => return Err(format!("there is no tree {tree}")),
        }
        let rows = self.fabric.build_tree(root, &members).map_err(|e| e.to_string())?;
        self.fabric.load_tree(tree as u8, slot, &rows).map_err(|e| e.to_string())?;
        self.trees[tree] = Some(slot);
        self.record_loaded(tree as u8, root_pe, pes);
        self.stale = true;
        // Counts on a tree begin at zero for every new tree of that number.
        for pe in pes {
            if let Some(memory) = self.jobs.get(slot).and_then(|j| j.pes.get(*pe as usize)?.as_ref()) {
                for base in [status::TREE_RESULTS, status::TREE_BCASTS] {
                    memory.channel.status_u32(base + tree * 4).store(0, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    /// Takes a tree of the job back.
    pub(crate) fn tree_close(&mut self, (slot, id): JobKey, tree: u8) -> Result<(), String> {
        if !self.has_job(slot, id) {
            return Err("the job has ended".into());
        }
        match self.trees.get_mut(tree as usize) {
            Some(owner) if *owner == Some(slot) => *owner = None,
            _ => return Err(format!("tree {tree} does not belong to this job")),
        }
        self.fabric.unload_tree(tree);
        self.forget_tree(tree);
        self.stale = true;
        Ok(())
    }

    /// Tree rows and barrier counts of a node's register page.
    pub(crate) fn refresh_collectives(&self, page: &Registers, node: NodeId) {
        for tree in 0..angara_abi::TREES {
            let row = self.fabric.tree(tree as u8).and_then(|t| t.row(node));
            page.set(csr::tree(tree, csr::TREE_ROW), row.map_or(0, row_bits));
            let (results, bcasts) = self.fabric.tree_counters(tree as u8, node);
            page.set(csr::tree(tree, csr::TREE_RESULTS), results);
            page.set(csr::tree(tree, csr::TREE_BCASTS), bcasts);
        }
        let (done, phases) = self.barriers.get(&node).copied().unwrap_or_default();
        page.set(csr::BARRIER_DONE, done);
        page.set(csr::BARRIER_PHASES, phases);
    }
}

fn row_bits(row: &TreeRow) -> u64 {
    const VALID: u64 = 1 << 14;
    row.down as u64
        | row.to_root.map_or(0, |d| d.index() as u64) << 8
        | u64::from(row.is_root) << 12
        | u64::from(row.contributors > 0) << 13
        | VALID
        | (row.down_sum as u64) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::torus::Direction;

    #[test]
    fn rows_are_packed_as_the_register_map_says() {
        let row = TreeRow {
            is_root: false,
            to_root: Some(Direction::new(1, false)),
            contributors: 2,
            down: 0b101,
            down_sum: 2,
        };
        assert_eq!(row_bits(&row), 0b101 | 5 << 8 | 1 << 13 | 1 << 14 | 2 << 16);
    }
}
