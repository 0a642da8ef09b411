//! Adapters, on the way in: operations become packets. [`crate::eject`] is the way out.
//!
//! A port's operations go through in the order posted. Each is cut into packets of at most 256
//! bytes; a packet whose bytes lie in memory waits in the port's *staging* queue until the driver
//! supplies them, and so does everything behind it. From there packets enter the node's injection
//! queues, one per virtual channel, one flit after the other over the host interface.

use crate::Fabric;
use crate::barrier::BarrierFamily;
use crate::event::Kind;
use crate::layout::{Q_INJECT, UP};
use crate::ops::{Doing, OpRecord};
use crate::slab::{Detail, Packet, flag, flits_for, rate};
use crate::topology::{NONE, Way};
use crate::types::*;
use abi::PAYLOAD_MAX;
use abi::account::READ_MAX;
use abi::desc::Place;
use abi::packet::{PacketType, Vc};
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
            let most = if source.is_some() { self.longest_unit() } else { PAYLOAD_MAX };
            let n = (len - done).min(most as u32);
            let at = Place { region: place.region, offset: place.offset.wrapping_add(done as u64) };
            let mut p = self.packet_of(port, op, PacketType::Write, to, at);
            p.vc = vc as u8;
            // The order that an all-to-all barrier rests on needs one way per pair, and so does mending a split network.
            let adaptive = adaptive && !self.split && self.ports[port].family != BarrierFamily::AllToAll;
            p.flags |= if adaptive { flag::MAY_ADAPT } else { 0 };
            p.flags |= if done + n == len { flag::LAST } else { 0 };
            self.fill(&mut p, op, n as u16, source.is_some());
            self.ops[op].done += n;
            self.stage(port, p, source.map(|s| Place { region: s.region, offset: s.offset.wrapping_add(done as u64) }));
        }
        Step::Next
    }

    /// Bytes that may travel as one, if they come from memory.
    pub(crate) fn longest_unit(&self) -> usize {
        if self.trains && self.sound { READ_MAX } else { PAYLOAD_MAX }
    }

    /// Sets length and payload: the inline bytes of `op`, or an empty slot that memory will fill.
    pub(crate) fn fill(&mut self, p: &mut Packet, op: u32, bytes: u16, memory: bool) {
        p.bytes = bytes;
        p.flits = flits_for(bytes as usize);
        if self.carry {
            p.payload = if memory { NONE } else { self.ops[op].payload }; // of memory: when it is supplied
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
}
