//! What is bound for ports of other routers, as it was when word of it set out.
//!
//! A router that is told of another's queue knows it as late as if each change came over a link. That is no sooner
//! than blocks and parts may run ahead of each other, so it does not matter which of them is simulated first.

use super::place::Range;
use super::timing::{GRANT_TO_ARRIVAL, WINDOW};
use crate::parallel::part_of;
use crate::topology::Route;
use angara_fabric::raw::Packed;
use std::collections::{BTreeSet, VecDeque};

/// A change of what is bound for a port, for parts whose routers are told.
pub(crate) struct Change {
    router: u32,
    port: u8,
    cycle: u64,
    /// Flits more; modulo 2³², so that there may be fewer.
    flits: u32,
}

impl Packed for Change {
    fn pack(&self, out: &mut Vec<u8>) {
        self.router.pack(out);
        self.port.pack(out);
        self.cycle.pack(out);
        self.flits.pack(out);
    }
    fn unpack(from: &mut &[u8]) -> Option<Change> {
        let (router, port) = (u32::unpack(from)?, u8::unpack(from)?);
        Some(Change { router, port, cycle: u64::unpack(from)?, flits: u32::unpack(from)? })
    }
}

/// Flits bound for a port: as it was, and its latest changes with their cycles.
#[derive(Clone, Default)]
struct Queue {
    before: u32,
    changes: VecDeque<(u64, u32)>,
}

/// What routers of a part are told.
pub(crate) struct News {
    /// First router of every part.
    cuts: Vec<u32>,
    part: usize,
    /// Cycles from a change until others know of it.
    delay: u64,
    ports: usize,
    /// Of every port of every router; empty if nobody is told.
    queues: Vec<Queue>,
}

impl News {
    pub(crate) fn new(topology: &impl Route, range: &Range) -> News {
        let ports = topology.ports();
        let queues = topology.news_delay().map_or(0, |_| topology.routers() * ports);
        let delay = (GRANT_TO_ARRIVAL - 1) as u64
            + topology.news_delay().map_or(1, |delay| u64::from(range.link.max(delay.into())));
        News { cuts: range.cuts.to_vec(), part: range.part, delay, ports, queues: vec![Queue::default(); queues] }
    }
    /// Somebody is told of something.
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        !self.queues.is_empty()
    }
    /// `flits` more are bound for `port` of `router`. `post` is given what other parts must know, and when.
    pub(crate) fn change(
        &mut self,
        topology: &impl Route,
        (router, port, cycle): (u32, u8, u64),
        flits: u32,
        mut post: impl FnMut(u16, u64, Change),
    ) {
        let told = topology.told(router, port);
        if told.is_empty() {
            return;
        }
        for part in told.map(|r| part_of(&self.cuts, r)).filter(|&p| p != self.part).collect::<BTreeSet<_>>() {
            post(part as u16, cycle + self.delay, Change { router, port, cycle, flits });
        }
        self.accept(&Change { router, port, cycle, flits });
    }
    /// Another part's, or this one's.
    pub(crate) fn accept(&mut self, change: &Change) {
        let queue = &mut self.queues[change.router as usize * self.ports + usize::from(change.port)];
        while let Some(&(cycle, flits)) = queue.changes.front()
            && cycle + self.delay + WINDOW <= change.cycle
        {
            queue.before = queue.before.wrapping_add(flits);
            queue.changes.pop_front();
        }
        queue.changes.push_back((change.cycle, change.flits));
    }
    /// Flits bound for a port of a router, as the router `here` knows it in cycle `now`.
    pub(crate) fn bound(&self, (router, port): (u32, u8), here: u32, now: u64) -> u32 {
        let delay = if router == here { 1 } else { self.delay };
        let queue = &self.queues[router as usize * self.ports + usize::from(port)];
        let known = queue.changes.iter().take_while(|(cycle, _)| cycle + delay <= now);
        known.fold(queue.before, |sum, (_, flits)| sum.wrapping_add(*flits))
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        let changes: usize = self.queues.iter().map(|q| q.changes.capacity()).sum();
        self.queues.capacity() * size_of::<Queue>() + changes * size_of::<(u64, u32)>()
    }
}
