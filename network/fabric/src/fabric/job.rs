//! Jobs: which ports belong together, and how everything of a job is forgotten.

use super::Fabric;
use crate::barrier::{Group, Job, Member};
use crate::packet::{NO_QUEUE, PacketHandle, flag};
use crate::routes::{NONE, Routes, Ways};
use crate::types::*;
use angara_net::NodeSet;
use angara_net::torus::NodeId;

/// Largest set whose tables leave direction order to even out links: making them takes a tenth of a second then.
const SPREAD_NODES: usize = 128;

impl Fabric {
    /// Opens a job with these ports: its barrier group, its counters, its right to inject. A
    /// fabric that models part of the network is told all ports, also those elsewhere.
    pub fn open_job(&mut self, job: JobSlot, ports: &[Port]) -> Result<(), JobError> {
        self.open_job_as(job, self.adapters.chip.edge.generation(job).wrapping_add(1), ports)
    }

    /// [`Fabric::open_job`] with a generation all parts of the network agree on: packets of another
    /// one are those of an earlier job in the same slot, and are discarded.
    pub fn open_job_as(&mut self, job: JobSlot, generation: u16, ports: &[Port]) -> Result<(), JobError> {
        if job.index() >= JOBS_MAX {
            return Err(JobError::Slot(job));
        }
        if self.barriers.job(job).is_some() {
            return Err(JobError::Open(job));
        }
        let mut sorted = ports.to_vec();
        sorted.sort_unstable();
        if sorted.is_empty() || sorted.windows(2).any(|w| w[0] == w[1]) {
            return Err(JobError::Ports);
        }
        for port in &sorted {
            if port.node as usize >= self.adapters.chip.net.nodes || port.endpoint as usize >= ENDPOINTS_MAX {
                return Err(JobError::NoPort(*port));
            }
            if let Some(i) = self.adapters.port_index(*port) {
                return Err(JobError::Port(*port, self.adapters.ports[i].job));
            }
        }
        self.split.open_job(job);
        self.adapters.chip.edge.open_job(job, generation);
        let mut group = Group::new(self.adapters.chip.net.nodes);
        for here in sorted.chunk_by(|a, b| a.node == b.node) {
            group.index[here[0].node as usize] = group.members.len() as u32;
            group.members.push(Member::new(here.len() as u32));
            group.nodes.push(here[0].node);
            group.here += u32::from(self.adapters.chip.owned[here[0].node as usize]);
        }
        let nodes = group.nodes.clone();
        for port in ports {
            self.adapters.open_port(*port, job);
        }
        self.barriers.open(job, Job { ports: ports.to_vec(), nodes, group });
        self.adapters.chip.observers.counters.open(job);
        Ok(())
    }

    /// [`Fabric::open_job_as`] with a node set: no packet of the job leaves it, and none of other jobs enters. All parts of
    /// a split network must be told, and no job without a set may use the set's nodes or links then.
    pub fn open_job_in(
        &mut self,
        job: JobSlot,
        generation: u16,
        ports: &[Port],
        set: &NodeSet,
    ) -> Result<(), JobError> {
        let chip = &self.adapters.chip;
        let mut seen = vec![false; chip.net.nodes];
        for node in set.held() {
            let free = seen.get_mut(node as usize).is_some_and(|seen| !std::mem::replace(seen, true));
            if !free || chip.routes.in_set(node) {
                return Err(JobError::SetNode(node));
            }
        }
        if let Some(port) = ports.iter().find(|port| set.nodes.binary_search(&port.node).is_err()) {
            return Err(JobError::OutsideSet(*port));
        }
        self.open_job_as(job, generation, ports)?;
        let ways = if set.nodes.len() <= SPREAD_NODES { Ways::Spread } else { Ways::Balanced };
        let before = self.adapters.chip.form_set(job.index() as u32, set, ways);
        self.sets_changed(&before);
        Ok(())
    }

    /// Number of times that the route table of a job's node set has been made, 0 if it has no set.
    pub fn tables_made(&self, job: JobSlot) -> u64 {
        self.adapters.chip.routes.tables_made(job.index() as u32)
    }

    /// Number of nodes that work and that no job's set holds.
    pub fn nodes_without_set(&self) -> usize {
        let routes = &self.adapters.chip.routes;
        (0..self.adapters.chip.net.nodes as NodeId).filter(|n| routes.node_up(*n) && !routes.in_set(*n)).count()
    }

    /// Packets of jobs without a set may have other routes now.
    fn sets_changed(&mut self, before: &Routes) {
        let routes = &self.adapters.chip.routes;
        let outside = |job: JobSlot| self.barriers.job(job).is_some_and(|j| j.nodes.iter().any(|n| !routes.in_set(*n)));
        if !self.adapters.chip.split && self.barriers.slots().any(outside) {
            self.use_routes(before);
        }
    }

    /// Closes a job: its operations are forgotten without report, its packets are discarded where
    /// they are met next, its trees are unloaded, its counters are gone.
    pub fn close_job(&mut self, job: JobSlot) {
        if self.barriers.job(job).is_none() {
            return;
        }
        self.trees.unload_trees_of(&mut self.adapters, job);
        for h in self.adapters.chip.edge.take(&mut self.adapters.chip.packets, job) {
            self.adapters.chip.free_packet(h);
        }
        for h in self.adapters.chip.packets.handles() {
            let p = &self.adapters.chip.packets[h];
            if p.job != job || p.is(flag::DEAD) {
                continue;
            }
            let (waits, staged) = (p.is(flag::AWAIT), p.queue == NO_QUEUE && !p.is(flag::INJECTED));
            let staged = staged && p.port != NONE && !p.is(flag::FOREIGN) && self.is_staged(h);
            if waits {
                self.adapters.waiting -= 1;
            }
            if waits || staged {
                self.adapters.chip.free_packet(h);
            } else {
                self.adapters.chip.packets[h].flags |= flag::DEAD;
            }
        }
        for op in self.adapters.ops.of_job(job) {
            let payload = self.adapters.ops[op].payload;
            self.adapters.chip.payloads.release(payload);
            self.adapters.ops.free(op);
        }
        let Some(closed) = self.barriers.close(job) else { return };
        closed.ports.into_iter().for_each(|port| self.adapters.close_port(port));
        self.adapters.forget_sent(job);
        self.adapters.order.forget_job(job);
        self.split.close_job(job);
        self.adapters.completions.retain(|(_, c)| c.job != job);
        self.adapters.counting = self.barriers.counting();
        self.adapters.chip.observers.counters.close(job);
        self.adapters.chip.edge.close_job(job);
        if self.adapters.chip.routes.has_set(job.index() as u32) {
            let before = self.adapters.chip.dissolve_set(job.index() as u32);
            self.sets_changed(&before);
        }
    }

    fn is_staged(&self, h: PacketHandle) -> bool {
        self.adapters.ports[self.adapters.chip.packets[h].port as usize].staging.contains(&h)
    }
}
