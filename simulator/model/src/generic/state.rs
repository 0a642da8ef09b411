//! State of the channels of `generic` routers and of sources, and what is due in the next cycles.

use crate::pool::{Cold, Hot, Pool, Queue};
use crate::routers::mask::{Bits, Field};
use crate::routers::network::{self, Switched};
use crate::routers::news::Change;
use crate::routers::router::{Input, Router};
use crate::routers::slow::SlowLinks;
use crate::routers::timing::{WINDOW, soon_cycles};
use crate::routers::view::Output;
use angara_fabric::raw::{Delivery, Packed, PacketHandle};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

/// State of an input channel's first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ChannelState {
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
pub(crate) struct InVc<F> {
    pub(super) queue: Queue,
    /// The output channel the first packet has, or channel 0 of the output port it wants.
    pub(super) out: u16,
    /// Round robin over output channels.
    pub(super) turn: u16,
    /// Length of the first packet.
    pub(super) flits: u16,
    /// Channels it may use at the output port.
    pub(super) allowed: F,
    pub(super) state: ChannelState,
}

/// An output virtual channel: what is known of the buffer at the other end.
#[derive(Clone, Copy)]
pub(crate) struct OutVc {
    pub(super) credits: u16,
    /// Credits its owner waits for; 0 if it does not wait.
    pub(super) wanted: u16,
    /// Input channel that owns it, if one does.
    pub(super) owner: u16,
    /// Round robin over input channels.
    pub(super) turn: u16,
}

impl Output for OutVc {
    #[inline(always)]
    fn credits(&self) -> u16 {
        self.credits
    }
    #[inline(always)]
    fn owner(&self) -> u16 {
        self.owner
    }
    #[inline(always)]
    fn give(&mut self, i: u16) {
        (self.owner, self.turn) = (i, i + 1);
    }
    #[inline(always)]
    fn turn(&self) -> u16 {
        self.turn
    }
}

impl<F: Field> Input for InVc<F> {
    type Output = OutVc;
    #[inline(always)]
    fn out(&self) -> u32 {
        self.out.into()
    }
    #[inline(always)]
    fn allowed(&self) -> u32 {
        self.allowed.into()
    }
    #[inline(always)]
    fn turn(&self) -> u32 {
        self.turn.into()
    }
    #[inline(always)]
    fn take(&mut self, o: u16, out: &mut OutVc) -> bool {
        (self.out, self.turn) = (o, o + 1);
        self.state = ChannelState::Active;
        let has = out.credits >= self.flits;
        if !has {
            out.wanted = self.flits;
        }
        has
    }
}

impl<F: Field, const N: usize, const P: usize, const W: usize> Router<InVc<F>, (), N, P, W> {
    /// The first packet of input channel `i` asks for an output channel.
    #[inline(always)]
    pub(super) fn compete(&mut self, i: u32, pool: &Pool) {
        let input = self.input(i);
        let hot = &pool.hot[input.queue.head.index()];
        input.out = hot.out;
        input.allowed = F::of(hot.allowed);
        input.flits = hot.flits;
        input.state = ChannelState::Allocating;
        self.allocating.set(i);
    }
}

/// An endpoint that sends.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(super) queue: Queue,
    /// First cycle at which it may send again.
    pub(super) free_at: u64,
    pub(super) sequence: u64,
    /// Channel 0 of the input port it is attached to.
    pub(super) channel: u32,
    pub(super) last_vc: u8,
}

impl network::Source for Source {
    fn sequence(&mut self) -> &mut u64 {
        &mut self.sequence
    }
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }
    fn push(&mut self, pool: &mut Pool, packet: PacketHandle) -> bool {
        self.queue.push(pool, packet)
    }
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

impl From<Change> for Message {
    fn from(change: Change) -> Message {
        Message::Queue(change)
    }
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
    /// Of slow links: packets that may line up in an input channel, input channels that are free, output channels.
    pub(super) held_back: Vec<(u32, PacketHandle)>,
    pub(super) inputs: Vec<u32>,
    pub(super) links: Vec<u32>,
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
        self.tails.is_empty()
            && self.sources.is_empty()
            && self.deliveries.is_empty()
            && self.held_back.is_empty()
            && self.inputs.is_empty()
            && self.links.is_empty()
    }
    fn memory_bytes(&self) -> usize {
        let words = self.tails.capacity() + self.sources.capacity() + self.deliveries.capacity();
        let slow = 2 * self.held_back.capacity() + self.inputs.capacity() + self.links.capacity();
        (words + slow) * 4 + size_of::<Later>()
    }
}

/// Everything that is due, by cycle and block.
pub(crate) struct Calendar {
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
    pub(super) fn new(reach: usize, extra: u16, blocks: usize, block_shift: u32) -> Calendar {
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
}

impl network::Calendar for Calendar {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.now
    }
    fn set(&mut self, now: u64) {
        self.now = now;
    }
    fn memory_bytes(&self) -> usize {
        self.soon.iter().map(Soon::memory_bytes).sum::<usize>()
            + self.later.iter().map(Later::memory_bytes).sum::<usize>()
    }
}

/// A range of routers, and the sources attached to them, whose state fits into a core's cache.
#[derive(Default)]
pub(crate) struct Block {
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

/// All blocks of a range of routers.
#[derive(Default)]
pub(crate) struct Blocks {
    pub(super) blocks: Vec<Block>,
    /// The block being processed; an empty one is in its place meanwhile.
    pub(super) here: Block,
    pub(super) arrived: Arrived,
    pub(super) slow: SlowLinks,
}

/// A packet passes a router as a whole; adaptively if `A`.
pub(crate) struct CutThrough<F, const A: bool>(PhantomData<F>);

impl<F: Field, const A: bool, const W: usize> Switched<W> for CutThrough<F, A> {
    const FLITS: bool = false;
    type Input = InVc<F>;
    type Own = ();
    type Source = Source;
    type Calendar = Calendar;
    type Message = Message;
    type All = Blocks;
}

/// Arrivals by cycle of the window.
pub(super) type Arrived = [Vec<Delivery>; WINDOW as usize];
