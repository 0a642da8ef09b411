//! Barriers, done by the adapters (paper 001).
//!
//! A node enters a barrier once all ports of the job at the node have. What the adapters then do
//! among themselves depends on the job's [`BarrierFamily`]; the host is told once, when the node
//! may leave. Either specials go from neighbour to neighbour and flush every channel of every link
//! (`multiphase`), or messages are routed like data from node to node (`messages`). Consecutive
//! barriers alternate in parity, so a node that is one barrier ahead is not mistaken. A route change
//! starts unfinished barriers again: messages carry the number of the change and older ones are
//! ignored. `check` watches that the guarantees hold.

mod check;
mod family;
mod group;
mod messages;
mod multiphase;

pub use check::BarrierCheck;
pub(crate) use check::{stamp, stamp_of};
pub use family::BarrierFamily;

use crate::Fabric;
use crate::event::Kind;
use crate::layout::DATA_VCS;
use crate::topology::DIRS;
use crate::types::*;
use abi::torus::NodeId;
use messages::{Bulk, Heard};
use std::collections::BTreeMap;

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
    /// The host's word is on its way to the adapter.
    Enter,
    /// At this step of exchanging messages.
    Talk(u8),
    /// The adapters are done: waits for what is on its way to the host.
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
    /// The barrier under way is a full one, the one the ports wait in is, the one left last was.
    pub(crate) full: bool,
    asked_full: bool,
    left_full: bool,
    /// What the latest specials of each parity said about `full`.
    pub(crate) seen_full: [bool; 2],
    /// Had left the barrier that a route change started again; takes part without waiting ports.
    pub(crate) rerun: bool,
    /// Group neighbours, one bit per direction.
    pub(crate) dirs: u16,
    /// Specials not yet used, by parity, travel direction and channel.
    pub(crate) got: [[[u8; DATA_VCS]; DIRS]; 2],
    /// Requests of the job ejected here and not yet answered.
    pub(crate) service: u32,
    /// Barriers left, as the adapters count: a route change may take one back.
    pub(crate) done: u64,
    /// Barriers left, as the ports count.
    pub(crate) left: u64,
    /// When the event that ends `Next`, `Enter` or `Settle` is due.
    pub(crate) due: Tick,
    /// Messages not yet used, by parity.
    heard: [Heard; 2],
    /// Messages being sent to many, one after the other.
    bulk: Option<Bulk>,
    /// The adapter's way into the network is in use until then.
    unit_busy: Tick,
    /// Packets delivered here, by parity of the barrier they were sent before (counting only).
    delivered: [u64; 2],
    /// Channels the ports had put data on before the barrier, as bits (all-to-all only).
    channels: u8,
    /// Packets sent since the last barrier, and before it, by target (counting only).
    sent: BTreeMap<NodeId, u32>,
    said: BTreeMap<NodeId, u32>,
    /// `said` and `channels` are those of the barrier the ports wait in.
    told: bool,
    /// Those of the barrier before that one.
    before: (BTreeMap<NodeId, u32>, u8),
}

impl Member {
    pub(crate) fn new(ports: u32) -> Member {
        Member {
            ports,
            waiting: Vec::new(),
            stage: Stage::Idle,
            second: false,
            full: false,
            asked_full: false,
            left_full: false,
            seen_full: [false; 2],
            rerun: false,
            dirs: 0,
            got: Default::default(),
            service: 0,
            done: 0,
            left: 0,
            due: 0,
            heard: Default::default(),
            bulk: None,
            unit_busy: 0,
            delivered: [0; 2],
            channels: 0,
            sent: BTreeMap::new(),
            said: BTreeMap::new(),
            told: false,
            before: Default::default(),
        }
    }
    /// Packets sent before the barrier under way, by target, and the channels they went on: a node that takes part once
    /// more in a barrier it had left may have begun the next one.
    fn announced(&self) -> (&BTreeMap<NodeId, u32>, u8) {
        if self.rerun && self.told { (&self.before.0, self.before.1) } else { (&self.said, self.channels) }
    }
    /// Parity of the barrier the node is in or will enter next.
    fn odd(&self) -> bool {
        self.done % 2 == 1
    }
}

/// The barrier group of a job.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) family: BarrierFamily,
    /// Per node of the network: its place in `members`, or [`crate::topology::NONE`]. The job's own
    /// nodes come first, sorted.
    pub(crate) index: Vec<u32>,
    pub(crate) members: Vec<Member>,
    pub(crate) nodes: Vec<NodeId>,
    /// How many nodes of the job are modelled here.
    pub(crate) here: u32,
    /// K, once known for the present routes.
    pub(crate) phases: Option<u32>,
    /// Members that cannot reach each other.
    pub(crate) cut: Option<(NodeId, NodeId)>,
    /// Phases left out on purpose.
    short_by: u32,
    /// Who hears from whom in a tree or from a master.
    tree: messages::Upwards,
    /// Offsets from a node to all others, the nearest first.
    order: Vec<NodeId>,
    check: BarrierCheck,
    checked: bool,
    /// Nodes that have entered and left the barrier of each number modulo 4.
    entered: [u32; 4],
    gone: [u32; 4],
}

impl Group {
    /// A group for `nodes` nodes of the network, empty so far.
    pub(crate) fn new(nodes: usize) -> Group {
        Group { index: vec![crate::topology::NONE; nodes], checked: true, ..Group::default() }
    }
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

    /// Chooses how the job's barriers are done. Before the first of them only.
    pub fn set_barrier_family(&mut self, job: JobId, family: BarrierFamily) -> Result<(), JobError> {
        let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else {
            return Err(JobError::NotOpen(job));
        };
        let used = |m: &Member| m.left > 0 || !m.waiting.is_empty() || m.stage != Stage::Idle;
        if j.group.members.iter().any(used) {
            return Err(JobError::BarrierUsed(job));
        }
        j.group.family = family;
        j.group.phases = None;
        for port in j.ports.clone() {
            if let Some(i) = self.port_index(port) {
                self.ports[i].family = family;
            }
        }
        self.counting = self.jobs.iter().flatten().any(|j| j.group.family == BarrierFamily::Counting);
        Ok(())
    }

    /// How the job's barriers are done.
    pub fn barrier_family(&self, job: JobId) -> BarrierFamily {
        self.job(job).map_or_else(BarrierFamily::default, |j| j.group.family)
    }

    /// Leaves `phases` phases out of each half of the job's multiphase barriers, which makes them
    /// unsafe: to show that K are needed, and that the model notices.
    pub fn shorten_barrier(&mut self, job: JobId, phases: u32) {
        if let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) {
            j.group.short_by = phases;
        }
    }

    /// May the barrier at the front of a port's queue be entered now? Families that rest on
    /// acknowledgements wait for those of everything the port has sent.
    pub(crate) fn barrier_may_enter(&mut self, port: usize, half: bool) -> bool {
        let p = &self.ports[port];
        if !p.staging.is_empty() {
            return false;
        }
        let family = p.family;
        let answers = !half && !family.two_halves();
        if family.acknowledges() {
            let (out, at) = (p.outstanding > 0 || p.staged > 0, p.acknowledged);
            if out || at > self.now {
                if !out {
                    self.schedule_pump(port, at);
                }
                return false;
            }
        }
        !(answers && self.unanswered(port) > 0)
    }

    /// Operations of a port that are under way and end with an answer.
    pub(crate) fn unanswered(&self, port: usize) -> u32 {
        let waiting = self.ports[port].ops.iter().filter(|op| self.ops[**op].answered).count() as u32;
        self.ops.answered_of(port as u32) - waiting
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
        if !member.waiting.is_empty() && member.asked_full == half {
            let what = NetError::BarrierMismatch { node: at.node };
            self.effect(Effect::Error { at, job, what, time: self.now });
        }
        let member = self.member(job, at.node).expect("looked up above");
        member.asked_full = if member.waiting.is_empty() { !half } else { member.asked_full };
        member.waiting.push((port as u32, op));
        if member.waiting.len() as u32 == member.ports {
            self.check_entry(job, at.node);
        }
        self.barrier_try_start(job, at.node);
    }

    fn barrier_try_start(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Idle && !m.rerun && m.ports > 0 && m.waiting.len() as u32 == m.ports {
            m.second = false;
            m.full = m.asked_full;
            self.barrier_begin(job, node);
        }
    }

    /// Begins a half of the barrier.
    fn barrier_begin(&mut self, job: JobId, node: NodeId) {
        match self.barrier_family(job) {
            BarrierFamily::Multiphase => self.barrier_flush(job, node),
            _ => self.barrier_announce(job, node),
        }
    }

    fn barrier_wake(&mut self, job: JobId, node: NodeId, at: Tick) {
        let Some(m) = self.member(job, node) else { return };
        m.due = at;
        self.events.push(at, Kind::Phase, node, job as u32);
    }

    /// [`Kind::Phase`]: the next phase, the end of a half, or the end of settling.
    pub(crate) fn on_phase(&mut self, node: NodeId, job: JobId) {
        let now = self.now;
        let Some(group) = self.job(job).map(|j| &j.group) else { return };
        let (phases, two_halves) = (self.phases_of(job), group.family.two_halves());
        let Some(m) = self.member(job, node) else { return };
        match m.stage {
            _ if m.due != now => {}
            Stage::Next(phase) if phase < phases => {
                m.stage = Stage::Phase(phase);
                self.barrier_send(job, node);
            }
            Stage::Next(_) => self.barrier_half_done(job, node),
            Stage::Enter => {
                m.stage = Stage::Talk(0);
                self.barrier_talk(job, node, false);
            }
            Stage::Settle if m.full && !m.second && two_halves => {
                m.stage = Stage::Service;
                self.barrier_serviced(job, node);
            }
            Stage::Settle => self.barrier_leave(job, node),
            _ => {}
        }
    }

    /// The second half starts once no ejected request is unanswered.
    fn barrier_serviced(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Service && m.service == 0 {
            m.second = true;
            self.barrier_begin(job, node);
        }
    }

    fn barrier_leave(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        m.stage = Stage::Idle;
        m.heard[(m.done % 2) as usize] = Heard::default();
        m.done += 1;
        if !std::mem::take(&mut m.rerun) {
            self.barrier_release(job, node);
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

    /// The ports of a node leave the barrier.
    fn barrier_release(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.ports == 0 {
            m.left += 1;
            return;
        }
        m.delivered[(m.left % 2) as usize] = 0;
        m.left_full = m.full;
        m.told = false;
        let (full, leaving) = (m.full, std::mem::take(&mut m.waiting));
        self.check_exit(job, node, &leaving, full);
        let left = self.member(job, node).map_or(0, |m| m.left);
        for (port, op) in leaving {
            self.complete(op, OpState::Complete);
            self.ops.free(op);
            let p = &mut self.ports[port as usize];
            p.blocked = false;
            p.stamp = stamp(left);
            self.schedule_pump(port as usize, self.now);
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

    /// The least number of barriers that a node of the job that is modelled here has left.
    pub(crate) fn barriers_left(&self, job: JobId) -> Option<u64> {
        let group = &self.job(job)?.group;
        let here = |(m, node): &(&Member, &NodeId)| m.ports > 0 && self.owned[**node as usize];
        group.members.iter().zip(&group.nodes).filter(here).map(|(m, _)| m.done + u64::from(m.rerun)).min()
    }

    /// After a route change: forget groups and specials, start the phases of unfinished barriers
    /// again. Specials in the network carry an old epoch and are ignored. `least` says what
    /// [`Fabric::barriers_left`] is over all parts of a split network.
    pub(crate) fn barriers_restart(&mut self, least: impl Fn(JobId) -> Option<u64>) {
        for job in 0..self.jobs.len() as u16 {
            let barrier = least(job).or_else(|| self.barriers_left(job)).unwrap_or(0);
            let Some(j) = self.jobs[job as usize].as_mut() else { continue };
            j.group.phases = None;
            for (m, node) in j.group.members.iter_mut().zip(&j.group.nodes) {
                // Who left the barrier others are still in (so all had entered it) takes part again.
                m.rerun = m.ports > 0 && self.owned[*node as usize] && m.done + u64::from(m.rerun) > barrier;
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
            self.prepare_group(job);
            for node in nodes {
                self.barrier_fail_if_cut(job, node);
                self.barrier_rerun(job, node);
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
        let mut channels = 0;
        if std::mem::take(&mut m.told) {
            // A later barrier is behind these packets, too.
            channels = m.channels;
            for (to, count) in std::mem::take(&mut m.said) {
                *m.sent.entry(to).or_default() += count;
            }
        }
        for (port, op) in std::mem::take(&mut m.waiting) {
            self.ports[port as usize].channels |= channels;
            self.complete(op, OpState::Failed(OpFault::Barrier(blame)));
            self.ops.free(op);
            self.ports[port as usize].blocked = false;
            self.schedule_pump(port as usize, self.now);
        }
    }
}
