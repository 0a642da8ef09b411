//! Packets under way: a pool of small records named by handles, linked into queues.

use crate::topology::RouteState;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Injection, Packed, PacketHandle};

/// Fields that every hop reads or writes; half a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Hot {
    pub(crate) route: RouteState,
    /// Next packet of the queue this one waits in.
    pub(crate) next: PacketHandle,
    pub(crate) flits: u16,
    pub(crate) routers: u16,
    /// Channel 0 of the output port it wants at its router.
    pub(crate) out: u16,
    /// Cycles that all of its flits took to come by the last link, or would have taken with nothing before them.
    pub(crate) came: u16,
    /// Channels it may use there, as a mask; at its source the lower half of its number among that source's.
    pub(crate) allowed: u32,
}

/// Fields that only source and destination need.
#[derive(Clone, Copy)]
pub(crate) struct Cold {
    pub(crate) at: Tick,
    pub(crate) tag: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
}

/// A packet that leaves a pool is in no queue.
impl Packed for Hot {
    fn pack(&self, out: &mut Vec<u8>) {
        self.route.lo.pack(out);
        self.route.hi.pack(out);
        self.flits.pack(out);
        self.routers.pack(out);
        self.out.pack(out);
        self.came.pack(out);
        self.allowed.pack(out);
    }
    fn unpack(from: &mut &[u8]) -> Option<Hot> {
        let route = RouteState { lo: u64::unpack(from)?, hi: u64::unpack(from)? };
        let (flits, routers) = (u16::unpack(from)?, u16::unpack(from)?);
        let (out, came, allowed) = (u16::unpack(from)?, u16::unpack(from)?, u32::unpack(from)?);
        Some(Hot { route, next: PacketHandle::NONE, flits, routers, out, came, allowed })
    }
}

impl Packed for Cold {
    fn pack(&self, out: &mut Vec<u8>) {
        self.at.pack(out);
        self.tag.pack(out);
        self.src.pack(out);
        self.dst.pack(out);
    }
    fn unpack(from: &mut &[u8]) -> Option<Cold> {
        Some(Cold { at: u64::unpack(from)?, tag: u64::unpack(from)?, src: u32::unpack(from)?, dst: u32::unpack(from)? })
    }
}

/// All packets under way.
#[derive(Default)]
pub(crate) struct Pool {
    pub(crate) hot: Vec<Hot>,
    pub(crate) cold: Vec<Cold>,
    free: PacketHandle,
    live: usize,
}

impl Pool {
    /// Stores a packet. Handles are reused at once; no result may depend on their values.
    #[inline]
    pub(crate) fn insert(&mut self, p: &Injection, route: RouteState, number: u64) -> PacketHandle {
        let allowed = number as u32;
        let (flits, next) = (p.flits, PacketHandle::NONE);
        let hot = Hot { route, next, flits, routers: 0, out: 0, came: flits, allowed };
        self.put(hot, Cold { at: p.at, tag: p.tag, src: p.src, dst: p.dst })
    }
    /// Stores a packet that another pool held.
    #[inline]
    pub(crate) fn put(&mut self, hot: Hot, cold: Cold) -> PacketHandle {
        self.live += 1;
        if self.free.is_some() {
            let h = self.free;
            self.free = self.hot[h.index()].next;
            self.hot[h.index()] = hot;
            self.cold[h.index()] = cold;
            h
        } else {
            self.hot.push(hot);
            self.cold.push(cold);
            PacketHandle::new(self.hot.len() as u32 - 1)
        }
    }
    /// Forgets packet `h` and returns how it arrived.
    #[inline]
    pub(crate) fn remove(&mut self, h: PacketHandle, tail: Tick) -> Delivery {
        let Cold { at, tag, src, dst } = self.cold[h.index()];
        let hot = &mut self.hot[h.index()];
        let delivery = Delivery { tail, src, dst, tag, at, flits: hot.flits, routers: hot.routers };
        hot.next = self.free;
        self.free = h;
        self.live -= 1;
        delivery
    }
    /// Forgets packet `h` and returns it, to be put into another pool.
    #[inline]
    pub(crate) fn take(&mut self, h: PacketHandle) -> (Hot, Cold) {
        let packet = (self.hot[h.index()], self.cold[h.index()]);
        self.hot[h.index()].next = self.free;
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
    pub(crate) head: PacketHandle,
    tail: PacketHandle,
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: PacketHandle::NONE, tail: PacketHandle::NONE };
    /// Appends `h`; true if the queue was empty.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &mut Pool, h: PacketHandle) -> bool {
        pool.hot[h.index()].next = PacketHandle::NONE;
        let was_empty = self.head.is_none();
        if was_empty {
            self.head = h;
        } else {
            pool.hot[self.tail.index()].next = h;
        }
        self.tail = h;
        was_empty
    }
    /// Takes the head off (the queue must not be empty) and returns it.
    #[inline(always)]
    pub(crate) fn pop(&mut self, pool: &Pool) -> PacketHandle {
        let h = self.head;
        self.head = pool.hot[h.index()].next;
        h
    }
}
