//! Packets under way: a pool of small records named by 32-bit handles, linked into queues.

use crate::topology::RouteState;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Injection};

/// No packet.
pub(crate) const NIL: u32 = u32::MAX;

/// What every hop reads or writes; half a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Hot {
    pub(crate) route: RouteState,
    /// Next packet of the queue this one waits in.
    pub(crate) next: u32,
    pub(crate) flits: u16,
    pub(crate) routers: u16,
    /// For the profile's use.
    pub(crate) mark: u32,
}

/// What only source and destination need.
#[derive(Clone, Copy)]
pub(crate) struct Cold {
    pub(crate) at: Tick,
    pub(crate) tag: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
}

/// All packets under way.
#[derive(Default)]
pub(crate) struct Pool {
    pub(crate) hot: Vec<Hot>,
    pub(crate) cold: Vec<Cold>,
    free: u32,
    live: usize,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { free: NIL, ..Pool::default() }
    }
    /// Stores a packet. Handles are reused at once; no result may depend on their values.
    #[inline]
    pub(crate) fn insert(&mut self, p: &Injection, route: RouteState, mark: u32) -> u32 {
        let hot = Hot { route, next: NIL, flits: p.flits, routers: 0, mark };
        self.put(hot, Cold { at: p.at, tag: p.tag, src: p.src, dst: p.dst })
    }
    /// Stores a packet that another pool held.
    #[inline]
    pub(crate) fn put(&mut self, hot: Hot, cold: Cold) -> u32 {
        self.live += 1;
        if self.free != NIL {
            let h = self.free;
            self.free = self.hot[h as usize].next;
            self.hot[h as usize] = hot;
            self.cold[h as usize] = cold;
            h
        } else {
            self.hot.push(hot);
            self.cold.push(cold);
            self.hot.len() as u32 - 1
        }
    }
    /// Forgets packet `h` and returns how it arrived.
    #[inline]
    pub(crate) fn remove(&mut self, h: u32, tail: Tick) -> Delivery {
        let Cold { at, tag, src, dst } = self.cold[h as usize];
        let hot = &mut self.hot[h as usize];
        let delivery = Delivery { tail, src, dst, tag, at, flits: hot.flits, routers: hot.routers };
        hot.next = self.free;
        self.free = h;
        self.live -= 1;
        delivery
    }
    /// Forgets packet `h` and returns it, to be put into another pool.
    #[inline]
    pub(crate) fn take(&mut self, h: u32) -> (Hot, Cold) {
        let packet = (self.hot[h as usize], self.cold[h as usize]);
        self.hot[h as usize].next = self.free;
        self.free = h;
        self.live -= 1;
        packet
    }
    pub(crate) fn live(&self) -> usize {
        self.live
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.hot.capacity() * size_of::<Hot>() + self.cold.capacity() * size_of::<Cold>()
    }
}

/// A first-in first-out queue of packets, linked through [`Hot::next`].
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: NIL, tail: NIL };
    /// Appends `h`; true if the queue was empty.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &mut Pool, h: u32) -> bool {
        pool.hot[h as usize].next = NIL;
        let was_empty = self.head == NIL;
        if was_empty {
            self.head = h;
        } else {
            pool.hot[self.tail as usize].next = h;
        }
        self.tail = h;
        was_empty
    }
    /// Takes the head off (the queue must not be empty) and returns it.
    #[inline(always)]
    pub(crate) fn pop(&mut self, pool: &Pool) -> u32 {
        let h = self.head;
        self.head = pool.hot[h as usize].next;
        h
    }
}
