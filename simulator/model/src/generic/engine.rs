//! The `generic` router as an engine that simulates a whole network, and as one part of several.

use super::routers::Routers;
use super::state::{Block, ChannelState, Message, NO_OWNER, Router, Source, WINDOW};
use super::view::used;
use crate::engine::Engine;
use crate::parallel::Part;
use crate::topology::Route;
use crate::waits::Waits;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Stage, Totals, TraceEvent};
use angara_fabric::rng::{Purpose, draw};
use std::cmp::Reverse;
use std::collections::VecDeque;

impl<T: Route, const N: usize, const P: usize, const W: usize, const A: bool> Routers<T, N, P, W, A> {
    /// The next cycle in which anything happens.
    fn next_cycle(&self) -> Option<u64> {
        let now = self.calendar.now;
        // Who waits is counted in every cycle.
        if self.waiting.on() && self.pool.live() > 0 {
            return Some(now);
        }
        if self.blocks.iter().any(|b| b.awake.any() || b.sources.any()) {
            return Some(now);
        }
        let far = self.blocks.iter().filter_map(|b| b.far.peek()).map(|&Reverse((t, _))| t.max(now));
        far.chain(self.calendar.next()).min()
    }
    /// Takes block `b` through the cycles from `first` to `last`.
    fn run_block(&mut self, b: usize, first: u64, last: u64) {
        std::mem::swap(&mut self.here, &mut self.blocks[b]);
        if self.blocks.len() > 1 {
            self.fetch();
        }
        for cycle in first..=last {
            self.calendar.now = cycle;
            self.step(b, (cycle - first) as usize);
        }
        std::mem::swap(&mut self.here, &mut self.blocks[b]);
    }
    /// Touches all of the block's routers in the order of memory, which the processor can do at the full rate of a
    /// distant cache; the order in which a cycle needs them it cannot foresee.
    fn fetch(&self) {
        let first = self.here.first_router as usize;
        let last = self.routers.len().min(first + self.here.awake.0.len() * 64);
        let mut sum = 0u64;
        for router in &self.routers[first..last] {
            sum ^= router.in_busy;
            // One of every cache line.
            sum ^= router.ports.iter().step_by(5).fold(0, |s, p| s ^ p.peer as u64);
            sum ^= router.outputs.iter().step_by(8).fold(0, |s, o| s ^ o.credits as u64);
            sum ^= router.inputs.iter().step_by(4).fold(0, |s, i| s ^ i.out as u64);
        }
        std::hint::black_box(sum);
    }
}

impl<T: Route, const N: usize, const P: usize, const W: usize, const A: bool> Engine for Routers<T, N, P, W, A> {
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
        if source.queue.push(&mut self.pool, h) {
            self.blocks[self.calendar.block(source.channel)].wake_source(e);
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
        while let Some(first) = self.next_cycle().filter(|&first| first <= end) {
            let last = end.min(first + WINDOW - 1);
            for b in 0..self.blocks.len() {
                self.run_block(b, first, last);
            }
            self.calendar.now = last + 1;
            for list in &mut self.arrived {
                self.delivered.extend(list.drain(..));
            }
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
                if out.credits != self.buffer || out.owner != NO_OWNER || out.wanted != 0 {
                    let (credits, owner) = (out.credits, out.owner);
                    return fail(format!(
                        "router {r}, output channel {o}: {credits} of {} credits, owner {owner}",
                        self.buffer
                    ));
                }
            }
            if let Some(i) = router.inputs.iter().position(|i| i.state != ChannelState::Idle || i.queue.head.is_some())
            {
                return fail(format!("router {r}, input channel {i} is {:?}", router.inputs[i].state));
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
            + self.blocks.iter().map(Block::memory_bytes).sum::<usize>()
            + (self.delivered.capacity() + self.arrived.iter().map(Vec::capacity).sum::<usize>())
                * size_of::<Delivery>()
            + self.link_loads.capacity() * size_of::<LinkLoad>()
            + self.waiting.memory_bytes()
            + self.pool.memory_bytes()
            + self.news.memory_bytes()
    }
}

impl<T: Route, const N: usize, const P: usize, const W: usize, const A: bool> Part for Routers<T, N, P, W, A> {
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
        let cycle = due / self.clock.0;
        match message {
            Message::Arrival { channel, hot, cold, traced } => {
                let h = self.pool.put(hot, cold);
                self.calendar.soon_at(cycle, channel).arrivals.push((channel, h));
                if traced {
                    self.tracer.begin(h, cold.tag);
                }
            }
            Message::Credit { channel, flits } => {
                self.calendar.soon_at(cycle, channel).credits.push((channel, flits as u32));
            }
            Message::Queue(change) => self.news.accept(&change),
        }
    }
}
