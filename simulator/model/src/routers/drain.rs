//! Links and routers that fail under way: the network drains, then packets take the ways of what is left.
//! `docs/explain/model.md`, "Faults under way".

use super::engine::Cycles;
use super::network::{Calendar, Routers, Source, Switched};
use crate::pool::Queue;
use crate::topology::{Class, End, Route};
use angara_fabric::raw::{Lost, PacketHandle};
use angara_fabric::rng::{Purpose, draw};

impl<T: Route, S: Switched<W>, const N: usize, const P: usize, const W: usize> Routers<T, S, N, P, W>
where
    Self: Cycles<S, N, P, W>,
{
    /// The cycle of the next change. In an empty network it can wait for the next packet.
    pub(crate) fn next_change(&self) -> Option<u64> {
        self.changes.next_cycle().filter(|_| self.pool.live() > 0).map(|cycle| cycle.max(self.calendar.now()))
    }

    /// Begins the changes that are due in this cycle. Those of several parts are begun by all of them together.
    #[cold]
    pub(crate) fn change(&mut self) {
        while self.changes.next_cycle().is_some_and(|cycle| cycle <= self.calendar.now()) {
            self.close();
            self.reopen_if_empty();
        }
    }

    /// Ends a change whose network is empty.
    #[cold]
    pub(crate) fn reopen_if_empty(&mut self) {
        if self.alone && self.nothing_under_way() {
            self.reopen(self.calendar.now());
        }
    }

    /// Packets wait at their sources at most, and no flits of lost ones are to come.
    pub(crate) fn nothing_under_way(&self) -> bool {
        self.pool.live() <= self.changes.queued && self.changes.vanishing == 0
    }

    /// Closes the ports that the next change takes away. Packets that want one are lost, unless they have begun to leave.
    pub(crate) fn close(&mut self) {
        let Some((_, next)) = self.changes.due.pop_front() else { return };
        let goes = |router: u32, port: u8| match self.topology.output(router, port) {
            End::Router { .. } => next.output(router, port) == End::Open,
            End::Endpoint(e) => self.topology.is_up(e) && !next.is_up(e),
            End::Open => false,
        };
        let ports = self.topology.ports() as u8;
        let mask = |router: u32| (0..ports).filter(|&p| goes(router, p)).fold(0, |mask, p| mask | 1 << p);
        self.changes.closed = (self.first_router..).take(self.routers.len()).map(mask).collect();
        self.changes.next = Some(next);
        for r in 0..self.routers.len() as u32 {
            if self.changes.closed[r as usize] != 0 {
                self.clear(r);
            }
        }
        self.changes.queued = 0;
        for e in 0..self.sources.len() {
            let queue = *self.sources[e].queue();
            self.changes.queued += self.handles(queue).len();
        }
    }

    /// The packets of a queue.
    pub(crate) fn handles(&self, queue: Queue) -> Vec<PacketHandle> {
        let some = |h: &PacketHandle| h.is_some();
        std::iter::successors(Some(queue.head).filter(some), |h| Some(self.pool.hot[h.index()].next).filter(some))
            .collect()
    }

    /// The packets of a queue of router `r` that want a closed port, and a queue of the others.
    pub(crate) fn sort_out(&mut self, r: u32, queue: Queue) -> (Vec<PacketHandle>, Queue) {
        let (gone, kept): (Vec<_>, Vec<_>) = self.handles(queue).into_iter().partition(|&h| self.is_closed(r, h));
        let mut queue = Queue::EMPTY;
        for h in kept {
            queue.push(&mut self.pool, h);
        }
        (gone, queue)
    }

    /// True if a packet at router `r` wants a port that is closed.
    #[inline(always)]
    pub(crate) fn is_closed(&self, r: u32, h: PacketHandle) -> bool {
        self.changes.closed[r as usize] >> (self.pool.hot[h.index()].out >> Self::PORT) & 1 != 0
    }

    /// Packet `h` is lost, in this cycle.
    pub(crate) fn lose(&mut self, h: PacketHandle) {
        self.lose_in(self.calendar.now(), h);
    }

    fn lose_in(&mut self, cycle: u64, h: PacketHandle) {
        let time = self.clock.time(cycle);
        self.tracer.end(h);
        let packet = self.pool.remove(h, time);
        self.changes.lost.push_back(Lost { time, src: packet.src, dst: packet.dst, tag: packet.tag });
        self.counters.lost += 1;
    }

    /// Packets take the ways of what is left from now on: the network has been empty since this cycle.
    pub(crate) fn reopen(&mut self, cycle: u64) {
        let Some(next) = self.changes.next.take() else { return };
        self.topology = next;
        self.allowed = Class::channels(self.vcs, self.topology.classes());
        for e in 0..self.sources.len() {
            let (sent, waiting) = (*self.sources[e].sequence(), *self.sources[e].queue());
            let mut queue = Queue::EMPTY;
            for h in self.handles(waiting) {
                let (src, dst) = (self.pool.cold[h.index()].src, self.pool.cold[h.index()].dst);
                if !self.topology.is_up(src) || !self.topology.is_up(dst) {
                    self.lose_in(cycle, h);
                    continue;
                }
                let ago = (sent as u32).wrapping_sub(self.pool.hot[h.index()].allowed);
                let random = draw(self.seed, src.into(), Purpose::Route, sent - u64::from(ago));
                self.pool.hot[h.index()].route = self.topology.start(src, dst, random);
                queue.push(&mut self.pool, h);
            }
            *self.sources[e].queue() = queue;
            if queue.head.is_some() {
                self.wake(e as u32);
            }
        }
    }
}
