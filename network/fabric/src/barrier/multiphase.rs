//! The multiphase barrier: phases, the specials they send, and the markers that let the first begin.
//!
//! K is the longest route in use among the job's nodes. Once all ports of a node have entered, the
//! adapter sends a marker through every injection queue; when those have come out, all earlier
//! packets of the node are in the network and phase 0 starts: one *special* to each neighbour of
//! the group, then wait for theirs, K times. A special enters a link behind everything granted
//! before. At the far end it counts once everything that came over the link before it, on any data
//! channel, has left the router: it waits in its own channel and has markers wait in the others
//! (they take no buffer slot). So it overtakes nothing, and after K phases every packet sent to this
//! node before the barrier has been ejected here (half-barrier). A full barrier then settles
//! (ejected requests are executed, answers go into the network behind a second set of markers) and
//! does K more phases, after which everything this node sent has been delivered and answered.
//!
//! The group is the job's nodes and every node on a route between them; nodes without a port of
//! the job take part from the first special they see.

use super::state::Barriers;
use super::state::Stage;
use crate::adapter::Adapters;
use crate::chip::layout::{DATA_VCS, Q_SPECIAL};
use crate::packet::{Packet, PacketHandle, flag};
use crate::routes::DIRS;
use crate::types::*;
use angara_abi::packet::PacketType;
use angara_net::torus::NodeId;

impl Barriers {
    /// Sends markers through the injection queues.
    pub(super) fn barrier_flush(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if m.ports == 0 {
            m.stage = Stage::Phase(0);
            return self.barrier_send(host, job, node);
        }
        let queues = (0..host.chip.ports()).flat_map(|port| (0..DATA_VCS).map(move |vc| (port, vc)));
        m.stage = Stage::Flush((host.chip.ports() * DATA_VCS) as u8);
        let start = host.chip.now.max(host.chip.injecting_until(node));
        for (port, vc) in queues {
            let mut p = Packet::new(PacketType::Barrier);
            (p.src, p.dst, p.job, p.vc) = (node, node, job, vc as u8);
            p.flags = flag::MARKER;
            p.op = host.chip.route_change;
            p.ready = start + host.chip.params.inject_ps; // goes through no router
            let h = host.chip.packets.alloc(p);
            host.chip.append(node, host.chip.lay.injection(port, vc), h);
        }
    }

    /// A barrier packet is at the front of a queue: the outputs it wants, or it is consumed.
    pub(crate) fn barrier_head(
        &mut self,
        host: &mut Adapters,
        node: u32,
        queue: usize,
        h: PacketHandle,
    ) -> Option<u16> {
        let p = host.chip.packets[h];
        if p.op != host.chip.route_change {
            host.chip.discard_front(node, queue);
            return None;
        }
        if p.src != p.dst {
            self.message_head(host, node, queue, h);
            return None;
        }
        if host.chip.lay.is_special(queue) {
            let dirs = self.member(p.job, node).map_or(0, |m| m.dirs);
            if dirs == 0 {
                host.chip.discard_front(node, queue);
                return None;
            }
            return Some(dirs);
        }
        host.chip.discard_front(node, queue);
        match host.chip.lay.dir(queue) {
            None => self.barrier_marker(host, p.job, node),
            Some(dir) => self.barrier_special(host, &p, node, dir, host.chip.lay.vc(queue)),
        }
        None
    }

    fn barrier_marker(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let Some(m) = self.member(job, node) else { return };
        if let Stage::Flush(left) = m.stage {
            m.stage = Stage::Flush(left - 1);
            if left == 1 {
                m.stage = Stage::Phase(0);
                self.barrier_send(host, job, node);
            }
        }
    }

    fn barrier_special(&mut self, host: &mut Adapters, p: &Packet, node: NodeId, dir: usize, vc: usize) {
        self.prepare_group(host, p.job);
        let odd = p.is(flag::ODD);
        // Packets that crossed the link before the special have left channel `vc`. In each other channel
        // a marker waits behind the packets that came before.
        for other in (0..DATA_VCS).filter(|other| *other != vc && !p.is(flag::MARKER)) {
            let mut marker = *p;
            marker.flags |= flag::MARKER;
            (marker.src, marker.dst, marker.vc) = (node, node, other as u8);
            if !host.chip.mark(node, host.chip.lay.arrival(dir, other), marker)
                && let Some(m) = self.member(p.job, node)
            {
                m.got[odd as usize][dir][other] += 1;
            }
        }
        let Some(m) = self.member(p.job, node) else { return };
        m.got[odd as usize][dir][vc] += 1;
        m.seen_full[odd as usize] = p.is(flag::FULL);
        let starts = m.stage == Stage::Idle && (m.ports == 0 || m.rerun);
        if starts && m.odd() == odd {
            m.full = p.is(flag::FULL);
            m.second = false;
            self.barrier_flush(host, p.job, node);
        } else if m.stage != Stage::Idle && m.odd() == odd && m.full != p.is(flag::FULL) && m.ports > 0 {
            let at = Port { node, endpoint: self.first_endpoint(p.job, node) };
            let what = NetError::BarrierMismatch { node };
            host.effect(Effect::Error { at, job: p.job, what, time: host.chip.now });
        }
        self.phase_check(host, p.job, node);
    }

    /// Sends this phase's specials, or goes straight on if there are no phases.
    pub(super) fn barrier_send(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        self.prepare_group(host, job);
        let change = host.chip.route_change;
        let phases = self.phases_of(job);
        let Some(m) = self.member(job, node) else { return };
        if phases == 0 {
            return self.barrier_half_done(host, job, node);
        }
        let bits = if m.full { flag::FULL } else { 0 } | if m.odd() { flag::ODD } else { 0 };
        let mut p = Packet::new(PacketType::Barrier);
        (p.src, p.dst, p.job, p.vc) = (node, node, job, 0);
        p.ready = host.chip.now;
        p.flags = bits;
        p.op = change;
        let h = host.chip.packets.alloc(p);
        host.chip.append(node, Q_SPECIAL, h);
        self.phase_check(host, job, node);
    }

    pub(super) fn phases_of(&self, job: JobSlot) -> u32 {
        self.job(job).map_or(0, |j| j.group.phases.unwrap_or(0).saturating_sub(j.group.short_by))
    }

    /// Goes on to the next phase if every neighbour's specials are here.
    fn phase_check(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
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
        let at = host.chip.now + host.chip.params.barrier_ps;
        self.barrier_wake(host, job, node, at);
    }

    /// Everything sent to this node before is ejected or on its way from the ejector to the host.
    ///
    /// Between the halves of a full barrier requests are executed and answers let into the network. A node
    /// at whose host nothing is left to arrive, to be answered or to be injected goes straight on.
    pub(super) fn barrier_half_done(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId) {
        let ejected = host.chip.ejecting_until(node) + host.chip.params.eject_ps;
        let at = ejected.max(host.chip.now + host.chip.params.eject_ps);
        let quiet = ejected <= host.chip.now && host.chip.has_injected(node);
        let Some(m) = self.member(job, node) else { return };
        if m.full && !m.second && (m.ports == 0 || (quiet && m.service == 0)) {
            m.second = true;
            m.stage = Stage::Phase(0);
            return self.barrier_send(host, job, node);
        }
        if m.ports == 0 {
            return self.barrier_leave(host, job, node);
        }
        m.stage = Stage::Settle;
        self.barrier_wake(host, job, node, at);
    }
}
