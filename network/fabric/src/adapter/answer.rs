//! Answers that come back, operations that fail.

use super::state::Adapters;
use crate::packet::{PacketHandle, flag};
use crate::types::*;
use angara_abi::PAYLOAD_MAX;
use angara_net::torus::NodeId;
use bytes::Bytes;

impl Adapters {
    /// A payload of `len` bytes with `data` in it; missing bytes are zero.
    pub(crate) fn fresh_payload(&mut self, len: usize, data: &[u8], shared: Option<&Bytes>) -> u32 {
        if len > PAYLOAD_MAX {
            let contents = shared.filter(|b| b.len() >= len).map(|b| b.slice(..len));
            let padded = || data.iter().copied().chain(std::iter::repeat(0)).take(len).collect();
            return self.chip.payloads.alloc_train(contents.unwrap_or_else(padded));
        }
        let payload = self.chip.payloads.alloc();
        let (slot, have) = (&mut self.chip.payloads.get_mut(payload)[..len], data.len().min(len));
        slot[..have].copy_from_slice(&data[..have]);
        slot[have..].fill(0);
        payload
    }

    /// Fails an operation: its remaining packets are not made, later reports are dropped.
    pub(crate) fn fail_op(&mut self, op: u32, fault: OpFault) {
        self.complete(op, OpState::Failed(fault));
        let port = self.ops[op].port as usize;
        let payload = self.ops[op].payload;
        self.chip.payloads.release(payload);
        self.ports[port].ops.retain(|o| *o != op);
        self.ops.free(op);
        self.schedule_pump(port, self.chip.now);
    }

    /// Fails an operation that is at the front of its port's queue; the caller takes it out.
    pub(crate) fn give_up(&mut self, op: u32, fault: OpFault) {
        self.complete(op, OpState::Failed(fault));
        let payload = self.ops[op].payload;
        self.chip.payloads.release(payload);
        self.ops.free(op);
    }

    /// The port `to` will get no answer from node `from` for operation `op`.
    pub(crate) fn fail_answer(&mut self, (to, from): (Port, NodeId), op: u64, window: bool, fault: OpFault) {
        if window {
            self.reopen_reads(to, from);
        }
        if let Some(op) = self.ops.by_key(op).filter(|op| self.ops[*op].answered) {
            self.fail_op(op, fault);
        }
    }

    /// One read request of a port to a node is finished.
    pub(crate) fn reopen_reads(&mut self, at: Port, from: NodeId) {
        if let Some(port) = self.port_index(at).filter(|_| self.chip.owned[at.node as usize]) {
            let lane = self.lane(port, from);
            let lane = &mut self.ports[port].lanes[lane];
            lane.reads = lane.reads.saturating_sub(1);
            self.schedule_pump(port, self.chip.now);
        }
    }

    /// An answer has come back to the port that asked.
    pub(crate) fn deliver_answer(&mut self, h: PacketHandle) {
        let p = self.chip.packets[h];
        let at = Port { node: p.dst, endpoint: p.dst_ep };
        if p.bytes == 0 {
            self.fail_answer((at, p.src), p.op, p.is(flag::READ), OpFault::Refused);
            return self.chip.free_packet(h);
        }
        if p.is(flag::READ) {
            self.reopen_reads(at, p.src);
        }
        let op = self.ops.by_key(p.op).filter(|op| self.ops[*op].answered);
        let Some(op) = op.filter(|op| self.ports[self.ops[*op].port as usize].port == at) else {
            return self.chip.free_packet(h); // the operation has failed meanwhile
        };
        let o = &mut self.ops[op];
        o.to_receive = o.to_receive.saturating_sub(p.bytes as u32);
        let finished = o.to_receive == 0;
        let data = PayloadRef { slot: p.payload, len: p.bytes };
        let (job, place, time) = (p.job, p.place(), self.chip.now);
        self.effect(Effect::Write { at, job, place, data, time, last: finished, cause: None });
        self.chip.packets.free(h);
        if finished {
            let port = self.ops[op].port as usize;
            self.flush_ends(op);
            self.complete(op, OpState::Complete);
            self.ops.free(op);
            self.schedule_pump(port, self.chip.now); // a barrier may wait for it
        }
    }
}
