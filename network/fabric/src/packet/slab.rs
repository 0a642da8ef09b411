//! Packets in reusable slots, named by handles.
//!
//! Nothing is allocated per packet once the slab has grown to the traffic it sees.

use super::handle::PacketHandle;
use crate::routes::{NONE, Way};
use crate::types::{JobSlot, Tick};
use angara_abi::PAYLOAD_MAX;
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::packet::{PacketType, ReduceElem, ReduceOp, data_flits};

/// Bits of [`Packet::flags`].
pub(crate) mod flag {
    /// Still free to leave its deterministic route.
    pub(crate) const ADAPTIVE: u16 = 1 << 0;
    /// Its job is gone: discard where it is met next.
    pub(crate) const DEAD: u16 = 1 << 1;
    /// Sent before a route change its pair waits for.
    pub(crate) const OLD: u16 = 1 << 2;
    /// Last packet of its operation (or of one read request).
    pub(crate) const LAST: u16 = 1 << 3;
    /// Waits for memory.
    pub(crate) const AWAIT: u16 = 1 << 4;
    /// The target answers with the old value.
    pub(crate) const ANSWER: u16 = 1 << 5;
    /// Counted as injected.
    pub(crate) const INJECTED: u16 = 1 << 6;
    /// Not a packet: flushes a queue for a barrier and takes no slot in it.
    pub(crate) const MARKER: u16 = 1 << 7;
    /// Result of a reduction goes to every participant.
    pub(crate) const ALL: u16 = 1 << 8;
    /// Full barrier. On data, with `ODD`: barriers its sender had left, modulo 4.
    pub(crate) const FULL: u16 = 1 << 9;
    /// Parity of the barrier.
    pub(crate) const ODD: u16 = 1 << 10;
    /// Result of a reduction on its way to one node.
    pub(crate) const RESULT: u16 = 1 << 11;
    /// May use the adaptive channel, as posted.
    pub(crate) const MAY_ADAPT: u16 = 1 << 12;
    /// Came over a boundary link from a node modelled elsewhere.
    pub(crate) const FOREIGN: u16 = 1 << 13;
    /// Last answer to a read request: reopens the requester's window.
    pub(crate) const READ: u16 = 1 << 14;
    /// Simulated: length only, no operation and no contents; see [`super::Detail::Raw`].
    pub(crate) const RAW: u16 = 1 << 15;
}

/// Rates at which a packet's flits follow each other; see [`crate::chip`].
pub(crate) mod rate {
    /// Of the port through which it was injected.
    pub(crate) const PORT: u8 = 0;
    pub(crate) const LINK: u8 = 1;
    /// The chip's own, all flits being there.
    pub(crate) const WHOLE: u8 = 2;
    pub(crate) const COUNT: usize = 3;
}

/// A packet on its way. What every hop needs is the first cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    pub(crate) way: Way,
    /// From when it may ask for outputs in the queue it is in, if it is in front.
    pub(crate) ready: Tick,
    pub(crate) next: PacketHandle,
    /// Node of that queue.
    pub(crate) node: u32,
    pub(crate) dst: u32,
    pub(crate) src: u32,
    pub(crate) payload: u32,
    pub(crate) flags: u16,
    pub(crate) job: JobSlot,
    pub(crate) bytes: u16,
    /// Routers passed.
    pub(crate) routers: u16,
    /// Flits of the packet; for a train, of all its packets.
    pub(crate) flits: u16,
    pub(crate) kind: PacketType,
    /// Class channel: response or request, or a collective one.
    pub(crate) vc: u8,
    pub(crate) rate: u8,
    pub(crate) queue: u8,
    pub(crate) class: u8,
    pub(crate) region: Region,
    /// Injection and ejection channels.
    pub(crate) from_channel: u8,
    pub(crate) to_channel: u8,
    live: bool,
    generation: u32,
    pub(crate) src_ep: u16,
    pub(crate) dst_ep: u16,
    /// Index of the posting port, [`NONE`] for answers and for the network's own packets.
    pub(crate) port: u32,
    pub(crate) offset: u64,
    /// Operation (index and generation) that waits for the answer or for the injection.
    pub(crate) op: u64,
    /// Order of creation.
    pub(crate) serial: u64,
    /// When its operation was posted.
    pub(crate) posted: Tick,
    pub(crate) detail: Detail,
}

/// Fields that only some kinds of packet carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    None,
    /// Read request: where the answer goes, and how many bytes.
    Read {
        back: Place,
        len: u32,
    },
    /// Atomic.
    Amo {
        op: AmoOp,
        width: u8,
        operand: u64,
        comparand: u64,
        back: Option<Place>,
    },
    /// Simulated packet: what its sender calls it, and when it was ready.
    Raw {
        tag: u64,
        at: Tick,
    },
    /// Collective.
    Tree {
        tree: u8,
        reduce: u8,
        op: ReduceOp,
        elem: ReduceElem,
        generation: u32,
    },
}

impl Packet {
    pub(crate) fn new(kind: PacketType) -> Packet {
        Packet {
            way: Way::default(),
            ready: 0,
            next: PacketHandle::NONE,
            node: NONE,
            dst: 0,
            src: 0,
            payload: NONE,
            flags: 0,
            job: JobSlot::default(),
            bytes: 0,
            routers: 0,
            kind,
            vc: 1,
            flits: 2,
            rate: rate::PORT,
            queue: NO_QUEUE,
            class: 3,
            region: Region::Heap,
            from_channel: 0,
            to_channel: 0,
            live: true,
            generation: 0,
            src_ep: 0,
            dst_ep: 0,
            port: NONE,
            offset: 0,
            op: NO_OP,
            serial: 0,
            posted: 0,
            detail: Detail::None,
        }
    }
    #[inline]
    pub(crate) fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
    /// Waits in a queue of a router.
    pub(crate) fn is_queued(&self) -> bool {
        self.queue < RETAINED
    }
    /// More than one packet, travelling as one: see [`crate::Config::trains`].
    #[inline]
    pub(crate) fn is_train(&self) -> bool {
        self.bytes as usize > PAYLOAD_MAX
    }
    /// Packets the chip would send for it.
    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        packets_for(self.bytes)
    }
    pub(crate) fn place(&self) -> Place {
        Place { region: self.region, offset: self.offset }
    }
}

/// Packets for N bytes.
#[inline]
pub(crate) fn packets_for(bytes: u16) -> u64 {
    (bytes as u64).div_ceil(PAYLOAD_MAX as u64).max(1)
}

/// Flits of the packets for `bytes` bytes.
pub(crate) fn flits_for(bytes: usize) -> u16 {
    let (whole, rest) = (bytes / PAYLOAD_MAX, bytes % PAYLOAD_MAX);
    let last = if rest > 0 || whole == 0 { 2 + data_flits(rest) } else { 0 };
    (whole * angara_abi::PACKET_FLITS_MAX + last) as u16
}

/// Not in a queue.
pub(crate) const NO_QUEUE: u8 = u8::MAX;
/// In another part of the network; this is the source's copy.
pub(crate) const RETAINED: u8 = NO_QUEUE - 1;
/// Belongs to no operation.
pub(crate) const NO_OP: u64 = u64::MAX;

/// All live packets.
#[derive(Default, Debug)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: Vec<PacketHandle>,
    serial: u64,
}

impl Packets {
    /// Stores `packet` and gives it the next serial number.
    #[inline]
    pub(crate) fn alloc(&mut self, mut packet: Packet) -> PacketHandle {
        self.serial += 1;
        packet.serial = self.serial;
        packet.live = true;
        if let Some(h) = self.free.pop() {
            packet.generation = self.slots[h.index()].generation;
            self.slots[h.index()] = packet;
            return h;
        }
        self.slots.push(packet);
        PacketHandle::new(self.slots.len() as u32 - 1)
    }
    #[inline]
    pub(crate) fn free(&mut self, h: PacketHandle) {
        let slot = &mut self.slots[h.index()];
        debug_assert!(slot.live, "{h:?} freed twice");
        slot.generation = slot.generation.wrapping_add(1);
        slot.live = false;
        self.free.push(h);
    }
    /// The packet in a slot, if there is such a slot.
    #[inline(always)]
    pub(crate) fn get(&self, h: PacketHandle) -> Option<&Packet> {
        self.slots.get(h.index())
    }
    /// The packet a token names, unless it has gone.
    pub(crate) fn by_token(&self, token: u64) -> Option<PacketHandle> {
        let h = PacketHandle::new(token as u32);
        let slot = self.slots.get(h.index())?;
        (slot.live && slot.generation == (token >> 32) as u32 && slot.is(flag::AWAIT)).then_some(h)
    }
    pub(crate) fn token(&self, h: PacketHandle) -> u64 {
        h.number() as u64 | (self.slots[h.index()].generation as u64) << 32
    }
    /// Handles of live packets, in order of handle.
    pub(crate) fn handles(&self) -> Vec<PacketHandle> {
        (0..self.slots.len() as u32).map(PacketHandle::new).filter(|h| self[*h].live).collect()
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Packet>() + self.free.capacity() * size_of::<PacketHandle>()
    }
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl std::ops::Index<PacketHandle> for Packets {
    type Output = Packet;
    #[inline]
    fn index(&self, h: PacketHandle) -> &Packet {
        &self.slots[h.index()]
    }
}

impl std::ops::IndexMut<PacketHandle> for Packets {
    #[inline]
    fn index_mut(&mut self, h: PacketHandle) -> &mut Packet {
        &mut self.slots[h.index()]
    }
}
