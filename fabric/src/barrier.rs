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

use crate::Fabric;
use crate::event::Kind;
use crate::router::{OUT_EJECT, Q_CREDIT, Q_INJECT, Q_SPECIAL, VCS};
use crate::slab::{Packet, flag};
use crate::topology::{DIRS, NONE};
use crate::types::*;
use abi::packet::PacketType;
use abi::torus::NodeId;

/// Data channels a special goes out on: response, request, adaptive.
const DATA_VCS: usize = 3;
/// Above this many nodes of a job (and for jobs that fill the network) the group is every node.
const GROUP_EXACT: usize = 128;
/// Above this many nodes of a job K is the diameter, which no fault-free route exceeds.
const LONGEST_EXACT: usize = 2048;

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

    /// Computes K and the transit nodes if a route change or a new job made that necessary.
    pub(crate) fn prepare_group(&mut self, job: JobId) {
        let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else { return };
        if j.group.phases.is_some() {
            return;
        }
        let nodes = j.nodes.clone();
        let (longest, cut) = self.longest_among(&nodes);
        let inside = self.inside(&nodes);
        let (net, routes) = (self.net.clone(), &self.routes);
        let Some(j) = self.jobs[job as usize].as_mut() else { return };
        let group = &mut j.group;
        group.phases = Some(longest);
        group.cut = cut;
        let barrier = group.members.iter().filter(|m| m.ports > 0).map(|m| m.done).min().unwrap_or(0);
        for node in 0..net.nodes as u32 {
            let member = nodes.binary_search(&node).is_ok() || (inside[node as usize] && routes.node_up(node));
            if member && group.index[node as usize] == NONE {
                group.index[node as usize] = group.members.len() as u32;
                group.members.push(Member { done: barrier, ..Member::new(0) });
                group.nodes.push(node);
            }
        }
        for i in 0..group.nodes.len() {
            let node = group.nodes[i];
            let near = |dir: &usize| {
                let far = net.neighbour(node, *dir);
                let takes_part = |n: u32| inside[n as usize] || nodes.binary_search(&n).is_ok();
                far != NONE && !routes.blocked(node, *dir) && takes_part(node) && takes_part(far)
            };
            // Nodes that dropped out of the group keep their place but have no neighbours in it.
            group.members[i].dirs = (0..DIRS).filter(near).fold(0, |bits, dir| bits | 1 << dir);
        }
    }

    fn longest_among(&self, nodes: &[NodeId]) -> (u32, Option<(NodeId, NodeId)>) {
        if nodes.len() > LONGEST_EXACT && !self.routes.any_dead() {
            let shape = &self.net.shape;
            let half = |size: usize| if shape.is_torus() { size / 2 } else { size - 1 };
            return ((0..4).map(|d| half(shape.size(d)) as u32).sum(), None);
        }
        let mut longest = 0;
        for &a in nodes {
            for &b in nodes {
                match self.routes.hops(a, b) {
                    Some(hops) => longest = longest.max(hops),
                    None => return (longest, Some((a, b))),
                }
            }
        }
        (longest, None)
    }

    /// Nodes a packet between two of `nodes` may pass, adaptive ones included.
    fn inside(&self, nodes: &[NodeId]) -> Vec<bool> {
        let all = self.net.nodes;
        if nodes.len() > GROUP_EXACT || nodes.len() == all {
            return vec![true; all];
        }
        let mut inside = vec![false; all];
        for &a in nodes {
            for &b in nodes {
                for link in self.routes.path(a, b).into_iter().flatten() {
                    inside[link.node as usize] = true;
                }
                let shortest = self.net.shape.distance(a, b);
                if !self.routes.any_dead() && shortest > 1 {
                    let between = |n: u32| self.distance(a, n) + self.distance(n, b) == shortest;
                    (0..all as u32).filter(|n| between(*n)).for_each(|n| inside[n as usize] = true);
                }
            }
        }
        inside
    }

    /// Length of a minimal route, from the coordinate tables.
    fn distance(&self, a: NodeId, b: NodeId) -> u32 {
        let (a, b) = (self.net.coords(a), self.net.coords(b));
        let torus = self.net.shape.is_torus();
        (0..4)
            .map(|d| {
                let straight = a[d].abs_diff(b[d]) as u32;
                if torus { straight.min(self.net.shape.size(d) as u32 - straight) } else { straight }
            })
            .sum()
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

    /// Sends markers through the injection queues.
    fn barrier_flush(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.ports == 0 {
            m.stage = Stage::Phase(0);
            return self.barrier_send(job, node);
        }
        m.stage = Stage::Flush(DATA_VCS as u8);
        let start = self.now.max(self.inject_busy[node as usize]);
        for vc in 0..DATA_VCS {
            let mut p = Packet::new(PacketType::Barrier);
            (p.src, p.dst, p.job, p.vc) = (node, node, job, vc as u8);
            p.flags = flag::MARKER;
            p.op = self.epoch;
            (p.head, p.tail) = (start + self.params.inject_ps, start + self.params.inject_ps);
            let h = self.packets.alloc(p);
            self.append(node, Q_INJECT + vc, h);
        }
    }

    /// A barrier packet is at the front of a queue: the outputs it wants, or it is consumed.
    pub(crate) fn barrier_head(&mut self, node: u32, queue: usize, h: u32) -> Option<u16> {
        let p = self.packets[h];
        if queue >= Q_SPECIAL {
            let dirs = self.member(p.job, node).map_or(0, |m| m.dirs);
            if dirs == 0 {
                self.discard_front(node, queue);
                return None;
            }
            return Some(dirs as u16);
        }
        let stale = p.op != self.epoch;
        self.discard_front(node, queue);
        if stale {
            return None;
        }
        if (Q_INJECT..Q_CREDIT).contains(&queue) {
            self.barrier_marker(p.job, node);
        } else {
            self.barrier_special(&p, node, queue / VCS, queue % VCS);
        }
        None
    }

    fn barrier_marker(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if let Stage::Flush(left) = m.stage {
            m.stage = Stage::Flush(left - 1);
            if left == 1 {
                m.stage = Stage::Phase(0);
                self.barrier_send(job, node);
            }
        }
    }

    fn barrier_special(&mut self, p: &Packet, node: NodeId, dir: usize, vc: usize) {
        self.prepare_group(p.job);
        let Some(m) = self.member(p.job, node) else { return };
        let odd = p.is(flag::ODD);
        m.got[odd as usize][dir][vc] += 1;
        m.seen_full[odd as usize] = p.is(flag::FULL);
        let starts = m.stage == Stage::Idle && (m.ports == 0 || m.rerun);
        if starts && m.odd() == odd {
            m.full = p.is(flag::FULL);
            m.second = false;
            self.barrier_flush(p.job, node);
        } else if m.stage != Stage::Idle && m.odd() == odd && m.full != p.is(flag::FULL) && m.ports > 0 {
            let at = Port { node, endpoint: self.first_endpoint(p.job, node) };
            let what = NetError::BarrierMismatch { node };
            self.effect(Effect::Error { at, job: p.job, what, time: self.now });
        }
        self.barrier_check(p.job, node);
    }

    /// Sends this phase's specials, or goes straight on if there are no phases.
    fn barrier_send(&mut self, job: JobId, node: NodeId) {
        self.prepare_group(job);
        let epoch = self.epoch;
        let phases = self.phases_of(job);
        let Some(m) = self.member(job, node) else { return };
        if phases == 0 {
            return self.barrier_half_done(job, node);
        }
        let bits = if m.full { flag::FULL } else { 0 } | if m.odd() { flag::ODD } else { 0 };
        for vc in 0..DATA_VCS {
            let mut p = Packet::new(PacketType::Barrier);
            (p.src, p.dst, p.job, p.vc) = (node, node, job, vc as u8);
            (p.head, p.tail) = (self.now, self.now);
            p.flags = bits;
            p.op = epoch;
            let h = self.packets.alloc(p);
            self.append(node, Q_SPECIAL + vc, h);
        }
        self.barrier_check(job, node);
    }

    fn phases_of(&self, job: JobId) -> u32 {
        self.job(job).map_or(0, |j| j.group.phases.unwrap_or(0).saturating_sub(j.group.short_by))
    }

    /// Goes on to the next phase if every neighbour's specials are here.
    fn barrier_check(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        let Stage::Phase(phase) = m.stage else { return };
        let (dirs, got) = (m.dirs, &mut m.got[(m.done % 2) as usize]);
        let from = |dir: usize| dirs >> (dir ^ 4) & 1 != 0;
        if (0..DIRS).any(|dir| from(dir) && got[dir].contains(&0)) {
            return;
        }
        for dir in (0..DIRS).filter(|d| from(*d)) {
            got[dir].iter_mut().for_each(|n| *n -= 1);
        }
        m.stage = Stage::Next(phase + 1);
        let at = self.now + self.params.barrier_ps;
        self.barrier_wake(job, node, at);
    }

    fn barrier_wake(&mut self, job: JobId, node: NodeId, at: Tick) {
        let Some(m) = self.member(job, node) else { return };
        m.due = at;
        self.events.push(at, Kind::Phase, node, job as u32);
    }

    /// [`Kind::Phase`]: the next phase, the end of a half, or the end of settling.
    pub(crate) fn on_phase(&mut self, node: NodeId, job: JobId) {
        let (now, phases) = (self.now, self.phases_of(job));
        let Some(m) = self.member(job, node) else { return };
        match m.stage {
            _ if m.due != now => {}
            Stage::Next(phase) if phase < phases => {
                m.stage = Stage::Phase(phase);
                self.barrier_send(job, node);
            }
            Stage::Next(_) => self.barrier_half_done(job, node),
            Stage::Settle if m.full && !m.second => {
                m.stage = Stage::Service;
                self.barrier_serviced(job, node);
            }
            Stage::Settle => self.barrier_leave(job, node),
            _ => {}
        }
    }

    /// Everything sent to this node before is ejected or on its way from the ejector to the host.
    fn barrier_half_done(&mut self, job: JobId, node: NodeId) {
        let at = self.now.max(self.routers.out_busy(node, OUT_EJECT)) + self.params.eject_ps;
        let Some(m) = self.member(job, node) else { return };
        if m.ports == 0 && m.full && !m.second {
            m.second = true;
            m.stage = Stage::Phase(0);
            return self.barrier_send(job, node);
        }
        if m.ports == 0 {
            return self.barrier_leave(job, node);
        }
        m.stage = Stage::Settle;
        self.barrier_wake(job, node, at);
    }

    /// The second half starts once no ejected request is unanswered.
    fn barrier_serviced(&mut self, job: JobId, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.stage == Stage::Service && m.service == 0 {
            m.second = true;
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
