//! A router's cycle: who gets an output channel, who the switch, and what a grant sets in motion.

use super::state::{ChannelState, CutThrough, InVc, Message};
use crate::routers::mask::{Field, Mask};
use crate::routers::network::Routers;
use crate::routers::place::{Port, Wire};
use crate::routers::timing::{CROSSBAR, EJECT_TO_CREDIT, GRANT_TO_ARRIVAL, GRANT_TO_CREDIT, GRANT_TO_SOURCE_CREDIT};
use crate::routers::view::NO_OWNER;
use crate::topology::{Class, Hop, Route};
use angara_fabric::bits::bits;
use angara_fabric::raw::{PacketHandle, Stage};

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Routers<T, CutThrough<F, A>, N, P, W>
{
    /// Every head that asks for an output channel wants one that has room for it, among those of all shortest ways at the
    /// port with most credits, or else its escape. What it got without room it could not leave for its escape.
    fn adapt(&mut self, r: u32) {
        let router = &mut self.routers[r as usize];
        let adaptive = self.allowed[Class::ADAPTIVE.index()];
        let mut all = router.allocating;
        while let Some(i) = all.pop() {
            let InVc { queue, flits, .. } = *router.input(i);
            let options = self.topology.options(self.first_router + r, &self.pool.hot[queue.head.index()].route);
            let Hop { port, class } = options.escape;
            let (mut best, mut most) = ((port, self.allowed[class.index() % Class::COUNT]), 0);
            for port in bits(options.ports) {
                let first = port << Self::PORT;
                let room = |v: &u32| router.outputs[(first + v) as usize % N].credits >= flits;
                let open = router.free.field(first, 1 << Self::PORT) & adaptive;
                let open = bits(open).filter(room).fold(0, |open, v| open | 1 << v);
                let credits: u32 =
                    bits(adaptive).map(|v| u32::from(router.outputs[(first + v) as usize % N].credits)).sum();
                if open != 0 && credits > most {
                    (best, most) = ((port as u8, open), credits);
                }
            }
            let input = router.input(i);
            (input.out, input.allowed) = (u16::from(best.0) << Self::PORT, F::of(best.1));
        }
    }

    /// One cycle of router `r`. Returns whether it may have something to decide in the next one even if
    /// nothing arrives.
    #[inline(always)]
    pub(super) fn allocate(&mut self, r: u32) -> bool {
        if A {
            self.adapt(r);
        }
        let router = &mut self.routers[r as usize];
        let ready = router.ready.any();
        let (mut next, mut again) = (Mask::NONE, false);
        if router.allocating.any() {
            let tracer = &mut self.tracer;
            let (time, name) = (self.clock.time(self.calendar.now), self.first_router + r);
            (next, again) = router.allocate_channels(&mut self.scratch, |router, i| {
                if tracer.on() {
                    let input = &router.inputs[i as usize % N];
                    let place = (name, input.out as u32 >> Self::PORT, input.out as u32 & ((1 << Self::PORT) - 1));
                    tracer.note(input.queue.head, time, place, Stage::ChannelGranted);
                }
            });
        }
        if ready {
            let (outs, lost) = router.nominate(&mut self.scratch);
            again |= lost;
            let mut freed = false;
            for o in bits(outs) {
                freed |= self.grant(r, o);
            }
            again |= freed && self.routers[r as usize].allocating.any();
        }
        // Channels allocated in this cycle compete for the switch from the next one.
        if next.any() {
            self.routers[r as usize].ready.add(next);
            again = true;
        }
        again
    }

    /// Output port `o` of router `r` takes one of the input ports that ask for it: its packet starts. Returns whether an
    /// output channel became free or another packet of the same input channel may start at once.
    #[inline(always)]
    fn grant(&mut self, r: u32, o: u32) -> bool {
        let router = &mut self.routers[r as usize];
        let now = self.calendar.now;
        let i = router.grant(&self.scratch, o);
        let (p, v) = (i >> Self::PORT, i & ((1 << Self::PORT) - 1));
        let (near, far) = (*router.port(p), *router.port(o));
        let input = router.input(i);
        let flits = input.flits;
        let streams = flits > 1;
        input.state = if streams { ChannelState::Streaming } else { ChannelState::Idle };
        let h = input.queue.pop(&self.pool);
        let more = input.queue.head.is_some();
        let oc = input.out as u32;
        let ov = oc & ((1 << Self::PORT) - 1);
        router.ready.clear(i);
        let output = router.output(oc);
        output.credits -= flits;
        let base = r << Self::ROUTER;
        let slow = self.all.slow.are_any() && {
            let place = r as usize * P + o as usize;
            self.pool.hot[h.index()].came = self.all.slow.nominal(place, flits);
            self.all.slow.has(place)
        };
        if slow {
            self.leave_slowly(base | i, base | oc, flits);
        } else if streams {
            router.in_busy |= 1 << p;
            router.out_busy |= 1 << o;
            self.calendar.later(flits as usize, base).tails.push(base | i);
        } else {
            output.owner = NO_OWNER;
            router.free.set(oc);
            if more {
                router.compete(i, &self.pool);
            }
        }
        self.give_back(&near, v, flits, base);
        if self.tracer.on() {
            let place = (self.first_router + r, o, ov);
            self.tracer.note(h, self.clock.time(now), place, Stage::SwitchGranted);
            let leaves = if far.wire == Wire::Endpoint { Stage::Ejected } else { Stage::LinkEntered };
            self.tracer.note(h, self.clock.time(now + CROSSBAR), place, leaves);
        }
        let channel = far.peer + ov;
        match far.wire {
            Wire::Router => {
                self.calendar.soon(GRANT_TO_ARRIVAL + usize::from(far.extra), channel).arrivals.push((channel, h));
            }
            Wire::Away => self.send_away(h, &far, channel),
            _ => {
                let last = GRANT_TO_ARRIVAL + flits as usize - 1;
                self.calendar.later(last, base).deliveries.push(h);
                self.calendar.soon(EJECT_TO_CREDIT, base).credits.push((base | oc, flits as u32));
            }
        }
        if let Some(load) = self.link_loads.get_mut(r as usize * P + o as usize) {
            load.packets += 1;
            load.flits += flits as u64;
        }
        self.counters.packet_hops += 1;
        self.counters.flit_hops += flits as u64;
        !streams
    }

    /// A packet has left input channel `i` for output channel `o`, that of a slow link.
    #[cold]
    fn leave_slowly(&mut self, i: u32, o: u32, flits: u16) {
        let (r, port) = (i >> Self::ROUTER, o >> Self::PORT & (P as u32 - 1));
        let router = &mut self.routers[r as usize];
        let span = self.all.slow.span(r as usize * P + port as usize, flits);
        router.out_busy |= 1 << port;
        self.calendar.later(span, o).links.push(o);
        if flits > 1 {
            router.in_busy |= 1 << (i >> Self::PORT & (P as u32 - 1));
            self.calendar.later(flits as usize, i).inputs.push(i);
        } else if router.input(i).queue.head.is_some() {
            router.compete(i % N as u32, &self.pool);
        }
    }

    /// Room in channel `v` of a port, which `flits` of a packet leave, goes back to whoever filled it.
    #[inline(always)]
    pub(super) fn give_back(&mut self, near: &Port, v: u32, flits: u16, base: u32) {
        // Every flit's credit goes back when it leaves; as flits leave without a gap and a packet
        // that uses them also comes one flit per cycle, all may be counted from the first on.
        match near.wire {
            Wire::Router => {
                let channel = near.peer + v;
                self.calendar
                    .soon(GRANT_TO_CREDIT + usize::from(near.extra), channel)
                    .credits
                    .push((channel, flits as u32));
            }
            Wire::Away => {
                let message = Message::Credit { channel: near.peer + v, flits };
                self.outgoing.push((
                    near.part,
                    self.calendar.now + GRANT_TO_CREDIT as u64 + u64::from(near.extra),
                    message,
                ));
            }
            _ => {
                let s = near.peer * self.vcs + v;
                self.calendar.soon(GRANT_TO_SOURCE_CREDIT, base).source_credits.push((s, flits as u32));
            }
        }
    }

    /// The packet's next router is in another part.
    #[cold]
    fn send_away(&mut self, h: PacketHandle, far: &Port, channel: u32) {
        let (hot, cold) = self.pool.take(h);
        let traced = self.tracer.end(h);
        let message = Message::Arrival { channel, hot, cold, traced };
        let due = self.calendar.now + GRANT_TO_ARRIVAL as u64 + u64::from(far.extra);
        self.outgoing.push((far.part, due, message));
    }
}
