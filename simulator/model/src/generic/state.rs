//! State of the `generic` router, laid out so that little memory is touched per packet and hop.
//!
//! Everything about one router lies together ([`Router`]): places for `P` ports and `N` channels, both powers of
//! two. Channels are numbered port · N/P + channel, and sets of them are masks of `W` words
//! ([`Mask`]); most routers have few enough channels for one word.

use super::news::Change;
use super::view::Output;
use crate::pool::{Cold, Hot, Pool, Queue};
use angara_fabric::Tick;
use angara_fabric::bits::round_robin;
use angara_fabric::raw::{Delivery, Packed, PacketHandle};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// From a switch grant to the head's arrival at the next router, over a link of one cycle: crossbar 1, link 2 (one in
/// flight, one to be written and read). A longer link takes so much longer.
pub(crate) const GRANT_TO_ARRIVAL: usize = 3;
/// From a switch grant to its credit being usable upstream: channel 2, processing 2.
pub(crate) const GRANT_TO_CREDIT: usize = 4;
/// From a switch grant to an ejection channel until its credit is back: 3 to the endpoint, then 4.
pub(crate) const EJECT_TO_CREDIT: usize = 7;
/// From a switch grant to its credit being usable by the source.
pub(crate) const GRANT_TO_SOURCE_CREDIT: usize = 2;

/// Cycles that a block or part may be taken through before the others have been.
pub(crate) const WINDOW: u64 =
    if GRANT_TO_ARRIVAL < GRANT_TO_CREDIT { GRANT_TO_ARRIVAL } else { GRANT_TO_CREDIT } as u64;

pub(crate) const NO_OWNER: u16 = u16::MAX;

/// A set of a router's channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask<const W: usize>([u64; W]);

impl<const W: usize> Mask<W> {
    pub(crate) const NONE: Self = Mask([0; W]);

    #[inline(always)]
    pub(crate) fn set(&mut self, i: u32) {
        self.0[i as usize / 64 % W] |= 1 << (i % 64);
    }
    #[inline(always)]
    pub(crate) fn clear(&mut self, i: u32) {
        self.0[i as usize / 64 % W] &= !(1 << (i % 64));
    }
    #[inline(always)]
    pub(crate) fn has(&self, i: u32) -> bool {
        self.0[i as usize / 64 % W] >> (i % 64) & 1 != 0
    }
    /// Those of both sets.
    pub(crate) fn common(mut self, other: Self) -> Self {
        (0..W).for_each(|w| self.0[w] &= other.0[w]);
        self
    }
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|&w| w != 0)
    }
    #[inline(always)]
    pub(crate) fn add(&mut self, other: Self) {
        (0..W).for_each(|w| self.0[w] |= other.0[w]);
    }
    /// `width` channels from `first` on, which do not straddle words.
    #[inline(always)]
    pub(crate) fn field(&self, first: u32, width: u32) -> u32 {
        (self.0[first as usize / 64 % W] >> (first % 64)) as u32 & ((1 << width) - 1)
    }
    /// Takes the lowest channel out.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        for w in 0..W {
            let word = self.0[w];
            if word != 0 {
                self.0[w] = word & (word - 1);
                return Some((w * 64) as u32 + word.trailing_zeros());
            }
        }
        None
    }
    /// Takes out all channels of the lowest field of `width` that has one: the field's first and its channels.
    #[inline(always)]
    pub(crate) fn pop_field(&mut self, width: u32) -> Option<(u32, u32)> {
        for w in 0..W {
            let word = self.0[w];
            if word != 0 {
                let first = word.trailing_zeros() & !(width - 1);
                let field = (word >> first) as u32 & ((1 << width) - 1);
                self.0[w] = word & !((field as u64) << first);
                return Some(((w * 64) as u32 + first, field));
            }
        }
        None
    }
    /// The first channel at or after `turn`, else the first of all; the set is not empty.
    #[inline(always)]
    pub(crate) fn round_robin(&self, turn: u32) -> u32 {
        if W == 1 {
            return round_robin(self.0[0], turn);
        }
        let above = |w: usize| match (turn as usize).checked_sub(w * 64) {
            Some(t) if t >= 64 => 0,
            Some(t) => self.0[w] & (u64::MAX << t),
            None => self.0[w],
        };
        let first = (0..W).map(|w| (w, above(w))).find(|x| x.1 != 0);
        let (w, word) = first.or_else(|| (0..W).map(|w| (w, self.0[w])).find(|x| x.1 != 0)).unwrap_or_default();
        (w * 64) as u32 + word.trailing_zeros()
    }
}

/// State of an input channel's first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ChannelState {
    /// No packet.
    Idle,
    /// Its head wants an output channel.
    Allocating,
    /// Its head owns one and wants the switch, or waits for credits.
    Active,
    /// Its packet is streaming; the tail has not left.
    Streaming,
}

/// An input virtual channel.
#[derive(Clone, Copy)]
pub(super) struct InVc {
    pub(super) queue: Queue,
    /// The output channel the first packet has, or channel 0 of the output port it wants.
    pub(super) out: u16,
    /// Round robin over output channels.
    pub(super) turn: u16,
    /// Length of the first packet.
    pub(super) flits: u16,
    /// Channels it may use at the output port.
    pub(super) allowed: u8,
    pub(super) state: ChannelState,
}

/// An output virtual channel: what is known of the buffer at the other end.
#[derive(Clone, Copy)]
pub(super) struct OutVc {
    pub(super) credits: u16,
    /// Credits its owner waits for; 0 if it does not wait.
    pub(super) wanted: u16,
    /// Input channel that owns it, if one does.
    pub(super) owner: u16,
    /// Round robin over input channels.
    pub(super) turn: u16,
}

impl Output for OutVc {
    fn credits(&self) -> u16 {
        self.credits
    }
    fn owner(&self) -> u16 {
        self.owner
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Open,
    Router,
    Endpoint,
    /// A router of another part.
    Away,
}

/// One port, input and output side.
#[derive(Clone, Copy)]
pub(crate) struct Port {
    /// Base of the far port's channels (in its part), or the endpoint.
    pub(crate) peer: u32,
    pub(crate) wire: Wire,
    /// The part of the far port.
    pub(crate) part: u16,
    /// Input side: next channel for an output; next output. Output side: next input.
    pub(crate) vc_turn: u8,
    pub(crate) out_turn: u8,
    pub(crate) in_turn: u8,
    /// Cycles beyond one that a flit takes on the link, and a credit in the other direction.
    pub(crate) extra: u8,
}

/// A router: places for `N` channels of `P` ports.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Router<const N: usize, const P: usize, const W: usize> {
    /// Input channels that want an output channel.
    pub(super) allocating: Mask<W>,
    /// Input channels that want the switch and have the credits.
    pub(super) ready: Mask<W>,
    /// Output channels without owner.
    pub(super) free: Mask<W>,
    /// Ports a packet streams through.
    pub(super) in_busy: u64,
    pub(super) out_busy: u64,
    pub(super) ports: [Port; P],
    pub(super) outputs: [OutVc; N],
    pub(super) inputs: [InVc; N],
}

impl<const N: usize, const P: usize, const W: usize> Router<N, P, W> {
    /// Places for channels per port, and the log2 of it.
    pub(super) const WIDTH: u32 = (N / P) as u32;
    pub(super) const SHIFT: u32 = Self::WIDTH.trailing_zeros();

    #[inline(always)]
    pub(super) fn port(&mut self, p: u32) -> &mut Port {
        &mut self.ports[p as usize % P]
    }
    #[inline(always)]
    pub(super) fn input(&mut self, i: u32) -> &mut InVc {
        &mut self.inputs[i as usize % N]
    }
    #[inline(always)]
    pub(super) fn output(&mut self, o: u32) -> &mut OutVc {
        &mut self.outputs[o as usize % N]
    }
    /// The first packet of input channel `i` asks for an output channel.
    #[inline(always)]
    pub(super) fn compete(&mut self, i: u32, pool: &Pool) {
        let input = self.input(i);
        let hot = &pool.hot[input.queue.head.index()];
        input.out = hot.mark as u16;
        input.allowed = (hot.mark >> 16) as u8;
        input.flits = hot.flits;
        input.state = ChannelState::Allocating;
        self.allocating.set(i);
    }
}

/// An endpoint that sends.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) queue: Queue,
    /// First cycle at which it may send again.
    pub(super) free_at: u64,
    pub(super) sequence: u64,
    /// Channel 0 of the input port it is attached to.
    pub(super) channel: u32,
    pub(super) last_vc: u8,
}

/// Message from part to part. Channels are numbered as in the receiving part.
pub(crate) enum Message {
    /// The head of a packet arrives.
    Arrival {
        /// Input channel.
        channel: u32,
        /// The packet.
        hot: Hot,
        /// The packet.
        cold: Cold,
        /// It is traced.
        traced: bool,
    },
    /// Credits return.
    Credit {
        /// Output channel.
        channel: u32,
        /// How many.
        flits: u16,
    },
    /// A queue has changed.
    Queue(Change),
}

impl Packed for Message {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Message::Arrival { channel, hot, cold, traced } => {
                out.push(0);
                channel.pack(out);
                hot.pack(out);
                cold.pack(out);
                traced.pack(out);
            }
            Message::Credit { channel, flits } => {
                out.push(1);
                channel.pack(out);
                flits.pack(out);
            }
            Message::Queue(change) => {
                out.push(2);
                change.pack(out);
            }
        }
    }
    fn unpack(from: &mut &[u8]) -> Option<Message> {
        Some(match u8::unpack(from)? {
            0 => Message::Arrival {
                channel: u32::unpack(from)?,
                hot: Hot::unpack(from)?,
                cold: Cold::unpack(from)?,
                traced: bool::unpack(from)?,
            },
            1 => Message::Credit { channel: u32::unpack(from)?, flits: u16::unpack(from)? },
            2 => Message::Queue(Change::unpack(from)?),
            _ => return None,
        })
    }
}

/// Things due in one cycle in one block, a fixed and short time after their causes.
#[derive(Default)]
pub(super) struct Soon {
    /// (input channel, packet)
    pub(super) arrivals: Vec<(u32, PacketHandle)>,
    /// (output channel, flits)
    pub(super) credits: Vec<(u32, u32)>,
    /// (source channel, flits)
    pub(super) source_credits: Vec<(u32, u32)>,
}

/// Things due in one cycle in one block, perhaps a packet's length after their causes.
#[derive(Default)]
pub(super) struct Later {
    /// Input channels whose packet's tail has left.
    pub(super) tails: Vec<u32>,
    /// Sources to look at.
    pub(super) sources: Vec<u32>,
    pub(super) deliveries: Vec<PacketHandle>,
}

impl Soon {
    fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.credits.is_empty() && self.source_credits.is_empty()
    }
    fn memory_bytes(&self) -> usize {
        (self.arrivals.capacity() + self.credits.capacity() + self.source_credits.capacity()) * 8 + size_of::<Soon>()
    }
}

impl Later {
    fn is_empty(&self) -> bool {
        self.tails.is_empty() && self.sources.is_empty() && self.deliveries.is_empty()
    }
    fn memory_bytes(&self) -> usize {
        (self.tails.capacity() + self.sources.capacity() + self.deliveries.capacity()) * 4 + size_of::<Later>()
    }
}

/// Cycles for which things are kept that are due soon, if the longest link takes `extra` cycles more than one: a power
/// of two, and no more than necessary, so that the lists stay in a cache. Another block may be a window behind the one that
/// makes an entry.
pub(crate) fn soon_cycles(extra: u8) -> usize {
    (EJECT_TO_CREDIT + 1).max(GRANT_TO_CREDIT + usize::from(extra) + WINDOW as usize).next_power_of_two()
}

/// Everything that is due, by cycle and block.
pub(super) struct Calendar {
    soon: Vec<Soon>,
    later: Vec<Later>,
    /// The cycle being processed, or the next one.
    pub(super) now: u64,
    /// Cycles `later` covers, less 1: a power of two less 1.
    mask: usize,
    /// The same for `soon`.
    soon_mask: usize,
    blocks: usize,
    /// log2 of the channels of a block.
    block_shift: u32,
}

impl Calendar {
    /// For delays below `reach` cycles, and links that take at most `extra` cycles more than one.
    pub(super) fn new(reach: usize, extra: u8, blocks: usize, block_shift: u32) -> Calendar {
        let cycles = reach.next_power_of_two();
        let soon_mask = soon_cycles(extra) - 1;
        let soon = (0..(soon_mask + 1) * blocks).map(|_| Soon::default()).collect();
        let later = (0..cycles * blocks).map(|_| Later::default()).collect();
        Calendar { soon, later, now: 0, mask: cycles - 1, soon_mask, blocks, block_shift }
    }
    #[inline(always)]
    pub(super) fn block(&self, channel: u32) -> usize {
        (channel >> self.block_shift) as usize
    }
    #[inline(always)]
    fn soon_slot(&self, cycle: u64, block: usize) -> usize {
        (cycle as usize & self.soon_mask) * self.blocks + block
    }
    #[inline(always)]
    fn later_slot(&self, cycle: u64, block: usize) -> usize {
        (cycle as usize & self.mask) * self.blocks + block
    }
    /// Returns what is due at `channel`'s block, `delay` cycles from now.
    #[inline(always)]
    pub(super) fn soon(&mut self, delay: usize, channel: u32) -> &mut Soon {
        self.soon_at(self.now + delay as u64, channel)
    }
    /// Returns what is due at `channel`'s block in `cycle`.
    #[inline(always)]
    pub(super) fn soon_at(&mut self, cycle: u64, channel: u32) -> &mut Soon {
        let slot = self.soon_slot(cycle, self.block(channel));
        &mut self.soon[slot]
    }
    /// Returns what is due at `channel`'s block, `delay` cycles from now.
    #[inline(always)]
    pub(super) fn later(&mut self, delay: usize, channel: u32) -> &mut Later {
        let slot = self.later_slot(self.now + delay as u64, self.block(channel));
        &mut self.later[slot]
    }
    /// True if a delay is short enough to be entered here.
    pub(super) fn reaches(&self, delay: u64) -> bool {
        delay <= self.mask as u64
    }
    /// Takes what is due now in `block`; give the lists back when they have been worked off.
    pub(super) fn take(&mut self, block: usize) -> (Soon, Later) {
        let (soon, later) = (self.soon_slot(self.now, block), self.later_slot(self.now, block));
        (std::mem::take(&mut self.soon[soon]), std::mem::take(&mut self.later[later]))
    }
    pub(super) fn give_back(&mut self, block: usize, (soon, later): (Soon, Later)) {
        let slots = (self.soon_slot(self.now, block), self.later_slot(self.now, block));
        (self.soon[slots.0], self.later[slots.1]) = (soon, later);
    }
    /// The next cycle in which something is due.
    pub(super) fn next(&self) -> Option<u64> {
        let soon = |t, b| !self.soon[self.soon_slot(t, b)].is_empty();
        let later = |t, b| !self.later[self.later_slot(t, b)].is_empty();
        let near = self.now + self.soon_mask as u64 + 1;
        let mut cycles = self.now..=self.now + self.mask.max(self.soon_mask) as u64;
        let far = self.now + self.mask as u64;
        cycles.find(|&t| (0..self.blocks).any(|b| t < near && soon(t, b) || t <= far && later(t, b)))
    }
    pub(super) fn memory_bytes(&self) -> usize {
        self.soon.iter().map(Soon::memory_bytes).sum::<usize>()
            + self.later.iter().map(Later::memory_bytes).sum::<usize>()
    }
}

/// A set of small numbers.
#[derive(Default)]
pub(crate) struct Bits(pub(crate) Vec<u64>);

impl Bits {
    pub(crate) fn new(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }
    #[inline(always)]
    pub(crate) fn set(&mut self, i: u32) {
        self.0[i as usize >> 6] |= 1 << (i & 63);
    }
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|&w| w != 0)
    }
}

/// A range of routers, and the sources attached to them, whose state fits into a core's cache.
#[derive(Default)]
pub(super) struct Block {
    pub(super) first_router: u32,
    pub(super) first_source: u32,
    /// Routers that may have something to decide, counted from the block's first.
    pub(super) awake: Bits,
    /// Sources to look at, counted from the block's first.
    pub(super) sources: Bits,
    /// Sources whose next packet is not ready yet, by the cycle when it will be.
    pub(super) far: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Block {
    #[inline(always)]
    pub(super) fn wake(&mut self, router: u32) {
        self.awake.set(router - self.first_router);
    }
    #[inline(always)]
    pub(super) fn wake_source(&mut self, source: u32) {
        self.sources.set(source - self.first_source);
    }
    pub(super) fn memory_bytes(&self) -> usize {
        (self.awake.0.len() + self.sources.0.len()) * 8 + self.far.capacity() * 16
    }
}

/// The time of a cycle and the number of the cycle a time falls in.
#[derive(Clone, Copy)]
pub(crate) struct Clock(pub(crate) Tick);

impl Clock {
    #[inline(always)]
    pub(crate) fn time(self, cycle: u64) -> Tick {
        cycle * self.0
    }
    /// The first cycle at or after `time`.
    #[inline(always)]
    pub(crate) fn from(self, time: Tick) -> u64 {
        time.div_ceil(self.0)
    }
}

/// Arrivals by cycle of the window.
pub(super) type Arrived = [Vec<Delivery>; WINDOW as usize];
