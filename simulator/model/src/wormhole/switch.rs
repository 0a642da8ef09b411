//! A wormhole router's cycle, and what a flit sets in motion that passes the switch. `docs/explain/model.md`, "Wormhole
//! switching".

use super::state::{ChannelState, Held, InVc, Message, Wormhole};
use crate::routers::mask::{Field, Mask};
use crate::routers::network::Routers;
use crate::routers::place::{Port, Wire};
use crate::routers::router::Router;
use crate::routers::timing::{CROSSBAR, EJECT_TO_CREDIT, GRANT_TO_ARRIVAL, GRANT_TO_CREDIT, GRANT_TO_SOURCE_CREDIT};
use crate::routers::view::NO_OWNER;
use crate::topology::Route;
use angara_fabric::bits::bits;
use angara_fabric::raw::{PacketHandle, Stage};

impl<F: Field, const N: usize, const P: usize, const W: usize> Router<InVc<F>, Held<W>, N, P, W> {
    /// Input channel `i` holds its port and that of output channel `out`, or ceases to.
    #[inline(always)]
    fn hold(&mut self, i: u32, out: u32, on: bool) {
        let (p, o) = (1 << (i >> Self::SHIFT), 1 << (out >> Self::SHIFT));
        if on {
            self.own.held.set(i);
            self.in_busy |= p;
            self.out_busy |= o;
        } else {
            self.own.held.clear(i);
            self.in_busy &= !p;
            self.out_busy = self.out_busy & !o | self.own.slow;
        }
    }
}

/// What remains of a packet in an input channel that has sent a flit of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// A flit that may leave, if there is a credit.
    Here,
    /// One for which a slow link has no time in the next cycle, or need not have.
    Later,
    /// Flits that have not arrived.
    ToCome,
    /// Nothing.
    Nothing,
}

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize> Routers<T, Wormhole<F>, N, P, W> {
    /// One cycle of router `r`. Returns whether it may have something to decide in the next one even if nothing arrives.
    #[inline(always)]
    pub(super) fn allocate(&mut self, r: u32) -> bool {
        let router = &mut self.routers[r as usize];
        let mut next = Mask::NONE;
        if router.own.look {
            let tracer = &mut self.tracer;
            let (time, name) = (self.clock.time(self.calendar.now), self.first_router + r);
            // Who loses asks again. Who finds no free channel need not ask before one is free.
            (next, router.own.look) = router.allocate_channels(&mut self.scratch, |router, i| {
                if tracer.on() {
                    let input = &router.inputs[i as usize % N];
                    let place = (name, input.out as u32 >> Self::PORT, input.out as u32 & ((1 << Self::PORT) - 1));
                    tracer.note(input.front, time, place, Stage::ChannelGranted);
                }
            });
        }
        let router = &mut self.routers[r as usize];
        // Both see the ports as they were held at the start of the cycle.
        let (outs, _) = router.nominate(&mut self.scratch);
        let mut held = router.own.held;
        while let Some(i) = held.pop() {
            self.continue_held(r, i);
        }
        for o in bits(outs) {
            let router = &mut self.routers[r as usize];
            let i = router.grant(&self.scratch, o);
            let rest = self.forward(r, i);
            if self.all.hold && rest == Rest::Here {
                let router = &mut self.routers[r as usize];
                let out = router.input(i).out.into();
                router.ready.clear(i);
                router.hold(i, out, true);
            }
        }
        // Channels allocated in this cycle compete for the switch from the next one.
        let router = &mut self.routers[r as usize];
        router.ready.add(next);
        router.is_awake()
    }

    /// Input channel `i` of router `r`, which holds its ports, sends the next flit, or lets go of them.
    #[inline(always)]
    fn continue_held(&mut self, r: u32, i: u32) {
        let router = &mut self.routers[r as usize];
        let out = router.input(i).out as u32;
        if router.output(out).credits == 0 {
            router.hold(i, out, false);
            return;
        }
        let rest = self.forward(r, i);
        let router = &mut self.routers[r as usize];
        if rest == Rest::Here {
            router.ready.clear(i);
        } else {
            router.hold(i, out, false);
        }
    }

    /// The next flit of input channel `i` of router `r` passes the switch. The channel is ready afterwards if it has
    /// another flit of the packet and a credit for it.
    #[inline(always)]
    fn forward(&mut self, r: u32, i: u32) -> Rest {
        let now = self.calendar.now;
        let router = &mut self.routers[r as usize];
        let input = router.input(i);
        let (h, oc) = (input.front, input.out as u32);
        let head = input.state == ChannelState::Head;
        input.state = ChannelState::Body;
        input.present -= 1;
        input.left -= 1;
        let (present, left) = (input.present > 0, input.left);
        let out = router.output(oc);
        out.credits -= 1;
        let credits = out.credits > 0;
        let (p, v) = (i >> Self::PORT, i & ((1 << Self::PORT) - 1));
        let (o, ov) = (oc >> Self::PORT, oc & ((1 << Self::PORT) - 1));
        let (near, far) = (*router.port(p), *router.port(o));
        let rest = match (left, present) {
            (0, _) => Rest::Nothing,
            (_, true) => Rest::Here,
            _ => Rest::ToCome,
        };
        if rest == Rest::Nothing {
            self.tail_left(r, i);
        } else if rest == Rest::Here && credits {
            router.ready.set(i);
        } else {
            router.ready.clear(i);
        }
        self.give_back(&near, v);
        let rest = if self.all.slow.are_any() { self.take_time(r, o, rest) } else { rest };
        if head {
            self.head_left(r, h, oc);
        }
        let channel = far.peer + ov;
        match far.wire {
            Wire::Router => {
                let packet = if head { h } else { PacketHandle::NONE };
                self.calendar.after(GRANT_TO_ARRIVAL + usize::from(far.extra)).arrivals.push((channel, packet));
            }
            Wire::Away if head => self.send_away(h, &far, channel),
            Wire::Away => {
                let due = now + GRANT_TO_ARRIVAL as u64 + u64::from(far.extra);
                self.outgoing.push((far.part, due, Message::Body(channel)));
            }
            _ => {
                self.calendar.after(EJECT_TO_CREDIT).credits.push(r << Self::ROUTER | oc);
                if rest == Rest::Nothing {
                    self.calendar.after(GRANT_TO_ARRIVAL).deliveries.push(h);
                }
            }
        }
        if let Some(load) = self.link_loads.get_mut(r as usize * P + o as usize) {
            load.packets += u64::from(head);
            load.flits += 1;
            if let Some(waits) = self.waiting.waits.get_mut(r as usize * P + o as usize) {
                waits.switch -= 1;
            }
        }
        self.counters.flit_hops += 1;
        rest
    }

    /// The room of a flit in channel `v` of a port goes back to whoever filled it.
    #[inline(always)]
    pub(super) fn give_back(&mut self, near: &Port, v: u32) {
        match near.wire {
            Wire::Router => {
                self.calendar.after(GRANT_TO_CREDIT + usize::from(near.extra)).credits.push(near.peer + v);
            }
            Wire::Away => {
                let due = self.calendar.now + GRANT_TO_CREDIT as u64 + u64::from(near.extra);
                self.outgoing.push((near.part, due, Message::Credit(near.peer + v)));
            }
            _ => self.calendar.after(GRANT_TO_SOURCE_CREDIT).source_credits.push(near.peer * self.vcs + v),
        }
    }

    /// A flit leaves by port `o`, whose link may be a slow one. Returns what remains of its packet.
    #[cold]
    fn take_time(&mut self, r: u32, o: u32, rest: Rest) -> Rest {
        let place = r as usize * P + o as usize;
        if !self.all.slow.has(place) {
            return rest;
        }
        let span = self.all.slow.span(place, 1);
        if span > 1 {
            let router = &mut self.routers[r as usize];
            router.out_busy |= 1 << o;
            router.own.slow |= 1 << o;
            self.calendar.after(span).links.push(r << Self::ROUTER | o << Self::PORT);
        }
        if rest == Rest::Here { Rest::Later } else { rest }
    }

    /// The tail of the first packet of input channel `i` passes the switch: its output channel is free, the next packet
    /// asks for one in the next cycle.
    #[inline(always)]
    fn tail_left(&mut self, r: u32, i: u32) {
        let router = &mut self.routers[r as usize];
        router.ready.clear(i);
        let input = router.input(i);
        input.state = ChannelState::Idle;
        let (oc, more) = (input.out as u32, input.present > 0);
        router.output(oc).owner = NO_OWNER;
        router.free.set(oc);
        if more {
            let h = router.input(i).waiting.pop(&self.pool);
            router.compete(i, h, &self.pool);
        }
        router.own.look |= router.allocating.any();
    }

    /// The head of packet `h` passes the switch of router `r` to output channel `oc`.
    #[inline(always)]
    fn head_left(&mut self, r: u32, h: PacketHandle, oc: u32) {
        self.counters.packet_hops += 1;
        if self.tracer.on() {
            let router = &mut self.routers[r as usize];
            let place = (self.first_router + r, oc >> Self::PORT, oc & ((1 << Self::PORT) - 1));
            let ejected = router.port(oc >> Self::PORT).wire == Wire::Endpoint;
            let now = self.calendar.now;
            self.tracer.note(h, self.clock.time(now), place, Stage::SwitchGranted);
            let leaves = if ejected { Stage::Ejected } else { Stage::LinkEntered };
            self.tracer.note(h, self.clock.time(now + CROSSBAR), place, leaves);
        }
    }

    /// The next router of the packet is in another part. Its other flits need no more than their channel here.
    #[cold]
    fn send_away(&mut self, h: PacketHandle, far: &Port, channel: u32) {
        let (hot, cold) = self.pool.take(h);
        let traced = self.tracer.end(h);
        let message = Message::Head { channel, hot, cold, traced };
        let due = self.calendar.now + GRANT_TO_ARRIVAL as u64 + u64::from(far.extra);
        self.outgoing.push((far.part, due, message));
    }
}
