//! All wormhole routers of a network, or of a part of it, and a cycle of them.

use super::state::{Calendar, ChannelState, Due, InVc, Message, OutVc, Router, Source};
use crate::generic::allocators::Scratch;
use crate::generic::news::News;
use crate::generic::routers::{Range, SOURCE_TO_ARRIVAL, longest};
use crate::generic::state::{Bits, Clock, Mask, NO_OWNER};
use crate::generic::view::View;
use crate::pool::{Pool, Queue};
use crate::setup::Generic;
use crate::topology::{Class, Route};
use crate::waits::Waiting;
use angara_fabric::bits::bits;
use angara_fabric::raw::{Delivery, LinkLoad, PacketHandle, Stage, Totals, Tracer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Routers, sources and links of a network of wormhole routers, or of a part of it. Routers, channels and endpoints are
/// numbered from 0 within the part. See [`super::state`] for `N`, `P` and `W`.
pub(crate) struct Routers<T, const N: usize, const P: usize, const W: usize> {
    pub(super) topology: T,
    pub(super) first_router: u32,
    pub(super) first_endpoint: u32,
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) vcs: u32,
    pub(super) buffer: u16,
    pub(super) packet_max: u16,
    /// Packets hold the switch.
    pub(super) hold: bool,
    /// Channels a packet may use, by [`Class::index`].
    pub(super) allowed: [u32; Class::COUNT],
    pub(super) pool: Pool,
    pub(super) routers: Vec<Router<N, P, W>>,
    pub(super) sources: Vec<Source>,
    pub(super) source_credits: Vec<u16>,
    pub(super) calendar: Calendar,
    /// Cycles from an event to anything it causes in another part.
    pub(super) window: u64,
    /// Routers that may have something to decide.
    pub(super) awake: Bits,
    /// Sources to look at.
    pub(super) sending: Bits,
    /// Sources whose next packet is not ready yet, by the cycle when it will be.
    pub(super) far: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) scratch: Scratch<N, P, W>,
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

impl<T: Route, const N: usize, const P: usize, const W: usize> Routers<T, N, P, W> {
    /// log2 of the channels of a router and of a port.
    pub(super) const ROUTER: u32 = N.trailing_zeros();
    pub(super) const PORT: u32 = Router::<N, P, W>::SHIFT;

    /// Place of a port of one of this part's routers among those of all of them.
    pub(super) fn place(&self, router: u32, port: u8) -> Option<usize> {
        let (router, port) = (router.wrapping_sub(self.first_router) as usize, usize::from(port));
        (router < self.routers.len() && port < P).then(|| router * P + port)
    }

    pub(crate) fn new(topology: T, p: &Generic, hold: bool, seed: u64, range: &Range) -> Self {
        let here = Range::of(range.cuts, range.part, topology.routers());
        let endpoints = Range::of(range.endpoint_cuts, range.part, topology.endpoints());
        let out = OutVc { credits: p.buffer_flits, owner: NO_OWNER, turn: 0 };
        let mut free = Mask::NONE;
        (0..P as u32).for_each(|q| (0..p.vcs as u32).for_each(|v| free.set(q << Self::PORT | v)));
        let router = |r| Router {
            allocating: Mask::NONE,
            ready: Mask::NONE,
            held: Mask::NONE,
            free,
            in_held: 0,
            out_held: 0,
            look: false,
            ports: range.ports::<N, P>(&topology, r),
            outputs: [out; N],
            inputs: [InVc::IDLE; N],
        };
        let source = |e| {
            let (router, port) = topology.attach(e);
            let channel = (router - here.start) << Self::ROUTER | (port as u32) << Self::PORT;
            Source { queue: Queue::EMPTY, sequence: 0, channel, left: 0, last_vc: p.vcs - 1, blocked: false }
        };
        Routers {
            first_router: here.start,
            first_endpoint: endpoints.start,
            seed,
            clock: Clock(p.cycle),
            vcs: p.vcs as u32,
            buffer: p.buffer_flits,
            packet_max: p.packet_flits_max,
            hold,
            allowed: Class::channels(p.vcs as u32, topology.classes()),
            pool: Pool::default(),
            routers: here.clone().map(router).collect(),
            sources: endpoints.clone().map(source).collect(),
            source_credits: vec![p.buffer_flits; endpoints.len() * p.vcs as usize],
            calendar: Calendar::new(longest(&topology)),
            window: range.window,
            awake: Bits::new(here.len()),
            sending: Bits::new(endpoints.len()),
            far: BinaryHeap::new(),
            scratch: Scratch::default(),
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

    /// One cycle: everything that is due, then sources, then routers.
    pub(super) fn step(&mut self) {
        while let Some(&Reverse((t, e))) = self.far.peek() {
            if t > self.calendar.now {
                break;
            }
            self.far.pop();
            self.sending.set(e);
        }
        let mut due = self.calendar.take();
        self.apply_credits(&mut due);
        self.arrive(&mut due);
        self.deliver(&mut due.deliveries);
        self.calendar.give_back(due);
        for w in 0..self.sending.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.sending.0[w])) {
                if self.send((w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.sending.0[w] |= again;
        }
        if self.waiting.on() {
            self.ask();
        }
        for w in 0..self.awake.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.awake.0[w])) {
                if self.allocate((w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.awake.0[w] |= again;
        }
        if self.waiting.on() {
            self.count_waits();
        }
    }

    /// Notes who wants what before this cycle's decisions. Counts flits without a credit, and those that may pass the
    /// switch: [`Self::forward`] takes one away that does.
    #[cold]
    fn ask(&mut self) {
        for (r, router) in self.routers.iter().enumerate() {
            self.waiting.ask(r, router.allocating, Mask::NONE);
            for (o, out) in router.outputs.iter().enumerate().filter(|(_, out)| out.owner != NO_OWNER) {
                let waits = &mut self.waiting.waits[r * P + (o >> Self::PORT)];
                match (router.inputs[out.owner as usize % N].present, out.credits) {
                    (0, _) => {}
                    (_, 0) => waits.credit += 1,
                    _ => waits.switch += 1,
                }
            }
        }
    }

    /// Counts those that wanted an output channel and did not get it.
    #[cold]
    fn count_waits(&mut self) {
        self.waiting.anyone = false;
        for (r, router) in self.routers.iter().enumerate() {
            let owned = router.outputs.iter().any(|out| out.owner != NO_OWNER);
            self.waiting.anyone |= owned || router.allocating.any();
            let [mut allocating, _] = self.waiting.left(r, router.allocating, Mask::NONE);
            while let Some(i) = allocating.pop() {
                let out = router.inputs[i as usize % N].out as usize >> Self::PORT;
                self.waiting.waits[r * P + out].channel += 1;
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

    fn apply_credits(&mut self, due: &mut Due) {
        for o in due.credits.drain(..) {
            self.tell(o, 1u32.wrapping_neg());
            let r = o >> Self::ROUTER;
            let router = &mut self.routers[r as usize];
            let out = router.output(o);
            out.credits += 1;
            let owner = out.owner;
            if out.credits == 1 && owner != NO_OWNER && router.input(owner.into()).present > 0 {
                let owner = owner.into();
                // Who holds the ports sends without asking.
                if !router.held.has(owner) {
                    router.ready.set(owner);
                }
                self.awake.set(r);
            }
        }
        for s in due.source_credits.drain(..) {
            self.source_credits[s as usize] += 1;
            let e = s / self.vcs;
            let source = &mut self.sources[e as usize];
            if source.blocked {
                source.blocked = false;
                self.sending.set(e);
            }
        }
    }

    /// Flits reach input channels. Heads are told their output, and compete if nobody is before them.
    fn arrive(&mut self, due: &mut Due) {
        for (channel, packet) in due.arrivals.drain(..) {
            let (r, i) = (channel >> Self::ROUTER, channel % N as u32);
            let router = &mut self.routers[r as usize];
            let input = router.input(i);
            input.present += 1;
            if packet.is_none() {
                let (first, out) = (input.present == 1, input.out as u32);
                if first && router.output(out).credits > 0 {
                    router.ready.set(i);
                    self.awake.set(r);
                }
                continue;
            }
            let idle = input.state == ChannelState::Idle;
            let hot = &mut self.pool.hot[packet.index()];
            let at = self.first_router + r;
            let hop = if T::LOOKS {
                let news = (&self.news, self.calendar.now, at);
                let view = View::new(&self.routers[r as usize].outputs, Self::PORT, (self.vcs, self.buffer), news);
                self.topology.choose(at, (i >> Self::PORT) as u8, &mut hot.route, &view)
            } else {
                self.topology.next(at, &mut hot.route)
            };
            hot.mark = (hop.port as u32) << Self::PORT | self.allowed[hop.class.index() % Class::COUNT] << 16;
            hot.routers += 1;
            let flits = u32::from(hot.flits);
            self.tell(r << Self::ROUTER | u32::from(hop.port) << Self::PORT, flits);
            let router = &mut self.routers[r as usize];
            if idle {
                router.compete(i, packet, &self.pool);
                self.awake.set(r);
            } else {
                router.input(i).waiting.push(&mut self.pool, packet);
            }
            self.trace(packet, channel, Stage::Arrived);
        }
    }

    fn deliver(&mut self, packets: &mut Vec<PacketHandle>) {
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
            self.delivered.push_back(d);
        }
    }

    /// Source `e` sends a flit, if it has one and a credit; whether to look again in the next cycle.
    #[inline(always)]
    fn send(&mut self, e: u32) -> bool {
        let source = &mut self.sources[e as usize];
        let credits = &mut self.source_credits[(e * self.vcs) as usize..][..self.vcs as usize];
        if source.left > 0 {
            let vc = source.last_vc as usize;
            if credits[vc] == 0 {
                source.blocked = true;
                return false;
            }
            credits[vc] -= 1;
            source.left -= 1;
            let input = source.channel | vc as u32;
            self.calendar.after(SOURCE_TO_ARRIVAL).arrivals.push((input, PacketHandle::NONE));
            return source.left > 0 || source.queue.head.is_some();
        }
        let h = source.queue.head;
        if h.is_none() {
            return false;
        }
        let ready = self.clock.from(self.pool.cold[h.index()].at);
        if ready > self.calendar.now {
            self.far.push(Reverse((ready, e)));
            return false;
        }
        let after = (source.last_vc as u32 + 1..self.vcs).chain(0..source.last_vc as u32 + 1);
        let Some(vc) = after.into_iter().find(|&vc| credits[vc as usize] > 0) else {
            source.blocked = true;
            return false;
        };
        credits[vc as usize] -= 1;
        source.last_vc = vc as u8;
        source.queue.pop(&self.pool);
        source.left = self.pool.hot[h.index()].flits - 1;
        let (input, again) = (source.channel | vc, source.left > 0 || source.queue.head.is_some());
        self.calendar.after(SOURCE_TO_ARRIVAL).arrivals.push((input, h));
        self.trace(h, input, Stage::Injected);
        again
    }
}
