//! Routers of either switching as an engine that simulates a whole network, and as one part of several.

use super::network::{Calendar, Routers, Source, Switched};
use super::router::Router;
use super::view::{NO_OWNER, Output, used};
use crate::engine::Engine;
use crate::parallel::Part;
use crate::topology::Route;
use crate::waits::Waits;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Stage, Totals, TraceEvent};
use angara_fabric::rng::{Purpose, draw};
use std::collections::VecDeque;

/// What one of the switchings does in its own way.
pub(crate) trait Cycles<S: Switched<W>, const N: usize, const P: usize, const W: usize> {
    /// The next cycle in which anything happens.
    fn next_cycle(&self) -> Option<u64>;
    /// Processes some cycles from `first` on, none after `end`.
    fn run(&mut self, first: u64, end: u64);
    /// Source `e` has a packet to send, and had none.
    fn wake(&mut self, e: u32);
    /// Drops the packets of router `r` that want a port which is closed.
    fn clear(&mut self, r: u32);
    /// Takes something from another part that is due in `cycle`.
    fn take_in(&mut self, cycle: u64, message: S::Message);
    /// What keeps a router of an idle network from being idle, if its output channels are.
    fn holds(router: &Router<S::Input, S::Own, N, P, W>) -> Option<String>;
    /// Memory of what only this switching has.
    fn own_bytes(&self) -> usize;
}

impl<T: Route, S: Switched<W>, const N: usize, const P: usize, const W: usize> Engine for Routers<T, S, N, P, W>
where
    Self: Cycles<S, N, P, W>,
{
    fn inject(&mut self, p: Injection) {
        assert!(
            (1..=self.packet_max).contains(&p.flits),
            "packet of {} flits; packet_flits_max is {}",
            p.flits,
            self.packet_max
        );
        let e = p.src - self.first_endpoint;
        let source = &mut self.sources[e as usize];
        let sequence = source.sequence();
        let number = *sequence;
        let random = draw(self.seed, p.src as u64, Purpose::Route, number);
        *sequence += 1;
        let route = self.topology.start(p.src, p.dst, random);
        let h = self.pool.insert(&p, route, number);
        if source.push(&mut self.pool, h) {
            self.wake(e);
        }
        if p.traced {
            let (router, port) = self.topology.attach(p.src);
            self.tracer.begin(h, p.tag);
            self.tracer.note(h, p.at, (router, u32::from(port), 0), Stage::Created);
        }
        self.counters.injected += 1;
        self.changes.queued += 1;
    }

    /// The calendar's `now` is the next cycle to be processed; cycle c happens at c·cycle picoseconds.
    fn advance(&mut self, to: Tick) {
        let end = to / self.clock.cycle;
        while let Some(first) = self.next_cycle().filter(|&first| first <= end) {
            self.run(first, end);
        }
        self.calendar.set(self.calendar.now().max(end + 1));
    }
    fn now(&self) -> Tick {
        self.clock.time(self.calendar.now().saturating_sub(1))
    }
    fn next_event(&self) -> Option<Tick> {
        self.next_cycle().map(|c| self.clock.time(c))
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.delivered
    }
    fn lost(&mut self) -> Option<Lost> {
        self.changes.lost.pop_front()
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
        if S::FLITS && self.link_loads.is_empty() {
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
                let (credits, owner) = (out.credits(), out.owner());
                if credits != self.buffer || owner != NO_OWNER {
                    let of = self.buffer;
                    return fail(format!("router {r}, output channel {o}: {credits} of {of} credits, owner {owner}"));
                }
            }
            if let Some(what) = Self::holds(router) {
                return fail(format!("router {r}{what}"));
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
        size_of::<Router<S::Input, S::Own, N, P, W>>() * self.routers.len()
            + size_of::<S::Source>() * self.sources.len()
            + 2 * self.source_credits.len()
            + self.calendar.memory_bytes()
            + self.own_bytes()
            + self.delivered.capacity() * size_of::<Delivery>()
            + self.link_loads.capacity() * size_of::<LinkLoad>()
            + self.waiting.memory_bytes()
            + self.pool.memory_bytes()
            + self.news.memory_bytes()
    }
}

impl<T: Route, S: Switched<W>, const N: usize, const P: usize, const W: usize> Part for Routers<T, S, N, P, W>
where
    Self: Cycles<S, N, P, W>,
{
    type Message = S::Message;
    fn lookahead(&self) -> Tick {
        self.clock.time(self.window)
    }
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, S::Message)) {
        for (part, due, message) in self.outgoing.drain(..) {
            post(part as usize, self.clock.time(due), message);
        }
    }
    fn accept(&mut self, due: Tick, message: S::Message) {
        self.take_in(due / self.clock.cycle, message);
    }
    fn next_change(&self) -> Option<Tick> {
        self.changes.next_cycle().map(|cycle| self.clock.time(cycle))
    }
    fn begin_change(&mut self, at: Tick) {
        self.calendar.set(at / self.clock.cycle);
        self.close();
    }
    fn drains(&self) -> bool {
        self.changes.drains()
    }
    fn is_drained(&self) -> bool {
        self.nothing_under_way()
    }
    fn end_change(&mut self, at: Tick) {
        self.reopen(at / self.clock.cycle);
    }
}
