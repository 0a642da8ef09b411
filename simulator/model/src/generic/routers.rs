//! All routers of a network, or of a part of it, and a cycle of them.

use super::allocators::Scratch;
use super::news::News;
use super::state::{
    Arrived, Bits, Block, Calendar, ChannelState, Clock, EJECT_TO_CREDIT, InVc, Mask, Message, NO_OWNER, OutVc, Port,
    Router, Soon, Source, Wire,
};
use super::view::View;
use crate::parallel::part_of;
use crate::pool::{Pool, Queue};
use crate::setup::Generic;
use crate::topology::{Class, End, Route, Topology};
use crate::waits::Waiting;
use angara_fabric::bits::bits;
use angara_fabric::raw::{Delivery, LinkLoad, PacketHandle, Stage, Totals, Tracer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// From a source's decision to the head's arrival at its router.
pub(crate) const SOURCE_TO_ARRIVAL: usize = 2;
/// Cycles the calendar covers at least, so that packets handed in a few cycles early are cheap.
const REACH_MIN: usize = 32;

/// Bytes of router state per block: the greater part of a level-2 cache is left to packets and events.
const BLOCK_BYTES: usize = 512 << 10;

/// Which routers, and the endpoints attached to them, are simulated here: all, or one part of several.
pub(crate) struct Range<'a> {
    /// First router of every part.
    pub(crate) cuts: &'a [u32],
    /// First endpoint of every part.
    pub(crate) endpoint_cuts: &'a [u32],
    /// Cycles from an event to anything it causes in another part.
    pub(crate) window: u64,
    /// Number of this part.
    pub(crate) part: usize,
}

impl Range<'_> {
    pub(crate) fn of(cuts: &[u32], part: usize, all: usize) -> std::ops::Range<u32> {
        cuts[part]..cuts.get(part + 1).copied().unwrap_or(all as u32)
    }
    /// The ports of a router, as seen from this part.
    pub(crate) fn ports<const N: usize, const P: usize>(&self, topology: &dyn Topology, router: u32) -> [Port; P] {
        std::array::from_fn(|port| {
            let end = if port < topology.ports() { topology.output(router, port as u8) } else { End::Open };
            let (peer, wire, part) = match end {
                End::Router { router, port } => {
                    let part = part_of(self.cuts, router);
                    let wire = if part == self.part { Wire::Router } else { Wire::Away };
                    ((router - self.cuts[part]) * N as u32 + port as u32 * (N / P) as u32, wire, part)
                }
                End::Endpoint(e) => (e - self.endpoint_cuts[self.part], Wire::Endpoint, self.part),
                End::Open => (0, Wire::Open, self.part),
            };
            let link = matches!(wire, Wire::Router | Wire::Away);
            let extra = if link { topology.delay(router, port as u8) - 1 } else { 0 };
            Port { peer, wire, part: part as u16, vc_turn: 0, out_turn: 0, in_turn: 0, extra }
        })
    }
}

/// Routers, sources and links of a network of `generic` routers, or of a part of it. Routers, channels and
/// endpoints are numbered from 0 within the part. See [`super::state`] for `N`, `P` and `W`; `A` if packets are adaptive.
pub(super) struct Routers<T, const N: usize, const P: usize, const W: usize, const A: bool> {
    pub(super) topology: T,
    pub(super) first_router: u32,
    pub(super) first_endpoint: u32,
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) vcs: u32,
    pub(super) buffer: u16,
    pub(super) packet_max: u16,
    /// Channels a packet may use, by [`Class::index`].
    pub(super) allowed: [u32; Class::COUNT],
    pub(super) pool: Pool,
    pub(super) routers: Vec<Router<N, P, W>>,
    pub(super) sources: Vec<Source>,
    pub(super) source_credits: Vec<u16>,
    pub(super) calendar: Calendar,
    /// Cycles from an event to anything it causes in another part.
    pub(super) window: u64,
    pub(super) blocks: Vec<Block>,
    /// The block being processed; an empty one is in its place meanwhile.
    pub(super) here: Block,
    pub(super) scratch: Scratch<N, P, W>,
    pub(super) arrived: Arrived,
    pub(super) delivered: VecDeque<Delivery>,
    pub(super) outgoing: Vec<(u16, u64, Message)>,
    pub(super) counters: Totals,
    pub(super) tracer: Tracer,
    /// What routers have been told of others' queues.
    pub(super) news: News,
    /// Per port; empty unless somebody asked.
    pub(super) link_loads: Vec<LinkLoad>,
    /// Nobody's unless somebody asked.
    pub(super) waiting: Waiting<W>,
}

/// Cycles beyond one that a flit takes on the longest link.
pub(crate) fn longest(topology: &dyn Topology) -> u8 {
    links(topology).map(|(r, p, _)| topology.delay(r, p) - 1).max().unwrap_or(0)
}

/// All links: router, port, and the router they lead to.
pub(crate) fn links(topology: &dyn Topology) -> impl Iterator<Item = (u32, u8, u32)> {
    let ports = (0..topology.routers() as u32).flat_map(|r| (0..topology.ports() as u8).map(move |p| (r, p)));
    ports.filter_map(|(r, p)| match topology.output(r, p) {
        End::Router { router, .. } => Some((r, p, router)),
        _ => None,
    })
}

impl<T: Route, const N: usize, const P: usize, const W: usize, const A: bool> Routers<T, N, P, W, A> {
    /// log2 of the channels of a router and of a port.
    pub(super) const ROUTER: u32 = N.trailing_zeros();
    pub(super) const PORT: u32 = Router::<N, P, W>::SHIFT;

    pub(super) fn new(topology: T, p: &Generic, seed: u64, range: &Range) -> Self {
        let here = Range::of(range.cuts, range.part, topology.routers());
        let endpoints = Range::of(range.endpoint_cuts, range.part, topology.endpoints());
        let idle = InVc { queue: Queue::EMPTY, out: 0, turn: 0, flits: 0, allowed: 0, state: ChannelState::Idle };
        let out = OutVc { credits: p.buffer_flits, wanted: 0, owner: NO_OWNER, turn: 0 };
        let mut free = Mask::NONE;
        (0..P as u32).for_each(|q| (0..p.vcs as u32).for_each(|v| free.set(q << Self::PORT | v)));
        let router = |r| Router {
            allocating: Mask::NONE,
            ready: Mask::NONE,
            free,
            in_busy: 0,
            out_busy: 0,
            ports: range.ports::<N, P>(&topology, r),
            outputs: [out; N],
            inputs: [idle; N],
        };
        let sources: Vec<Source> = endpoints
            .clone()
            .map(|e| {
                let (router, port) = topology.attach(e);
                let channel = (router - here.start) << Self::ROUTER | (port as u32) << Self::PORT;
                Source { queue: Queue::EMPTY, free_at: 0, sequence: 0, channel, last_vc: p.vcs - 1 }
            })
            .collect();
        let per_block = (BLOCK_BYTES / size_of::<Router<N, P, W>>()).max(64).next_power_of_two();
        let block = |first: usize| {
            let first_source = |router: usize| sources.partition_point(|s| (s.channel >> Self::ROUTER) < router as u32);
            let (from, to) = (first_source(first), first_source(first + per_block));
            Block {
                first_router: first as u32,
                first_source: from as u32,
                awake: Bits::new(per_block.min(here.len() - first)),
                sources: Bits::new(to - from),
                far: BinaryHeap::new(),
            }
        };
        let blocks: Vec<Block> = (0..here.len()).step_by(per_block).map(block).collect();
        let reach = (p.packet_flits_max as usize + EJECT_TO_CREDIT + 1).max(REACH_MIN);
        let block_shift = per_block.trailing_zeros() + Self::ROUTER;
        Routers {
            first_router: here.start,
            first_endpoint: endpoints.start,
            seed,
            clock: Clock(p.cycle),
            vcs: p.vcs as u32,
            buffer: p.buffer_flits,
            packet_max: p.packet_flits_max,
            allowed: Class::channels(p.vcs as u32, topology.classes()),
            pool: Pool::default(),
            routers: here.clone().map(router).collect(),
            source_credits: vec![p.buffer_flits; sources.len() * p.vcs as usize],
            sources,
            calendar: Calendar::new(reach, longest(&topology), blocks.len(), block_shift),
            window: range.window,
            blocks,
            here: Block::default(),
            scratch: Scratch::default(),
            arrived: Arrived::default(),
            delivered: VecDeque::new(),
            outgoing: Vec::new(),
            counters: Totals::default(),
            tracer: Tracer::default(),
            link_loads: Vec::new(),
            news: News::new(&topology, range),
            waiting: Waiting::default(),
            topology,
        }
    }

    /// A traced packet at `channel` (a number of an input or output channel), in this cycle.
    #[inline(always)]
    fn trace(&mut self, packet: PacketHandle, channel: u32, stage: Stage) {
        if self.tracer.on() {
            let (router, port) = (channel >> Self::ROUTER, channel >> Self::PORT & (P as u32 - 1));
            let place = (self.first_router + router, port, channel & ((1 << Self::PORT) - 1));
            self.tracer.note(packet, self.clock.time(self.calendar.now), place, stage);
        }
    }

    /// One cycle of block `b`, cycle `offset` of the window.
    pub(super) fn step(&mut self, b: usize, offset: usize) {
        while let Some(&Reverse((t, e))) = self.here.far.peek() {
            if t > self.calendar.now {
                break;
            }
            self.here.far.pop();
            self.here.wake_source(e);
        }
        let (mut soon, mut later) = self.calendar.take(b);
        self.apply_credits(&mut soon);
        for i in later.tails.drain(..) {
            self.tail_left(i);
        }
        self.arrive(&mut soon);
        for e in later.sources.drain(..) {
            self.here.wake_source(e);
        }
        self.deliver(&mut later.deliveries, offset);
        self.calendar.give_back(b, (soon, later));
        for w in 0..self.here.sources.0.len() {
            for bit in bits(std::mem::take(&mut self.here.sources.0[w])) {
                self.send(self.here.first_source + (w * 64) as u32 + bit);
            }
        }
        if self.waiting.on() {
            self.ask();
        }
        for w in 0..self.here.awake.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.here.awake.0[w])) {
                if self.allocate(self.here.first_router + (w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.here.awake.0[w] |= again;
        }
        if self.waiting.on() {
            self.count_waits();
        }
    }

    /// Place of a port of one of this part's routers among those of all of them.
    pub(super) fn place(&self, router: u32, port: u8) -> Option<usize> {
        let (router, port) = (router.wrapping_sub(self.first_router) as usize, usize::from(port));
        (router < self.routers.len() && port < P).then(|| router * P + port)
    }

    /// Routers of the block being processed.
    fn routers_here(&self) -> std::ops::Range<usize> {
        let first = self.here.first_router as usize;
        first..self.routers.len().min(first + self.here.awake.0.len() * 64)
    }

    /// Notes who wants what before this cycle's decisions, and counts those that have an output channel without room.
    #[cold]
    fn ask(&mut self) {
        for r in self.routers_here() {
            let router = &self.routers[r];
            self.waiting.ask(r, router.allocating, router.ready);
            let short = router.outputs.iter().enumerate().filter(|(_, out)| out.wanted != 0);
            for (o, _) in short {
                self.waiting.waits[r * P + (o >> Self::PORT)].credit += 1;
            }
        }
    }

    /// Counts those that wanted something and did not get it.
    #[cold]
    fn count_waits(&mut self) {
        for r in self.routers_here() {
            let router = &self.routers[r];
            let out = |i: u32| r * P + (router.inputs[i as usize % N].out as usize >> Self::PORT);
            let [mut allocating, mut ready] = self.waiting.left(r, router.allocating, router.ready);
            while let Some(i) = allocating.pop() {
                self.waiting.waits[out(i)].channel += 1;
            }
            while let Some(i) = ready.pop() {
                self.waiting.waits[out(i)].switch += 1;
            }
        }
    }

    /// So many flits more, or fewer, are bound for the port of output channel `o`: for routers that look at it.
    #[inline(always)]
    pub(super) fn tell(&mut self, o: u32, flits: u32) {
        if T::LOOKS && self.news.on() {
            let port = (o >> Self::PORT) as u8 & (P as u8 - 1);
            let place = (self.first_router + (o >> Self::ROUTER), port, self.calendar.now);
            let outgoing = &mut self.outgoing;
            let post = |part, due, change| outgoing.push((part, due, Message::Queue(change)));
            self.news.change(&self.topology, place, flits, post);
        }
    }

    fn apply_credits(&mut self, due: &mut Soon) {
        for (o, flits) in due.credits.drain(..) {
            self.tell(o, flits.wrapping_neg());
            let r = o >> Self::ROUTER;
            let router = &mut self.routers[r as usize];
            let out = router.output(o);
            out.credits += flits as u16;
            if out.wanted != 0 && out.credits >= out.wanted {
                out.wanted = 0;
                let owner = out.owner as u32;
                router.ready.set(owner);
                self.here.wake(r);
            }
            if A && router.allocating.any() {
                self.here.wake(r);
            }
        }
        for (s, flits) in due.source_credits.drain(..) {
            self.source_credits[s as usize] += flits as u16;
            let e = s / self.vcs;
            if self.sources[e as usize].queue.head.is_some() {
                self.here.wake_source(e);
            }
        }
    }

    /// Heads reach input channels: decide their outputs; those with nobody before them compete.
    fn arrive(&mut self, due: &mut Soon) {
        // Packets are strewn over memory. Touching all of them first, without depending on anything
        // else, lets the processor fetch many at once.
        for &(i, packet) in &due.arrivals {
            let hot = &mut self.pool.hot[packet.index()];
            let r = i >> Self::ROUTER;
            let at = self.first_router + r;
            if A {
                self.topology.came((i >> Self::PORT & (P as u32 - 1)) as u8, &mut hot.route);
                hot.routers += 1;
                continue;
            }
            let hop = if T::LOOKS {
                let news = (&self.news, self.calendar.now, at);
                let view = View::new(&self.routers[r as usize].outputs, Self::PORT, (self.vcs, self.buffer), news);
                let input = i >> Self::PORT & (P as u32 - 1);
                self.topology.choose(at, input as u8, &mut hot.route, &view)
            } else {
                self.topology.next(at, &mut hot.route)
            };
            hot.mark = (hop.port as u32) << Self::PORT | self.allowed[hop.class.index() % Class::COUNT] << 16;
            hot.routers += 1;
            let flits = u32::from(hot.flits);
            self.tell(r << Self::ROUTER | u32::from(hop.port) << Self::PORT, flits);
        }
        for (i, packet) in due.arrivals.drain(..) {
            self.trace(packet, i, Stage::Arrived);
            let r = i >> Self::ROUTER;
            let router = &mut self.routers[r as usize];
            let input = router.input(i);
            input.queue.push(&mut self.pool, packet);
            if input.state == ChannelState::Idle {
                router.compete(i % N as u32, &self.pool);
                self.here.wake(r);
            }
        }
    }

    /// The tail of a packet of several flits has left input channel `i`.
    fn tail_left(&mut self, i: u32) {
        let r = i >> Self::ROUTER;
        let i = i % N as u32;
        let router = &mut self.routers[r as usize];
        let input = router.input(i);
        input.state = ChannelState::Idle;
        let (o, waiting) = (input.out as u32, input.queue.head.is_some());
        router.output(o).owner = NO_OWNER;
        router.free.set(o);
        router.in_busy &= !(1 << (i >> Self::PORT));
        router.out_busy &= !(1 << (o >> Self::PORT));
        if waiting {
            router.compete(i, &self.pool);
        }
        if router.allocating.any() || router.ready.any() {
            self.here.wake(r);
        }
    }

    fn deliver(&mut self, packets: &mut Vec<PacketHandle>, offset: usize) {
        // One endpoint receives at most one tail per cycle, so this order is total.
        packets.sort_unstable_by_key(|&h| self.pool.cold[h.index()].dst);
        for h in packets.drain(..) {
            let d = self.pool.remove(h, self.clock.time(self.calendar.now));
            if self.tracer.on() {
                let (router, port) = self.topology.attach(d.dst);
                self.tracer.note(h, d.tail, (router, u32::from(port), 0), Stage::Delivered);
                self.tracer.end(h);
            }
            self.counters.delivered += 1;
            self.counters.delivered_flits += d.flits as u64;
            self.arrived[offset].push(d);
        }
    }

    /// Source `e` sends the packet at the head of its queue, if it is time and a channel has room.
    #[inline(always)]
    fn send(&mut self, e: u32) {
        let now = self.calendar.now;
        let source = &mut self.sources[e as usize];
        let h = source.queue.head;
        if h.is_none() || source.free_at > now {
            return;
        }
        let ready = self.clock.from(self.pool.cold[h.index()].at);
        if ready > now {
            match self.calendar.reaches(ready - now) {
                true => self.calendar.later((ready - now) as usize, source.channel).sources.push(e),
                false => self.here.far.push(Reverse((ready, e))),
            }
            return;
        }
        let flits = self.pool.hot[h.index()].flits;
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
        source.free_at = now + flits as u64;
        source.queue.pop(&self.pool);
        // A packet given while it is busy finds the queue empty and wakes it too early.
        let look_again = source.queue.head.is_some() || flits > 1;
        let input = source.channel | vc;
        self.trace(h, input, Stage::Injected);
        self.calendar.soon(SOURCE_TO_ARRIVAL, input).arrivals.push((input, h));
        if look_again {
            self.calendar.later(flits as usize, input).sources.push(e);
        }
    }
}
