//! Jobs: which ports belong together, and how everything of a job is forgotten.

use crate::Fabric;
use crate::adapter::PortState;
use crate::barrier::{BarrierFamily, Group, Member};
use crate::keep::{Ejected, Kept, Streams};
use crate::slab::{NO_QUEUE, flag};
use crate::topology::NONE;
use crate::types::*;
use abi::torus::NodeId;
use std::collections::BTreeSet;

/// An open job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ports: Vec<Port>,
    /// Its nodes, sorted, once each.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) group: Group,
    /// Packets that have gone to other parts of the network, at their sources here.
    pub(crate) kept: Streams<Kept>,
    /// Packets that have come from other parts, at their targets here.
    pub(crate) ejected: Streams<Ejected>,
    /// Ports elsewhere and their operations, by key, whose answers had to be given up here.
    pub(crate) unanswered: BTreeSet<(Port, u64)>,
}

impl Fabric {
    pub(crate) fn job(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(job as usize)?.as_ref()
    }
    /// How often the slot had been opened before the present job.
    pub(crate) fn generation(&self, job: JobId) -> u16 {
        self.generations.get(job as usize).copied().unwrap_or(0)
    }

    /// Opens a job with these ports: its barrier group, its counters, its right to inject. A
    /// fabric that models part of the network is told all ports, also those elsewhere.
    pub fn open_job(&mut self, job: JobId, ports: &[Port]) -> Result<(), JobError> {
        self.open_job_as(job, self.generation(job).wrapping_add(1), ports)
    }

    /// [`Fabric::open_job`] with a generation all parts of the network agree on: packets of another
    /// one are those of an earlier job in the same slot, and are discarded.
    pub fn open_job_as(&mut self, job: JobId, generation: u16, ports: &[Port]) -> Result<(), JobError> {
        if job as usize >= JOBS_MAX {
            return Err(JobError::Slot(job));
        }
        if self.job(job).is_some() {
            return Err(JobError::Open(job));
        }
        let mut sorted = ports.to_vec();
        sorted.sort_unstable();
        if sorted.is_empty() || sorted.windows(2).any(|w| w[0] == w[1]) {
            return Err(JobError::Ports);
        }
        for port in &sorted {
            if port.node as usize >= self.net.nodes || port.endpoint as usize >= ENDPOINTS_MAX {
                return Err(JobError::NoPort(*port));
            }
            if let Some(i) = self.port_index(*port) {
                return Err(JobError::Port(*port, self.ports[i].job));
            }
        }
        if self.jobs.len() <= job as usize {
            self.jobs.resize_with(job as usize + 1, || None);
            self.generations.resize(job as usize + 1, 0);
        }
        self.generations[job as usize] = generation;
        let mut group = Group::new(self.net.nodes);
        for here in sorted.chunk_by(|a, b| a.node == b.node) {
            group.index[here[0].node as usize] = group.members.len() as u32;
            group.members.push(Member::new(here.len() as u32));
            group.nodes.push(here[0].node);
            group.here += u32::from(self.owned[here[0].node as usize]);
        }
        let nodes = group.nodes.clone();
        for port in ports {
            self.open_port(*port, job);
        }
        self.jobs[job as usize] = Some(Job {
            ports: ports.to_vec(),
            nodes,
            group,
            kept: Streams::default(),
            ejected: Streams::default(),
            unanswered: BTreeSet::new(),
        });
        self.counters.open(job);
        Ok(())
    }

    fn open_port(&mut self, port: Port, job: JobId) {
        let state = PortState::new(port, job);
        let index = match self.free_ports.pop() {
            Some(i) => {
                self.ports[i as usize] = state;
                i
            }
            None => {
                self.ports.push(state);
                self.ports.len() as u32 - 1
            }
        };
        let at_node = &mut self.port_of[port.node as usize];
        if at_node.len() <= port.endpoint as usize {
            at_node.resize(port.endpoint as usize + 1, NONE);
        }
        at_node[port.endpoint as usize] = index;
    }

    /// Closes a job: its operations are forgotten without report, its packets are discarded where
    /// they are met next, its trees are unloaded, its counters are gone.
    pub fn close_job(&mut self, job: JobId) {
        if self.job(job).is_none() {
            return;
        }
        self.unload_trees_of(job);
        for h in self.take_kept(job) {
            self.free_packet(h);
        }
        for h in self.packets.handles() {
            let p = &self.packets[h];
            if p.job != job || p.is(flag::DEAD) {
                continue;
            }
            let (waits, staged) = (p.is(flag::AWAIT), p.queue == NO_QUEUE && !p.is(flag::INJECTED));
            let staged = staged && p.port != NONE && !p.is(flag::FOREIGN) && self.is_staged(h);
            if waits {
                self.waiting -= 1;
            }
            if waits || staged {
                self.free_packet(h);
            } else {
                self.packets[h].flags |= flag::DEAD;
            }
        }
        for op in self.ops.of_job(job) {
            let payload = self.ops[op].payload;
            self.payloads.release(payload);
            self.ops.free(op);
        }
        let Some(closed) = self.jobs[job as usize].take() else { return };
        for port in closed.ports {
            let Some(i) = self.port_index(port) else { continue };
            self.port_of[port.node as usize][port.endpoint as usize] = NONE;
            let state = &mut self.ports[i];
            state.ops.clear();
            state.staging.clear();
            state.blocked = true;
            self.free_ports.push(i as u32);
        }
        self.completions.retain(|(_, c)| c.job != job);
        self.counting = self.jobs.iter().flatten().any(|j| j.group.family == BarrierFamily::Counting);
        self.counters.close(job);
    }

    fn is_staged(&self, h: u32) -> bool {
        self.ports[self.packets[h].port as usize].staging.contains(&h)
    }
}
