//! The two queues of an injection channel: the ring of packet flits and the DMA descriptors.
//!
//! Both are single-producer single-consumer; the producer is one client, the consumer the
//! daemon's data plane. Posts of either kind carry one shared sequence number ([`next_seq`]), so
//! the daemon takes them in the order they were posted. Indices run freely over u32 and are
//! reduced modulo the capacity only to address memory.
//!
//! The producer is trusted with nothing: the consumer copies each descriptor and flit once,
//! checks the copy, and refuses a tail that runs more than one capacity ahead.

use crate::desc::Words;
use crate::memory::sync::{AtomicU32, AtomicU64, Ordering};
use crate::packet::{Flit, Header, PacketError, Tail};

/// Flits in an injection ring: 64 KiB (one of 16 windows of a 1 MiB BAR2).
pub const RING_FLITS: usize = 4096;
/// Descriptors in a DMA queue: 64 KiB (one of 16 windows of a 1 MiB BAR4).
pub const DMA_SLOTS: usize = 1024;

/// First sequence number of a channel.
pub const FIRST_SEQ: u32 = 1;

/// The post after `seq`. 0 is skipped: untouched memory must not look like a post.
pub fn next_seq(seq: u32) -> u32 {
    match seq.wrapping_add(1) {
        0 => 1,
        n => n,
    }
}

/// Memory of both queues, real or modelled. `tx_tail` is written by the client, the heads by the
/// daemon. Capacities are powers of two.
pub trait QueueMemory {
    /// Capacity of the ring in flits.
    fn ring_flits(&self) -> usize;
    /// Capacity of the descriptor queue.
    fn dma_slots(&self) -> usize;
    /// Half `half` (0 low, 1 high) of flit `index`, `index` < capacity.
    fn flit(&self, index: usize, half: usize) -> &AtomicU64;
    /// Word `word` (0..8) of slot `slot`.
    fn slot(&self, slot: usize, word: usize) -> &AtomicU64;
    /// Flits the client has made visible.
    fn tx_tail(&self) -> &AtomicU32;
    /// Flits the daemon has taken.
    fn tx_head(&self) -> &AtomicU32;
    /// Descriptors the daemon has taken.
    fn dma_head(&self) -> &AtomicU32;
}

/// No room: the daemon has not taken enough yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The client's end.
#[derive(Clone, Debug)]
pub struct Producer {
    /// Number of the next post.
    seq: u32,
    /// Flits written to the ring so far, modulo 2^32.
    tx_tail: u32,
    /// Descriptors written to the queue so far, modulo 2^32.
    dma_tail: u32,
    /// Flits that the daemon had taken at the last look. A look takes its cache line from the daemon, so it happens
    /// only when there is no room otherwise.
    tx_head: u32,
    dma_head: u32,
}

impl Default for Producer {
    fn default() -> Self {
        Producer { seq: FIRST_SEQ, tx_tail: 0, dma_tail: 0, tx_head: 0, dma_head: 0 }
    }
}

/// True if there is room for `more` behind `tail` in a queue that holds `capacity`, looking at the head only if the one
/// `seen` last leaves none.
#[inline]
fn has_room(tail: u32, seen: &mut u32, head: &AtomicU32, more: usize, capacity: usize) -> bool {
    if tail.wrapping_sub(*seen) as usize + more > capacity {
        *seen = head.load(Ordering::Acquire);
    }
    tail.wrapping_sub(*seen) as usize + more <= capacity
}

impl Producer {
    /// Sequence number the next post will carry.
    pub fn next_seq(&self) -> u32 {
        self.seq
    }

    /// Posts a descriptor; its sequence field is filled in. Returns the sequence number.
    #[inline]
    pub fn post(&mut self, mem: &impl QueueMemory, mut words: Words) -> Result<u32, Full> {
        if !has_room(self.dma_tail, &mut self.dma_head, mem.dma_head(), 1, mem.dma_slots()) {
            return Err(Full);
        }
        let slot = self.dma_tail as usize & (mem.dma_slots() - 1);
        let seq = self.seq;
        words[0] = words[0] & !0xffff_ffff | seq as u64;
        for (i, word) in words.iter().enumerate().skip(1) {
            mem.slot(slot, i).store(*word, Ordering::Relaxed);
        }
        // SYNC POINT descriptor: pairs with the acquire load in `Consumer::next`.
        mem.slot(slot, 0).store(words[0], Ordering::Release);
        self.dma_tail = self.dma_tail.wrapping_add(1);
        self.seq = next_seq(seq);
        Ok(seq)
    }

    /// Writes a packet (header, data flits, tail) into the ring and makes it visible. The tail's
    /// tag is replaced by the post sequence; the daemon fills in source, route and checksum.
    pub fn inject(&mut self, mem: &impl QueueMemory, packet: &[Flit]) -> Result<u32, Full> {
        if !has_room(self.tx_tail, &mut self.tx_head, mem.tx_head(), packet.len(), mem.ring_flits()) {
            return Err(Full);
        }
        let seq = self.seq;
        for (i, &flit) in packet.iter().enumerate() {
            let flit = match i + 1 == packet.len() {
                true => flit & ((1 << 104) - 1) | ((seq & 0xff_ffff) as u128) << 104,
                false => flit,
            };
            let at = self.tx_tail.wrapping_add(i as u32) as usize & (mem.ring_flits() - 1);
            mem.flit(at, 0).store(flit as u64, Ordering::Relaxed);
            mem.flit(at, 1).store((flit >> 64) as u64, Ordering::Relaxed);
        }
        self.tx_tail = self.tx_tail.wrapping_add(packet.len() as u32);
        // SYNC POINT doorbell: pairs with the acquire load in `Consumer::next`.
        mem.tx_tail().store(self.tx_tail, Ordering::Release);
        self.seq = next_seq(seq);
        Ok(seq)
    }
}

/// One post taken from a channel.
// A post lives on the data plane's stack for one iteration; boxing the packet would allocate there.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Post {
    /// A copy of a descriptor's words, not yet validated.
    Descriptor(Words),
    /// A packet from the ring: its decoded header, its tail, and its data flits.
    Packet {
        /// Sequence number.
        seq: u32,
        /// Decoded header.
        header: Header,
        /// Decoded tail (tag is the sequence).
        tail: Tail,
        /// Data flits; the first `header.data_flits` are meaningful.
        data: [Flit; 16],
    },
}

/// Why the consumer stopped trusting a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueueError {
    /// The doorbell ran further ahead than the ring is long.
    #[error("doorbell {tail} is more than {capacity} flits ahead of head {head}")]
    Doorbell {
        /// Doorbell that the client wrote, in flits.
        tail: u32,
        /// Flits that the daemon has taken.
        head: u32,
        /// Capacity of the ring in flits.
        capacity: usize,
    },
    /// A packet is visible whose turn can never come: the posts before it do not exist.
    #[error("ring packet carries sequence {tag:#08x} where {want:#08x} is due and no descriptor fills the gap")]
    Sequence {
        /// Low 24 bits of the sequence the packet carries.
        tag: u32,
        /// Low 24 bits of the sequence that is due.
        want: u32,
    },
    /// The next ring packet cannot be decoded.
    #[error("ring packet: {0}")]
    Packet(#[from] PacketError),
}

/// The daemon's end.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Number of the post that is due.
    seq: u32,
    /// Flits taken from the ring so far, modulo 2^32.
    tx_head: u32,
    /// Descriptors taken from the queue so far, modulo 2^32.
    dma_head: u32,
}

impl Default for Consumer {
    fn default() -> Self {
        Consumer { seq: FIRST_SEQ, tx_head: 0, dma_head: 0 }
    }
}

impl Consumer {
    /// Sequence number of the post to be taken next.
    pub fn expected(&self) -> u32 {
        self.seq
    }

    /// True if a post may be waiting, without taking it.
    #[inline]
    pub fn has_work(&self, mem: &impl QueueMemory) -> bool {
        let slot = self.dma_head as usize & (mem.dma_slots() - 1);
        mem.slot(slot, 0).load(Ordering::Acquire) as u32 == self.seq
            || mem.tx_tail().load(Ordering::Acquire) != self.tx_head
    }

    /// Takes the next post in sequence, if it is there.
    pub fn next(&mut self, mem: &impl QueueMemory) -> Result<Option<Post>, QueueError> {
        if let Some(words) = self.take_descriptor(mem) {
            return Ok(Some(Post::Descriptor(words)));
        }
        let tail = mem.tx_tail().load(Ordering::Acquire);
        let ready = tail.wrapping_sub(self.tx_head) as usize;
        if ready == 0 {
            return Ok(None);
        }
        if ready > mem.ring_flits() {
            return Err(QueueError::Doorbell { tail, head: self.tx_head, capacity: mem.ring_flits() });
        }
        let flit = |i: usize| {
            let at = self.tx_head.wrapping_add(i as u32) as usize & (mem.ring_flits() - 1);
            let (lo, hi) = (mem.flit(at, 0).load(Ordering::Relaxed), mem.flit(at, 1).load(Ordering::Relaxed));
            lo as Flit | (hi as Flit) << 64
        };
        let header = Header::decode(flit(0))?;
        let n = header.data_flits as usize;
        if ready < n + 2 {
            return Err(PacketError::Length { have: ready, want: n + 2 }.into());
        }
        let tail = Tail::decode(flit(n + 1));
        let want = self.seq & 0xff_ffff;
        if tail.tag != want {
            // Descriptors posted before this packet became visible before the doorbell did, so one
            // of them is due now. If none is, the packet would block the ring for ever and keep
            // `has_work` true: the client broke the protocol.
            return match self.take_descriptor(mem) {
                Some(words) => Ok(Some(Post::Descriptor(words))),
                None => Err(QueueError::Sequence { tag: tail.tag, want }),
            };
        }
        let mut data = [0; 16];
        for (i, d) in data.iter_mut().enumerate().take(n) {
            *d = flit(i + 1);
        }
        let seq = self.seq;
        self.tx_head = self.tx_head.wrapping_add(n as u32 + 2);
        self.seq = next_seq(seq);
        mem.tx_head().store(self.tx_head, Ordering::Release);
        Ok(Some(Post::Packet { seq, header, tail, data }))
    }

    fn take_descriptor(&mut self, mem: &impl QueueMemory) -> Option<Words> {
        let slot = self.dma_head as usize & (mem.dma_slots() - 1);
        let first = mem.slot(slot, 0).load(Ordering::Acquire);
        if first as u32 != self.seq {
            return None;
        }
        let mut words = [first; 8];
        for (i, word) in words.iter_mut().enumerate().skip(1) {
            *word = mem.slot(slot, i).load(Ordering::Relaxed);
        }
        self.dma_head = self.dma_head.wrapping_add(1);
        self.seq = next_seq(self.seq);
        mem.dma_head().store(self.dma_head, Ordering::Release);
        Some(words)
    }
}
