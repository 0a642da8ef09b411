//! The model checks its own barriers.
//!
//! A node that leaves while another has not entered (*early exit*), a packet sent before a barrier
//! that is delivered at a node that has left it (*late packet*), and a node that leaves a full
//! barrier before all it sent is delivered and answered (*unfinished*) are errors of the barrier,
//! not of the program. Each packet carries the number of barriers its sender had left, modulo 4,
//! and its target compares; so the check costs a comparison per delivered packet and is always on.
//! It ends for a job whose barrier has failed: its nodes no longer agree on the number.

use super::state::Barriers;
use crate::adapter::Adapters;
use crate::packet::{Packet, PacketHandle, flag};
use crate::types::*;
use angara_net::torus::NodeId;

/// Barriers of a job that the model checked since the job was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BarrierCheck {
    /// Times a node left a barrier.
    pub left: u64,
    /// Times a node left a barrier before every node had entered it.
    pub early: u64,
    /// Times a node left a full barrier before all it had sent was delivered and answered.
    pub unfinished: u64,
    /// Packets sent before a barrier and delivered at a node that had left it.
    pub late: u64,
}

impl BarrierCheck {
    /// Every guarantee held.
    pub fn held(&self) -> bool {
        self.early + self.unfinished + self.late == 0
    }
}

/// Place of the two bits that data packets carry, in `Packet::flags`.
const SHIFT: u32 = flag::FULL.trailing_zeros();

/// The number of barriers a port has left, as its packets carry it.
pub(crate) fn stamp(left: u64) -> u16 {
    const { assert!(flag::ODD == flag::FULL << 1) };
    ((left % 4) as u16) << SHIFT
}

/// As stamped on a data packet.
pub(crate) fn stamp_of(p: &Packet) -> u16 {
    p.flags >> SHIFT & 3
}

impl Barriers {
    /// Returns what the model saw of the job's barriers; see [`BarrierCheck`].
    pub(crate) fn barrier_check(&self, job: JobSlot) -> BarrierCheck {
        self.job(job).map_or_else(BarrierCheck::default, |j| j.group.check)
    }

    /// All ports of a node are in the barrier.
    pub(super) fn check_entry(&mut self, job: JobSlot, node: NodeId) {
        let Some(number) = self.member(job, node).map(|m| m.left) else { return };
        if let Some(j) = self.jobs[job.index()].as_mut() {
            j.group.entered[(number % 4) as usize] += 1;
        }
    }

    /// A node leaves the barrier with these ports.
    pub(super) fn check_exit(
        &mut self,
        host: &mut Adapters,
        job: JobSlot,
        node: NodeId,
        ports: &[(u32, u32)],
        full: bool,
    ) {
        let Some(m) = self.member(job, node) else { return };
        let number = (m.left % 4) as usize;
        m.left += 1;
        let finished = ports.iter().all(|(port, _)| {
            let port = *port as usize;
            host.ports[port].outstanding == 0 && host.unanswered(port) == 0
        });
        let Some(j) = self.jobs[job.index()].as_mut() else { return };
        let group = &mut j.group;
        group.check.left += 1;
        let early = group.entered[number] < group.here;
        // The last to leave makes room for the barrier after the next three.
        group.gone[number] += 1;
        if group.gone[number] == group.here {
            (group.entered[number], group.gone[number]) = (0, 0);
        }
        if !group.checked {
            return;
        }
        group.check.early += u64::from(early);
        group.check.unfinished += u64::from(full && !finished);
        if early {
            self.barrier_error(host, job, node, NetError::EarlyExit { node });
        }
        if full && !finished {
            self.barrier_error(host, job, node, NetError::Unfinished { node });
        }
    }

    /// A packet is delivered whose stamp is not that of its target's port.
    #[cold]
    pub(crate) fn check_late(&mut self, host: &mut Adapters, port: usize, h: PacketHandle) {
        let p = host.chip.packets[h];
        let job = p.job;
        let behind = (host.ports[port].stamp >> SHIFT).wrapping_sub(stamp_of(&p)) & 3;
        let Some(j) = self.jobs[job.index()].as_mut().filter(|j| j.group.checked) else { return };
        // 3 is a packet from a node that has left the barrier its target is still in.
        if behind != 3 && !p.is(flag::RESULT) {
            j.group.check.late += 1;
            self.barrier_error(host, job, p.dst, NetError::LatePacket { from: p.src, to: p.dst });
        }
    }

    fn barrier_error(&mut self, host: &mut Adapters, job: JobSlot, node: NodeId, what: NetError) {
        let at = Port { node, endpoint: self.first_endpoint(job, node) };
        host.effect(Effect::Error { at, job, what, time: host.chip.now });
    }
}
