//! Who sits behind each endpoint of the network.

use super::job::{Jobs, OpenJob};
use angara_abi::JobId;
use angara_fabric::{JobSlot, Port};

/// A job that had a slot when somebody began to speak of it: by now the slot may be another one's.
pub type JobKey = (JobSlot, JobId);

/// A PE of a job slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) slot: JobSlot,
    pub(crate) pe: u32,
}

/// Jobs in the network, and which endpoints are theirs.
#[derive(Default)]
pub(crate) struct Seats {
    pub(crate) jobs: Jobs,
    ports: Ports,
}

impl Seats {
    /// The PE behind a port.
    #[inline]
    pub(crate) fn owner(&self, port: Port) -> Option<Owner> {
        self.ports.get(port)
    }

    pub(crate) fn pe_at(&self, port: Port) -> Option<usize> {
        self.ports.get(port).map(|owner| owner.pe as usize)
    }

    /// The job that a port belongs to, and the PE there.
    #[inline]
    pub(crate) fn job_at(&self, port: Port) -> Option<(&OpenJob, usize)> {
        let owner = self.ports.get(port)?;
        Some((self.jobs.get(owner.slot)?, owner.pe as usize))
    }

    /// The lane behind a port.
    #[inline]
    pub(crate) fn lane_at(&self, port: Port) -> Option<usize> {
        let (job, pe) = self.job_at(port)?;
        *job.lanes.get(pe)?
    }

    /// True if a job still has its slot. Whoever is told late that it has ended may name a slot that is another job's.
    pub(crate) fn has_job(&self, (slot, id): JobKey) -> bool {
        self.jobs.get(slot).is_some_and(|job| job.memory.id == id)
    }

    /// Seats the PEs of a job at its ports.
    pub(crate) fn enter(&mut self, job: OpenJob) {
        let slot = job.memory.slot;
        for (pe, e) in (0..).zip(&job.memory.entries) {
            self.ports.set(Port { node: e.node, endpoint: e.endpoint }, Some(Owner { slot, pe }));
        }
        self.jobs.insert(job);
    }

    /// Nobody sits at the ports of a job that has gone.
    pub(crate) fn clear(&mut self, job: &OpenJob) {
        for e in &job.memory.entries {
            self.ports.set(Port { node: e.node, endpoint: e.endpoint }, None);
        }
    }
}

/// Owner of every endpoint.
#[derive(Default)]
struct Ports {
    nodes: Vec<Vec<Option<Owner>>>,
}

impl Ports {
    fn get(&self, port: Port) -> Option<Owner> {
        *self.nodes.get(port.node as usize)?.get(port.endpoint as usize)?
    }

    fn set(&mut self, port: Port, owner: Option<Owner>) {
        let (node, endpoint) = (port.node as usize, port.endpoint as usize);
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Vec::new);
        }
        let ports = &mut self.nodes[node];
        if ports.len() <= endpoint {
            ports.resize(endpoint + 1, None);
        }
        ports[endpoint] = owner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ports_have_no_owner() {
        let mut ports = Ports::default();
        let port = Port { node: 3, endpoint: 2 };
        assert_eq!(ports.get(port), None);
        ports.set(port, Some(Owner { slot: JobSlot::new(1), pe: 5 }));
        assert_eq!(ports.get(port), Some(Owner { slot: JobSlot::new(1), pe: 5 }));
        ports.set(port, None);
        assert_eq!(ports.get(port), None);
    }
}
