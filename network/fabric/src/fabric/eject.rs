//! On the way out packets become effects.
//!
//! At the target packets are executed in the order ejected. Reads and fetching atomics are answered
//! on vc0. Here is also what becomes of packets and operations that fail.

use super::Fabric;
use crate::chip::At;
use crate::packet::{Detail, Packet, PacketHandle, flag, flits_for};
use crate::routes::NONE;
use crate::types::*;
use angara_abi::PAYLOAD_MAX;
use angara_abi::capture::{Happening, Reason};
use angara_abi::desc::{Place, Region};
use angara_abi::packet::{PacketType, Vc};
use angara_net::torus::NodeId;
use bytes::Bytes;

impl Fabric {
    /// A packet is out of the network: ejected or dropped. `at` is where.
    pub(crate) fn left(&mut self, at: NodeId, h: PacketHandle) {
        let p = self.adapters.chip.packets[h];
        if p.is(flag::OLD) {
            self.adapters.chip.old_left(p.src, p.dst);
        }
        if p.is(flag::FOREIGN) {
            self.count_ejected(h);
        }
        if p.port == NONE || p.is(flag::DEAD) || matches!(p.kind, PacketType::ReadRsp | PacketType::Barrier) {
            return;
        }
        if self.adapters.counting {
            self.barriers.count_delivered(&mut self.adapters, h);
        }
        if !p.is(flag::FOREIGN) {
            let port = p.port as usize;
            if self.adapters.ports[port].family.acknowledges() {
                // The acknowledgement goes back among adapters; it takes time but no room.
                let back = self.adapters.chip.routes.hops(at, p.src).unwrap_or(0) as Tick * self.adapters.chip.hop_ps;
                let back = back + self.adapters.chip.delay_on_route(at, p.src);
                let last = &mut self.adapters.ports[port].acknowledged;
                *last = (*last).max(self.adapters.chip.now + back);
            }
            let near = u32::from(self.adapters.goes_by_memory(h));
            let state = &mut self.adapters.ports[port];
            (state.outstanding, state.near) = (state.outstanding.saturating_sub(1), state.near.saturating_sub(near));
            self.adapters.schedule_pump(port, self.adapters.chip.now);
        }
    }

    /// [`EventKind::Deliver`]: a packet has reached the host of its target.
    pub(crate) fn on_deliver(&mut self, node: u32, h: PacketHandle) {
        if self.adapters.chip.observers.tracer.on() && h != PacketHandle::BY_MEMORY {
            let now = self.adapters.chip.now;
            self.adapters.chip.tell(h, At::Host(node), now, Happening::Ejected);
        }
        let Some(h) = self.adapters.arriving(node, h) else { return };
        if self.adapters.chip.packets[h].kind == PacketType::Barrier {
            return self.barriers.message_here(&mut self.adapters, node, h);
        }
        self.left(node, h);
        let p = self.adapters.chip.packets[h];
        if p.is(flag::DEAD) {
            return self.adapters.chip.free_packet(h);
        }
        if self.adapters.order.arrives(&p) {
            let at = Port { node: p.src, endpoint: p.src_ep };
            let what = NetError::Overtaken { from: p.src, to: p.dst };
            self.adapters.effect(Effect::Error { at, job: p.job, what, time: self.adapters.chip.now });
        }
        if p.kind == PacketType::CollCredit {
            self.adapters.chip.free_packet(h);
            return self.trees.processor_credited(&mut self.adapters, node);
        }
        if p.kind == PacketType::BcastDown {
            return self.trees.tree_delivered(&mut self.adapters, node, h);
        }
        let at = Port { node, endpoint: p.dst_ep };
        let Some(port) = self.adapters.port_index(at).filter(|i| self.adapters.ports[*i].job == p.job) else {
            self.adapters.chip.observers.counters.nodes[node as usize].foreign_drops += 1;
            self.tell_dropped(node, h, Reason::NoEndpoint);
            return self.adapters.chip.free_packet(h);
        };
        if p.kind != PacketType::ReadRsp && (p.flags ^ self.adapters.ports[port].stamp) & (flag::FULL | flag::ODD) != 0
        {
            self.barriers.check_late(&mut self.adapters, port, h);
        }
        self.adapters.chip.observers.counters.nodes[node as usize].ejected += p.packets();
        let (job, place, time) = (p.job, p.place(), self.adapters.chip.now);
        match p.kind {
            PacketType::Write if p.is(flag::RESULT) => self.trees.tree_result_arrived(&mut self.adapters, h),
            PacketType::Write => {
                let data = PayloadRef { slot: p.payload, len: p.bytes };
                let (last, cause) = (p.is(flag::LAST), cause_of(&p));
                self.adapters.effect(Effect::Write { at, job, place, data, time, last, cause });
                self.adapters.chip.packets.free(h); // the payload now belongs to the effect
            }
            PacketType::ReadRsp => self.adapters.deliver_answer(h),
            PacketType::ReadReq => {
                let Detail::Read { len, .. } = p.detail else { return self.adapters.chip.free_packet(h) };
                if !self.adapters.chip.carry {
                    return self.answer(h, &[], None);
                }
                let token = self.await_memory(h);
                self.adapters.effect(Effect::Fetch { at, job, place, len, token, time });
            }
            PacketType::AtomicAdd | PacketType::AtomicXor | PacketType::Service => {
                let Detail::Amo { op, width, operand, comparand, .. } = p.detail else {
                    return self.adapters.chip.free_packet(h);
                };
                let token = p.is(flag::ANSWER).then(|| self.await_memory(h));
                let cause = cause_of(&p);
                self.adapters.effect(Effect::Amo { at, job, place, op, width, operand, comparand, token, time, cause });
                if token.is_none() {
                    self.adapters.chip.free_packet(h);
                }
            }
            _ => self.adapters.chip.free_packet(h),
        }
    }

    /// The request stays until its memory has been supplied.
    fn await_memory(&mut self, h: PacketHandle) -> FetchToken {
        self.adapters.chip.packets[h].flags |= flag::AWAIT;
        self.adapters.waiting += 1;
        self.barriers.service_started(&mut self.adapters, h);
        FetchToken(self.adapters.chip.packets.token(h))
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
        let Some(h) = self.adapters.chip.packets.by_token(token.0) else { return };
        match self.adapters.at_rest() {
            true => self.pass_alone(|fabric| fabric.go_on(h, data, shared)),
            false => self.go_on(h, data, shared),
        }
    }

    /// The memory that a packet waited for is there.
    fn go_on(&mut self, h: PacketHandle, data: &[u8], shared: Option<&Bytes>) {
        self.adapters.waiting -= 1;
        self.adapters.chip.packets[h].flags &= !flag::AWAIT;
        match self.adapters.chip.packets[h].kind {
            PacketType::ReadReq | PacketType::Service => self.answer(h, data, shared),
            _ => {
                let p = self.adapters.chip.packets[h];
                self.adapters.chip.packets[h].payload = self.adapters.fresh_payload(p.bytes as usize, data, shared);
                if let Some(op) = self.adapters.ops.by_key(p.op) {
                    self.adapters.ops[op].to_copy -= 1;
                    if self.adapters.ops[op].to_copy == 0 && self.adapters.ops[op].done == self.adapters.ops[op].len {
                        self.adapters.complete(op, OpState::Copied);
                    }
                }
                self.adapters.drain_staging(p.port as usize);
            }
        }
    }

    /// The memory an effect asked for does not exist. At the source the operation fails; at the
    /// target nothing is answered and the requester's operation fails.
    pub fn refuse(&mut self, token: FetchToken) {
        let Some(h) = self.adapters.chip.packets.by_token(token.0) else { return };
        self.adapters.waiting -= 1;
        let p = self.adapters.chip.packets[h];
        self.adapters.chip.packets[h].flags &= !flag::AWAIT;
        let at_target = matches!(p.kind, PacketType::ReadReq | PacketType::Service);
        if at_target && !self.adapters.chip.owned[p.src as usize] {
            return self.answer_refused(h);
        }
        if at_target {
            self.barriers.service_done(&mut self.adapters, h);
            self.fail_request(h, OpFault::Refused);
            return self.adapters.chip.free_packet(h);
        }
        if let Some(op) = self.adapters.ops.by_key(p.op) {
            self.adapters.fail_op(op, OpFault::Refused);
        }
        let port = p.port as usize;
        self.adapters.unstage(port, p.from_channel, p.packets() as u32);
        self.adapters.order.arrives(&p);
        self.adapters.ports[port].outstanding -= 1;
        self.adapters.ports[port].near -= u32::from(self.adapters.goes_by_memory(h));
        self.adapters.ports[port].staging.retain(|s| *s != h);
        self.adapters.chip.free_packet(h);
        self.adapters.drain_staging(port);
    }

    /// The operation behind a request or an answer that got lost fails, and its window reopens.
    /// False if the requester is modelled elsewhere; its fabric finds out when routes change.
    fn fail_request(&mut self, h: PacketHandle, fault: OpFault) -> bool {
        let p = self.adapters.chip.packets[h];
        let (to, from, window) = match p.kind {
            PacketType::ReadRsp => (Port { node: p.dst, endpoint: p.dst_ep }, p.src, p.is(flag::READ)),
            _ => (Port { node: p.src, endpoint: p.src_ep }, p.dst, p.kind == PacketType::ReadReq),
        };
        let here = self.adapters.chip.owned[to.node as usize];
        if here {
            self.adapters.fail_answer((to, from), p.op, window, fault);
        } else if let Some(arrivals) = self.split.arrivals(p.job) {
            arrivals.give_up(to, p.op);
        }
        here
    }

    /// Sends the answer to a read or fetching atomic and forgets the request.
    fn answer(&mut self, h: PacketHandle, data: &[u8], shared: Option<&Bytes>) {
        let request = self.adapters.chip.packets[h];
        let (back, len, last) = match request.detail {
            Detail::Read { back, len } => (back, len as usize, flag::LAST | flag::READ),
            Detail::Amo { width, back: Some(back), .. } => (back, width as usize, flag::LAST),
            _ => (Place { region: Region::Heap, offset: 0 }, 0, 0),
        };
        let mut done = 0;
        while done < len {
            let n = (len - done).min(self.adapters.longest_unit(request.job));
            let mut p = answer_to(&request);
            self.adapters.chip.use_ports(&mut p);
            (p.region, p.offset) = (back.region, back.offset.wrapping_add(done as u64));
            p.bytes = n as u16;
            p.flits = flits_for(n);
            p.flags = if done + n == len { last } else { 0 };
            p.ready = self.adapters.read_memory();
            if self.adapters.chip.carry {
                let part = done.min(data.len())..(done + n).min(data.len());
                let shared = shared.map(|b| b.slice(part.clone()));
                p.payload = self.adapters.fresh_payload(n, &data[part], shared.as_ref());
            }
            let node = p.src;
            let answer = self.adapters.chip.packets.alloc(p);
            self.adapters.enter_adapter(node, answer);
            done += n;
        }
        // Last: what a barrier that waits for this sends must be behind the answer.
        self.barriers.service_done(&mut self.adapters, h);
        self.adapters.chip.free_packet(h);
    }

    /// Tells a requester in another fabric that there is no such memory: an answer without data, on the
    /// way all answers take.
    fn answer_refused(&mut self, h: PacketHandle) {
        let request = self.adapters.chip.packets[h];
        let mut p = answer_to(&request);
        self.adapters.chip.use_ports(&mut p);
        p.flags = flag::LAST | if request.kind == PacketType::ReadReq { flag::READ } else { 0 };
        let answer = self.adapters.chip.packets.alloc(p);
        self.adapters.enter_adapter(request.dst, answer);
        self.barriers.service_done(&mut self.adapters, h);
        self.adapters.chip.free_packet(h);
    }

    /// Whoever listens hears that a packet is dropped at a node.
    fn tell_dropped(&mut self, node: NodeId, h: PacketHandle, why: Reason) {
        let chip = &mut self.adapters.chip;
        if chip.observers.tracer.on() {
            chip.tell_dropped(h, At::Host(node), chip.now, why);
        }
    }

    /// Drops a packet that is in no queue and tells its injector. `node` is where.
    pub(crate) fn drop_unreachable(&mut self, node: NodeId, h: PacketHandle) {
        self.tell_dropped(node, h, Reason::NoRoute);
        let p = self.adapters.chip.packets[h];
        self.adapters.chip.observers.counters.nodes[node as usize].unreachable_drops += 1;
        let outage = self.adapters.chip.routes.outage(p.src, p.dst);
        let (from, to) = (p.src, p.dst);
        // The injector of an answer is the target of the request; it is the requester who must know.
        let at = match p.kind {
            PacketType::ReadRsp => Port { node: p.dst, endpoint: p.dst_ep },
            _ => Port { node: p.src, endpoint: p.src_ep },
        };
        self.left(node, h);
        self.adapters.order.arrives(&p);
        if !p.is(flag::DEAD) && self.fail_request(h, OpFault::Unreachable { to, outage }) {
            let what = NetError::Unreachable { from, to, outage };
            self.adapters.effect(Effect::Error { at, job: p.job, what, time: self.adapters.chip.now });
        }
        self.adapters.chip.free_packet(h);
    }
}

/// Whose operation a request carries out; what crosses to another part of the network does not say.
fn cause_of(p: &Packet) -> Option<Cause> {
    let from = Port { node: p.src, endpoint: p.src_ep };
    (!p.is(flag::FOREIGN)).then_some(Cause { from, posted: p.posted })
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
