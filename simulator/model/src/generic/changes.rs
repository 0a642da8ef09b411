//! Links and routers that fail under way: the network drains, then packets take the ways of what is left.
//! `docs/explain/model.md`, "Faults under way".

use super::state::{ChannelState, CutThrough, InVc, Source};
use crate::pool::Queue;
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::view::NO_OWNER;
use crate::topology::{Class, End, Route};
use angara_fabric::raw::{Lost, PacketHandle};
use angara_fabric::rng::{Purpose, draw};

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Routers<T, CutThrough<F, A>, N, P, W>
{
    /// Begins the changes that are due in this cycle.
    #[cold]
    pub(super) fn change(&mut self) {
        while self.changes.next_cycle().is_some_and(|cycle| cycle <= self.calendar.now) {
            self.close();
            self.reopen();
        }
    }

    /// Closes the ports that the next change takes away. Packets that want one are lost, unless they have been granted.
    fn close(&mut self) {
        let Some((_, next)) = self.changes.due.pop_front() else { return };
        let goes = |router: u32, port: u8| match self.topology.output(router, port) {
            End::Router { .. } => next.output(router, port) == End::Open,
            End::Endpoint(e) => self.topology.is_up(e) && !next.is_up(e),
            End::Open => false,
        };
        let ports = self.topology.ports() as u8;
        let mask = |router: u32| (0..ports).filter(|&p| goes(router, p)).fold(0, |mask, p| mask | 1 << p);
        self.changes.closed = (0..self.routers.len() as u32).map(mask).collect();
        self.changes.next = Some(next);
        for r in 0..self.routers.len() as u32 {
            if self.changes.closed[r as usize] != 0 {
                self.empty(r);
            }
        }
        let of_source = |source: &Source| self.handles(source.queue).len();
        self.changes.queued = self.sources.iter().map(of_source).sum();
    }

    /// The packets of a queue.
    fn handles(&self, queue: Queue) -> Vec<PacketHandle> {
        let some = |h: &PacketHandle| h.is_some();
        std::iter::successors(Some(queue.head).filter(some), |h| Some(self.pool.hot[h.index()].next).filter(some))
            .collect()
    }

    /// Drops the packets of router `r` that want a closed port.
    fn empty(&mut self, r: u32) {
        for i in 0..N as u32 {
            let InVc { queue, out, state, .. } = *self.routers[r as usize].input(i);
            let all = self.handles(queue);
            let (gone, kept): (Vec<_>, Vec<_>) = all.iter().copied().partition(|&h| self.is_closed(r, h));
            if gone.is_empty() {
                continue;
            }
            let first = all[0];
            let mut queue = Queue::EMPTY;
            for &h in &kept {
                queue.push(&mut self.pool, h);
            }
            let router = &mut self.routers[r as usize];
            router.input(i).queue = queue;
            if gone[0] == first && state != ChannelState::Streaming {
                if state == ChannelState::Active {
                    let output = router.output(out.into());
                    (output.owner, output.wanted) = (NO_OWNER, 0);
                    router.free.set(out.into());
                    router.ready.clear(i);
                }
                router.allocating.clear(i);
                router.input(i).state = ChannelState::Idle;
                if !kept.is_empty() {
                    router.compete(i, &self.pool);
                }
            }
            gone.into_iter().for_each(|h| self.drop_at(r << Self::ROUTER | i, h));
        }
        let block = self.calendar.block(r << Self::ROUTER);
        self.all.blocks[block].wake(r);
    }

    /// True if a packet at router `r` wants a port that is closed.
    #[inline(always)]
    pub(super) fn is_closed(&self, r: u32, h: PacketHandle) -> bool {
        self.changes.closed[r as usize] >> (self.pool.hot[h.index()].out >> Self::PORT) & 1 != 0
    }

    /// Drops a packet of input channel `i`, whose room is free as if it left.
    #[cold]
    pub(super) fn drop_at(&mut self, i: u32, h: PacketHandle) {
        let (r, p, v) = (i >> Self::ROUTER, i >> Self::PORT & (P as u32 - 1), i & ((1 << Self::PORT) - 1));
        let near = *self.routers[r as usize].port(p);
        let flits = self.pool.hot[h.index()].flits;
        self.give_back(&near, v, flits, r << Self::ROUTER);
        self.lose(h);
    }

    fn lose(&mut self, h: PacketHandle) {
        let time = self.clock.time(self.calendar.now);
        self.tracer.end(h);
        let packet = self.pool.remove(h, time);
        self.changes.lost.push_back(Lost { time, src: packet.src, dst: packet.dst, tag: packet.tag });
        self.counters.lost += 1;
    }

    /// If the network is empty, packets take the ways of what is left from now on.
    pub(super) fn reopen(&mut self) {
        if self.pool.live() > self.changes.queued {
            return;
        }
        let Some(next) = self.changes.next.take() else { return };
        self.topology = next;
        self.allowed = Class::channels(self.vcs, self.topology.classes());
        for e in 0..self.sources.len() {
            let source = self.sources[e];
            let waiting = self.handles(source.queue);
            let mut queue = Queue::EMPTY;
            for h in waiting {
                let (src, dst) = (self.pool.cold[h.index()].src, self.pool.cold[h.index()].dst);
                if !self.topology.is_up(src) || !self.topology.is_up(dst) {
                    self.lose(h);
                    continue;
                }
                let ago = (source.sequence as u32).wrapping_sub(self.pool.hot[h.index()].allowed);
                let random = draw(self.seed, src.into(), Purpose::Route, source.sequence - u64::from(ago));
                self.pool.hot[h.index()].route = self.topology.start(src, dst, random);
                queue.push(&mut self.pool, h);
            }
            self.sources[e].queue = queue;
            if queue.head.is_some() {
                let block = self.calendar.block(source.channel);
                self.all.blocks[block].wake_source(e as u32);
            }
        }
    }
}
