//! The two allocators of a wormhole router and what a flit sets in motion that passes the switch.
//!
//! Both are those of [`crate::generic`]: output channels first, then the switch, input side first, round robin with
//! pointers that move only with a grant. `docs/explain/model.md`, "Wormhole switching".

use super::routers::Routers;
use super::state::{ChannelState, Message, Router};
use crate::generic::allocators::{CROSSBAR, Scratch};
use crate::generic::state::{
    EJECT_TO_CREDIT, GRANT_TO_ARRIVAL, GRANT_TO_CREDIT, GRANT_TO_SOURCE_CREDIT, Mask, NO_OWNER, Port, Wire,
};
use crate::topology::Route;
use angara_fabric::bits::{bits, round_robin};
use angara_fabric::raw::{PacketHandle, Stage};

impl<const N: usize, const P: usize, const W: usize> Router<N, P, W> {
    /// Virtual-channel allocation: each input channel asks for one free output channel, each output channel takes one
    /// of those that ask, of which `got` is told. Returns those that have a credit, too.
    #[inline(always)]
    fn allocate_channels(&mut self, scratch: &mut Scratch<N, P, W>, mut got: impl FnMut(&Self, u32)) -> Mask<W> {
        let mut wanted = Mask::<W>::NONE;
        // Who loses asks again. Who finds no free channel need not ask before one is free.
        self.look = false;
        let mut all = self.allocating;
        while let Some(i) = all.pop() {
            let input = self.input(i);
            let (first, allowed, turn) = (input.out as u32, input.allowed as u32, input.turn as u32);
            let open = self.free.field(first, Self::WIDTH) & allowed;
            if open == 0 {
                continue;
            }
            let turn = turn.wrapping_sub(first);
            let o = first + round_robin(open, if turn < Self::WIDTH { turn } else { 0 });
            let asking = &mut scratch.asking[o as usize % N];
            if wanted.has(o) {
                self.look = true;
            } else {
                wanted.set(o);
                *asking = Mask::NONE;
            }
            asking.set(i);
        }
        let mut ready = Mask::NONE;
        while let Some(o) = wanted.pop() {
            let out = self.output(o);
            let i = scratch.asking[o as usize % N].round_robin(out.turn as u32);
            out.owner = i as u16;
            out.turn = i as u16 + 1;
            if out.credits > 0 {
                ready.set(i);
            }
            let input = self.input(i);
            input.out = o as u16;
            input.turn = o as u16 + 1;
            input.state = ChannelState::Head;
            self.free.clear(o);
            self.allocating.clear(i);
            got(self, i);
        }
        ready
    }

    /// Chooses one of the `channels` of the port that begins at `first`, several of which are ready: returns the one
    /// that competes for the switch, and the output port it wants.
    fn pick(&mut self, first: u32, mut channels: u32) -> Option<(u32, u32)> {
        let mut asked = 0u64;
        for v in bits(channels) {
            let o = self.input(first + v).out as u32 >> Self::SHIFT;
            if self.out_held >> o & 1 != 0 {
                channels &= !(1 << v);
            } else {
                asked |= 1 << o;
            }
        }
        if asked == 0 {
            return None;
        }
        // The output port in its turn, then among the channels that ask for it the one in its turn.
        let port = *self.port(first >> Self::SHIFT);
        let o = round_robin(asked, port.out_turn as u32);
        for v in bits(channels) {
            if self.input(first + v).out as u32 >> Self::SHIFT != o {
                channels &= !(1 << v);
            }
        }
        Some((round_robin(channels, port.vc_turn as u32), o))
    }

    /// The input side of switch allocation: each input port nominates one channel. Returns the output ports that are
    /// asked for.
    #[inline(always)]
    fn nominate(&mut self, scratch: &mut Scratch<N, P, W>) -> u64 {
        let mut outs = 0u64;
        let mut ready = self.ready;
        while let Some((first, channels)) = ready.pop_field(Self::WIDTH) {
            let p = first >> Self::SHIFT;
            if self.in_held >> p & 1 != 0 {
                continue;
            }
            let mut v = channels.trailing_zeros();
            let mut o = self.input(first + v).out as u32 >> Self::SHIFT;
            if channels & (channels - 1) != 0 {
                match self.pick(first, channels) {
                    Some(picked) => (v, o) = picked,
                    None => continue,
                }
            } else if self.out_held >> o & 1 != 0 {
                continue;
            }
            scratch.chosen[p as usize % P] = v as u8;
            let requests = &mut scratch.requests[o as usize % P];
            if outs >> o & 1 == 0 {
                *requests = 0;
                outs |= 1 << o;
            }
            *requests |= 1 << p;
        }
        outs
    }

    /// Output port `o` takes one of the input ports that ask for it: returns the input channel in its turn.
    #[inline(always)]
    fn grant(&mut self, scratch: &Scratch<N, P, W>, o: u32) -> u32 {
        let far = self.port(o);
        let p = round_robin(scratch.requests[o as usize % P], far.in_turn as u32);
        far.in_turn = (p + 1) as u8;
        let v = scratch.chosen[p as usize % P];
        let near = self.port(p);
        near.vc_turn = v + 1;
        near.out_turn = (o + 1) as u8;
        p << Self::SHIFT | v as u32
    }

    /// Input channel `i` holds its port and that of output channel `out`, or ceases to.
    #[inline(always)]
    fn hold(&mut self, i: u32, out: u32, on: bool) {
        let (p, o) = (1 << (i >> Self::SHIFT), 1 << (out >> Self::SHIFT));
        if on {
            self.held.set(i);
            self.in_held |= p;
            self.out_held |= o;
        } else {
            self.held.clear(i);
            self.in_held &= !p;
            self.out_held &= !o;
        }
    }
}

/// What remains of a packet in an input channel that has sent a flit of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// A flit that may leave, if there is a credit.
    Here,
    /// Flits that have not arrived.
    ToCome,
    /// Nothing.
    Nothing,
}

impl<T: Route, const N: usize, const P: usize, const W: usize> Routers<T, N, P, W> {
    /// One cycle of router `r`; whether it may have something to decide in the next one even if nothing arrives.
    #[inline(always)]
    pub(super) fn allocate(&mut self, r: u32) -> bool {
        let router = &mut self.routers[r as usize];
        let mut next = Mask::NONE;
        if router.look {
            let tracer = &mut self.tracer;
            let (time, name) = (self.clock.time(self.calendar.now), self.first_router + r);
            next = router.allocate_channels(&mut self.scratch, |router, i| {
                if tracer.on() {
                    let input = &router.inputs[i as usize % N];
                    let place = (name, input.out as u32 >> Self::PORT, input.out as u32 & ((1 << Self::PORT) - 1));
                    tracer.note(input.front, time, place, Stage::ChannelGranted);
                }
            });
        }
        let router = &mut self.routers[r as usize];
        // Both see the ports as they were held at the start of the cycle.
        let outs = router.nominate(&mut self.scratch);
        let mut held = router.held;
        while let Some(i) = held.pop() {
            self.continue_held(r, i);
        }
        for o in bits(outs) {
            let router = &mut self.routers[r as usize];
            let i = router.grant(&self.scratch, o);
            let rest = self.forward(r, i);
            if self.hold && rest == Rest::Here {
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
        match near.wire {
            Wire::Router => {
                self.calendar.after(GRANT_TO_CREDIT + usize::from(near.extra)).credits.push(near.peer + v);
            }
            Wire::Away => {
                let due = now + GRANT_TO_CREDIT as u64 + u64::from(near.extra);
                self.outgoing.push((near.part, due, Message::Credit(near.peer + v)));
            }
            _ => self.calendar.after(GRANT_TO_SOURCE_CREDIT).source_credits.push(near.peer * self.vcs + v),
        }
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
        router.look |= router.allocating.any();
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
