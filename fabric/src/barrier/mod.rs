//! The multiphase barrier (paper 001) with aggregation in the adapter.
//!
//! K is the longest route in use among the job's nodes. Once all ports of a node have entered, the
//! adapter sends a marker through every injection queue; when those have come out, all earlier
//! packets of the node are in the network and phase 0 starts: one *special* to each neighbour of
//! the group, on each data channel, then wait for theirs, K times. A special is taken out of an
//! input queue only when everything before it there has left the router, and it enters a link
//! behind what was granted before, so it overtakes nothing: after K phases every packet sent to
//! this node before the barrier has been ejected here (half-barrier). A full barrier then settles
//! (ejected requests are executed, answers go into the network behind a second set of markers) and
//! does K more phases, after which everything this node sent has been delivered and answered.
//!
//! The group is the job's nodes and every node on a route between them; nodes without a port of
//! the job take part from the first special they see. Consecutive barriers alternate in parity, so
//! a neighbour that is one barrier ahead is not mistaken. A route change starts the phases of
//! unfinished barriers again: its specials carry the number of the change and others are ignored.

mod group;
mod multiphase;

use crate::Fabric;
use crate::topology::DIRS;
use crate::types::*;
use abi::torus::NodeId;
use multiphase::DATA_VCS;

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Not in a barrier.
    Idle,
    /// Waits for this many markers.
    Flush(u8),
    /// In this phase of the current half: waits for the neighbours' specials.
    Phase(u32),
    /// Goes into this phase (or ends the half) when the adapter's increment is over.
    Next(u32),
    /// All phases done: waits for what is on its way to the host.
    Settle,
    /// First half of a full barrier done: waits for the answers to ejected requests.
    Service,
}

/// One node of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Open ports of the job at the node; 0 for a transit node.
    pub(crate) ports: u32,
    /// Ports that wait in the barrier, with their operations.
    pub(crate) waiting: Vec<(u32, u32)>,
    pub(crate) stage: Stage,
    pub(crate) second: bool,
    pub(crate) full: bool,
    /// What the latest specials of each parity said about `full`.
    pub(crate) seen_full: [bool; 2],
    /// Had left the barrier that a route change started again; takes part without waiting ports.
    pub(crate) rerun: bool,
    /// Group neighbours, one bit per direction.
    pub(crate) dirs: u8,
    /// Specials not yet used, by parity, travel direction and channel.
    pub(crate) got: [[[u8; DATA_VCS]; DIRS]; 2],
    /// Requests of the job ejected here and not yet answered.
    pub(crate) service: u32,
    /// Barriers left.
    pub(crate) done: u64,
    /// When the event that ends `Next` or `Settle` is due.
    pub(crate) due: Tick,
}

impl Member {
    pub(crate) fn new(ports: u32) -> Member {
        Member {
            ports,
            waiting: Vec::new(),
            stage: Stage::Idle,
            second: false,
            full: false,
            seen_full: [false; 2],
            rerun: false,
            dirs: 0,
            got: Default::default(),
            service: 0,
            done: 0,
            due: 0,
        }
    }
    /// Parity of the barrier the node is in or will enter next.
    fn odd(&self) -> bool {
        self.done % 2 == 1
    }
}

/// The barrier group of a job.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Per node of the network: its place in `members`, or [`NONE`].
    pub(crate) index: Vec<u32>,
    pub(crate) members: Vec<Member>,
    pub(crate) nodes: Vec<NodeId>,
    /// K, once known for the present routes.
    pub(crate) phases: Option<u32>,
    /// Members that cannot reach each other.
    pub(crate) cut: Option<(NodeId, NodeId)>,
    /// Phases fewer than K, for the test that shows they are needed.
    pub(crate) short_by: u32,
}

impl Fabric {
    fn member(&mut self, job: JobId, node: NodeId) -> Option<&mut Member> {
        let group = &mut self.jobs.get_mut(job as usize)?.as_mut()?.group;
        let index = *group.index.get(node as usize)?;
        group.members.get_mut(index as usize)
    }

    /// The longest route in use between nodes of the job: K of its barriers. 0 for one node.
    pub fn longest_route(&mut self, job: JobId) -> u32 {
        self.prepare_group(job);
        self.job(job).and_then(|j| j.group.phases).unwrap_or(0)
    }

    /// Makes barriers of `job` unsafe by leaving phases out, for the test that shows they are needed.
    #[cfg(test)]
    pub(crate) fn set_short_by(&mut self, job: JobId, phases: u32) {
        if let Some(j) = self.jobs[job as usize].as_mut() {
            j.group.short_by = phases;
        }
    }

    /// A port has entered; the node starts when all its ports have.
    pub(crate) fn barrier_enter(&mut self, port: usize, op: u32, half: bool) {
        let (at, job) = (self.ports[port].port, self.ports[port].job);
        self.prepare_group(job);
        if let Some((a, b)) = self.job(job).and_then(|j| j.group.cut) {
            let fault = OpFault::Barrier(self.routes.blame(a, b));
            self.ports[port].blocked = false;
            self.complete(op, OpState::Failed(fault));
            self.ops.free(op);
            return;
        }
        let member = self.member(job, at.node).expect("a port's node is in its job's group");
        if !member.waiting.is_empty() && member.full == half {
            let what = NetError::BarrierMismatch { node: at.node };
            self.effect(Effect::Error { at, job, what, time: self.now });
        }
        let member = self.member(job, at.node).expect("looked up above");
        member.full = if member.waiting.is_empty() { !half } else { member.full };
        member.waiting.push((port as u32, op));
        self.barrier_try_start(job, at.node);
    }

    fn barrier_try_start(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Idle && !m.rerun && m.ports > 0 && m.waiting.len() as u32 == m.ports {
            m.second = false;
            self.barrier_flush(job, node);
        }
    }

    fn barrier_leave(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        m.stage = Stage::Idle;
        m.done += 1;
        let again = std::mem::take(&mut m.rerun);
        let leaving = if again { Vec::new() } else { std::mem::take(&mut m.waiting) };
        for (port, op) in leaving {
            self.complete(op, OpState::Complete);
            self.ops.free(op);
            self.ports[port as usize].blocked = false;
            self.schedule_pump(port as usize, self.now);
        }
        let Some(m) = self.member(job, node) else { return };
        let next = m.odd() as usize;
        if m.ports == 0 && m.got[next].iter().flatten().any(|n| *n > 0) {
            // A transit node that has specials of the next barrier already.
            m.full = m.seen_full[next];
            m.second = false;
            self.barrier_flush(job, node);
        } else {
            self.barrier_try_start(job, node);
        }
    }

    /// A request was ejected and waits for memory.
    pub(crate) fn service_started(&mut self, h: u32) {
        let (job, node) = (self.packets[h].job, self.packets[h].dst);
        if let Some(m) = self.member(job, node) {
            m.service += 1;
        }
    }
    /// A request has been answered or refused.
    pub(crate) fn service_done(&mut self, h: u32) {
        let (job, node) = (self.packets[h].job, self.packets[h].dst);
        if let Some(m) = self.member(job, node) {
            m.service = m.service.saturating_sub(1);
            self.barrier_serviced(job, node);
        }
    }

    /// Lowest endpoint of the job at a node, to address an error to.
    fn first_endpoint(&self, job: JobId, node: NodeId) -> u16 {
        let at_node = |p: &&Port| p.node == node;
        self.job(job).and_then(|j| j.ports.iter().filter(at_node).min()).map_or(0, |p| p.endpoint)
    }

    /// After a route change: forget groups and specials, start the phases of unfinished barriers
    /// again. Specials in the network carry an old epoch and are ignored.
    pub(crate) fn barriers_restart(&mut self) {
        for job in 0..self.jobs.len() as u16 {
            let Some(j) = self.jobs[job as usize].as_mut() else { continue };
            j.group.phases = None;
            let barrier = j.group.members.iter().filter(|m| m.ports > 0).map(|m| m.done).min().unwrap_or(0);
            for m in &mut j.group.members {
                // Who left the barrier others are still in (so all had entered it) takes part again.
                m.rerun = m.ports > 0 && m.done > barrier;
                m.done = barrier;
                m.stage = Stage::Idle;
                m.second = false;
                m.got = Default::default();
                m.due = 0;
            }
            let nodes = j.group.nodes.clone();
            if nodes.is_empty() {
                continue;
            }
            self.prepare_group(job);
            for node in nodes {
                self.barrier_fail_if_cut(job, node);
                self.barrier_try_start(job, node);
            }
        }
    }

    /// Fails the ports waiting at `node` if the job's nodes cannot all reach each other any more.
    fn barrier_fail_if_cut(&mut self, job: JobId, node: NodeId) {
        let Some((a, b)) = self.job(job).and_then(|j| j.group.cut) else { return };
        let blame = self.routes.blame(a, b);
        let Some(m) = self.member(job, node) else { return };
        m.rerun = false;
        for (port, op) in std::mem::take(&mut m.waiting) {
            self.complete(op, OpState::Failed(OpFault::Barrier(blame)));
            self.ops.free(op);
            self.ports[port as usize].blocked = false;
            self.schedule_pump(port as usize, self.now);
        }
    }
}
