//! The `generic` router: input queues, separable input-first allocation, everything at cycle edges.
//!
//! One cycle is two phases. First whatever is due is applied: flits' credits, tails that free ports,
//! heads that reach an input. These touch one channel each and commute. Then every source with a
//! packet injects and every router with a request allocates, and what they send is due at least two
//! cycles later, so the order of routers within a cycle cannot matter either.

use super::config::Generic as Params;
use super::packet::{Cold, Hot, NIL, Queue, Slab};
use super::parallel::{Part, part_of};
use super::rng::{Purpose, draw};
use super::topology::{Class, End, PORTS_MAX, Topology};
use super::trace::{LinkLoad, Stage, TraceEvent, Tracer};
use super::{Counters, Delivery, Engine, Inconsistent, Packet, Tick};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// From a switch grant to the head's arrival at the next router: crossbar 1, link 2 (one in flight,
/// one to be written and read).
pub(super) const GRANT_TO_ARRIVAL: usize = 3;
/// From a switch grant to its credit being usable upstream: channel 2, processing 2.
pub(super) const GRANT_TO_CREDIT: usize = 4;
/// From a switch grant to an ejection channel until its credit is back: 3 to the endpoint, then 4.
pub(super) const EJECT_TO_CREDIT: usize = 7;
/// From a source's decision to the head's arrival at its router.
const SOURCE_TO_ARRIVAL: usize = 2;
/// From a switch grant to its credit being usable by the source.
pub(super) const GRANT_TO_SOURCE_CREDIT: usize = 2;

/// Most parts of a network.
pub(super) const PARTS_MAX: usize = u8::MAX as usize;

pub(super) const NO_OWNER: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum State {
    /// No packet.
    Idle,
    /// Its head wants an output virtual channel.
    Allocating,
    /// Its head owns one and wants the switch, or waits for credits.
    Active,
    /// Its packet is streaming; the tail has not left.
    Streaming,
}

/// An input virtual channel.
#[derive(Clone, Copy)]
pub(super) struct InVc {
    pub(super) queue: Queue,
    /// Output the packet at the head wants; allowed channels there; the one it got.
    pub(super) out_port: u8,
    pub(super) allowed: u8,
    pub(super) out_vc: u8,
    pub(super) state: State,
    /// Round robin over (output port, channel).
    pub(super) turn: u16,
    pub(super) flits: u16,
}

/// An output virtual channel: what is known of the buffer at the other end.
#[derive(Clone, Copy)]
pub(super) struct OutVc {
    pub(super) credits: u16,
    /// Credits its owner waits for; 0 if it does not wait.
    pub(super) wanted: u16,
    /// Input channel (local number) that owns it.
    pub(super) owner: u16,
    /// Round robin over input channels.
    pub(super) turn: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Open,
    Router,
    Endpoint,
    /// A router of another part.
    Away,
}

/// One port, input and output side.
#[derive(Clone, Copy)]
pub(super) struct Port {
    /// Base of the far port's channels (in its part), or the endpoint.
    pub(super) peer: u32,
    pub(super) wire: Wire,
    /// The part of the far port.
    pub(super) part: u8,
    /// Input channels that want an output channel / the switch.
    pub(super) allocating: u8,
    pub(super) ready: u8,
    /// Output channels without owner.
    pub(super) free: u8,
    /// Input side: next channel for an output; next output. Output side: next input.
    pub(super) vc_turn: u8,
    pub(super) out_turn: u8,
    pub(super) in_turn: u8,
}

/// Ports of a router with something to do, and ports a packet streams through.
#[derive(Clone, Copy, Default)]
pub(super) struct Summary {
    pub(super) allocating: u64,
    pub(super) ready: u64,
    pub(super) in_busy: u64,
    pub(super) out_busy: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Source {
    queue: Queue,
    last_vc: u8,
    /// First cycle at which it may send again.
    free_at: u64,
    sequence: u64,
}

/// What crosses from part to part. Channels are numbered as in the receiving part.
pub(super) enum Message {
    /// The head of a packet arrives.
    Arrival {
        /// Input channel.
        channel: u32,
        /// The packet.
        hot: Hot,
        /// The packet.
        cold: Cold,
        /// It is traced.
        traced: bool,
    },
    /// Credits return.
    Credit {
        /// Output channel.
        channel: u32,
        /// How many.
        flits: u16,
    },
}

/// What is due in one cycle.
#[derive(Default)]
pub(super) struct Due {
    /// (input channel, packet)
    pub(super) arrivals: Vec<(u32, u32)>,
    /// (output channel, flits)
    pub(super) credits: Vec<(u32, u32)>,
    /// (source channel, flits)
    pub(super) source_credits: Vec<(u32, u32)>,
    /// Input channels whose packet's tail has left.
    pub(super) tails: Vec<u32>,
    /// Sources to look at.
    pub(super) sources: Vec<u32>,
    pub(super) deliveries: Vec<u32>,
}

/// A set of small numbers, visited in order.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    fn new(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }
    #[inline(always)]
    fn set(&mut self, i: u32) {
        self.0[i as usize >> 6] |= 1 << (i & 63);
    }
    fn any(&self) -> bool {
        self.0.iter().any(|&w| w != 0)
    }
}

/// Per-cycle working space of the allocators.
pub(super) struct Scratch {
    /// Best input channel per output channel.
    pub(super) best: Vec<u16>,
    /// Output channels with a request.
    pub(super) touched: Vec<u16>,
    /// Input channels that got an output channel in this cycle.
    pub(super) allocated: Vec<u16>,
    pub(super) requests: [u64; PORTS_MAX],
    pub(super) chosen: [u8; PORTS_MAX],
    pub(super) pick: [u8; PORTS_MAX],
}

/// Which routers, and the endpoints attached to them, are simulated here: all, or one part of several.
#[derive(Clone)]
pub(super) struct Range {
    /// First router of every part.
    pub(super) cuts: Arc<[u32]>,
    /// First endpoint of every part.
    pub(super) endpoint_cuts: Arc<[u32]>,
    /// Number of this part.
    pub(super) part: usize,
}

impl Range {
    fn of(cuts: &[u32], part: usize, all: usize) -> std::ops::Range<u32> {
        cuts[part]..cuts.get(part + 1).copied().unwrap_or(all as u32)
    }
}

/// Routers, sources and links of a network of `generic` routers, or of a part of it. Routers, channels and
/// endpoints are numbered from 0 within the part.
pub(super) struct Routers<T> {
    pub(super) topology: T,
    pub(super) first_router: u32,
    first_endpoint: u32,
    pub(super) outgoing: Vec<(u8, u64, Message)>,
    pub(super) seed: u64,
    pub(super) cycle: Tick,
    pub(super) vcs: u32,
    pub(super) buffer: u16,
    pub(super) packet_max: u16,
    /// log2 of channels per port and of ports per router, both rounded up.
    pub(super) vc_shift: u32,
    pub(super) port_shift: u32,
    pub(super) now: u64,
    pub(super) slab: Slab,
    pub(super) inputs: Vec<InVc>,
    pub(super) outputs: Vec<OutVc>,
    pub(super) ports: Vec<Port>,
    pub(super) summary: Vec<Summary>,
    pub(super) awake: Bits,
    pub(super) sources: Vec<Source>,
    pub(super) source_credits: Vec<u16>,
    pub(super) sources_awake: Bits,
    pub(super) wheel: Vec<Due>,
    pub(super) far: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) scratch: Scratch,
    pub(super) delivered: VecDeque<Delivery>,
    pub(super) counters: Counters,
    pub(super) tracer: Tracer,
    /// Per port; empty unless somebody asked.
    pub(super) link_loads: Vec<LinkLoad>,
}

impl<T: Topology> Routers<T> {
    pub(super) fn new(topology: T, p: &Params, seed: u64, range: &Range) -> Routers<T> {
        let vc_shift = (p.vcs as u32).next_power_of_two().trailing_zeros();
        let port_shift = (topology.ports() as u32).next_power_of_two().trailing_zeros();
        let here = Range::of(&range.cuts, range.part, topology.routers());
        let endpoints = Range::of(&range.endpoint_cuts, range.part, topology.endpoints());
        let routers = here.len();
        let channels = routers << (port_shift + vc_shift);
        let all = ((1u32 << p.vcs) - 1) as u8;
        let mut ports = Vec::with_capacity(routers << port_shift);
        for r in here.clone() {
            for q in 0..1u32 << port_shift {
                let end = if (q as usize) < topology.ports() { topology.output(r, q as u8) } else { End::Open };
                let (peer, wire, part) = match end {
                    End::Router { router, port } => {
                        let part = part_of(&range.cuts, router);
                        let wire = if part == range.part { Wire::Router } else { Wire::Away };
                        (((router - range.cuts[part]) << port_shift | port as u32) << vc_shift, wire, part)
                    }
                    End::Endpoint(e) => (e - endpoints.start, Wire::Endpoint, range.part),
                    End::Open => (0, Wire::Open, range.part),
                };
                ports.push(Port {
                    peer,
                    wire,
                    part: part as u8,
                    allocating: 0,
                    ready: 0,
                    free: all,
                    vc_turn: 0,
                    out_turn: 0,
                    in_turn: 0,
                });
            }
        }
        let idle =
            InVc { queue: Queue::EMPTY, out_port: 0, allowed: 0, out_vc: 0, state: State::Idle, turn: 0, flits: 0 };
        let out = OutVc { credits: p.buffer_flits, wanted: 0, owner: NO_OWNER, turn: 0 };
        let source = Source { queue: Queue::EMPTY, last_vc: p.vcs - 1, free_at: 0, sequence: 0 };
        let slots = (p.packet_flits_max as usize + EJECT_TO_CREDIT + 1).next_power_of_two();
        Routers {
            first_router: here.start,
            first_endpoint: endpoints.start,
            outgoing: Vec::new(),
            seed,
            cycle: p.cycle,
            vcs: p.vcs as u32,
            buffer: p.buffer_flits,
            packet_max: p.packet_flits_max,
            vc_shift,
            port_shift,
            now: 0,
            slab: Slab::new(),
            inputs: vec![idle; channels],
            outputs: vec![out; channels],
            ports,
            summary: vec![Summary::default(); routers],
            awake: Bits::new(routers),
            sources: vec![source; endpoints.len()],
            source_credits: vec![p.buffer_flits; endpoints.len() * p.vcs as usize],
            sources_awake: Bits::new(endpoints.len()),
            wheel: (0..slots).map(|_| Due::default()).collect(),
            far: BinaryHeap::new(),
            scratch: Scratch {
                best: vec![NO_OWNER; 1 << (port_shift + vc_shift)],
                touched: Vec::new(),
                allocated: Vec::new(),
                requests: [0; PORTS_MAX],
                chosen: [0; PORTS_MAX],
                pick: [0; PORTS_MAX],
            },
            delivered: VecDeque::new(),
            counters: Counters::default(),
            tracer: Tracer::default(),
            link_loads: Vec::new(),
            topology,
        }
    }

    #[inline(always)]
    fn due(&mut self, delay: usize) -> &mut Due {
        let slot = (self.now as usize + delay) & (self.wheel.len() - 1);
        &mut self.wheel[slot]
    }

    /// A traced packet at `channel` (a number of [`Routers::inputs`] or [`Routers::outputs`]), in this cycle.
    #[inline(always)]
    pub(super) fn trace(&mut self, packet: u32, channel: u32, stage: Stage) {
        let port = channel >> self.vc_shift;
        let (router, vc) = (port >> self.port_shift, channel & ((1 << self.vc_shift) - 1));
        let place = (self.first_router + router, port & ((1 << self.port_shift) - 1), vc);
        self.tracer.note(packet, self.now * self.cycle, place, stage);
    }

    /// One cycle.
    fn step(&mut self) {
        while let Some(&Reverse((t, e))) = self.far.peek() {
            if t > self.now {
                break;
            }
            self.far.pop();
            self.sources_awake.set(e);
        }
        let slot = self.now as usize & (self.wheel.len() - 1);
        let mut due = std::mem::take(&mut self.wheel[slot]);
        self.apply_credits(&mut due);
        for &i in &due.tails {
            self.tail_left(i);
        }
        due.tails.clear();
        for &(i, packet) in &due.arrivals {
            self.arrive(i, packet);
        }
        due.arrivals.clear();
        for &e in &due.sources {
            self.sources_awake.set(e);
        }
        due.sources.clear();
        self.deliver(&mut due.deliveries);
        self.wheel[slot] = due;
        for w in 0..self.sources_awake.0.len() {
            let mut m = std::mem::take(&mut self.sources_awake.0[w]);
            while m != 0 {
                self.send((w * 64) as u32 + m.trailing_zeros());
                m &= m - 1;
            }
        }
        for w in 0..self.awake.0.len() {
            let mut m = self.awake.0[w];
            let mut keep = m;
            while m != 0 {
                let b = m.trailing_zeros();
                m &= m - 1;
                if !self.allocate((w * 64) as u32 + b) {
                    keep &= !(1 << b);
                }
            }
            self.awake.0[w] = keep;
        }
    }

    fn apply_credits(&mut self, due: &mut Due) {
        for &(o, flits) in &due.credits {
            let out = &mut self.outputs[o as usize];
            out.credits += flits as u16;
            if out.wanted != 0 && out.credits >= out.wanted {
                out.wanted = 0;
                let owner = out.owner as u32;
                let router = o >> (self.port_shift + self.vc_shift);
                let (p, v) = (owner >> self.vc_shift, owner & ((1 << self.vc_shift) - 1));
                self.ports[(router << self.port_shift | p) as usize].ready |= 1 << v;
                self.summary[router as usize].ready |= 1 << p;
                self.awake.set(router);
            }
        }
        due.credits.clear();
        for &(s, flits) in &due.source_credits {
            self.source_credits[s as usize] += flits as u16;
            let e = s / self.vcs;
            if self.sources[e as usize].queue.head != NIL {
                self.sources_awake.set(e);
            }
        }
        due.source_credits.clear();
    }

    /// The head of `packet` is at input channel `i`: decide its output; compete if nobody is before it.
    #[inline(always)]
    fn arrive(&mut self, i: u32, packet: u32) {
        let router = i >> (self.port_shift + self.vc_shift);
        let hot = &mut self.slab.hot[packet as usize];
        let hop = self.topology.next(self.first_router + router, &mut hot.route);
        hot.mark = hop.port as u32 | (hop.class as u32) << 8;
        hot.routers += 1;
        self.trace(packet, i, Stage::Arrived);
        let input = &mut self.inputs[i as usize];
        input.queue.push(&mut self.slab, packet);
        if input.state == State::Idle {
            self.compete(i);
        }
    }

    /// The packet at the head of input channel `i` asks for an output channel.
    #[inline(always)]
    pub(super) fn compete(&mut self, i: u32) {
        let input = &mut self.inputs[i as usize];
        let hot = &self.slab.hot[input.queue.head as usize];
        let all = (1u32 << self.vcs) - 1;
        let lower = (1u32 << (self.vcs / 2)) - 1;
        input.out_port = hot.mark as u8;
        input.allowed = match hot.mark >> 8 {
            c if c == Class::Lower as u32 => lower,
            c if c == Class::Upper as u32 => all & !lower,
            _ => all,
        } as u8;
        input.flits = hot.flits;
        input.state = State::Allocating;
        let router = i >> (self.port_shift + self.vc_shift);
        let p = (i >> self.vc_shift) & ((1 << self.port_shift) - 1);
        self.ports[(i >> self.vc_shift) as usize].allocating |= 1 << (i & ((1 << self.vc_shift) - 1));
        self.summary[router as usize].allocating |= 1 << p;
        self.awake.set(router);
    }

    /// The tail of a packet of several flits has left input channel `i`.
    fn tail_left(&mut self, i: u32) {
        let router = i >> (self.port_shift + self.vc_shift);
        let p = (i >> self.vc_shift) & ((1 << self.port_shift) - 1);
        let input = &mut self.inputs[i as usize];
        let (op, ov) = (input.out_port as u32, input.out_vc as u32);
        input.state = State::Idle;
        let waiting = input.queue.head != NIL;
        let base = router << self.port_shift;
        self.outputs[((base | op) << self.vc_shift | ov) as usize].owner = NO_OWNER;
        self.ports[(base | op) as usize].free |= 1 << ov;
        let s = &mut self.summary[router as usize];
        s.in_busy &= !(1 << p);
        s.out_busy &= !(1 << op);
        if s.allocating | s.ready != 0 {
            self.awake.set(router);
        }
        if waiting {
            self.compete(i);
        }
    }

    fn deliver(&mut self, packets: &mut Vec<u32>) {
        // One endpoint receives at most one tail per cycle, so this order is total.
        packets.sort_unstable_by_key(|&h| self.slab.cold[h as usize].dst);
        for h in packets.drain(..) {
            let d = self.slab.remove(h, self.now * self.cycle);
            let (router, port) = self.topology.attach(d.dst);
            self.tracer.note(h, d.tail, (router, u32::from(port), 0), Stage::Delivered);
            self.tracer.end(h);
            self.counters.delivered += 1;
            self.counters.delivered_flits += d.flits as u64;
            self.delivered.push_back(d);
        }
    }

    /// Source `e` sends the packet at the head of its queue, if it is time and a channel has room.
    #[inline(always)]
    fn send(&mut self, e: u32) {
        let source = &mut self.sources[e as usize];
        let h = source.queue.head;
        if h == NIL || source.free_at > self.now {
            return;
        }
        let ready = self.slab.cold[h as usize].at.div_ceil(self.cycle);
        if ready > self.now {
            self.far.push(Reverse((ready, e)));
            return;
        }
        let flits = self.slab.hot[h as usize].flits;
        let first = e * self.vcs;
        let mut vc = source.last_vc as u32;
        let mut left = self.vcs;
        loop {
            if left == 0 {
                return; // a credit will wake it
            }
            left -= 1;
            vc = if vc + 1 == self.vcs { 0 } else { vc + 1 };
            if self.source_credits[(first + vc) as usize] >= flits {
                break;
            }
        }
        self.source_credits[(first + vc) as usize] -= flits;
        source.last_vc = vc as u8;
        source.free_at = self.now + flits as u64;
        source.queue.pop(&self.slab);
        // A packet given while it is busy finds the queue empty and wakes it too early.
        let look_again = source.queue.head != NIL || flits > 1;
        let (router, port) = self.topology.attach(self.first_endpoint + e);
        let input = ((router - self.first_router) << self.port_shift | port as u32) << self.vc_shift | vc;
        self.trace(h, input, Stage::Injected);
        self.due(SOURCE_TO_ARRIVAL).arrivals.push((input, h));
        if look_again {
            self.due(flits as usize).sources.push(e);
        }
    }

    fn wheel_due(&self) -> Option<u64> {
        (0..self.wheel.len() as u64).map(|d| self.now + d).find(|&t| {
            let d = &self.wheel[t as usize & (self.wheel.len() - 1)];
            !(d.arrivals.is_empty()
                && d.credits.is_empty()
                && d.source_credits.is_empty()
                && d.tails.is_empty()
                && d.sources.is_empty()
                && d.deliveries.is_empty())
        })
    }
    /// The next cycle in which anything happens.
    fn next_cycle(&self) -> Option<u64> {
        if self.awake.any() || self.sources_awake.any() {
            return Some(self.now);
        }
        let far = self.far.peek().map(|&Reverse((t, _))| t.max(self.now));
        self.wheel_due().into_iter().chain(far).min()
    }
}

impl<T: Topology> Engine for Routers<T> {
    fn inject(&mut self, p: Packet) {
        assert!(
            (1..=self.packet_max).contains(&p.flits),
            "packet of {} flits; packet_flits_max is {}",
            p.flits,
            self.packet_max
        );
        let e = p.src - self.first_endpoint;
        let source = &mut self.sources[e as usize];
        let random = draw(self.seed, p.src as u64, Purpose::Route, source.sequence);
        source.sequence += 1;
        let route = self.topology.start(p.src, p.dst, random);
        let h = self.slab.insert(&p, route, 0);
        if source.queue.push(&mut self.slab, h) {
            self.sources_awake.set(e);
        }
        if p.traced {
            let (router, port) = self.topology.attach(p.src);
            self.tracer.begin(h, p.tag);
            self.tracer.note(h, p.at, (router, u32::from(port), 0), Stage::Created);
        }
        self.counters.injected += 1;
    }

    /// `now` is the next cycle to be processed; cycle c happens at c·cycle picoseconds.
    fn advance(&mut self, to: Tick) {
        let end = to / self.cycle;
        while self.now <= end {
            match self.next_cycle() {
                Some(t) if t <= end => {
                    self.now = t;
                    self.step();
                    self.now += 1;
                }
                _ => self.now = end + 1,
            }
        }
    }
    fn now(&self) -> Tick {
        self.now.saturating_sub(1) * self.cycle
    }
    fn next_event(&self) -> Option<Tick> {
        self.next_cycle().map(|c| c * self.cycle)
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.delivered
    }
    fn counters(&self) -> Counters {
        self.counters
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.tracer.take()
    }
    fn count_links(&mut self) {
        self.link_loads = vec![LinkLoad::default(); self.ports.len()];
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        let exists = u32::from(port) < 1 << self.port_shift;
        // Of another part, it has no number here.
        let router = router.wrapping_sub(self.first_router) as usize;
        let load = self.link_loads.get(router << self.port_shift | usize::from(port));
        load.filter(|_| exists).copied().unwrap_or_default()
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        let fail = |what: String| Err(Inconsistent(what));
        if self.slab.live() != 0 {
            return fail(format!("{} packets never arrived", self.slab.live()));
        }
        for (o, out) in self.outputs.iter().enumerate() {
            if out.credits != self.buffer || out.owner != NO_OWNER || out.wanted != 0 {
                return fail(format!(
                    "output channel {o}: {} of {} credits, owner {}",
                    out.credits, self.buffer, out.owner
                ));
            }
        }
        for (i, input) in self.inputs.iter().enumerate() {
            if input.state != State::Idle || input.queue.head != NIL {
                return fail(format!("input channel {i} is {:?}", input.state));
            }
        }
        for (s, &c) in self.source_credits.iter().enumerate() {
            if c != self.buffer {
                return fail(format!("source channel {s}: {c} of {} credits", self.buffer));
            }
        }
        Ok(())
    }
    fn memory_bytes(&self) -> usize {
        let due = |d: &Due| {
            (d.arrivals.capacity() + d.credits.capacity() + d.source_credits.capacity()) * 8
                + (d.tails.capacity() + d.sources.capacity() + d.deliveries.capacity()) * 4
        };
        size_of::<InVc>() * self.inputs.len()
            + size_of::<OutVc>() * self.outputs.len()
            + size_of::<Port>() * self.ports.len()
            + size_of::<Summary>() * self.summary.len()
            + size_of::<Source>() * self.sources.len()
            + 2 * self.source_credits.len()
            + self.wheel.iter().map(due).sum::<usize>()
            + self.delivered.capacity() * size_of::<Delivery>()
            + self.link_loads.capacity() * size_of::<LinkLoad>()
            + self.slab.memory_bytes()
    }
}

impl<T: Topology + 'static> Part for Routers<T> {
    type Message = Message;
    fn lookahead(&self) -> Tick {
        GRANT_TO_ARRIVAL.min(GRANT_TO_CREDIT) as Tick * self.cycle
    }
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, Message)) {
        for (part, due, message) in self.outgoing.drain(..) {
            post(part as usize, due * self.cycle, message);
        }
    }
    fn accept(&mut self, due: Tick, message: Message) {
        let slot = (due / self.cycle) as usize & (self.wheel.len() - 1);
        let due = &mut self.wheel[slot];
        match message {
            Message::Arrival { channel, hot, cold, traced } => {
                let h = self.slab.put(hot, cold);
                due.arrivals.push((channel, h));
                if traced {
                    self.tracer.begin(h, cold.tag);
                }
            }
            Message::Credit { channel, flits } => due.credits.push((channel, flits as u32)),
        }
    }
}
