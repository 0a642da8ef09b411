//! State of wormhole routers and sources, and what is due in the next cycles.

use crate::pool::{Cold, Hot, Pool, Queue};
use crate::routers::mask::{Bits, Field, Mask};
use crate::routers::network::{self, Switched};
use crate::routers::news::Change;
use crate::routers::router::{Input, Router};
use crate::routers::slow::SlowLinks;
use crate::routers::timing::soon_cycles;
use crate::routers::view::Output;
use angara_fabric::raw::{Packed, PacketHandle};
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
    /// It owns one; its head has not left.
    Head,
    /// Its head has left, its tail has not.
    Body,
}

/// An input virtual channel.
#[derive(Clone, Copy)]
pub(crate) struct InVc<F> {
    /// Flits in the buffer, of all packets.
    pub(super) present: u16,
    /// Flits that the first packet has yet to send; those not in the buffer are still to come.
    pub(super) left: u16,
    /// Flits still to come of a packet that was lost.
    pub(super) vanishing: u16,
    /// The output channel the first packet has, or channel 0 of the output port it wants.
    pub(super) out: u16,
    /// Round robin over output channels.
    pub(super) turn: u16,
    /// Channels the first packet may use at the output port.
    pub(super) allowed: F,
    pub(super) state: ChannelState,
    /// The first packet; of meaning until its head has left for another router.
    pub(super) front: PacketHandle,
    /// Packets behind the first one.
    pub(super) waiting: Queue,
}

impl<F: Field> InVc<F> {
    pub(super) const IDLE: Self = InVc {
        present: 0,
        left: 0,
        vanishing: 0,
        out: 0,
        turn: 0,
        allowed: F::NONE,
        state: ChannelState::Idle,
        front: PacketHandle::NONE,
        waiting: Queue::EMPTY,
    };
}

/// An output virtual channel: what is known of the buffer at the other end.
#[derive(Clone, Copy)]
pub(crate) struct OutVc {
    pub(super) credits: u16,
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
        self.state = ChannelState::Head;
        out.credits > 0
    }
}

/// What flits need of a router.
pub(crate) struct Held<const W: usize> {
    /// Input channels that hold their ports.
    pub(super) held: Mask<W>,
    /// An input channel that wants an output channel may get one.
    pub(super) look: bool,
    /// Ports whose link is slow and has no time for a flit yet, which are busy.
    pub(super) slow: u64,
}

impl<const W: usize> Default for Held<W> {
    fn default() -> Held<W> {
        Held { held: Mask::NONE, look: false, slow: 0 }
    }
}

impl<F: Field, const N: usize, const P: usize, const W: usize> Router<InVc<F>, Held<W>, N, P, W> {
    /// The router may have something to do in the next cycle.
    #[inline(always)]
    pub(super) fn is_awake(&self) -> bool {
        self.own.look || self.ready.any() || self.own.held.any()
    }
    /// Packet `h`, the first one of input channel `i` now, asks for an output channel.
    #[inline(always)]
    pub(super) fn compete(&mut self, i: u32, h: PacketHandle, pool: &Pool) {
        let input = self.input(i);
        let hot = &pool.hot[h.index()];
        input.front = h;
        input.out = hot.out;
        input.allowed = F::of(hot.allowed);
        input.left = hot.flits;
        input.state = ChannelState::Allocating;
        self.allocating.set(i);
        self.own.look = true;
    }
}

/// An endpoint that sends.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// Packets whose head has not left.
    pub(super) queue: Queue,
    pub(super) sequence: u64,
    /// Channel 0 of the input port it is attached to.
    pub(super) channel: u32,
    /// Flits of the packet being sent that have not left.
    pub(super) left: u16,
    /// The channel used last.
    pub(super) last_vc: u8,
    /// It waits for a credit.
    pub(super) blocked: bool,
}

impl network::Source for Source {
    fn sequence(&mut self) -> &mut u64 {
        &mut self.sequence
    }
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }
    fn push(&mut self, pool: &mut Pool, packet: PacketHandle) -> bool {
        self.queue.push(pool, packet) && self.left == 0
    }
}

/// Message from part to part. Channels are numbered as in the receiving part.
pub(crate) enum Message {
    /// The head of a packet arrives.
    Head {
        /// Input channel.
        channel: u32,
        /// The packet.
        hot: Hot,
        /// The packet.
        cold: Cold,
        traced: bool,
    },
    /// Another flit arrives, at this input channel.
    Body(u32),
    /// A credit returns, to this output channel.
    Credit(u32),
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
            Message::Head { channel, hot, cold, traced } => {
                out.push(0);
                channel.pack(out);
                hot.pack(out);
                cold.pack(out);
                traced.pack(out);
            }
            Message::Body(channel) => {
                out.push(1);
                channel.pack(out);
            }
            Message::Credit(channel) => {
                out.push(2);
                channel.pack(out);
            }
            Message::Queue(change) => {
                out.push(3);
                change.pack(out);
            }
        }
    }
    fn unpack(from: &mut &[u8]) -> Option<Message> {
        Some(match u8::unpack(from)? {
            0 => Message::Head {
                channel: u32::unpack(from)?,
                hot: Hot::unpack(from)?,
                cold: Cold::unpack(from)?,
                traced: bool::unpack(from)?,
            },
            1 => Message::Body(u32::unpack(from)?),
            2 => Message::Credit(u32::unpack(from)?),
            3 => Message::Queue(Change::unpack(from)?),
            _ => return None,
        })
    }
}

/// Things due in one cycle.
#[derive(Default)]
pub(super) struct Due {
    /// (input channel, the packet if it is its head)
    pub(super) arrivals: Vec<(u32, PacketHandle)>,
    /// Output channels.
    pub(super) credits: Vec<u32>,
    /// Source channels.
    pub(super) source_credits: Vec<u32>,
    /// Packets whose tail arrives at its endpoint.
    pub(super) deliveries: Vec<PacketHandle>,
    /// Channels 0 of output ports whose slow links have time for a flit.
    pub(super) links: Vec<u32>,
}

impl Due {
    fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
            && self.credits.is_empty()
            && self.source_credits.is_empty()
            && self.deliveries.is_empty()
            && self.links.is_empty()
    }
    fn memory_bytes(&self) -> usize {
        self.arrivals.capacity() * 8
            + (self.credits.capacity() + self.source_credits.capacity()) * 4
            + (self.deliveries.capacity() + self.links.capacity()) * 4
            + size_of::<Due>()
    }
}

/// Everything that is due, by cycle.
pub(crate) struct Calendar {
    /// By cycle, modulo their number, a power of two.
    due: Vec<Due>,
    /// The cycle being processed, or the next one.
    pub(super) now: u64,
}

impl Calendar {
    /// For links that take at most `extra` cycles more than one, and whose flits take at most `slowest` cycles.
    pub(super) fn new(extra: u16, slowest: u64) -> Calendar {
        let cycles = soon_cycles(extra).max((slowest as usize + 1).next_power_of_two());
        Calendar { due: (0..cycles).map(|_| Due::default()).collect(), now: 0 }
    }
    #[inline(always)]
    fn slot(&self, cycle: u64) -> usize {
        cycle as usize & (self.due.len() - 1)
    }
    /// Returns what is due `delay` cycles from now.
    #[inline(always)]
    pub(super) fn after(&mut self, delay: usize) -> &mut Due {
        let slot = self.slot(self.now + delay as u64);
        &mut self.due[slot]
    }
    /// Returns what is due in `cycle`, which is less than the cycles covered from now.
    #[inline(always)]
    pub(super) fn at(&mut self, cycle: u64) -> &mut Due {
        let slot = self.slot(cycle);
        &mut self.due[slot]
    }
    /// Takes what is due now; give the lists back when they have been worked off.
    pub(super) fn take(&mut self) -> Due {
        std::mem::take(self.after(0))
    }
    pub(super) fn give_back(&mut self, due: Due) {
        *self.after(0) = due;
    }
    /// The next cycle in which something is due.
    pub(super) fn next(&self) -> Option<u64> {
        (self.now..self.now + self.due.len() as u64).find(|&t| !self.due[self.slot(t)].is_empty())
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
        self.due.iter().map(Due::memory_bytes).sum()
    }
}

/// What all wormhole routers have together.
pub(crate) struct Awake {
    /// Packets hold the switch.
    pub(super) hold: bool,
    /// Routers that may have something to decide.
    pub(super) awake: Bits,
    /// Sources to look at.
    pub(super) sending: Bits,
    /// Sources whose next packet is not ready yet, by the cycle when it will be.
    pub(super) far: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) slow: SlowLinks,
}

/// A packet passes a router flit by flit.
pub(crate) struct Wormhole<F>(PhantomData<F>);

impl<F: Field, const W: usize> Switched<W> for Wormhole<F> {
    const FLITS: bool = true;
    type Input = InVc<F>;
    type Own = Held<W>;
    type Source = Source;
    type Calendar = Calendar;
    type Message = Message;
    type All = Awake;
}
