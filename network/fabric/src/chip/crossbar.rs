//! State of the routers' crossbars: inputs, which are queues, outputs, and what these have granted.

use super::layout::{LANES, Layout, UP, VCS};
use super::slots::{Credits, NEVER, Slots};
use crate::packet::PacketHandle;
use crate::routes::Net;
use crate::types::Tick;

/// State of a queue's front packet with regard to outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asks {
    /// Nothing (yet).
    No,
    /// Asks only the output it prefers; the others are asked if it does not get that one.
    Once,
    /// Asks for outputs.
    Yes,
    /// As before, and for the channel of its class, too.
    Escaping,
}

/// One input of the crossbar: packets linked through [`crate::packet::Packet::next`], and what the
/// front one asks for.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Input {
    pub(crate) front: PacketHandle,
    pub(crate) back: PacketHandle,
    /// Until then the tail of the packet before is leaving.
    pub(crate) busy: Tick,
    /// When the front packet asked.
    pub(super) posted: Tick,
    /// Grants of `straight` then (or when it began to escape).
    pub(crate) since: u32,
    /// Outputs asked for.
    pub(crate) wants: u16,
    /// Output of its deterministic route.
    pub(super) straight: u8,
    pub(crate) asks: Asks,
}

impl Input {
    const EMPTY: Input = Input {
        front: PacketHandle::NONE,
        back: PacketHandle::NONE,
        busy: 0,
        posted: 0,
        since: 0,
        wants: 0,
        straight: 0,
        asks: Asks::No,
    };
}

/// One output, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Output {
    /// Request numbers by lane.
    pub(crate) requests: [u32; LANES],
    pub(crate) busy: Tick,
    /// Earliest planned decision.
    pub(super) wake: Tick,
    /// Credits of the data channels.
    pub(crate) credits: Credits,
}

impl Output {
    fn idle(slots: &Slots) -> Output {
        Output { requests: [0; LANES], busy: 0, wake: NEVER, credits: slots.all_free(0) }
    }
}

/// Packets and flits that an output has granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) packets: u64,
    pub(crate) flits: u64,
    /// Round robin: the first number to look at, by lane.
    pub(crate) turns: [u8; LANES],
}

/// State of all routers.
#[derive(Debug)]
pub(crate) struct Routers {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) granted: Vec<Granted>,
    /// Credits of the collective channels, by output; none without adapters.
    pub(super) collective: Vec<Credits>,
    /// Outputs whose links close to rings.
    pub(crate) rings: u16,
    /// Per node: adaptive queues whose packet asks.
    pub(super) adaptive: Vec<u8>,
    /// Outputs to decide at this tick, per node; nodes with any are in `dirty`.
    pub(crate) look: Vec<u16>,
    pub(crate) dirty: Vec<u32>,
    /// Queues whose adaptive packet has asked at this tick.
    pub(super) fresh: Vec<(u32, u8)>,
    pub(super) outs: usize,
}

impl Routers {
    pub(crate) fn new(net: &Net, lay: &Layout, slots: &Slots, adapter: bool) -> Routers {
        let outputs = net.nodes * lay.outs;
        Routers {
            inputs: vec![Input::EMPTY; net.nodes * lay.queues],
            outputs: vec![Output::idle(slots); outputs],
            granted: vec![Granted::default(); outputs],
            collective: vec![slots.all_free(UP); if adapter { outputs } else { 0 }],
            rings: (0..lay.dirs).filter(|o| net.is_ring(*o)).fold(0, |rings, o| rings | 1 << o),
            adaptive: vec![0; net.nodes],
            look: vec![0; net.nodes],
            dirty: Vec::new(),
            fresh: Vec::new(),
            outs: lay.outs,
        }
    }
    /// All queues are empty, nothing is asked for, all slots are free.
    pub(crate) fn empty(&mut self, slots: &Slots) {
        self.inputs.fill(Input::EMPTY);
        self.outputs.fill(Output::idle(slots));
        self.collective.fill(slots.all_free(UP));
        self.adaptive.fill(0);
        self.look.fill(0);
        self.dirty.clear();
        self.fresh.clear();
    }
    #[inline(always)]
    pub(crate) fn output(&mut self, node: u32, out: usize) -> &mut Output {
        &mut self.outputs[node as usize * self.outs + out]
    }
    /// Returns what is known of the slots behind an output.
    #[inline(always)]
    pub(crate) fn credits(&mut self, node: u32, out: usize, vc: usize) -> &mut Credits {
        let i = node as usize * self.outs + out;
        if vc < UP { &mut self.outputs[i].credits } else { &mut self.collective[i] }
    }
    /// The same, for whoever looks on; none where there are no collective channels.
    pub(crate) fn known_credits(&self, node: u32, out: usize, vc: usize) -> Option<&Credits> {
        let i = node as usize * self.outs + out;
        if vc < UP { self.outputs.get(i).map(|output| &output.credits) } else { self.collective.get(i) }
    }
    pub(crate) fn set_out_busy(&mut self, node: u32, out: usize, until: Tick) {
        self.output(node, out).busy = until;
    }
    pub(crate) fn out_busy(&self, node: u32, out: usize) -> Tick {
        self.outputs[node as usize * self.outs + out].busy
    }
    /// Counts a packet that an output has sent (or, over a boundary link, would have).
    #[inline(always)]
    pub(crate) fn count(&mut self, node: u32, out: usize, flits: u16) {
        let granted = &mut self.granted[node as usize * self.outs + out];
        granted.packets += 1;
        granted.flits += flits as u64;
    }
    /// Packets and flits granted an output so far.
    pub(crate) fn load(&self, node: u32, out: usize) -> (u64, u64) {
        let granted = &self.granted[node as usize * self.outs + out];
        (granted.packets, granted.flits)
    }
    /// The first output that lacks a slot or its time.
    pub(crate) fn first_short(&self, slots: &Slots) -> Option<usize> {
        let owes = |c: &Credits, first: usize, last: usize| (first..last).any(|vc| slots.owes(c, vc, 1));
        let data = self.outputs.iter().position(|o| owes(&o.credits, 0, UP));
        data.or_else(|| self.collective.iter().position(|c| owes(c, UP, VCS)))
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.inputs.capacity() * size_of::<Input>()
            + self.outputs.capacity() * size_of::<Output>()
            + self.granted.capacity() * size_of::<Granted>()
            + self.adaptive.capacity()
            + self.look.capacity() * 2
    }
}
