//! The adapters of all nodes, on top of their chips.

use super::near::NodeMemory;
use super::ops::Ops;
use super::order::Order;
use super::ports::PortState;
use crate::chip::Chip;
use crate::packet::PacketHandle;
use crate::routes::NONE;
use crate::types::*;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Packets sent, by target.
type Sent = BTreeMap<NodeId, u32>;

/// State of the shortcut for a packet that has the network to itself.
#[derive(Clone, Copy, Default, Debug)]
pub(super) enum Alone {
    /// No packet has the network to itself.
    #[default]
    No,
    /// The next packet that enters has.
    Next,
    /// This packet has; its host receives it at that time.
    Through(PacketHandle, Tick),
}

/// Ports, operations, and what hosts are to hear, on top of the chips.
#[derive(Debug)]
pub(crate) struct Adapters {
    pub(crate) chip: Chip,
    pub(super) trains: bool,
    /// Delays drawn so far, by node, where there are any.
    pub(super) jitters: Vec<u64>,
    /// By node, where operations between its PEs go through its memory.
    pub(super) memories: Vec<NodeMemory>,
    pub(crate) ports: Vec<PortState>,
    free_ports: Vec<u32>,
    port_of: Vec<Vec<u32>>,
    pub(crate) ops: Ops,
    pub(crate) order: Order,
    /// Some job's barriers count packets.
    pub(crate) counting: bool,
    /// Packets sent since the last barrier that counts them.
    sent: BTreeMap<(JobSlot, NodeId), Sent>,
    /// Effects waiting for memory to be supplied.
    pub(crate) waiting: usize,
    pub(crate) effects: VecDeque<Effect>,
    pub(super) effects_made: u64,
    pub(crate) effects_polled: u64,
    /// The next packet that enters finds the network at rest, and may take it for itself.
    pub(super) alone: Alone,
    /// Payload of the effect polled last.
    pub(crate) lent: u32,
    /// With the number of effects that must have been polled before.
    pub(crate) completions: VecDeque<(u64, Completion)>,
}

impl Adapters {
    pub(crate) fn new(chip: Chip, trains: bool, check_order: bool) -> Adapters {
        let nodes = chip.net.nodes;
        Adapters {
            jitters: vec![0; if chip.params.jitter_ps > 0 { nodes } else { 0 }],
            memories: vec![NodeMemory::default(); if chip.params.node_path.is_some() { nodes } else { 0 }],
            chip,
            trains,
            ports: Vec::new(),
            free_ports: Vec::new(),
            port_of: vec![Vec::new(); nodes],
            ops: Ops::default(),
            order: Order::new(check_order),
            counting: false,
            sent: BTreeMap::new(),
            waiting: 0,
            effects: VecDeque::new(),
            effects_made: 0,
            effects_polled: 0,
            alone: Alone::No,
            lent: NONE,
            completions: VecDeque::new(),
        }
    }

    /// Index of an open port.
    #[inline]
    pub(crate) fn port_index(&self, port: Port) -> Option<usize> {
        let index = *self.port_of.get(port.node as usize)?.get(port.endpoint as usize)?;
        (index != NONE).then_some(index as usize)
    }

    pub(crate) fn open_port(&mut self, port: Port, job: JobSlot) {
        let state = PortState::new(port, job);
        let index = match self.free_ports.pop() {
            Some(i) => {
                self.ports[i as usize] = state;
                i
            }
            None => {
                self.ports.push(state);
                self.ports.len() as u32 - 1
            }
        };
        let at_node = &mut self.port_of[port.node as usize];
        if at_node.len() <= port.endpoint as usize {
            at_node.resize(port.endpoint as usize + 1, NONE);
        }
        at_node[port.endpoint as usize] = index;
    }

    /// Closes a port and forgets what it had posted.
    pub(crate) fn close_port(&mut self, port: Port) {
        let Some(i) = self.port_index(port) else { return };
        self.port_of[port.node as usize][port.endpoint as usize] = NONE;
        let state = &mut self.ports[i];
        state.ops.clear();
        state.staging.clear();
        state.blocked = true;
        self.order.forget_port(i as u32);
        self.free_ports.push(i as u32);
    }

    /// The count of packets a node has sent to another since its last barrier.
    pub(crate) fn sent_to(&mut self, job: JobSlot, node: NodeId, to: NodeId) -> &mut u32 {
        self.sent.entry((job, node)).or_default().entry(to).or_default()
    }
    /// Takes the counts of a node.
    pub(crate) fn take_sent(&mut self, job: JobSlot, node: NodeId) -> Sent {
        self.sent.remove(&(job, node)).unwrap_or_default()
    }
    pub(crate) fn forget_sent(&mut self, job: JobSlot) {
        self.sent.retain(|(j, _), _| *j != job);
    }

    /// True if a packet that enters now would have the network to itself, in one that programs run on.
    #[inline]
    pub(crate) fn at_rest(&self) -> bool {
        self.trains && self.chip.is_at_rest(self.waiting) && self.jitters.is_empty() && self.memories.is_empty()
    }

    /// The next packet that enters finds the network [at rest](Adapters::at_rest).
    pub(crate) fn let_one_through(&mut self) {
        self.alone = Alone::Next;
    }

    /// The packet that had the network to itself, if one has entered, and when its host has it.
    pub(crate) fn take_alone(&mut self) -> Option<(PacketHandle, Tick)> {
        match std::mem::take(&mut self.alone) {
            Alone::Through(h, at) => Some((h, at)),
            Alone::No | Alone::Next => None,
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
        self.effects_made += 1;
    }

    pub(crate) fn return_lent(&mut self) {
        let lent = std::mem::replace(&mut self.lent, NONE);
        self.chip.payloads.release(lent);
    }
}
