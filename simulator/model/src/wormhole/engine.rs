//! Wormhole routers as an engine that simulates a whole network, and as one part of several.

use super::routers::Routers;
use super::state::{ChannelState, Message, Router, Source};
use crate::engine::Engine;
use crate::generic::state::NO_OWNER;
use crate::generic::view::used;
use crate::parallel::Part;
use crate::topology::Route;
use crate::waits::Waits;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, PacketHandle, Stage, Totals, TraceEvent};
use angara_fabric::rng::{Purpose, draw};
use std::cmp::Reverse;
use std::collections::VecDeque;

impl<T: Route, const N: usize, const P: usize, const W: usize> Routers<T, N, P, W> {
    /// The next cycle in which anything happens.
    fn next_cycle(&self) -> Option<u64> {
        let now = self.calendar.now;
        // Who waits is counted in every cycle.
        if self.waiting.anyone {
            return Some(now);
        }
        if self.awake.any() || self.sending.any() {
            return Some(now);
        }
        let far = self.far.peek().map(|&Reverse((t, _))| t.max(now));
        far.into_iter().chain(self.calendar.next()).min()
    }
}

impl<T: Route, const N: usize, const P: usize, const W: usize> Engine for Routers<T, N, P, W> {
    fn inject(&mut self, p: Injection) {
        assert!(
            (1..=self.packet_max).contains(&p.flits),
            "packet of {} flits; packet_flits_max is {}",
            p.flits,
            self.packet_max
        );
        let e = p.src - self.first_endpoint;
        let source = &mut self.sources[e as usize];
        let random = draw(self.seed, p.src as u64, Purpose::Route, source.sequence);
        source.sequence += 1;
        let route = self.topology.start(p.src, p.dst, random);
        let h = self.pool.insert(&p, route, 0);
        if source.queue.push(&mut self.pool, h) && source.left == 0 {
            self.sending.set(e);
        }
        if p.traced {
            let (router, port) = self.topology.attach(p.src);
            self.tracer.begin(h, p.tag);
            self.tracer.note(h, p.at, (router, u32::from(port), 0), Stage::Created);
        }
        self.counters.injected += 1;
    }

    /// The calendar's `now` is the next cycle to be processed; cycle c happens at c·cycle picoseconds.
    fn advance(&mut self, to: Tick) {
        let end = to / self.clock.0;
        while let Some(cycle) = self.next_cycle().filter(|&cycle| cycle <= end) {
            self.calendar.now = cycle;
            self.step();
            self.calendar.now = cycle + 1;
        }
        self.calendar.now = self.calendar.now.max(end + 1);
    }
    fn now(&self) -> Tick {
        self.clock.time(self.calendar.now.saturating_sub(1))
    }
    fn next_event(&self) -> Option<Tick> {
        self.next_cycle().map(|c| self.clock.time(c))
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.delivered
    }
    fn counters(&self) -> Totals {
        self.counters
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.tracer.take()
    }
    fn count_links(&mut self) {
        self.link_loads = vec![LinkLoad::default(); self.routers.len() * P];
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.place(router, port).and_then(|place| self.link_loads.get(place)).copied().unwrap_or_default()
    }
    fn count_waits(&mut self) -> bool {
        self.waiting.begin(self.routers.len(), P);
        if self.link_loads.is_empty() {
            self.count_links();
        }
        true
    }
    fn waits(&self, router: u32, port: u8) -> Waits {
        self.place(router, port).and_then(|place| self.waiting.waits.get(place)).copied().unwrap_or_default()
    }
    fn occupied(&self, router: u32, port: u8) -> u64 {
        let Some(place) = self.place(router, port) else { return 0 };
        let outputs = &self.routers[place / P].outputs[(place % P) << Self::PORT..];
        used(&outputs[..self.vcs as usize], self.buffer).into()
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        let fail = |what: String| Err(Inconsistent(what));
        if self.pool.live() != 0 {
            return fail(format!("{} packets never arrived", self.pool.live()));
        }
        for (r, router) in self.routers.iter().enumerate() {
            for (o, out) in router.outputs.iter().enumerate() {
                let (credits, owner) = (out.credits, out.owner);
                if credits != self.buffer || owner != NO_OWNER {
                    let of = self.buffer;
                    return fail(format!("router {r}, output channel {o}: {credits} of {of} credits, owner {owner}"));
                }
            }
            if let Some(i) = router.inputs.iter().position(|i| i.state != ChannelState::Idle || i.present != 0) {
                let input = &router.inputs[i];
                return fail(format!(
                    "router {r}, input channel {i} is {:?} with {} flits",
                    input.state, input.present
                ));
            }
            if router.in_held | router.out_held != 0 {
                return fail(format!("router {r}: ports are held"));
            }
        }
        for (s, &c) in self.source_credits.iter().enumerate() {
            if c != self.buffer {
                return fail(format!("source channel {s}: {c} of {} credits", self.buffer));
            }
        }
        Ok(())
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Router<N, P, W>>() * self.routers.len()
            + size_of::<Source>() * self.sources.len()
            + 2 * self.source_credits.len()
            + self.calendar.memory_bytes()
            + (self.awake.0.len() + self.sending.0.len()) * 8
            + self.far.capacity() * 16
            + self.delivered.capacity() * size_of::<Delivery>()
            + self.link_loads.capacity() * size_of::<LinkLoad>()
            + self.waiting.memory_bytes()
            + self.pool.memory_bytes()
            + self.news.memory_bytes()
    }
}

impl<T: Route, const N: usize, const P: usize, const W: usize> Part for Routers<T, N, P, W> {
    type Message = Message;
    fn lookahead(&self) -> Tick {
        self.clock.time(self.window)
    }
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, Message)) {
        for (part, due, message) in self.outgoing.drain(..) {
            post(part as usize, self.clock.time(due), message);
        }
    }
    fn accept(&mut self, due: Tick, message: Message) {
        let due = self.calendar.at(due / self.clock.0);
        match message {
            Message::Head { channel, hot, cold, traced } => {
                let h = self.pool.put(hot, cold);
                due.arrivals.push((channel, h));
                if traced {
                    self.tracer.begin(h, cold.tag);
                }
            }
            Message::Body(channel) => due.arrivals.push((channel, PacketHandle::NONE)),
            Message::Credit(channel) => due.credits.push(channel),
            Message::Queue(change) => self.news.accept(&change),
        }
    }
}
