//! A cycle of all wormhole routers.

use super::state::{Awake, Calendar, ChannelState, Due, InVc, OutVc, Source, Wormhole};
use crate::pool::Queue;
use crate::profile::Plan;
use crate::routers::mask::{Bits, Field, Mask};
use crate::routers::network::Routers;
use crate::routers::place::{Range, longest};
use crate::routers::slow::{SlowLinks, longest_span};
use crate::routers::timing::SOURCE_TO_ARRIVAL;
use crate::routers::view::NO_OWNER;
use crate::topology::Route;
use angara_fabric::bits::bits;
use angara_fabric::raw::{PacketHandle, Stage};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize> Routers<T, Wormhole<F>, N, P, W> {
    pub(crate) fn new(topology: T, plan: &Plan, hold: bool, range: &Range) -> Self {
        let Plan { router: p, seed, rates, .. } = *plan;
        let output = OutVc { credits: p.buffer_flits, owner: NO_OWNER, turn: 0 };
        let source =
            |channel| Source { queue: Queue::EMPTY, sequence: 0, channel, left: 0, last_vc: p.vcs - 1, blocked: false };
        Routers::idle(topology, (p, seed, range), (InVc::IDLE, output), source, |topology, count, sources| {
            let (awake, sending) = (Bits::new(count), Bits::new(sources.len()));
            let first = Range::of(range.cuts, range.part, topology.routers()).start;
            let slow = SlowLinks::new(rates, p.cycle, first, count, P);
            let calendar = Calendar::new(longest(topology, p.link), longest_span(rates, 1));
            (calendar, Awake { hold, awake, sending, far: BinaryHeap::new(), slow })
        })
    }

    /// One cycle: everything that is due, then sources, then routers.
    pub(super) fn step(&mut self) {
        while let Some(&Reverse((t, e))) = self.all.far.peek() {
            if t > self.calendar.now {
                break;
            }
            self.all.far.pop();
            self.all.sending.set(e);
        }
        let mut due = self.calendar.take();
        self.apply_credits(&mut due);
        due.links.drain(..).for_each(|o| self.link_has_time(o));
        self.arrive(&mut due);
        self.deliver(&mut due.deliveries, |of, d| of.delivered.push_back(d));
        self.calendar.give_back(due);
        for w in 0..self.all.sending.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.all.sending.0[w])) {
                if self.send((w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.all.sending.0[w] |= again;
        }
        if self.waiting.on() {
            self.ask();
        }
        for w in 0..self.all.awake.0.len() {
            let mut again = 0;
            for bit in bits(std::mem::take(&mut self.all.awake.0[w])) {
                if self.allocate((w * 64) as u32 + bit) {
                    again |= 1 << bit;
                }
            }
            self.all.awake.0[w] |= again;
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
                if !router.own.held.has(owner) {
                    router.ready.set(owner);
                }
                self.all.awake.set(r);
            }
        }
        for s in due.source_credits.drain(..) {
            self.source_credits[s as usize] += 1;
            let e = s / self.vcs;
            let source = &mut self.sources[e as usize];
            if source.blocked {
                source.blocked = false;
                self.all.sending.set(e);
            }
        }
    }

    /// Flits reach input channels. Heads are told their output, and compete if nobody is before them.
    fn arrive(&mut self, due: &mut Due) {
        if self.changes.drains() {
            return self.arrive_with_care(due);
        }
        for (channel, packet) in due.arrivals.drain(..) {
            if packet.is_some() {
                self.decide(channel >> Self::ROUTER, (channel % N as u32) >> Self::PORT, packet);
            }
            self.line_up(channel, packet);
        }
    }

    /// A flit is in an input channel: a head, which knows its output, or another one.
    #[inline(always)]
    pub(super) fn line_up(&mut self, channel: u32, packet: PacketHandle) {
        let (r, i) = (channel >> Self::ROUTER, channel % N as u32);
        let router = &mut self.routers[r as usize];
        let input = router.input(i);
        input.present += 1;
        if packet.is_none() {
            let (first, out) = (input.present == 1, input.out as u32);
            if first && router.output(out).credits > 0 {
                router.ready.set(i);
                self.all.awake.set(r);
            }
            return;
        }
        if input.state == ChannelState::Idle {
            router.compete(i, packet, &self.pool);
            self.all.awake.set(r);
        } else {
            input.waiting.push(&mut self.pool, packet);
        }
        self.trace(packet, channel, Stage::Arrived);
    }

    /// The slow link behind output channel `o` has time for another flit.
    #[cold]
    fn link_has_time(&mut self, o: u32) {
        let (r, port) = (o >> Self::ROUTER, 1 << (o >> Self::PORT & (P as u32 - 1)));
        let router = &mut self.routers[r as usize];
        router.out_busy &= !port;
        router.own.slow &= !port;
        if router.is_awake() {
            self.all.awake.set(r);
        }
    }

    /// Source `e` sends a flit, if it has one and a credit. Returns whether to look again in the next cycle.
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
        if h.is_none() || self.changes.drains() {
            return false;
        }
        let ready = self.clock.ready(self.pool.cold[h.index()].at);
        if ready > self.calendar.now {
            self.all.far.push(Reverse((ready, e)));
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
