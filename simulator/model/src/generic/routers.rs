//! A cycle of all `generic` routers of a block.

use super::state::{Block, Blocks, Calendar, ChannelState, CutThrough, InVc, Later, OutVc, Soon, Source};
use crate::pool::Queue;
use crate::profile::Plan;
use crate::routers::mask::{Bits, Field};
use crate::routers::network::Routers;
use crate::routers::place::{Range, longest};
use crate::routers::router::Router;
use crate::routers::slow::{SlowLinks, longest_span};
use crate::routers::timing::{EJECT_TO_CREDIT, SOURCE_TO_ARRIVAL};
use crate::routers::view::NO_OWNER;
use crate::topology::Route;
use angara_fabric::bits::bits;
use angara_fabric::raw::{PacketHandle, Stage};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles the calendar covers at least, so that packets handed in a few cycles early are cheap.
const REACH_MIN: usize = 32;

/// Bytes of router state per block: the greater part of a level-2 cache is left to packets and events.
const BLOCK_BYTES: usize = 512 << 10;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Routers<T, CutThrough<F, A>, N, P, W>
{
    pub(super) fn new(topology: T, plan: &Plan, range: &Range) -> Self {
        let Plan { router: p, seed, rates, .. } = *plan;
        let input =
            InVc { queue: Queue::EMPTY, out: 0, turn: 0, flits: 0, allowed: F::NONE, state: ChannelState::Idle };
        let output = OutVc { credits: p.buffer_flits, wanted: 0, owner: NO_OWNER, turn: 0 };
        let source = |channel| Source { queue: Queue::EMPTY, free_at: 0, sequence: 0, channel, last_vc: p.vcs - 1 };
        Routers::idle(topology, (p, seed, range), (input, output), source, |topology, count, sources: &[Source]| {
            let router = size_of::<Router<InVc<F>, (), N, P, W>>();
            let per_block = (BLOCK_BYTES / router).max(64).next_power_of_two();
            let first_source = |r: usize| sources.partition_point(|s| (s.channel >> Self::ROUTER) < r as u32);
            let block = |first: usize| {
                let (from, to) = (first_source(first), first_source(first + per_block));
                Block {
                    first_router: first as u32,
                    first_source: from as u32,
                    awake: Bits::new(per_block.min(count - first)),
                    sources: Bits::new(to - from),
                    far: BinaryHeap::new(),
                }
            };
            let blocks: Vec<Block> = (0..count).step_by(per_block).map(block).collect();
            let slowest = longest_span(rates, p.packet_flits_max) as usize;
            let reach = (slowest.max(p.packet_flits_max.into()) + EJECT_TO_CREDIT + 1).max(REACH_MIN);
            let block_shift = per_block.trailing_zeros() + Self::ROUTER;
            let calendar = Calendar::new(reach, longest(topology, p.link), blocks.len(), block_shift);
            let first = Range::of(range.cuts, range.part, topology.routers()).start;
            let slow = SlowLinks::new(rates, p.cycle, first, count, P);
            (calendar, Blocks { blocks, slow, ..Blocks::default() })
        })
    }

    /// One cycle of block `b`, cycle `offset` of the window.
    pub(super) fn step(&mut self, b: usize, offset: usize) {
        while let Some(&Reverse((t, e))) = self.all.here.far.peek() {
            if t > self.calendar.now {
                break;
            }
            self.all.here.far.pop();
            self.all.here.wake_source(e);
        }
        let (mut soon, mut later) = self.calendar.take(b);
        self.apply_credits(&mut soon);
        for i in later.tails.drain(..) {
            self.tail_left(i);
        }
        if self.all.slow.are_any() {
            self.slow_links(&mut later);
        }
        self.arrive(&mut soon);
        for e in later.sources.drain(..) {
            self.all.here.wake_source(e);
        }
        self.deliver(&mut later.deliveries, |of, d| of.all.arrived[offset].push(d));
        self.calendar.give_back(b, (soon, later));
        if !self.changes.drains() {
            for w in 0..self.all.here.sources.0.len() {
                for bit in bits(std::mem::take(&mut self.all.here.sources.0[w])) {
                    self.send(self.all.here.first_source + (w * 64) as u32 + bit);
                }
            }
        }
        if self.waiting.on() {
            self.ask();
        }
        for w in 0..self.all.here.awake.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.all.here.awake.0[w])) {
                if self.allocate(self.all.here.first_router + (w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.all.here.awake.0[w] |= again;
        }
        if self.waiting.on() {
            self.count_waits();
        }
    }

    /// Routers of the block being processed.
    fn routers_here(&self) -> std::ops::Range<usize> {
        let first = self.all.here.first_router as usize;
        first..self.routers.len().min(first + self.all.here.awake.0.len() * 64)
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
                self.all.here.wake(r);
            }
            if A && router.allocating.any() {
                self.all.here.wake(r);
            }
        }
        for (s, flits) in due.source_credits.drain(..) {
            self.source_credits[s as usize] += flits as u16;
            let e = s / self.vcs;
            if self.sources[e as usize].queue.head.is_some() {
                self.all.here.wake_source(e);
            }
        }
    }

    /// Heads reach input channels: decide their outputs; those with nobody before them compete.
    fn arrive(&mut self, due: &mut Soon) {
        // Packets are strewn over memory. Touching all of them first, without depending on anything
        // else, lets the processor fetch many at once.
        for &(i, packet) in &due.arrivals {
            let (r, port) = (i >> Self::ROUTER, i >> Self::PORT & (P as u32 - 1));
            if A {
                let hot = &mut self.pool.hot[packet.index()];
                self.topology.came(port as u8, &mut hot.route);
                hot.routers += 1;
                continue;
            }
            self.decide(r, port, packet);
        }
        if self.all.slow.are_any() || self.changes.drains() {
            return self.arrive_with_care(due);
        }
        for (i, packet) in due.arrivals.drain(..) {
            self.trace(packet, i, Stage::Arrived);
            self.line_up(i, packet);
        }
    }

    /// The same where links are slow or closed.
    #[cold]
    fn arrive_with_care(&mut self, due: &mut Soon) {
        for (i, packet) in due.arrivals.drain(..) {
            self.trace(packet, i, Stage::Arrived);
            if !self.all.slow.are_any() || !self.holds_back(i, packet) {
                self.line_up_or_drop(i, packet);
            }
        }
    }

    /// A packet lines up, unless it wants a port that is closed.
    fn line_up_or_drop(&mut self, i: u32, packet: PacketHandle) {
        if self.changes.drains() && self.is_closed(i >> Self::ROUTER, packet) {
            self.drop_at(i, packet);
        } else {
            self.line_up(i, packet);
        }
    }

    /// A packet lines up in input channel `i`.
    #[inline(always)]
    fn line_up(&mut self, i: u32, packet: PacketHandle) {
        let r = i >> Self::ROUTER;
        let router = &mut self.routers[r as usize];
        let input = router.input(i);
        input.queue.push(&mut self.pool, packet);
        if input.state == ChannelState::Idle {
            router.compete(i % N as u32, &self.pool);
            self.all.here.wake(r);
        }
    }

    /// What is due of slow links: packets that have waited for enough of their flits, input ports and links that are free.
    #[cold]
    fn slow_links(&mut self, later: &mut Later) {
        for (i, packet) in later.held_back.drain(..) {
            self.line_up_or_drop(i, packet);
        }
        for i in later.inputs.drain(..) {
            let router = &mut self.routers[(i >> Self::ROUTER) as usize];
            let input = router.input(i);
            input.state = ChannelState::Idle;
            let waiting = input.queue.head.is_some();
            router.in_busy &= !(1 << (i >> Self::PORT & (P as u32 - 1)));
            self.go_on(i, waiting);
        }
        for o in later.links.drain(..) {
            let router = &mut self.routers[(o >> Self::ROUTER) as usize];
            router.output(o).owner = NO_OWNER;
            router.free.set(o % N as u32);
            router.out_busy &= !(1 << (o >> Self::PORT & (P as u32 - 1)));
            self.go_on(o, false);
        }
    }

    /// A packet that came by a slow link waits until its flits do not run out.
    #[cold]
    fn holds_back(&mut self, i: u32, packet: PacketHandle) -> bool {
        let place = |channel: u32| (channel >> Self::ROUTER) as usize * P + (channel >> Self::PORT) as usize % P;
        let hot = &self.pool.hot[packet.index()];
        // One that adapts may leave anywhere.
        let out = (!A).then(|| place(i & !(N as u32 - 1) | u32::from(hot.out)));
        let wait = self.all.slow.wait(hot.came, out, hot.flits);
        if wait > 0 {
            self.calendar.later(wait, i).held_back.push((i, packet));
        }
        wait > 0
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
        self.go_on(r << Self::ROUTER | i, waiting);
    }

    /// A port of the router of channel `i` is free; the next packet of this input channel is `waiting`.
    #[inline(always)]
    fn go_on(&mut self, i: u32, waiting: bool) {
        let r = i >> Self::ROUTER;
        let router = &mut self.routers[r as usize];
        if waiting {
            router.compete(i % N as u32, &self.pool);
        }
        if router.allocating.any() || router.ready.any() {
            self.all.here.wake(r);
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
        let ready = self.clock.ready(self.pool.cold[h.index()].at);
        if ready > now {
            match self.calendar.reaches(ready - now) {
                true => self.calendar.later((ready - now) as usize, source.channel).sources.push(e),
                false => self.all.here.far.push(Reverse((ready, e))),
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
