//! Adapters, on the way out: packets become effects.
//!
//! At the target packets are executed in the order ejected. Reads and fetching atomics are answered
//! on vc0. Here is also what becomes of packets and operations that fail.

use crate::Fabric;
use crate::slab::{Detail, Packet, flag, flits_for};
use crate::topology::NONE;
use crate::types::*;
use abi::PAYLOAD_MAX;
use abi::desc::{Place, Region};
use abi::packet::{PacketType, Vc};
use abi::torus::NodeId;
use bytes::Bytes;

impl Fabric {
    /// A packet is out of the network: ejected or dropped. `at` is where.
    pub(crate) fn left(&mut self, at: NodeId, h: u32) {
        let p = self.packets[h];
        if p.is(flag::OLD) {
            self.old_left(p.src, p.dst);
        }
        if p.is(flag::FOREIGN) {
            self.count_ejected(h);
        }
        if p.port == NONE || p.is(flag::DEAD) || matches!(p.kind, PacketType::ReadRsp | PacketType::Barrier) {
            return;
        }
        if self.counting {
            self.count_delivered(h);
        }
        if !p.is(flag::FOREIGN) {
            let port = p.port as usize;
            if self.ports[port].family.acknowledges() {
                // The acknowledgement goes back among adapters; it takes time but no room.
                let back = self.routes.hops(at, p.src).unwrap_or(0) as Tick * self.hop_ps;
                let back = back + self.delay_on_route(at, p.src);
                let last = &mut self.ports[port].acknowledged;
                *last = (*last).max(self.now + back);
            }
            self.ports[port].outstanding = self.ports[port].outstanding.saturating_sub(1);
            self.schedule_pump(port, self.now);
        }
    }

    /// [`Kind::Deliver`]: a packet has reached the host of its target.
    pub(crate) fn on_deliver(&mut self, node: u32, h: u32) {
        if self.packets[h].is(flag::RAW) {
            return self.deliver_raw(h);
        }
        if self.packets[h].kind == PacketType::Barrier {
            return self.message_here(node, h);
        }
        self.left(node, h);
        let p = self.packets[h];
        if p.is(flag::DEAD) {
            return self.free_packet(h);
        }
        if p.kind == PacketType::CollCredit {
            self.free_packet(h);
            return self.processor_credited(node);
        }
        if p.kind == PacketType::BcastDown {
            return self.tree_delivered(node, h);
        }
        let at = Port { node, endpoint: p.dst_ep };
        let Some(port) = self.port_index(at).filter(|i| self.ports[*i].job == p.job) else {
            self.counters.nodes[node as usize].foreign_drops += 1;
            return self.free_packet(h);
        };
        if p.kind != PacketType::ReadRsp && (p.flags ^ self.ports[port].stamp) & (flag::FULL | flag::ODD) != 0 {
            self.check_late(port, h);
        }
        self.counters.nodes[node as usize].ejected += p.packets();
        let (job, place, time) = (p.job, p.place(), self.now);
        match p.kind {
            PacketType::Write if p.is(flag::RESULT) => self.tree_result_arrived(h),
            PacketType::Write => {
                let data = PayloadRef { slot: p.payload, len: p.bytes };
                self.effect(Effect::Write { at, job, place, data, time, last: p.is(flag::LAST) });
                self.packets.free(h); // the payload now belongs to the effect
            }
            PacketType::ReadRsp => self.deliver_answer(h),
            PacketType::ReadReq => {
                let Detail::Read { len, .. } = p.detail else { return self.free_packet(h) };
                if !self.carry {
                    return self.answer(h, &[], None);
                }
                let token = self.await_memory(h);
                self.effect(Effect::Fetch { at, job, place, len, token, time });
            }
            PacketType::AtomicAdd | PacketType::AtomicXor | PacketType::Service => {
                let Detail::Amo { op, width, operand, comparand, .. } = p.detail else { return self.free_packet(h) };
                let token = p.is(flag::ANSWER).then(|| self.await_memory(h));
                self.effect(Effect::Amo { at, job, place, op, width, operand, comparand, token, time });
                if token.is_none() {
                    self.free_packet(h);
                }
            }
            _ => self.free_packet(h),
        }
    }

    /// The request stays until its memory has been supplied.
    fn await_memory(&mut self, h: u32) -> FetchToken {
        self.packets[h].flags |= flag::AWAIT;
        self.waiting += 1;
        self.service_started(h);
        FetchToken(self.packets.token(h))
    }

    /// Hands over the memory an effect asked for. At the source of a write the packet goes on; at
    /// the target of a read or atomic the answer is sent. Stale tokens are ignored; missing bytes
    /// count as zero.
    pub fn supply(&mut self, token: FetchToken, data: &[u8]) {
        match data.len() {
            0..=PAYLOAD_MAX => self.take_memory(token, data, None),
            _ => self.supply_bytes(token, Bytes::copy_from_slice(data)),
        }
    }

    /// [`Fabric::supply`] of memory that need not be copied again.
    pub fn supply_bytes(&mut self, token: FetchToken, data: Bytes) {
        self.take_memory(token, &data, Some(&data));
    }

    fn take_memory(&mut self, token: FetchToken, data: &[u8], shared: Option<&Bytes>) {
        let Some(h) = self.packets.by_token(token.0) else { return };
        self.waiting -= 1;
        self.packets[h].flags &= !flag::AWAIT;
        match self.packets[h].kind {
            PacketType::ReadReq | PacketType::Service => self.answer(h, data, shared),
            _ => {
                let p = self.packets[h];
                self.packets[h].payload = self.fresh_payload(p.bytes as usize, data, shared);
                if let Some(op) = self.ops.by_key(p.op) {
                    self.ops[op].to_copy -= 1;
                    if self.ops[op].to_copy == 0 && self.ops[op].done == self.ops[op].len {
                        self.complete(op, OpState::Copied);
                    }
                }
                self.drain_staging(p.port as usize);
            }
        }
    }

    /// A payload of `len` bytes with `data` in it; missing bytes are zero.
    fn fresh_payload(&mut self, len: usize, data: &[u8], shared: Option<&Bytes>) -> u32 {
        if len > PAYLOAD_MAX {
            let contents = shared.filter(|b| b.len() >= len).map(|b| b.slice(..len));
            let padded = || data.iter().copied().chain(std::iter::repeat(0)).take(len).collect();
            return self.payloads.alloc_train(contents.unwrap_or_else(padded));
        }
        let payload = self.payloads.alloc();
        let (slot, have) = (&mut self.payloads.get_mut(payload)[..len], data.len().min(len));
        slot[..have].copy_from_slice(&data[..have]);
        slot[have..].fill(0);
        payload
    }

    /// The memory an effect asked for does not exist. At the source the operation fails; at the
    /// target nothing is answered and the requester's operation fails.
    pub fn refuse(&mut self, token: FetchToken) {
        let Some(h) = self.packets.by_token(token.0) else { return };
        self.waiting -= 1;
        let p = self.packets[h];
        self.packets[h].flags &= !flag::AWAIT;
        let at_target = matches!(p.kind, PacketType::ReadReq | PacketType::Service);
        if at_target && !self.owned[p.src as usize] {
            return self.answer_refused(h);
        }
        if at_target {
            self.service_done(h);
            self.fail_request(h, OpFault::Refused);
            return self.free_packet(h);
        }
        if let Some(op) = self.ops.by_key(p.op) {
            self.fail_op(op, OpFault::Refused);
        }
        let port = p.port as usize;
        self.ports[port].staged -= 1;
        self.ports[port].outstanding -= 1;
        self.ports[port].staging.retain(|s| *s != h);
        self.free_packet(h);
        self.drain_staging(port);
    }

    /// Fails an operation: its remaining packets are not made, later reports are dropped.
    pub(crate) fn fail_op(&mut self, op: u32, fault: OpFault) {
        self.complete(op, OpState::Failed(fault));
        let port = self.ops[op].port as usize;
        let payload = self.ops[op].payload;
        self.payloads.release(payload);
        self.ports[port].ops.retain(|o| *o != op);
        self.ops.free(op);
        self.schedule_pump(port, self.now);
    }

    /// The operation behind a request or an answer that got lost fails, and its window reopens.
    /// False if the requester is modelled elsewhere; its fabric finds out when routes change.
    fn fail_request(&mut self, h: u32, fault: OpFault) -> bool {
        let p = self.packets[h];
        let (to, window) = match p.kind {
            PacketType::ReadRsp => (Port { node: p.dst, endpoint: p.dst_ep }, p.is(flag::READ)),
            _ => (Port { node: p.src, endpoint: p.src_ep }, p.kind == PacketType::ReadReq),
        };
        let here = self.owned[to.node as usize];
        if here {
            self.fail_answer(to, p.op, window, fault);
        } else if let Some(j) = self.jobs.get_mut(p.job as usize).and_then(Option::as_mut) {
            j.unanswered.insert((to, p.op));
        }
        here
    }

    /// The port `to` will get no answer for operation `op`.
    fn fail_answer(&mut self, to: Port, op: u64, window: bool, fault: OpFault) {
        if window {
            self.reopen_reads(to);
        }
        if let Some(op) = self.ops.by_key(op).filter(|op| self.ops[*op].answered) {
            self.fail_op(op, fault);
        }
    }

    /// One read request of a port is finished.
    fn reopen_reads(&mut self, at: Port) {
        if let Some(port) = self.port_index(at).filter(|_| self.owned[at.node as usize]) {
            self.ports[port].reads = self.ports[port].reads.saturating_sub(1);
            self.schedule_pump(port, self.now);
        }
    }

    /// Sends the answer to a read or fetching atomic and forgets the request.
    fn answer(&mut self, h: u32, data: &[u8], shared: Option<&Bytes>) {
        let request = self.packets[h];
        let (back, len, last) = match request.detail {
            Detail::Read { back, len } => (back, len as usize, flag::LAST | flag::READ),
            Detail::Amo { width, back: Some(back), .. } => (back, width as usize, flag::LAST),
            _ => (Place { region: Region::Heap, offset: 0 }, 0, 0),
        };
        let mut done = 0;
        while done < len {
            let n = (len - done).min(self.longest_unit());
            let mut p = answer_to(&request);
            (p.region, p.offset) = (back.region, back.offset.wrapping_add(done as u64));
            p.bytes = n as u16;
            p.flits = flits_for(n);
            p.flags = if done + n == len { last } else { 0 };
            if self.carry {
                let part = done.min(data.len())..(done + n).min(data.len());
                let shared = shared.map(|b| b.slice(part.clone()));
                p.payload = self.fresh_payload(n, &data[part], shared.as_ref());
            }
            let node = p.src;
            let answer = self.packets.alloc(p);
            self.enter_adapter(node, answer);
            done += n;
        }
        // Last: what a barrier that waits for this sends must be behind the answer.
        self.service_done(h);
        self.free_packet(h);
    }

    /// Tells a requester in another fabric that there is no such memory: an answer without data, on the
    /// way all answers take.
    fn answer_refused(&mut self, h: u32) {
        let request = self.packets[h];
        let mut p = answer_to(&request);
        p.flags = flag::LAST | if request.kind == PacketType::ReadReq { flag::READ } else { 0 };
        let answer = self.packets.alloc(p);
        self.enter_adapter(request.dst, answer);
        self.service_done(h);
        self.free_packet(h);
    }

    /// An answer has come back to the port that asked.
    fn deliver_answer(&mut self, h: u32) {
        let p = self.packets[h];
        let at = Port { node: p.dst, endpoint: p.dst_ep };
        if p.bytes == 0 {
            self.fail_answer(at, p.op, p.is(flag::READ), OpFault::Refused);
            return self.free_packet(h);
        }
        if p.is(flag::READ) {
            self.reopen_reads(at);
        }
        let op = self.ops.by_key(p.op).filter(|op| self.ops[*op].answered);
        let Some(op) = op.filter(|op| self.ports[self.ops[*op].port as usize].port == at) else {
            return self.free_packet(h); // the operation has failed meanwhile
        };
        let o = &mut self.ops[op];
        o.to_receive = o.to_receive.saturating_sub(p.bytes as u32);
        let finished = o.to_receive == 0;
        let data = PayloadRef { slot: p.payload, len: p.bytes };
        let (job, place, time) = (p.job, p.place(), self.now);
        self.effect(Effect::Write { at, job, place, data, time, last: finished });
        self.packets.free(h);
        if finished {
            let port = self.ops[op].port as usize;
            self.complete(op, OpState::Complete);
            self.ops.free(op);
            self.schedule_pump(port, self.now); // a barrier may wait for it
        }
    }

    /// Drops the front packet of a queue because its target cannot be reached any more.
    pub(crate) fn drop_front(&mut self, node: u32, queue: usize) {
        let h = self.front(node, queue);
        self.pop(node, queue, self.now);
        self.drop_unreachable(node, h);
    }

    /// Drops a packet that is in no queue and tells its injector. `node` is where.
    pub(crate) fn drop_unreachable(&mut self, node: NodeId, h: u32) {
        let p = self.packets[h];
        if p.is(flag::RAW) {
            return self.drop_raw(h);
        }
        self.counters.nodes[node as usize].unreachable_drops += 1;
        let blame = self.routes.blame(p.src, p.dst);
        let (from, to) = (p.src, p.dst);
        // The injector of an answer is the target of the request; it is the requester who must know.
        let at = match p.kind {
            PacketType::ReadRsp => Port { node: p.dst, endpoint: p.dst_ep },
            _ => Port { node: p.src, endpoint: p.src_ep },
        };
        self.left(node, h);
        if !p.is(flag::DEAD) && self.fail_request(h, OpFault::Unreachable { to, blame }) {
            let what = NetError::Unreachable { from, to, blame };
            self.effect(Effect::Error { at, job: p.job, what, time: self.now });
        }
        self.free_packet(h);
    }
}

/// An answer to `request` as yet without data.
fn answer_to(request: &Packet) -> Packet {
    let mut p = Packet::new(PacketType::ReadRsp);
    p.vc = Vc::Response as u8;
    (p.src, p.src_ep) = (request.dst, request.dst_ep);
    (p.dst, p.dst_ep) = (request.src, request.src_ep);
    (p.job, p.class, p.op) = (request.job, request.class, request.op);
    p
}
