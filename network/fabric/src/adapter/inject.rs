//! On the way in operations become packets. `fabric/eject.rs` is the way out.
//!
//! A port's operations go through in the order posted. Each is cut into packets of at most 256
//! bytes; a packet whose bytes lie in memory waits in the port's *staging* queue until the driver
//! supplies them, and so does everything behind it. From there packets enter the node's injection
//! queues, one per virtual channel, one flit after the other over the host interface.

use super::state::{Adapters, Alone};
use crate::PORTS_MAX;
use crate::adapter::OpRecord;
use crate::barrier::BarrierFamily;
use crate::chip::layout::{ADAPTIVE, DATA_VCS, Q_INJECT, UP};
use crate::chip::{At, EventKind, Injected};
use crate::config::Quiet;
use crate::op::Op;
use crate::packet::{Detail, Packet, PacketHandle, flag, flits_for, rate};
use crate::rng::{Purpose, draw};
use crate::routes::NONE;
use crate::types::*;
use angara_abi::PAYLOAD_MAX;
use angara_abi::account::READ_MAX;
use angara_abi::capture::Happening;
use angara_abi::desc::Place;
use angara_abi::packet::{PacketType, Vc};
use angara_net::torus::NodeId;

/// Packets of the longest train.
const TRAIN_PACKETS: u32 = (READ_MAX / PAYLOAD_MAX) as u32;

/// Result of a step of the operation at the front of a port's queue.
pub(crate) enum Step {
    /// All its packets are made: go on with the next operation.
    Next,
    /// Try again when something changes.
    Wait,
}

impl Adapters {
    /// Makes a port go on at `at`.
    pub(crate) fn schedule_pump(&mut self, port: usize, at: Tick) {
        let p = &mut self.ports[port];
        if p.ops.is_empty() || p.blocked {
            return;
        }
        let at = at.max(self.chip.now);
        if p.pump_at > at || p.pump_at < self.chip.now {
            p.pump_at = at;
            self.chip.events.push(at, EventKind::Pump, p.port.node, port as u32);
        }
    }

    /// Trains of one port that wait for the host interface hold up everybody at its node, so there is never a second long one.
    pub(crate) fn may_stage(&self, port: usize, lane: usize) -> bool {
        let (lane, most) = (&self.ports[port].lanes[lane], u32::from(self.chip.params.staged_per_port));
        lane.staged < most && lane.carried < most.max(TRAIN_PACKETS)
    }

    /// All injection ports of a node, as bits.
    pub(crate) fn all_lanes(&self) -> u8 {
        u8::MAX >> (PORTS_MAX - self.chip.ports())
    }

    /// The injection ports that an operation needs, as bits: that of its target, or all.
    #[inline]
    pub(crate) fn lanes_of(&self, op: u32) -> u8 {
        let record = &self.ops[op];
        match record.doing.target() {
            Some(to) => 1 << self.lane(record.port as usize, to.node),
            None => self.all_lanes(),
        }
    }

    /// The injection port of what a channel sends to a node.
    #[inline]
    pub(crate) fn lane(&self, port: usize, to: NodeId) -> usize {
        self.chip.ports_of(self.ports[port].port.node, to).0.into()
    }

    /// A packet of a port is in the network, or will never be.
    pub(crate) fn unstage(&mut self, port: usize, lane: u8, packets: u32) {
        let lane = &mut self.ports[port].lanes[usize::from(lane) % PORTS_MAX];
        (lane.staged, lane.carried) = (lane.staged - 1, lane.carried - packets);
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
        p.posted = record.posted;
        p
    }

    /// Makes packets of an operation with one target, the one at the front of its port's queue.
    pub(crate) fn step(&mut self, port: usize, op: u32, doing: Op<Option<Place>>) -> Step {
        match doing {
            Op::Write { .. } => self.step_write(port, op),
            Op::Read { .. } | Op::Flush { .. } => self.step_read(port, op),
            Op::Amo { .. } => self.step_amo(port, op),
            Op::Fence | Op::Barrier { .. } | Op::Reduce { .. } | Op::Bcast { .. } => {
                unreachable!("the fabric sees to what concerns more than one adapter")
            }
        }
    }

    fn step_write(&mut self, port: usize, op: u32) -> Step {
        let Op::Write { to, place, source, vc, adaptive } = self.ops[op].doing else { unreachable!("caller matched") };
        // The order that an all-to-all barrier rests on needs one way per pair, and so does the recovery of a split network.
        let adaptive = (adaptive || self.chip.params.adaptive && vc == Vc::Request)
            && !self.chip.split
            && self.ports[port].family != BarrierFamily::AllToAll;
        let ordered = vc == Vc::Request && !adaptive;
        let (len, lane) = (self.ops[op].len, self.lane(port, to.node));
        while self.ops[op].done < len {
            if !self.may_stage(port, lane) || !self.ports[port].may_follow(ordered) {
                return Step::Wait;
            }
            let done = self.ops[op].done;
            let most = if source.is_some() { self.longest_unit(self.ops[op].job) } else { PAYLOAD_MAX };
            let n = (len - done).min(most as u32);
            let at = Place { region: place.region, offset: place.offset.wrapping_add(done as u64) };
            let mut p = self.packet_of(port, op, PacketType::Write, to, at);
            p.vc = vc as u8;
            p.flags |= if adaptive { flag::MAY_ADAPT } else { 0 };
            p.flags |= if done + n == len { flag::LAST } else { 0 };
            self.fill(&mut p, op, n as u16, source.is_some());
            if source.is_some() || len > PAYLOAD_MAX as u32 {
                p.ready = self.read_memory();
            }
            self.ops[op].done += n;
            self.stage(port, p, source.map(|s| Place { region: s.region, offset: s.offset.wrapping_add(done as u64) }));
        }
        Step::Next
    }

    /// When memory that is asked for now is here.
    pub(crate) fn read_memory(&self) -> Tick {
        self.chip.now + self.chip.params.host_read_ps
    }

    /// The operation at the front of a port's queue begins; the time from when it does.
    pub(crate) fn begin(&mut self, op: u32) -> Tick {
        let bulk = self.chip.params.dma_start_ps > 0 && self.ops[op].is_bulk();
        let o = &mut self.ops[op];
        if bulk && !std::mem::replace(&mut o.begun, true) {
            o.issue = o.issue.max(self.chip.now) + self.chip.params.dma_start_ps;
        }
        o.issue
    }

    /// Bytes that may travel as one, if they come from memory: whoever listens to a job hears of packets as the chip has them.
    pub(crate) fn longest_unit(&self, job: JobSlot) -> usize {
        if self.trains && self.chip.degraded.unimpaired && !self.chip.observers.taps.mind(job) {
            READ_MAX
        } else {
            PAYLOAD_MAX
        }
    }

    /// Sets length and payload: the inline bytes of `op`, or an empty slot that memory will fill.
    pub(crate) fn fill(&mut self, p: &mut Packet, op: u32, bytes: u16, memory: bool) {
        p.bytes = bytes;
        p.flits = flits_for(bytes as usize);
        if self.chip.carry {
            p.payload = if memory { NONE } else { self.ops[op].payload }; // of memory: when it is supplied
            if !memory {
                self.ops[op].payload = NONE;
            }
        }
    }

    fn step_read(&mut self, port: usize, op: u32) -> Step {
        let (to, remote, local, flush) = match self.ops[op].doing {
            Op::Read { to, remote, local, .. } => (to, remote, local, false),
            Op::Flush { to, remote, local } => (to, remote, local, true),
            _ => unreachable!("caller matched"),
        };
        let (len, lane) = (self.ops[op].len, self.lane(port, to.node));
        let told = flush && self.chip.params.quiet == Quiet::Delivered;
        // A flush says nothing about packets that it may overtake: wait until those have been ejected.
        if flush && !self.ports[port].may_flush(told) {
            return Step::Wait;
        }
        if told {
            self.flush_ends(op);
            self.complete(op, OpState::Complete);
            self.ops.free(op);
            return Step::Next;
        }
        while self.ops[op].done < len {
            let open = self.ports[port].lanes[lane].reads < u32::from(self.chip.params.reads_per_port);
            if !self.may_stage(port, lane) || !open {
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
            self.ports[port].lanes[lane].reads += 1;
            let serial = self.stage(port, p, None);
            self.ops[op].behind = serial;
        }
        Step::Next
    }

    /// A flush is about to be reported as complete.
    pub(super) fn flush_ends(&mut self, op: u32) {
        let OpRecord { doing, port, job, behind, .. } = &self.ops[op];
        let Some(to) = doing.flushes() else { return };
        let (port, job, behind) = (*port, *job, *behind);
        if self.order.flush_ends(job, (port, to.node, to.endpoint), behind) {
            let at = self.ports[port as usize].port;
            let what = NetError::Unflushed { from: at.node, to: to.node };
            self.effect(Effect::Error { at, job, what, time: self.chip.now });
        }
    }

    fn step_amo(&mut self, port: usize, op: u32) -> Step {
        let Op::Amo { to, place, op: amo, width, operand, comparand, result } = self.ops[op].doing else {
            unreachable!("caller matched")
        };
        if !self.may_stage(port, self.lane(port, to.node)) {
            return Step::Wait;
        }
        let kind = match (amo, result) {
            (angara_abi::desc::AmoOp::Add, None) => PacketType::AtomicAdd,
            (angara_abi::desc::AmoOp::Xor, None) => PacketType::AtomicXor,
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

    /// Puts a packet behind the port's others; asks for its bytes if they lie in memory. Returns its serial number.
    pub(crate) fn stage(&mut self, port: usize, mut p: Packet, source: Option<Place>) -> u64 {
        let (at, job, len) = (self.ports[port].port, p.job, p.bytes as u32);
        let source = source.filter(|_| self.chip.carry);
        if source.is_some() {
            p.flags |= flag::AWAIT;
        }
        if !matches!(p.detail, Detail::Tree { .. }) {
            p.flags |= self.ports[port].stamp;
            self.chip.use_ports(&mut p);
            self.ports[port].channels |= 1 << p.vc;
            if self.counting && self.ports[port].family == BarrierFamily::Counting {
                *self.sent_to(job, p.src, p.dst) += 1;
            }
        }
        // Collective packets have an order of their own, by tree and number.
        let ordered = p.vc as usize >= UP || p.vc == Vc::Request as u8 && !p.is(flag::MAY_ADAPT);
        self.ports[port].follow(ordered);
        let op = p.op as u32;
        let (packets, lane) = (p.packets() as u32, usize::from(p.from_channel) % PORTS_MAX);
        let h = self.chip.packets.alloc(p);
        let serial = self.chip.packets[h].serial;
        self.order.sets_out(&self.chip.packets[h], self.ports[port].fences);
        self.ops[op].to_inject += 1;
        let lane = &mut self.ports[port].lanes[lane];
        (lane.staged, lane.carried) = (lane.staged + 1, lane.carried + packets);
        self.ports[port].outstanding += 1;
        self.ports[port].near += u32::from(self.goes_by_memory(h));
        self.ports[port].staging.push_back(h);
        if let Some(place) = source {
            self.ops[op].to_copy += 1;
            self.waiting += 1;
            let token = FetchToken(self.chip.packets.token(h));
            self.effect(Effect::Fetch { at, job, place, len, token, time: self.chip.now });
        } else {
            self.drain_staging(port);
        }
        serial
    }

    /// Moves packets that have their bytes into the node's injection queues.
    pub(crate) fn drain_staging(&mut self, port: usize) {
        while let Some(&h) = self.ports[port].staging.front() {
            if self.chip.packets[h].is(flag::AWAIT) {
                return;
            }
            self.ports[port].staging.pop_front();
            let node = self.ports[port].port.node;
            self.enter_adapter(node, h);
        }
        let next = self.ports[port].ops.front();
        if next.is_some_and(|op| self.ops[*op].doing.waits_for_staging()) {
            self.schedule_pump(port, self.chip.now);
        }
    }

    /// How much longer the next injection of a node takes.
    fn jitter(&mut self, node: u32) -> Tick {
        let most = self.chip.params.jitter_ps;
        if most == 0 {
            return 0;
        }
        let drawn = &mut self.jitters[node as usize];
        *drawn += 1;
        draw(self.chip.seed, u64::from(node), Purpose::Jitter, *drawn) % (most + 1)
    }

    /// A packet goes over the host interface to the injection queue of its channel.
    pub(crate) fn enter_adapter(&mut self, node: u32, h: PacketHandle) {
        let jitter = self.jitter(node);
        if self.goes_by_memory(h) {
            return self.go_by_memory(node, h, jitter);
        }
        if self.chip.observers.tracer.on() {
            self.chip.tell(h, At::Host(node), self.chip.now, Happening::Injected);
        }
        let p = &mut self.chip.packets[h];
        let from = usize::from(p.from_channel);
        let interface = &mut self.chip.inject_busy[node as usize * self.chip.lay.channels + from];
        let start = self.chip.now.max(*interface);
        let gap = self.chip.params.gap_ps * p.packets();
        *interface = start + self.chip.timing.port(p.flits).max(gap);
        // Data read from memory takes its time to arrive here.
        p.ready = start.max(p.ready) + self.chip.params.inject_ps + self.chip.params.router_ps + jitter;
        if p.vc as usize >= UP {
            p.ready += self.chip.timing.port(p.flits); // collective channels wait for the whole packet
            p.rate = rate::WHOLE;
        }
        if let Alone::Next = self.alone
            && !p.is(flag::MAY_ADAPT)
        {
            self.alone = Alone::Through(h, self.chip.go_alone(h));
            return;
        }
        let queue = match p.vc as usize {
            _ if p.is(flag::MAY_ADAPT) => self.chip.lay.injection(from, ADAPTIVE),
            vc if vc < DATA_VCS => self.chip.lay.injection(from, vc),
            vc => Q_INJECT + vc,
        };
        self.chip.append(node, queue, h);
    }

    /// A packet has left its injection queue: the port may stage another one.
    pub(crate) fn injected(&mut self, packet: Injected) {
        let port = packet.port as usize;
        self.unstage(port, packet.lane, packet.packets);
        self.schedule_pump(port, self.chip.now);
        if let Some(op) = self.ops.by_key(packet.op) {
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
        let c = Completion { from, job: o.job, tag: o.tag, state, time: self.chip.now };
        self.completions.push_back((self.effects_made, c));
    }

    /// Operations of a port that are under way and end with an answer.
    pub(crate) fn unanswered(&self, port: usize) -> u32 {
        let waiting = self.ports[port].ops.iter().filter(|op| self.ops[**op].answered).count() as u32;
        self.ops.answered_of(port as u32) - waiting
    }
}
