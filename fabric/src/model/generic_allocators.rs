//! The two allocators of the `generic` router and what a switch grant sets in motion.
//!
//! Output channels are handed out first, then the switch; both are separable, input side first, with
//! round-robin arbiters whose pointers move only with a grant. `docs/model.md`, section 3.

use super::generic::{
    EJECT_TO_CREDIT, GRANT_TO_ARRIVAL, GRANT_TO_CREDIT, GRANT_TO_SOURCE_CREDIT, Message, NO_OWNER, Routers, State, Wire,
};
use super::packet::NIL;
use super::topology::Topology;
use super::trace::Stage;

/// From a switch grant until the head is on the link or on its way to the endpoint.
const CROSSBAR: u64 = 1;

/// Distance of `i` from round-robin pointer `turn`, going up and around.
#[inline(always)]
fn after(i: u32, turn: u32) -> u32 {
    if i >= turn { i - turn } else { i + (1 << 16) - turn }
}

/// The first set bit at or after `turn`, else the first of all. `mask` is not 0.
#[inline(always)]
fn round_robin(mask: u64, turn: u32) -> u32 {
    let above = if turn >= 64 { 0 } else { mask & (u64::MAX << turn) };
    if above != 0 { above.trailing_zeros() } else { mask.trailing_zeros() }
}

impl<T: Topology> Routers<T> {
    /// One cycle of router `r`; whether it may have something to decide in the next one even if
    /// nothing arrives.
    #[inline(always)]
    pub(super) fn allocate(&mut self, r: u32) -> bool {
        let mut again = false;
        self.scratch.allocated.clear();
        let before = self.summary[r as usize];
        if before.allocating != 0 {
            again |= self.allocate_channels(r);
        }
        if before.ready != 0 {
            again |= self.allocate_switch(r);
        }
        // Channels allocated in this cycle compete for the switch from the next one.
        for n in 0..self.scratch.allocated.len() {
            let i = self.scratch.allocated[n] as u32;
            let p = i >> self.vc_shift;
            let base = r << self.port_shift;
            if self.tracer.on() {
                let input = &self.inputs[(base << self.vc_shift | i) as usize];
                let channel = (base | input.out_port as u32) << self.vc_shift | input.out_vc as u32;
                self.trace(input.queue.head, channel, Stage::ChannelGranted);
            }
            let input = &self.inputs[(base << self.vc_shift | i) as usize];
            let out =
                &mut self.outputs[((base | input.out_port as u32) << self.vc_shift | input.out_vc as u32) as usize];
            if out.credits >= input.flits {
                self.ports[(base | p) as usize].ready |= 1 << (i & ((1 << self.vc_shift) - 1));
                self.summary[r as usize].ready |= 1 << p;
                again = true;
            } else {
                out.wanted = input.flits;
            }
        }
        again
    }

    /// Virtual-channel allocation: each input channel asks for one free output channel, each output
    /// channel takes one of those that ask. Returns whether someone lost.
    #[inline(always)]
    fn allocate_channels(&mut self, r: u32) -> bool {
        let vs = self.vc_shift;
        let base = (r << self.port_shift) as usize;
        let ports = &mut self.ports[base..base + (1 << self.port_shift)];
        let channels = base << vs..(base + (1 << self.port_shift)) << vs;
        let inputs = &mut self.inputs[channels.clone()];
        let outputs = &mut self.outputs[channels];
        let scratch = &mut self.scratch;
        let mut lost = false;
        let mut pm = self.summary[r as usize].allocating;
        while pm != 0 {
            let p = pm.trailing_zeros();
            pm &= pm - 1;
            let mut vm = ports[p as usize].allocating;
            while vm != 0 {
                let i = p << vs | vm.trailing_zeros();
                vm &= vm - 1;
                let input = &inputs[i as usize];
                let open = input.allowed & ports[input.out_port as usize].free;
                if open == 0 {
                    continue;
                }
                let first = (input.out_port as u32) << vs;
                let turn = (input.turn as u32).wrapping_sub(first);
                let o = first + round_robin(open as u64, if turn < 1 << vs { turn } else { 0 });
                let best = &mut scratch.best[o as usize];
                if *best == NO_OWNER {
                    *best = i as u16;
                    scratch.touched.push(o as u16);
                } else {
                    lost = true;
                    let turn = outputs[o as usize].turn as u32;
                    if after(i, turn) < after(*best as u32, turn) {
                        *best = i as u16;
                    }
                }
            }
        }
        for o in scratch.touched.drain(..) {
            let i = std::mem::replace(&mut scratch.best[o as usize], NO_OWNER);
            let out = &mut outputs[o as usize];
            out.owner = i;
            out.turn = i + 1;
            let input = &mut inputs[i as usize];
            input.out_vc = (o & ((1 << vs) - 1)) as u8;
            input.turn = o + 1;
            input.state = State::Active;
            ports[input.out_port as usize].free &= !(1 << input.out_vc);
            let p = i as usize >> vs;
            ports[p].allocating &= !(1 << (i & ((1 << vs) - 1)));
            if ports[p].allocating == 0 {
                self.summary[r as usize].allocating &= !(1 << p);
            }
            scratch.allocated.push(i);
        }
        lost
    }

    /// Switch allocation: each input port nominates one channel, each output port takes one input.
    /// Returns whether something in reach of the next cycle remains.
    #[inline(always)]
    fn allocate_switch(&mut self, r: u32) -> bool {
        let vs = self.vc_shift;
        let base = (r << self.port_shift) as usize;
        let ports = &self.ports[base..base + (1 << self.port_shift)];
        let inputs = &self.inputs[base << vs..(base + (1 << self.port_shift)) << vs];
        let scratch = &mut self.scratch;
        let s = self.summary[r as usize];
        let mut outs = 0u64;
        let mut lost = false;
        let mut pm = s.ready & !s.in_busy;
        while pm != 0 {
            let p = pm.trailing_zeros();
            pm &= pm - 1;
            let port = &ports[p as usize];
            let mut vm = port.ready;
            let single = vm & (vm - 1) == 0;
            let mut mine = 0u64;
            while vm != 0 {
                let v = vm.trailing_zeros();
                vm &= vm - 1;
                let o = inputs[(p << vs | v) as usize].out_port;
                if s.out_busy >> o & 1 != 0 {
                    continue;
                }
                let turn = port.vc_turn as u32;
                if mine >> o & 1 == 0 || after(v, turn) < after(scratch.pick[o as usize] as u32, turn) {
                    scratch.pick[o as usize] = v as u8;
                }
                mine |= 1 << o;
            }
            if mine == 0 {
                continue;
            }
            let o = round_robin(mine, port.out_turn as u32);
            scratch.chosen[p as usize] = scratch.pick[o as usize];
            lost |= !single || outs >> o & 1 != 0;
            if outs >> o & 1 == 0 {
                scratch.requests[o as usize] = 0;
                outs |= 1 << o;
            }
            scratch.requests[o as usize] |= 1 << p;
        }
        let mut freed = false;
        while outs != 0 {
            let o = outs.trailing_zeros();
            outs &= outs - 1;
            let p = round_robin(self.scratch.requests[o as usize], self.ports[base + o as usize].in_turn as u32);
            freed |= self.grant(r, p, self.scratch.chosen[p as usize] as u32, o);
        }
        lost || freed && self.summary[r as usize].allocating != 0
    }

    /// The packet at input channel (p, v) of router `r` starts through output `o`. Returns whether an
    /// output channel became free or another packet of the same input channel may start at once.
    #[inline(always)]
    fn grant(&mut self, r: u32, p: u32, v: u32, o: u32) -> bool {
        let vs = self.vc_shift;
        let base = r << self.port_shift;
        let i = (base | p) << vs | v;
        let input = &mut self.inputs[i as usize];
        let flits = input.flits;
        let h = input.queue.pop(&self.slab);
        let ov = input.out_vc as u32;
        input.state = State::Streaming;
        let out = &mut self.outputs[((base | o) << vs | ov) as usize];
        out.credits -= flits;
        let mask = self.wheel.len() - 1;
        let now = self.now as usize;
        let mut away = None;
        let far = &mut self.ports[(base | o) as usize];
        far.in_turn = (p + 1) as u8;
        match far.wire {
            Wire::Router => self.wheel[(now + GRANT_TO_ARRIVAL) & mask].arrivals.push((far.peer + ov, h)),
            Wire::Away => away = Some((far.part, far.peer + ov)),
            _ => {
                let o = (base | o) << vs | ov;
                self.wheel[(now + GRANT_TO_ARRIVAL + flits as usize - 1) & mask].deliveries.push(h);
                self.wheel[(now + EJECT_TO_CREDIT) & mask].credits.push((o, flits as u32));
            }
        }
        let near = &mut self.ports[(base | p) as usize];
        near.vc_turn = if v + 1 == self.vcs { 0 } else { v as u8 + 1 };
        near.out_turn = (o + 1) as u8;
        near.ready &= !(1 << v);
        let summary = &mut self.summary[r as usize];
        if near.ready == 0 {
            summary.ready &= !(1 << p);
        }
        // Every flit's credit goes back when it leaves; as flits leave without a gap and a packet
        // that uses them also comes one flit per cycle, all may be counted from the first on.
        match near.wire {
            Wire::Router => {
                self.wheel[(now + GRANT_TO_CREDIT) & mask].credits.push((near.peer + v, flits as u32));
            }
            Wire::Away => {
                let message = Message::Credit { channel: near.peer + v, flits };
                self.outgoing.push((near.part, (now + GRANT_TO_CREDIT) as u64, message));
            }
            _ => {
                let s = near.peer * self.vcs + v;
                self.wheel[(now + GRANT_TO_SOURCE_CREDIT) & mask].source_credits.push((s, flits as u32));
            }
        }
        if self.tracer.on() {
            let channel = (base | o) << vs | ov;
            self.trace(h, channel, Stage::SwitchGranted);
            let leaves = if self.ports[(base | o) as usize].wire == Wire::Endpoint {
                Stage::Ejected
            } else {
                Stage::LinkEntered
            };
            let router = self.first_router + r;
            self.tracer.note(h, (self.now + CROSSBAR) * self.cycle, (router, o, ov), leaves);
        }
        if let Some((part, channel)) = away {
            let (hot, cold) = self.slab.take(h);
            let traced = self.tracer.end(h);
            let message = Message::Arrival { channel, hot, cold, traced };
            self.outgoing.push((part, (now + GRANT_TO_ARRIVAL) as u64, message));
        }
        if let Some(load) = self.link_loads.get_mut((base | o) as usize) {
            load.packets += 1;
            load.flits += flits as u64;
        }
        self.counters.packet_hops += 1;
        self.counters.flit_hops += flits as u64;
        if flits > 1 {
            let summary = &mut self.summary[r as usize];
            summary.in_busy |= 1 << p;
            summary.out_busy |= 1 << o;
            self.wheel[(now + flits as usize) & mask].tails.push(i);
            return false;
        }
        self.outputs[((base | o) << vs | ov) as usize].owner = NO_OWNER;
        self.ports[(base | o) as usize].free |= 1 << ov;
        self.inputs[i as usize].state = State::Idle;
        if self.inputs[i as usize].queue.head != NIL {
            self.compete(i);
        }
        true
    }
}
