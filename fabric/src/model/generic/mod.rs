//! The `generic` router: input queues, separable input-first allocation, everything at cycle edges.
//!
//! One cycle is two phases. First whatever is due is applied: flits' credits, tails that free ports,
//! heads that reach an input. These touch one channel each and commute. Then every source with a
//! packet injects and every router with a request allocates. What they cause at another router is
//! due at least [`WINDOW`] cycles later, so the order of routers within a cycle cannot matter.
//!
//! Nor, then, does it matter if one range of routers runs some cycles ahead of another. A network larger than a
//! core's cache is therefore cut into *blocks* that fit, and each block is taken through a window
//! of cycles before the next one is looked at. Parts of a network that different threads simulate
//! (`super::parallel`) run ahead of each other for the same reason.

mod allocators;
mod engine;
mod state;

use super::config::Generic as Params;
use super::packet::{NIL, Queue, Slab};
use super::parallel::{Parallel, cuts, part_of};
use super::topology::{Class, End, Topology};
use super::trace::{LinkLoad, Stage, Tracer};
use super::{Counters, Delivery, Engine};
use allocators::Scratch;
use state::{
    Arrived, Bits, Block, Calendar, Clock, InVc, Mask, Message, OutVc, Port, Router, Soon, Source, State, Wire,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// From a switch grant to the head's arrival at the next router: crossbar 1, link 2 (one in flight,
/// one to be written and read).
const GRANT_TO_ARRIVAL: usize = 3;
/// From a switch grant to its credit being usable upstream: channel 2, processing 2.
const GRANT_TO_CREDIT: usize = 4;
/// From a switch grant to an ejection channel until its credit is back: 3 to the endpoint, then 4.
const EJECT_TO_CREDIT: usize = 7;
/// From a source's decision to the head's arrival at its router.
const SOURCE_TO_ARRIVAL: usize = 2;
/// From a switch grant to its credit being usable by the source.
const GRANT_TO_SOURCE_CREDIT: usize = 2;

/// Cycles that a block or part may be taken through before the others have been.
const WINDOW: u64 = if GRANT_TO_ARRIVAL < GRANT_TO_CREDIT { GRANT_TO_ARRIVAL } else { GRANT_TO_CREDIT } as u64;

/// Cycles the calendar covers at least, so that packets handed in a few cycles early are cheap.
const REACH_MIN: usize = 32;

/// Bytes of router state per block: the greater part of a level-2 cache is left to packets and events.
const BLOCK_BYTES: usize = 512 << 10;

const NO_OWNER: u16 = u16::MAX;

/// Most parts of a network.
const PARTS_MAX: usize = u8::MAX as usize;

/// Which routers, and the endpoints attached to them, are simulated here: all, or one part of several.
struct Range<'a> {
    /// First router of every part.
    cuts: &'a [u32],
    /// First endpoint of every part.
    endpoint_cuts: &'a [u32],
    /// Number of this part.
    part: usize,
}

impl Range<'_> {
    fn of(cuts: &[u32], part: usize, all: usize) -> std::ops::Range<u32> {
        cuts[part]..cuts.get(part + 1).copied().unwrap_or(all as u32)
    }
    /// The ports of a router, as seen from this part.
    fn ports<const N: usize, const P: usize>(&self, topology: &impl Topology, router: u32) -> [Port; P] {
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
            Port { peer, wire, part: part as u8, vc_turn: 0, out_turn: 0, in_turn: 0 }
        })
    }
}

/// Routers, sources and links of a network of `generic` routers, or of a part of it. Routers, channels and
/// endpoints are numbered from 0 within the part. See [`state`] for `N`, `P` and `W`.
pub(super) struct Routers<T, const N: usize, const P: usize, const W: usize> {
    topology: T,
    first_router: u32,
    first_endpoint: u32,
    seed: u64,
    clock: Clock,
    vcs: u32,
    buffer: u16,
    packet_max: u16,
    /// Channels a packet may use, by [`Class::index`].
    allowed: [u32; Class::COUNT],
    slab: Slab,
    routers: Vec<Router<N, P, W>>,
    sources: Vec<Source>,
    source_credits: Vec<u16>,
    calendar: Calendar,
    blocks: Vec<Block>,
    /// The block being processed; an empty one is in its place meanwhile.
    here: Block,
    scratch: Scratch<N, P, W>,
    arrived: Arrived,
    delivered: VecDeque<Delivery>,
    outgoing: Vec<(u8, u64, Message)>,
    counters: Counters,
    tracer: Tracer,
    /// Per port; empty unless somebody asked.
    link_loads: Vec<LinkLoad>,
}

/// An engine of as many parts as there are threads, with routers as large as necessary.
pub(super) fn engine<T: Topology + Clone + 'static>(
    topology: T,
    p: &Params,
    seed: u64,
    threads: usize,
) -> Box<dyn Engine> {
    match (topology.ports(), p.vcs) {
        (..=8, ..=4) => assemble::<T, 32, 8, 1>(topology, p, seed, threads),
        (..=16, ..=4) => assemble::<T, 64, 16, 1>(topology, p, seed, threads),
        (..=8, _) => assemble::<T, 64, 8, 1>(topology, p, seed, threads),
        _ => assemble::<T, 512, 64, 8>(topology, p, seed, threads),
    }
}

fn assemble<T: Topology + Clone + 'static, const N: usize, const P: usize, const W: usize>(
    topology: T,
    p: &Params,
    seed: u64,
    threads: usize,
) -> Box<dyn Engine> {
    let (routers, endpoints) = (topology.routers(), topology.endpoints());
    let cuts = cuts(routers, threads.clamp(1, routers.min(PARTS_MAX)));
    // Endpoints are attached in ascending order, so those of a range of routers are a range, too.
    let attached: Vec<u32> = (0..endpoints as u32).map(|e| topology.attach(e).0).collect();
    let endpoint_cuts: Vec<u32> = cuts.iter().map(|&cut| attached.partition_point(|&r| r < cut) as u32).collect();
    let part = |part| {
        let range = Range { cuts: &cuts, endpoint_cuts: &endpoint_cuts, part };
        Routers::<T, N, P, W>::new(topology.clone(), p, seed, &range)
    };
    match cuts.len() {
        1 => Box::new(part(0)),
        n => Box::new(Parallel::new((0..n).map(part).collect(), endpoint_cuts.clone())),
    }
}

impl<T: Topology, const N: usize, const P: usize, const W: usize> Routers<T, N, P, W> {
    /// log2 of the channels of a router and of a port.
    const ROUTER: u32 = N.trailing_zeros();
    const PORT: u32 = Router::<N, P, W>::SHIFT;

    fn new(topology: T, p: &Params, seed: u64, range: &Range) -> Self {
        let here = Range::of(range.cuts, range.part, topology.routers());
        let endpoints = Range::of(range.endpoint_cuts, range.part, topology.endpoints());
        let idle = InVc { queue: Queue::EMPTY, out: 0, turn: 0, flits: 0, allowed: 0, state: State::Idle };
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
            slab: Slab::new(),
            routers: here.clone().map(router).collect(),
            source_credits: vec![p.buffer_flits; sources.len() * p.vcs as usize],
            sources,
            calendar: Calendar::new(reach, blocks.len(), block_shift),
            blocks,
            here: Block::default(),
            scratch: Scratch::default(),
            arrived: Arrived::default(),
            delivered: VecDeque::new(),
            outgoing: Vec::new(),
            counters: Counters::default(),
            tracer: Tracer::default(),
            link_loads: Vec::new(),
            topology,
        }
    }

    /// A traced packet at `channel` (a number of an input or output channel), in this cycle.
    #[inline(always)]
    fn trace(&mut self, packet: u32, channel: u32, stage: Stage) {
        if self.tracer.on() {
            let (router, port) = (channel >> Self::ROUTER, channel >> Self::PORT & (P as u32 - 1));
            let place = (self.first_router + router, port, channel & ((1 << Self::PORT) - 1));
            self.tracer.note(packet, self.clock.time(self.calendar.now), place, stage);
        }
    }

    /// One cycle of block `b`, cycle `offset` of the window.
    fn step(&mut self, b: usize, offset: usize) {
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
            let mut m = std::mem::take(&mut self.here.sources.0[w]);
            while m != 0 {
                self.send(self.here.first_source + (w * 64) as u32 + m.trailing_zeros());
                m &= m - 1;
            }
        }
        for w in 0..self.here.awake.0.len() {
            let mut m = std::mem::take(&mut self.here.awake.0[w]);
            let mut again = 0;
            while m != 0 {
                let bit = m & m.wrapping_neg();
                if self.allocate(self.here.first_router + (w * 64) as u32 + m.trailing_zeros()) {
                    again |= bit;
                }
                m ^= bit;
            }
            self.here.awake.0[w] |= again;
        }
    }

    fn apply_credits(&mut self, due: &mut Soon) {
        for (o, flits) in due.credits.drain(..) {
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
        }
        for (s, flits) in due.source_credits.drain(..) {
            self.source_credits[s as usize] += flits as u16;
            let e = s / self.vcs;
            if self.sources[e as usize].queue.head != NIL {
                self.here.wake_source(e);
            }
        }
    }

    /// Heads reach input channels: decide their outputs; those with nobody before them compete.
    fn arrive(&mut self, due: &mut Soon) {
        // Packets are strewn over memory. Touching all of them first, without depending on anything
        // else, lets the processor fetch many at once.
        for &(i, packet) in &due.arrivals {
            let hot = &mut self.slab.hot[packet as usize];
            let hop = self.topology.next(self.first_router + (i >> Self::ROUTER), &mut hot.route);
            hot.mark = (hop.port as u32) << Self::PORT | self.allowed[hop.class.index() % Class::COUNT] << 16;
            hot.routers += 1;
        }
        for (i, packet) in due.arrivals.drain(..) {
            self.trace(packet, i, Stage::Arrived);
            let r = i >> Self::ROUTER;
            let router = &mut self.routers[r as usize];
            let input = router.input(i);
            input.queue.push(&mut self.slab, packet);
            if input.state == State::Idle {
                router.compete(i % N as u32, &self.slab);
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
        input.state = State::Idle;
        let (o, waiting) = (input.out as u32, input.queue.head != NIL);
        router.output(o).owner = NO_OWNER;
        router.free.set(o);
        router.in_busy &= !(1 << (i >> Self::PORT));
        router.out_busy &= !(1 << (o >> Self::PORT));
        if waiting {
            router.compete(i, &self.slab);
        }
        if router.allocating.any() || router.ready.any() {
            self.here.wake(r);
        }
    }

    fn deliver(&mut self, packets: &mut Vec<u32>, offset: usize) {
        // One endpoint receives at most one tail per cycle, so this order is total.
        packets.sort_unstable_by_key(|&h| self.slab.cold[h as usize].dst);
        for h in packets.drain(..) {
            let d = self.slab.remove(h, self.clock.time(self.calendar.now));
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
        if h == NIL || source.free_at > now {
            return;
        }
        let ready = self.clock.from(self.slab.cold[h as usize].at);
        if ready > now {
            match self.calendar.reaches(ready - now) {
                true => self.calendar.later((ready - now) as usize, source.channel).sources.push(e),
                false => self.here.far.push(Reverse((ready, e))),
            }
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
        source.free_at = now + flits as u64;
        source.queue.pop(&self.slab);
        // A packet given while it is busy finds the queue empty and wakes it too early.
        let look_again = source.queue.head != NIL || flits > 1;
        let input = source.channel | vc;
        self.trace(h, input, Stage::Injected);
        self.calendar.soon(SOURCE_TO_ARRIVAL, input).arrivals.push((input, h));
        if look_again {
            self.calendar.later(flits as usize, input).sources.push(e);
        }
    }
}
