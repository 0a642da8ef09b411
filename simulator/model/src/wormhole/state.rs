//! State of wormhole routers and sources, and what is due in the next cycles.

use crate::generic::news::Change;
use crate::generic::state::{Mask, Port, soon_cycles};
use crate::generic::view::Output;
use crate::pool::{Cold, Hot, Pool, Queue};
use angara_fabric::raw::{Packed, PacketHandle};

/// State of an input channel's first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ChannelState {
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
pub(super) struct InVc {
    /// Flits in the buffer, of all packets.
    pub(super) present: u16,
    /// Flits that the first packet has yet to send; those not in the buffer are still to come.
    pub(super) left: u16,
    /// The output channel the first packet has, or channel 0 of the output port it wants.
    pub(super) out: u16,
    /// Round robin over output channels.
    pub(super) turn: u16,
    /// Channels the first packet may use at the output port.
    pub(super) allowed: u8,
    pub(super) state: ChannelState,
    /// The first packet; of meaning until its head has left for another router.
    pub(super) front: PacketHandle,
    /// Packets behind the first one.
    pub(super) waiting: Queue,
}

impl InVc {
    pub(super) const IDLE: InVc = InVc {
        present: 0,
        left: 0,
        out: 0,
        turn: 0,
        allowed: 0,
        state: ChannelState::Idle,
        front: PacketHandle::NONE,
        waiting: Queue::EMPTY,
    };
}

/// An output virtual channel: what is known of the buffer at the other end.
#[derive(Clone, Copy)]
pub(super) struct OutVc {
    pub(super) credits: u16,
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

/// A router: places for `N` channels of `P` ports.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Router<const N: usize, const P: usize, const W: usize> {
    /// Input channels that want an output channel.
    pub(super) allocating: Mask<W>,
    /// Input channels with an output channel, a flit and a credit, whose ports they do not hold.
    pub(super) ready: Mask<W>,
    /// Input channels that hold their ports.
    pub(super) held: Mask<W>,
    /// Output channels without owner.
    pub(super) free: Mask<W>,
    /// Ports that are held.
    pub(super) in_held: u64,
    pub(super) out_held: u64,
    /// An input channel that wants an output channel may get one.
    pub(super) look: bool,
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
    /// The router may have something to do in the next cycle.
    #[inline(always)]
    pub(super) fn is_awake(&self) -> bool {
        self.look || self.ready.any() || self.held.any()
    }
    /// Packet `h`, the first one of input channel `i` now, asks for an output channel.
    #[inline(always)]
    pub(super) fn compete(&mut self, i: u32, h: PacketHandle, pool: &Pool) {
        let input = self.input(i);
        let hot = &pool.hot[h.index()];
        input.front = h;
        input.out = hot.mark as u16;
        input.allowed = (hot.mark >> 16) as u8;
        input.left = hot.flits;
        input.state = ChannelState::Allocating;
        self.allocating.set(i);
        self.look = true;
    }
}

/// An endpoint that sends.
#[derive(Clone, Copy)]
pub(super) struct Source {
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
        /// It is traced.
        traced: bool,
    },
    /// Another flit arrives, at this input channel.
    Body(u32),
    /// A credit returns, to this output channel.
    Credit(u32),
    /// A queue has changed.
    Queue(Change),
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
}

impl Due {
    fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
            && self.credits.is_empty()
            && self.source_credits.is_empty()
            && self.deliveries.is_empty()
    }
    fn memory_bytes(&self) -> usize {
        self.arrivals.capacity() * 8
            + (self.credits.capacity() + self.source_credits.capacity() + self.deliveries.capacity()) * 4
            + size_of::<Due>()
    }
}

/// Everything that is due, by cycle.
pub(super) struct Calendar {
    /// By cycle, modulo their number, a power of two.
    due: Vec<Due>,
    /// The cycle being processed, or the next one.
    pub(super) now: u64,
}

impl Calendar {
    /// For links that take at most `extra` cycles more than one.
    pub(super) fn new(extra: u8) -> Calendar {
        Calendar { due: (0..soon_cycles(extra)).map(|_| Due::default()).collect(), now: 0 }
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
    pub(super) fn memory_bytes(&self) -> usize {
        self.due.iter().map(Due::memory_bytes).sum()
    }
}
