//! Adapters: operations become packets, packets become effects.
//!
//! A port's operations go through in the order posted. Each is cut into packets of at most 256
//! bytes; a packet whose bytes lie in memory waits in the port's *staging* queue until the driver
//! supplies them, and so does everything behind it. From there packets enter the node's injection
//! queues, one per virtual channel, one flit after the other over the host interface. At the
//! target they are executed in the order ejected. Reads and fetching atomics are answered on vc0.

use crate::Fabric;
use crate::barrier::BarrierFamily;
use crate::event::Kind;
use crate::layout::{Q_INJECT, UP};
use crate::ops::{Doing, OpRecord};
use crate::slab::{Detail, Packet, flag, rate};
use crate::topology::{NONE, Way};
use crate::types::*;
use crate::wire::Note;
use abi::PAYLOAD_MAX;
use abi::account::READ_MAX;
use abi::desc::{Place, Region};
use abi::packet::{PacketType, Vc, data_flits};
use abi::torus::NodeId;
use std::collections::VecDeque;

/// An open injection/ejection channel.
#[derive(Debug)]
pub(crate) struct PortState {
    pub(crate) port: Port,
    pub(crate) job: JobId,
    /// Posted operations that are not all packets yet.
    pub(crate) ops: VecDeque<u32>,
    /// Packets in order, some still waiting for memory.
    pub(crate) staging: VecDeque<u32>,
    /// Packets not yet in the network.
    pub(crate) staged: u32,
    /// Packets not yet ejected.
    pub(crate) outstanding: u32,
    /// Read requests not yet answered.
    pub(crate) reads: u32,
    /// In a barrier.
    pub(crate) blocked: bool,
    pub(crate) pump_at: Tick,
    /// How the job's barriers are done.
    pub(crate) family: BarrierFamily,
    /// Barriers left, as packets carry it.
    pub(crate) stamp: u16,
    /// Channels data went on since the last barrier, as bits.
    pub(crate) channels: u8,
    /// When the last acknowledgement is back (families that rest on them).
    pub(crate) acknowledged: Tick,
}

impl PortState {
    pub(crate) fn new(port: Port, job: JobId) -> PortState {
        PortState {
            port,
            job,
            ops: VecDeque::new(),
            staging: VecDeque::new(),
            staged: 0,
            outstanding: 0,
            reads: 0,
            blocked: false,
            pump_at: Tick::MAX,
            family: BarrierFamily::default(),
            stamp: 0,
            channels: 0,
            acknowledged: 0,
        }
    }
}

/// What became of the operation at the front of a port's queue.
enum Step {
    /// All packets made: next one.
    Next,
    /// Go on when something changes.
    Wait,
}

impl Fabric {
    /// Index of an open port.
    #[inline]
    pub(crate) fn port_index(&self, port: Port) -> Option<usize> {
        let index = *self.port_of.get(port.node as usize)?.get(port.endpoint as usize)?;
        (index != NONE).then_some(index as usize)
    }

    /// Makes a port go on at `at`.
    pub(crate) fn schedule_pump(&mut self, port: usize, at: Tick) {
        let p = &mut self.ports[port];
        if p.ops.is_empty() || p.blocked {
            return;
        }
        let at = at.max(self.now);
        if p.pump_at > at || p.pump_at < self.now {
            p.pump_at = at;
            self.events.push(at, Kind::Pump, p.port.node, port as u32);
        }
    }

    /// [`Kind::Pump`]: turns operations into packets until one has to wait.
    pub(crate) fn on_pump(&mut self, port: usize) {
        self.ports[port].pump_at = Tick::MAX;
        while let (Some(&op), false) = (self.ports[port].ops.front(), self.ports[port].blocked) {
            let issue = self.ops[op].issue;
            if issue > self.now {
                return self.schedule_pump(port, issue);
            }
            match self.step(port, op) {
                Step::Next => {
                    self.ports[port].ops.pop_front();
                }
                Step::Wait => return,
            }
        }
    }

    fn may_stage(&self, port: usize) -> bool {
        self.ports[port].staged < self.params.staged_per_port as u32
    }

    fn step(&mut self, port: usize, op: u32) -> Step {
        match self.ops[op].doing {
            Doing::Write { .. } => self.step_write(port, op),
            Doing::Read { .. } => self.step_read(port, op),
            Doing::Amo { .. } => self.step_amo(port, op),
            Doing::Fence => {
                let p = &self.ports[port];
                if p.outstanding > 0 || p.staged > 0 {
                    return Step::Wait;
                }
                self.complete(op, OpState::Complete);
                self.ops.free(op);
                Step::Next
            }
            Doing::Barrier { half } => {
                if !self.barrier_may_enter(port, half) {
                    return Step::Wait;
                }
                self.ports[port].blocked = true;
                self.barrier_enter(port, op, half);
                Step::Next
            }
            Doing::Reduce { .. } | Doing::Bcast { .. } => {
                if !self.may_stage(port) {
                    return Step::Wait;
                }
                if self.step_tree(port, op) { Step::Next } else { Step::Wait }
            }
        }
    }

    /// A packet of operation `op` with everything that is the same for all kinds.
    pub(crate) fn packet_of(&self, port: usize, op: u32, kind: PacketType, to: Port, place: Place) -> Packet {
        let from = self.ports[port].port;
        let record = &self.ops[op];
        let mut p = Packet::new(kind);
        p.src = from.node;
        p.src_ep = from.endpoint;
        p.dst = to.node;
        p.dst_ep = to.endpoint;
        p.region = place.region;
        p.offset = place.offset;
        p.job = record.job;
        p.class = record.class as u8;
        p.port = port as u32;
        p.op = self.ops.key(op);
        p
    }

    fn step_write(&mut self, port: usize, op: u32) -> Step {
        let Doing::Write { to, place, source, vc, adaptive } = self.ops[op].doing else {
            unreachable!("caller matched")
        };
        let len = self.ops[op].len;
        while self.ops[op].done < len {
            if !self.may_stage(port) {
                return Step::Wait;
            }
            let done = self.ops[op].done;
            let n = (len - done).min(PAYLOAD_MAX as u32);
            let at = Place { region: place.region, offset: place.offset.wrapping_add(done as u64) };
            let mut p = self.packet_of(port, op, PacketType::Write, to, at);
            p.vc = vc as u8;
            // The order that an all-to-all barrier rests on needs one way per pair.
            let adaptive = adaptive && self.ports[port].family != BarrierFamily::AllToAll;
            p.flags |= if adaptive { flag::MAY_ADAPT } else { 0 };
            p.flags |= if done + n == len { flag::LAST } else { 0 };
            self.fill(&mut p, op, n as u16, source.is_some());
            self.ops[op].done += n;
            self.stage(port, p, source.map(|s| Place { region: s.region, offset: s.offset.wrapping_add(done as u64) }));
        }
        Step::Next
    }

    /// Sets length and payload: the inline bytes of `op`, or an empty slot that memory will fill.
    pub(crate) fn fill(&mut self, p: &mut Packet, op: u32, bytes: u16, memory: bool) {
        p.bytes = bytes;
        p.flits = 2 + data_flits(bytes as usize) as u8;
        if self.carry {
            p.payload = if memory { self.payloads.alloc() } else { self.ops[op].payload };
            if !memory {
                self.ops[op].payload = NONE;
            }
        }
    }

    fn step_read(&mut self, port: usize, op: u32) -> Step {
        let Doing::Read { to, remote, local } = self.ops[op].doing else { unreachable!("caller matched") };
        let len = self.ops[op].len;
        while self.ops[op].done < len {
            if !self.may_stage(port) || self.ports[port].reads >= self.params.reads_per_port as u32 {
                return Step::Wait;
            }
            let done = self.ops[op].done;
            let n = (len - done).min(READ_MAX as u32);
            let at = Place { region: remote.region, offset: remote.offset.wrapping_add(done as u64) };
            let back = Place { region: local.region, offset: local.offset.wrapping_add(done as u64) };
            let mut p = self.packet_of(port, op, PacketType::ReadReq, to, at);
            p.flits = 3;
            p.flags |= flag::ANSWER;
            p.detail = Detail::Read { back, len: n };
            self.ops[op].done += n;
            self.ports[port].reads += 1;
            self.stage(port, p, None);
        }
        Step::Next
    }

    fn step_amo(&mut self, port: usize, op: u32) -> Step {
        let Doing::Amo { to, place, op: amo, width, operand, comparand, result } = self.ops[op].doing else {
            unreachable!("caller matched")
        };
        if !self.may_stage(port) {
            return Step::Wait;
        }
        let kind = match (amo, result) {
            (abi::desc::AmoOp::Add, None) => PacketType::AtomicAdd,
            (abi::desc::AmoOp::Xor, None) => PacketType::AtomicXor,
            _ => PacketType::Service,
        };
        let mut p = self.packet_of(port, op, kind, to, place);
        p.flits = if kind == PacketType::Service { 4 } else { 3 };
        p.bytes = width as u16;
        p.flags |= flag::LAST | if result.is_some() { flag::ANSWER } else { 0 };
        p.detail = Detail::Amo { op: amo, width, operand, comparand, back: result };
        self.ops[op].done = self.ops[op].len;
        self.stage(port, p, None);
        Step::Next
    }

    /// Puts a packet behind the port's others; asks for its bytes if they lie in memory.
    pub(crate) fn stage(&mut self, port: usize, mut p: Packet, source: Option<Place>) {
        let (at, job, len) = (self.ports[port].port, p.job, p.bytes as u32);
        let source = source.filter(|_| self.carry);
        if source.is_some() {
            p.flags |= flag::AWAIT;
        }
        if !matches!(p.detail, Detail::Tree { .. }) {
            p.flags |= self.ports[port].stamp;
            self.ports[port].channels |= 1 << p.vc;
            if self.counting && self.ports[port].family == BarrierFamily::Counting {
                self.count_sent(job, p.src, p.dst);
            }
        }
        let op = p.op as u32;
        let h = self.packets.alloc(p);
        self.ops[op].to_inject += 1;
        self.ports[port].staged += 1;
        self.ports[port].outstanding += 1;
        self.ports[port].staging.push_back(h);
        if let Some(place) = source {
            self.ops[op].to_copy += 1;
            self.waiting += 1;
            let token = FetchToken(self.packets.token(h));
            self.effect(Effect::Fetch { at, job, place, len, token, time: self.now });
        } else {
            self.drain_staging(port);
        }
    }

    /// Moves packets that have their bytes into the node's injection queues.
    pub(crate) fn drain_staging(&mut self, port: usize) {
        while let Some(&h) = self.ports[port].staging.front() {
            if self.packets[h].is(flag::AWAIT) {
                return;
            }
            self.ports[port].staging.pop_front();
            let node = self.ports[port].port.node;
            self.enter_adapter(node, h);
        }
        let next = self.ports[port].ops.front();
        if next.is_some_and(|op| matches!(self.ops[*op].doing, Doing::Barrier { .. })) {
            self.schedule_pump(port, self.now);
        }
    }

    /// A packet goes over the host interface to the injection queue of its channel.
    pub(crate) fn enter_adapter(&mut self, node: u32, h: u32) {
        let start = self.now.max(self.inject_busy[node as usize]);
        let p = &mut self.packets[h];
        self.inject_busy[node as usize] = start + self.timing.core(p.flits);
        p.ready = start + self.params.inject_ps + self.params.router_ps;
        if p.vc as usize >= UP {
            p.ready += self.timing.core(p.flits); // collective channels wait for the whole packet
            p.rate = rate::WHOLE;
        }
        let vc = if p.is(flag::MAY_ADAPT) { Vc::Adaptive as usize } else { p.vc as usize };
        self.append(node, Q_INJECT + vc, h);
    }

    /// The front packet of an injection queue looks up its route. False if it stays or is gone.
    pub(crate) fn leave_adapter(&mut self, node: u32, h: u32) -> bool {
        let (src, dst, queue) = (self.packets[h].src, self.packets[h].dst, self.packets[h].queue as usize);
        if self.is_held(src, dst) {
            return false;
        }
        let way = match self.any_dead {
            false if self.epoch == 0 && self.packets[h].is(flag::RAW) => self.packets[h].way, // as injected
            false => Way::plain(&self.net, node, dst),
            true => match self.routes.route(node, dst) {
                Some(route) => Way::along(&self.net, node, &route, dst),
                None => {
                    self.drop_front(node, queue);
                    return false;
                }
            },
        };
        let p = &mut self.packets[h];
        p.way = way;
        if p.is(flag::MAY_ADAPT) && self.lay.vc(queue) == Vc::Adaptive as usize {
            p.flags |= flag::ADAPTIVE;
        } else {
            p.flags &= !flag::ADAPTIVE;
        }
        true
    }

    /// A packet has left its injection queue: the port may stage another one.
    pub(crate) fn injected(&mut self, h: u32) {
        let p = &mut self.packets[h];
        if p.port == NONE || p.flags & (flag::INJECTED | flag::DEAD | flag::FOREIGN) != 0 {
            return;
        }
        p.flags |= flag::INJECTED;
        let (port, op) = (p.port as usize, p.op);
        self.ports[port].staged -= 1;
        self.schedule_pump(port, self.now);
        if let Some(op) = self.ops.by_key(op) {
            self.ops[op].to_inject -= 1;
            self.maybe_injected(op);
        }
    }

    /// Reports an operation whose packets are all made and in the network.
    pub(crate) fn maybe_injected(&mut self, op: u32) {
        let o = &self.ops[op];
        if o.done == o.len && o.to_inject == 0 && o.to_copy == 0 && !o.answered {
            self.complete(op, OpState::Injected);
            self.ops.free(op);
        }
    }

    pub(crate) fn complete(&mut self, op: u32, state: OpState) {
        let o: &OpRecord = &self.ops[op];
        let from = self.ports[o.port as usize].port;
        let c = Completion { from, job: o.job, tag: o.tag, state, time: self.now };
        self.completions.push_back((self.effects_made, c));
    }

    /// A packet is out of the network: ejected or dropped. `at` is where.
    pub(crate) fn left(&mut self, at: NodeId, h: u32) {
        let p = self.packets[h];
        if p.is(flag::OLD) {
            self.old_left(p.src, p.dst);
        }
        if p.port == NONE || matches!(p.kind, PacketType::ReadRsp | PacketType::Barrier) {
            return;
        }
        if self.counting && !p.is(flag::DEAD) {
            self.count_delivered(h);
        }
        let from = Port { node: p.src, endpoint: p.src_ep };
        let port = match p.is(flag::FOREIGN) {
            true if !self.owned[p.src as usize] => {
                return self.send_note(at, from, p.job, self.generation(p.job), Note::Gone);
            }
            _ if p.is(flag::DEAD) => None,
            true => self.port_index(from),
            false => Some(p.port as usize),
        };
        if let Some(port) = port {
            if self.ports[port].family.acknowledges() {
                // The acknowledgement goes back among adapters; it takes time but no room.
                let back = self.routes.hops(at, p.src).unwrap_or(0) as Tick * self.hop_ps;
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
        self.counters.nodes[node as usize].ejected += 1;
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
                    return self.answer(h, &[]);
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
        let Some(h) = self.packets.by_token(token.0) else { return };
        self.waiting -= 1;
        self.packets[h].flags &= !flag::AWAIT;
        match self.packets[h].kind {
            PacketType::ReadReq | PacketType::Service => self.answer(h, data),
            _ => {
                let p = self.packets[h];
                let slot = self.payloads.get_mut(p.payload);
                let (want, have) = (p.bytes as usize, data.len().min(p.bytes as usize));
                slot[..have].copy_from_slice(&data[..have]);
                slot[have..want].fill(0);
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

    /// The memory an effect asked for does not exist. At the source the operation fails; at the
    /// target nothing is answered and the requester's operation fails.
    pub fn refuse(&mut self, token: FetchToken) {
        let Some(h) = self.packets.by_token(token.0) else { return };
        self.waiting -= 1;
        let p = self.packets[h];
        self.packets[h].flags &= !flag::AWAIT;
        let at_target = matches!(p.kind, PacketType::ReadReq | PacketType::Service);
        if at_target {
            self.service_done(h);
            self.fail_request(p.dst, h, OpFault::Refused);
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
    /// Returns whether the requester is modelled elsewhere and has been sent a note.
    pub(crate) fn fail_request(&mut self, at: NodeId, h: u32, fault: OpFault) -> bool {
        let p = self.packets[h];
        let (to, window) = match p.kind {
            PacketType::ReadRsp => (Port { node: p.dst, endpoint: p.dst_ep }, p.is(flag::READ)),
            _ => (Port { node: p.src, endpoint: p.src_ep }, p.kind == PacketType::ReadReq),
        };
        if !self.owned[to.node as usize] {
            let note = Note::Lost { op: p.op, window, from: p.src, fault };
            self.send_note(at, to, p.job, self.generation(p.job), note);
            return true;
        }
        self.fail_answer(to, p.op, window, fault);
        false
    }

    /// The port `to` will get no answer for operation `op`.
    pub(crate) fn fail_answer(&mut self, to: Port, op: u64, window: bool, fault: OpFault) {
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
    fn answer(&mut self, h: u32, data: &[u8]) {
        let request = self.packets[h];
        self.service_done(h);
        let (back, len, last) = match request.detail {
            Detail::Read { back, len } => (back, len as usize, flag::LAST | flag::READ),
            Detail::Amo { width, back: Some(back), .. } => (back, width as usize, flag::LAST),
            _ => (Place { region: Region::Heap, offset: 0 }, 0, 0),
        };
        let mut done = 0;
        while done < len {
            let n = (len - done).min(PAYLOAD_MAX);
            let mut p = Packet::new(PacketType::ReadRsp);
            p.vc = Vc::Response as u8;
            (p.src, p.src_ep) = (request.dst, request.dst_ep);
            (p.dst, p.dst_ep) = (request.src, request.src_ep);
            (p.job, p.class, p.op) = (request.job, request.class, request.op);
            (p.region, p.offset) = (back.region, back.offset.wrapping_add(done as u64));
            p.bytes = n as u16;
            p.flits = 2 + data_flits(n) as u8;
            p.flags = if done + n == len { last } else { 0 };
            if self.carry {
                p.payload = self.payloads.alloc();
                let slot = self.payloads.get_mut(p.payload);
                let have = data.len().saturating_sub(done).min(n);
                slot[..have].copy_from_slice(&data[done..done + have]);
                slot[have..n].fill(0);
            }
            let node = p.src;
            let answer = self.packets.alloc(p);
            self.enter_adapter(node, answer);
            done += n;
        }
        self.free_packet(h);
    }

    /// An answer has come back to the port that asked.
    fn deliver_answer(&mut self, h: u32) {
        let p = self.packets[h];
        let at = Port { node: p.dst, endpoint: p.dst_ep };
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
        if !p.is(flag::DEAD) && !self.fail_request(node, h, OpFault::Unreachable { to, blame }) {
            let what = NetError::Unreachable { from, to, blame };
            self.effect(Effect::Error { at, job: p.job, what, time: self.now });
        }
        self.free_packet(h);
    }
}
