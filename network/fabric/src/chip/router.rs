//! Routers: queues in, outputs out, and what a packet does between them.
//!
//! Packets are the unit: a packet that wins an output streams its flits without a gap, so when it was
//! granted, its rate and its length say everything. Usually one event per packet and hop is enough:
//! its time to ask at the next router, where it is queued from the grant on. When an output is
//! idle again and when slots are free again are times that are looked at only if somebody waits.
//! [`super::layout`] numbers queues and outputs, [`super::arbiter`] decides who gets an output, and
//! `docs/explain/model.md`, section 4, states the rules.

use super::crossbar::{Asks, Input};
use super::layout::{ADAPTIVE, LANE_ADAPTIVE, LANES, UP};
use super::observe::listen::At;
use super::slots::NEVER;
use super::state::{Chip, Injected, Notice};
use super::time::events::EventKind;
use crate::bits::bits;
use crate::packet::{NO_QUEUE, PacketHandle, flag, rate};
use crate::routes::{NONE, Way};
use crate::types::Tick;
use angara_abi::capture::{Happening, Reason};
use angara_abi::packet::PacketType;

impl Chip {
    /// Number of the link leaving `node` in direction `dir`.
    #[inline(always)]
    pub(crate) fn link(&self, node: u32, dir: usize) -> usize {
        node as usize * self.lay.dirs + dir
    }
    #[inline(always)]
    pub(crate) fn input(&mut self, node: u32, queue: usize) -> &mut Input {
        &mut self.routers.inputs[node as usize * self.lay.queues + queue]
    }
    #[inline]
    pub(crate) fn front(&self, node: u32, queue: usize) -> PacketHandle {
        self.routers.inputs[node as usize * self.lay.queues + queue].front
    }

    /// Puts a packet whose `ready` is set at the back of a queue.
    #[inline]
    pub(crate) fn append(&mut self, node: u32, queue: usize, h: PacketHandle) {
        let p = &mut self.packets[h];
        (p.next, p.node, p.queue) = (PacketHandle::NONE, node, queue as u8);
        let ready = p.ready;
        let input = &mut self.routers.inputs[node as usize * self.lay.queues + queue];
        let back = std::mem::replace(&mut input.back, h);
        if input.front.is_some() {
            self.packets[back].next = h;
            return;
        }
        input.front = h;
        if ready != NEVER {
            let at = ready.max(input.busy).max(self.now);
            self.events.push(at, EventKind::Head, node, queue as u32);
        }
    }

    /// The packet `h` in a queue has got its `ready` time.
    pub(crate) fn arrived(&mut self, node: u32, queue: usize, h: PacketHandle) {
        if self.front(node, queue) == h {
            self.schedule_head(node, queue);
        }
    }

    /// Lets the front packet of a queue ask when its time has come.
    #[inline]
    pub(crate) fn schedule_head(&mut self, node: u32, queue: usize) {
        let input = &self.routers.inputs[node as usize * self.lay.queues + queue];
        if input.front.is_none() {
            return;
        }
        let ready = self.packets[input.front].ready;
        if ready != NEVER {
            self.events.push(ready.max(input.busy).max(self.now), EventKind::Head, node, queue as u32);
        }
    }

    /// [`EventKind::Head`]: the front packet asks for its outputs. One that is for a barrier or tree unit is returned:
    /// [`Chip::ask`] when the unit has said what it wants.
    #[inline]
    pub(crate) fn on_head(&mut self, node: u32, queue: usize) -> Option<PacketHandle> {
        let input = &self.routers.inputs[node as usize * self.lay.queues + queue];
        let (h, busy) = (input.front, input.busy);
        if h.is_none() || input.asks != Asks::No {
            return None;
        }
        let p = &self.packets[h];
        if p.ready.max(busy) > self.now {
            self.schedule_head(node, queue);
        } else if p.is(flag::DEAD) {
            if self.observers.tracer.on() {
                self.tell_dropped(h, At::Host(node), self.now, Reason::JobEnded);
            }
            self.discard_front(node, queue);
        } else if p.kind == PacketType::Barrier || self.lay.vc(queue) >= UP {
            return Some(h);
        } else {
            self.data_head(node, queue, h);
        }
        None
    }

    /// The front packet of a queue asks for all of these outputs.
    pub(crate) fn ask(&mut self, node: u32, queue: usize, wants: u16) {
        let (lane, number) = self.lay.request(queue);
        self.post(node, queue, wants, wants.trailing_zeros() as usize, lane, number);
        self.look_at(node, wants);
    }

    /// A data packet at the front of a queue asks, stays, or is consumed.
    #[inline]
    pub(crate) fn data_head(&mut self, node: u32, queue: usize, h: PacketHandle) {
        let injected = self.lay.dir(queue).is_none();
        if injected && !self.leave_adapter(node, h) {
            return;
        }
        let p = &mut self.packets[h];
        let way = &p.way;
        let Some(straight) = way.next() else {
            let out = self.lay.dirs + p.to_channel as usize;
            if !self.pass_at_once(node, queue, out) {
                let (lane, number) = self.lay.request(queue);
                self.post_one(node, queue, out, lane, number);
            }
            return;
        };
        if self.lay.vc(queue) != ADAPTIVE {
            if self.degraded.by_table && self.routes.blocked(node, straight) {
                // Only from another fabric that is not of one mind with this one, which must not be.
                if self.observers.tracer.on() {
                    self.tell_dropped(h, At::Host(node), self.now, Reason::NoRoute);
                }
                return self.discard_front(node, queue);
            }
            if !self.pass_at_once(node, queue, straight) {
                let (lane, number) = self.lay.request(queue);
                self.post_one(node, queue, straight, lane, number);
            }
            return;
        }
        if self.degraded.by_table {
            p.flags &= !flag::ADAPTIVE;
            let (lane, number) = self.lay.leaving(queue, p.vc as usize);
            return self.post_one(node, queue, straight, lane, number);
        }
        let dirs = way.dirs;
        let (lane, number) = self.lay.request(queue);
        // It counts only where it prefers to go; if nowhere, when one of its outputs changes.
        match self.preferred(node as usize, dirs) {
            Some(out) if self.pass_at_once(node, queue, out) => {}
            Some(out) => {
                self.post(node, queue, 1 << out, straight, lane, number);
                let input = self.input(node, queue);
                (input.wants, input.asks) = (dirs, Asks::Once);
                self.routers.fresh.push((node, queue as u8));
                self.look_at(node, 1 << out);
            }
            None => {
                self.post(node, queue, dirs, straight, lane, number);
                self.wait_for(node, dirs);
                self.events.push(self.now + self.params.escape_ps, EventKind::Escape, node, queue as u32);
            }
        }
    }

    /// Grants `out` at once to the front packet of a data channel's queue, which would ask for it now, if nothing else
    /// that may happen at this instant can have a say: a grant at the end of the instant would be the same.
    #[inline(always)]
    fn pass_at_once(&mut self, node: u32, queue: usize, out: usize) -> bool {
        let (n, vc, dir) = (node as usize, self.lay.vc(queue), self.lay.dir(queue));
        // Faults, barriers and trees act on whole nodes; grants at an injector are heard of by its host.
        if self.degraded.by_table || !self.degraded.held.is_empty() || self.special || self.observers.tracer.on() {
            return false;
        }
        if dir.is_none() && self.adapter {
            return false;
        }
        let i = n * self.lay.outs + out;
        let output = &mut self.routers.outputs[i];
        // Other requests, of now or before.
        if output.requests != [0; LANES] || output.busy > self.now || self.events.next_is_head(self.now, node) {
            return false;
        }
        // Adaptive packets may prefer this output to another.
        if self.routers.adaptive[n] != 0 || self.routers.look[n] != 0 {
            return false;
        }
        if out < self.lay.dirs {
            let enters = vc != ADAPTIVE && dir != Some(out) && self.routers.rings & 1 << out != 0;
            let need = if enters { 2 * self.unit } else { self.unit };
            if self.slots.free(&mut output.credits, i, vc, self.now) < need {
                return false;
            }
        }
        let (lane, number) = self.lay.request(queue);
        self.routers.granted[i].turns[lane] = number as u8 + 1;
        self.depart(node, queue, out, vc);
        true
    }

    /// An adaptive packet did not get the output it prefers: it asks all it may take. Returns them.
    #[inline]
    pub(crate) fn ask_everywhere(&mut self, node: u32, queue: usize) -> u16 {
        let (n, outs) = (node as usize, self.lay.outs);
        let input = &mut self.routers.inputs[n * self.lay.queues + queue];
        if input.asks == Asks::Once {
            input.asks = Asks::Yes;
            let (lane, number) = self.lay.request(queue);
            let outputs = &mut self.routers.outputs[n * outs..][..outs];
            for o in bits(input.wants) {
                outputs[o as usize].requests[lane] |= 1 << number;
            }
        }
        input.wants
    }

    /// Plans a decision for when each of these outputs, none of which has room for an adaptive
    /// packet now, may have.
    fn wait_for(&mut self, node: u32, outputs: u16) {
        for o in bits(outputs).map(|o| o as usize) {
            let out = self.routers.output(node, o);
            let at = if out.busy > self.now { out.busy } else { out.credits.next(ADAPTIVE) };
            if at != NEVER {
                self.wake_at(node, o, at);
            }
        }
    }

    /// Enters the request of a queue's front packet for one output.
    #[inline(always)]
    fn post_one(&mut self, node: u32, queue: usize, out: usize, lane: usize, number: u32) {
        self.post(node, queue, 1 << out, out, lane, number);
        let busy = self.routers.output(node, out).busy;
        if busy > self.now {
            self.wake_at(node, out, busy);
        } else {
            self.look_at(node, 1 << out);
        }
    }

    /// Enters the requests of a queue's front packet.
    #[inline(always)]
    fn post(&mut self, node: u32, queue: usize, wants: u16, straight: usize, lane: usize, number: u32) {
        let (n, outs) = (node as usize, self.lay.outs);
        let since = self.routers.granted[n * outs + straight].packets as u32;
        let input = &mut self.routers.inputs[n * self.lay.queues + queue];
        input.posted = self.now;
        input.since = since;
        input.wants = wants;
        input.straight = straight as u8;
        input.asks = Asks::Yes;
        if self.lay.vc(queue) == ADAPTIVE {
            self.routers.adaptive[n] += 1;
        }
        for o in bits(wants) {
            self.routers.outputs[n * outs + o as usize].requests[lane] |= 1 << number;
        }
        if self.observers.tracer.on() {
            self.note_requested(node, queue);
        }
    }

    /// Decide these outputs at this tick.
    #[inline(always)]
    pub(crate) fn look_at(&mut self, node: u32, outputs: u16) {
        let look = &mut self.routers.look[node as usize];
        if *look == 0 {
            self.routers.dirty.push(node);
        }
        *look |= outputs;
    }

    /// Takes back every request of a queue.
    #[inline(always)]
    pub(crate) fn withdraw(&mut self, node: u32, queue: usize) {
        let (n, outs) = (node as usize, self.lay.outs);
        let input = &mut self.routers.inputs[n * self.lay.queues + queue];
        let asks = std::mem::replace(&mut input.asks, Asks::No);
        if asks == Asks::No {
            return;
        }
        let (wants, straight, front) = (std::mem::take(&mut input.wants), input.straight as usize, input.front);
        let (lane, number) = self.lay.request(queue);
        let outputs = &mut self.routers.outputs[n * outs..][..outs];
        for o in bits(wants) {
            outputs[o as usize].requests[lane] &= !(1 << number);
        }
        if self.lay.vc(queue) == ADAPTIVE {
            self.routers.adaptive[n] -= 1;
        }
        if lane == LANE_ADAPTIVE {
            let (lane, number) = self.lay.leaving(queue, self.packets[front].vc as usize);
            outputs[straight].requests[lane] &= !(1 << number);
        }
    }

    /// After the decisions of a tick: adaptive packets that got nothing at once may escape later.
    pub(crate) fn plan_escapes(&mut self) {
        while let Some((node, queue)) = self.routers.fresh.pop() {
            let input = &self.routers.inputs[node as usize * self.lay.queues + queue as usize];
            if input.asks == Asks::Yes && input.posted == self.now {
                self.events.push(self.now + self.params.escape_ps, EventKind::Escape, node, queue as u32);
            }
        }
    }

    /// [`EventKind::Escape`]: a packet that still waits may leave the adaptive channel.
    pub(crate) fn on_escape(&mut self, node: u32, queue: usize) {
        let (now, wait) = (self.now, self.params.escape_ps);
        let input = self.input(node, queue);
        if input.asks != Asks::Yes || input.posted + wait != now {
            return;
        }
        input.asks = Asks::Escaping;
        let (h, straight) = (input.front, input.straight as usize);
        let vc = self.packets[h].vc as usize;
        let (lane, number) = self.lay.leaving(queue, vc);
        self.routers.output(node, straight).requests[lane] |= 1 << number;
        let (grants, _) = self.routers.load(node, straight);
        self.input(node, queue).since = grants as u32;
        self.note_escaping(node, queue, h);
        self.look_at(node, 1 << straight);
    }

    /// Asks for a decision of `out` at `at`, in the future.
    #[inline]
    pub(crate) fn wake_at(&mut self, node: u32, out: usize, at: Tick) {
        let now = self.now;
        let planned = &mut self.routers.output(node, out).wake;
        if *planned > at || *planned <= now {
            *planned = at;
            self.events.push(at, EventKind::Wake, node, out as u32);
        }
    }

    /// The front packet of `queue`, or one copy of it, leaves through `o` on channel `vc`.
    #[inline(always)]
    pub(crate) fn grant(&mut self, node: u32, queue: usize, o: usize, vc: usize) {
        let n = node as usize;
        let (lane, number) = self.lay.request(queue);
        if lane == 0 {
            return self.grant_copy(node, queue, o, vc);
        }
        let input = &mut self.routers.inputs[n * self.lay.queues + queue];
        let one = input.wants.is_power_of_two() && input.asks == Asks::Yes && !self.degraded.by_table;
        if input.asks == Asks::Once || one {
            (input.asks, input.wants) = (Asks::No, 0);
            self.routers.outputs[n * self.lay.outs + o].requests[lane] &= !(1 << number);
            if self.lay.vc(queue) == ADAPTIVE {
                self.routers.adaptive[n] -= 1;
            }
        } else {
            self.withdraw(node, queue);
        }
        self.depart(node, queue, o, vc);
    }

    /// Rate at which the packet `h` goes through `o`, and when its last flit has.
    #[inline(always)]
    fn stream(&self, h: PacketHandle, o: usize) -> (u8, Tick) {
        let p = &self.packets[h];
        let rate = self.timing.after(p.rate, o < self.lay.dirs);
        (rate, self.now + self.timing.span(rate, p.flits))
    }

    /// The front packet of `queue`, which asks for nothing any more, leaves through `o` on channel `vc`.
    #[inline(always)]
    fn depart(&mut self, node: u32, queue: usize, o: usize, vc: usize) {
        let h = self.front(node, queue);
        let (rate, end) = self.stream(h, o);
        self.routers.output(node, o).busy = end;
        self.pop(node, queue, end);
        self.leave_router(node, o, vc, h, rate, end);
    }

    /// A packet that is in no queue any more goes through `o`.
    #[inline(always)]
    fn leave_router(&mut self, node: u32, o: usize, vc: usize, h: PacketHandle, rate: u8, end: Tick) {
        let p = &mut self.packets[h];
        p.rate = rate;
        p.routers += 1;
        let (flits, raw, kind) = (p.flits, p.is(flag::RAW), p.kind);
        self.routers.count(node, o, flits);
        if raw {
            self.raw.totals.hop(flits);
        }
        if self.observers.tracer.on() {
            self.note_granted(node, o, vc, h);
        }
        if o < self.lay.dirs {
            return self.send(node, o, vc, h, end);
        }
        self.packets[h].queue = NO_QUEUE;
        let at = match kind {
            PacketType::Barrier => end, // a barrier's message is for the adapter, not for its host
            _ => self.now + self.params.eject_ps + self.timing.span(rate, flits - 1) - self.params.router_ps,
        };
        self.will_deliver(at, node, h);
    }

    /// A packet of the collective lane goes through `o`: the packet itself if that was the last
    /// output it asked for, else a copy.
    #[inline(never)]
    fn grant_copy(&mut self, node: u32, queue: usize, o: usize, vc: usize) {
        let (_, number) = self.lay.request(queue);
        let (rate, end) = self.stream(self.front(node, queue), o);
        let output = self.routers.output(node, o);
        output.busy = end;
        output.requests[0] &= !(1 << number);
        let input = self.input(node, queue);
        input.wants &= !(1 << o);
        input.busy = input.busy.max(end);
        let (mut h, last) = (input.front, input.busy);
        if input.wants == 0 {
            input.asks = Asks::No;
            if self.lay.vc(queue) == ADAPTIVE {
                self.routers.adaptive[node as usize] -= 1;
            }
            self.pop(node, queue, last);
        } else {
            let copy = self.packets[h];
            self.payloads.retain(copy.payload);
            h = self.packets.alloc(copy);
        }
        self.leave_router(node, o, vc, h, rate, end);
    }

    /// Puts a granted packet on a link; its last flit leaves at `end`.
    #[inline(always)]
    fn send(&mut self, node: u32, o: usize, vc: usize, h: PacketHandle, end: Tick) {
        let (link, dim) = (self.link(node, o), self.net.dim(o));
        let p = &mut self.packets[h];
        let raw = p.is(flag::RAW);
        if vc != ADAPTIVE {
            p.flags &= !flag::ADAPTIVE;
        }
        if vc < UP {
            p.way.taken(o, dim);
            p.ready = self.now + self.hop_ps;
        } else {
            p.ready = end + self.hop_ps;
            p.rate = rate::WHOLE;
        }
        let units = if self.units_are_flits { p.flits as usize } else { 1 };
        if !raw {
            self.observers.counters.count_sent(p.job, link, p.class, p.flits, p.bytes);
        }
        self.routers.credits(node, o, vc).take(vc, units);
        let far = self.net.neighbour(node, o);
        if !self.degraded.links.is_empty() && self.degraded.links.contains_key(&link) {
            self.packets[h].queue = NO_QUEUE;
            return self.send_impaired(node, o, vc, h);
        }
        if self.observers.tracer.on() {
            self.tell(h, At::Link(node, o, vc, self.latest_on(node, o)), self.now, Happening::Sent);
            self.note_arrived(node, o, vc, h);
        }
        if self.owned[far as usize] {
            self.append(far, self.lay.arrival(o, vc), h);
        } else {
            self.packets[h].queue = NO_QUEUE;
            self.send_boundary(node, o, vc, h);
        }
    }

    /// Takes the front packet out of its queue; its last flit leaves at `end`.
    #[inline(always)]
    pub(crate) fn pop(&mut self, node: u32, queue: usize, end: Tick) {
        let i = node as usize * self.lay.queues + queue;
        let h = self.routers.inputs[i].front;
        let p = &self.packets[h];
        let (next, marker, raw) = (p.next, p.is(flag::MARKER), p.is(flag::RAW));
        let units = if self.units_are_flits { p.flits as usize } else { 1 };
        let input = &mut self.routers.inputs[i];
        input.front = next;
        input.busy = input.busy.max(end);
        match self.lay.dir(queue) {
            Some(_) if marker => {}
            Some(dir) => self.give_back(node, dir, self.lay.vc(queue), units, end),
            None if raw => {}
            None => {
                if let Some(injected) = self.injected(h) {
                    self.notices.push(Notice::Injected(injected));
                }
            }
        }
        if next.is_some() {
            self.schedule_head(node, queue);
        }
    }

    /// Returns the slot of a packet that travelled in direction `dir` and whose last flit leaves at
    /// `end`; the sender knows `credit` later.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, node: u32, dir: usize, vc: usize, units: usize, end: Tick) {
        let at = end + self.params.credit_ps;
        let sender = self.net.neighbour(node, self.net.opposite(dir));
        if !self.degraded.prompt[sender as usize] {
            return self.give_back_elsewhere(sender, dir, vc, units, at);
        }
        self.give_slots(sender, dir, vc, units, at);
    }

    /// Slots of a link will be free at `at`: that may decide its output if it is idle by then.
    #[inline(always)]
    pub(crate) fn give_slots(&mut self, node: u32, dir: usize, vc: usize, units: usize, at: Tick) {
        let i = node as usize * self.lay.outs + dir;
        self.slots.give(self.routers.credits(node, dir, vc), i, vc, units, at);
        let out = &self.routers.outputs[i];
        let asking = out.requests[0] | out.requests.get(vc + 1).copied().unwrap_or(0);
        if asking != 0 && out.busy < at {
            self.wake_at(node, dir, at);
        }
    }

    /// Throws the front packet away.
    pub(crate) fn discard_front(&mut self, node: u32, queue: usize) {
        let h = self.front(node, queue);
        let end = if self.lay.dir(queue).is_some() { self.now.max(self.whole_at(h)) } else { self.now };
        self.withdraw(node, queue);
        self.pop(node, queue, end);
        if self.packets[h].is(flag::OLD) {
            let (src, dst) = (self.packets[h].src, self.packets[h].dst);
            self.old_left(src, dst);
        }
        self.free_packet(h);
    }

    /// When the last flit of a packet in a link's queue is there.
    pub(crate) fn whole_at(&self, h: PacketHandle) -> Tick {
        let p = &self.packets[h];
        let rest = if p.rate == rate::WHOLE { 0 } else { self.timing.span(p.rate, p.flits) };
        p.ready.saturating_add(rest)
    }

    /// The front packet of an injection queue looks up its route. False if it stays or is gone.
    fn leave_adapter(&mut self, node: u32, h: PacketHandle) -> bool {
        let (src, dst, queue) = (self.packets[h].src, self.packets[h].dst, self.packets[h].queue as usize);
        if self.is_held(src, dst) {
            return false;
        }
        let way = match self.degraded.by_table {
            false if self.route_change == 0 && self.packets[h].is(flag::RAW) => self.packets[h].way, // as injected
            false => self.usual_way(node, dst),
            true => match self.routes.route(node, dst) {
                Some(route) => Way::along(&self.net, node, &route, dst),
                None => {
                    self.pop(node, queue, self.now);
                    self.notices.push(Notice::Unreachable { node, h });
                    return false;
                }
            },
        };
        let p = &mut self.packets[h];
        p.way = way;
        if p.is(flag::MAY_ADAPT) && self.lay.vc(queue) == ADAPTIVE {
            p.flags |= flag::ADAPTIVE;
        } else {
            p.flags &= !flag::ADAPTIVE;
        }
        true
    }

    /// Marks a packet that has left its injection queue; what its port must hear of it, if it has one and has not heard.
    #[inline(always)]
    pub(crate) fn injected(&mut self, h: PacketHandle) -> Option<Injected> {
        let p = &mut self.packets[h];
        if p.port == NONE || p.flags & (flag::INJECTED | flag::DEAD | flag::FOREIGN) != 0 {
            return None;
        }
        p.flags |= flag::INJECTED;
        Some(Injected { port: p.port, lane: p.from_channel, op: p.op, packets: p.packets() as u32 })
    }
}
