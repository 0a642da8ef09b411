//! Entering and leaving, whatever the family.

use super::check::stamp;
use super::family::BarrierFamily;
use super::state::{Barriers, Heard, Member, Stage};
use crate::adapter::Adapters;
use crate::chip::EventKind;
use crate::packet::PacketHandle;
use crate::types::*;
use angara_net::torus::NodeId;

impl Barriers {
    /// The longest route in use between nodes of the job: K of its barriers. 0 for one node.
    pub(crate) fn longest_route(&mut self, host: &mut Adapters, job: JobSlot) -> u32 {
        self.prepare_group(host, job);
        self.job(job).and_then(|j| j.group.phases).unwrap_or(0)
    }

    /// Chooses how the job's barriers are done. Before the first of them only.
    pub(crate) fn set_barrier_family(
        &mut self,
        host: &mut Adapters,
        job: JobSlot,
        family: BarrierFamily,
    ) -> Result<(), JobError> {
        let Some(j) = self.jobs.get_mut(job.index()).and_then(Option::as_mut) else {
            return Err(JobError::NotOpen(job));
        };
        let used = |m: &Member| m.left > 0 || !m.waiting.is_empty() || m.stage != Stage::Idle;
        if j.group.members.iter().any(used) {
            return Err(JobError::BarrierUsed(job));
        }
        j.group.family = family;
        j.group.phases = None;
        for port in j.ports.clone() {
            if let Some(i) = host.port_index(port) {
                host.ports[i].family = family;
            }
        }
        host.counting = self.counting();
        Ok(())
    }

    /// How the job's barriers are done.
    pub(crate) fn barrier_family(&self, job: JobSlot) -> BarrierFamily {
        self.job(job).map_or_else(BarrierFamily::default, |j| j.group.family)
    }

    /// Leaves `phases` phases out of each half of the job's multiphase barriers, so that one
    /// may end too early: to show that K are needed, and that the model notices.
    pub(crate) fn shorten_barrier(&mut self, job: JobSlot, phases: u32) {
        if let Some(j) = self.jobs.get_mut(job.index()).and_then(Option::as_mut) {
            j.group.short_by = phases;
        }
    }

    /// May the barrier at the front of a port's queue be entered now? Families that rest on
    /// acknowledgements wait for those of everything the port has sent.
    pub(crate) fn barrier_may_enter(&mut self, host: &mut Adapters, port: usize, half: bool) -> bool {
        let p = &host.ports[port];
        // Packets through the node's memory are not flushed, so they must have arrived.
        if !p.staging.is_empty() || p.near > 0 {
            return false;
        }
        let family = p.family;
        let answers = !half && !family.two_halves();
        if family.acknowledges() {
            let (out, at) = (p.outstanding > 0 || p.staged() > 0, p.acknowledged);
            if out || at > host.chip.now {
                if !out {
                    host.schedule_pump(port, at);
                }
                return false;
            }
        }
        !(answers && host.unanswered(port) > 0)
    }

    /// A port has entered; the node starts when all its ports have.
    pub(crate) fn barrier_enter(&mut self, host: &mut Adapters, port: usize, op: u32, half: bool) {
        let (at, job) = (host.ports[port].port, host.ports[port].job);
        self.prepare_group(host, job);
        if let Some((a, b)) = self.job(job).and_then(|j| j.group.cut) {
            let fault = OpFault::Barrier(host.chip.routes.outage(a, b));
            host.ports[port].blocked = false;
            host.complete(op, OpState::Failed(fault));
            host.ops.free(op);
            return;
        }
        let member = self.member(job, at.node).expect("a port's node is in its job's group");
        if !member.waiting.is_empty() && member.asked_full == half {
            let what = NetError::BarrierMismatch { node: at.node };
            host.effect(Effect::Error { at, job, what, time: host.chip.now });
        }
        let member = self.member(job, at.node).expect("looked up above");
        member.asked_full = if member.waiting.is_empty() { !half } else { member.asked_full };
        member.waiting.push((port as u32, op));
        if member.waiting.len() as u32 == member.ports {
            self.check_entry(job, at.node);
        }
        self.barrier_try_start(host, job, at.node);
    }

    pub(super) fn barrier_try_start(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Idle && !m.rerun && m.ports > 0 && m.waiting.len() as u32 == m.ports {
            m.second = false;
            m.full = m.asked_full;
            self.barrier_begin(host, job, node);
        }
    }

    /// Begins a half of the barrier.
    pub(super) fn barrier_begin(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        match self.barrier_family(job) {
            BarrierFamily::Multiphase => self.barrier_flush(host, job, node),
            _ => self.barrier_announce(host, job, node),
        }
    }

    pub(super) fn barrier_wake(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId, at: Tick) {
        let Some(m) = self.member(job, node) else { return };
        m.due = at;
        host.chip.events.push(at, EventKind::Phase, node, job.number().into());
    }

    /// [`EventKind::Phase`]: the next phase, the end of a half, or the end of settling.
    pub(crate) fn on_phase(&mut self, host: &mut Adapters, node: NodeId, job: JobSlot) {
        let now = host.chip.now;
        let Some(group) = self.job(job).map(|j| &j.group) else { return };
        let (phases, two_halves) = (self.phases_of(job), group.family.two_halves());
        let Some(m) = self.member(job, node) else { return };
        match m.stage {
            _ if m.due != now => {}
            Stage::Next(phase) if phase < phases => {
                m.stage = Stage::Phase(phase);
                self.barrier_send(host, job, node);
            }
            Stage::Next(_) => self.barrier_half_done(host, job, node),
            Stage::Enter => {
                m.stage = Stage::Talk(0);
                self.barrier_talk(host, job, node, false);
            }
            Stage::Settle if m.full && !m.second && two_halves => {
                m.stage = Stage::Service;
                self.barrier_serviced(host, job, node);
            }
            Stage::Settle => self.barrier_leave(host, job, node),
            _ => {}
        }
    }

    /// The second half starts once no ejected request is unanswered.
    pub(super) fn barrier_serviced(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Service && m.service == 0 {
            m.second = true;
            self.barrier_begin(host, job, node);
        }
    }

    pub(super) fn barrier_leave(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        m.stage = Stage::Idle;
        m.heard[(m.done % 2) as usize] = Heard::default();
        m.done += 1;
        if !std::mem::take(&mut m.rerun) {
            self.barrier_release(host, job, node);
        }
        let Some(m) = self.member(job, node) else { return };
        let next = m.odd() as usize;
        if m.ports == 0 && m.got[next].iter().flatten().any(|n| *n > 0) {
            // A transit node that has specials of the next barrier already.
            m.full = m.seen_full[next];
            m.second = false;
            self.barrier_flush(host, job, node);
        } else {
            self.barrier_try_start(host, job, node);
        }
    }

    /// The ports of a node leave the barrier.
    pub(super) fn barrier_release(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.ports == 0 {
            m.left += 1;
            return;
        }
        m.delivered[(m.left % 2) as usize] = 0;
        m.left_full = m.full;
        m.told = false;
        let (full, leaving) = (m.full, std::mem::take(&mut m.waiting));
        self.check_exit(host, job, node, &leaving, full);
        let left = self.member(job, node).map_or(0, |m| m.left);
        for (port, op) in leaving {
            host.complete(op, OpState::Complete);
            host.ops.free(op);
            let p = &mut host.ports[port as usize];
            p.blocked = false;
            p.stamp = stamp(left);
            host.schedule_pump(port as usize, host.chip.now);
        }
    }

    /// A request was ejected and waits for memory.
    pub(crate) fn service_started(&mut self, host: &mut Adapters, h: PacketHandle) {
        let (job, node) = (host.chip.packets[h].job, host.chip.packets[h].dst);
        if let Some(m) = self.member(job, node) {
            m.service += 1;
        }
    }
    /// A request has been answered or refused.
    pub(crate) fn service_done(&mut self, host: &mut Adapters, h: PacketHandle) {
        let (job, node) = (host.chip.packets[h].job, host.chip.packets[h].dst);
        if let Some(m) = self.member(job, node) {
            m.service = m.service.saturating_sub(1);
            self.barrier_serviced(host, job, node);
        }
    }

    /// Lowest endpoint of the job at a node, to address an error to.
    pub(super) fn first_endpoint(&self, job: JobSlot, node: NodeId) -> u16 {
        let at_node = |p: &&Port| p.node == node;
        self.job(job).and_then(|j| j.ports.iter().filter(at_node).min()).map_or(0, |p| p.endpoint)
    }

    /// The least number of barriers that a node of the job that is modelled here has left.
    pub(crate) fn barriers_left(&self, host: &Adapters, job: JobSlot) -> Option<u64> {
        let group = &self.job(job)?.group;
        let here = |(m, node): &(&Member, &NodeId)| m.ports > 0 && host.chip.owned[**node as usize];
        group.members.iter().zip(&group.nodes).filter(here).map(|(m, _)| m.done + u64::from(m.rerun)).min()
    }

    /// After a route change: forget groups and specials, start the phases of unfinished barriers
    /// again. Specials in the network carry the number of an earlier one and are ignored. `least` says what
    /// [`Barriers::barriers_left`] is over all parts of a split network.
    pub(crate) fn barriers_restart(&mut self, host: &mut Adapters, least: impl Fn(JobSlot) -> Option<u64>) {
        for job in self.slots() {
            let barrier = least(job).or_else(|| self.barriers_left(host, job)).unwrap_or(0);
            let Some(j) = self.jobs[job.index()].as_mut() else { continue };
            j.group.phases = None;
            for (m, node) in j.group.members.iter_mut().zip(&j.group.nodes) {
                // A node that left the barrier others are still in (so all had entered it) takes part again.
                m.rerun = m.ports > 0 && host.chip.owned[*node as usize] && m.done + u64::from(m.rerun) > barrier;
                m.done = barrier;
                m.stage = Stage::Idle;
                m.second = false;
                m.got = Default::default();
                m.heard = Default::default();
                m.bulk = None;
                m.due = 0;
            }
            let nodes = j.group.nodes.clone();
            if nodes.is_empty() {
                continue;
            }
            self.prepare_group(host, job);
            for node in nodes {
                self.barrier_fail_if_cut(host, job, node);
                self.barrier_rerun(host, job, node);
                self.barrier_try_start(host, job, node);
            }
        }
    }

    /// Fails the ports waiting at `node` if the job's nodes cannot all reach each other any more.
    pub(super) fn barrier_fail_if_cut(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some((a, b)) = self.job(job).and_then(|j| j.group.cut) else { return };
        let outage = host.chip.routes.outage(a, b);
        let Some(m) = self.member(job, node) else { return };
        m.rerun = false;
        let mut channels = 0;
        if std::mem::take(&mut m.told) {
            // A later barrier is behind these packets, too.
            channels = m.channels;
            for (to, count) in std::mem::take(&mut m.said) {
                *host.sent_to(job, node, to) += count;
            }
        }
        for (port, op) in std::mem::take(&mut m.waiting) {
            host.ports[port as usize].channels |= channels;
            host.complete(op, OpState::Failed(OpFault::Barrier(outage)));
            host.ops.free(op);
            host.ports[port as usize].blocked = false;
            host.schedule_pump(port as usize, host.chip.now);
        }
    }
}
