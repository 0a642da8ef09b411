//! State shared by all routers and links of a network, and how time passes for them.

use super::crossbar::Routers;
use super::degraded::Degraded;
use super::edge::Edge;
use super::layout::Layout;
use super::observe::Observers;
use super::ports::Ports;
use super::raw::Raw;
use super::slots::Slots;
use super::time::events::Events;
use super::time::timing::Timing;
use crate::config::Params;
use crate::packet::{PacketHandle, Packets, Payloads};
use crate::routes::{Net, Routes, Way};
use crate::types::Tick;
use angara_net::torus::NodeId;
use std::sync::Arc;

/// With fewer events at hand, little can be fetched side by side.
const TOUCH_MIN: usize = 4;

/// Everything a network is built from.
pub(crate) struct ChipConfig {
    pub(crate) net: Arc<Net>,
    pub(crate) params: Params,
    pub(crate) seed: u64,
    pub(crate) owned: Option<Vec<NodeId>>,
    /// Packets carry data.
    pub(crate) carry: bool,
    /// With the chip's adapter: jobs, operations, collectives.
    pub(crate) adapter: bool,
    pub(crate) channels: usize,
    pub(crate) units_are_flits: bool,
}

/// Notice to the adapter; notices are in the order in which things happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// A packet of a port is in the network.
    Injected(Injected),
    /// A packet has been taken out of its queue at a node: no route is left.
    Unreachable { node: NodeId, h: PacketHandle },
}

/// A packet that has left its injection queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injected {
    pub(crate) port: u32,
    /// The injection port of its node.
    pub(crate) lane: u8,
    /// The key of its operation.
    pub(crate) op: u64,
    /// Packets, as the chip would send it.
    pub(crate) packets: u32,
}

/// The chips of a network, or of the part of it that is modelled here.
#[derive(Debug)]
pub(crate) struct Chip {
    pub(crate) net: Arc<Net>,
    pub(crate) params: Params,
    pub(crate) seed: u64,
    pub(crate) carry: bool,
    /// Jobs and operations exist here.
    pub(super) adapter: bool,
    pub(crate) owned: Vec<bool>,
    pub(crate) lay: Layout,
    pub(crate) timing: Timing,
    pub(super) ports: Ports,
    /// Router and link.
    pub(crate) hop_ps: Tick,
    /// Slots are counted in flits and a packet needs this many; 1 otherwise.
    pub(super) unit: usize,
    pub(super) units_are_flits: bool,
    pub(crate) now: Tick,
    pub(crate) events: Events,
    /// Events so far.
    pub(crate) handled: u64,
    pub(crate) packets: Packets,
    pub(crate) payloads: Payloads,
    pub(crate) routers: Routers,
    pub(crate) slots: Slots,
    pub(crate) routes: Routes,
    pub(crate) degraded: Degraded,
    pub(crate) observers: Observers,
    /// A chip network of which other nodes are modelled elsewhere.
    pub(crate) split: bool,
    /// Barriers or trees may be at work, or part of the network is modelled elsewhere.
    pub(crate) special: bool,
    /// Number of the latest route change.
    pub(crate) route_change: u64,
    /// Until when each injection channel's host interface is busy.
    pub(crate) inject_busy: Vec<Tick>,
    pub(crate) raw: Raw,
    pub(crate) edge: Edge,
    pub(crate) notices: Vec<Notice>,
}

impl Chip {
    /// Puts a checked plan together.
    pub(crate) fn new(plan: ChipConfig) -> Chip {
        let ChipConfig { net, params, .. } = plan;
        let nodes = net.nodes;
        let mut owned = vec![plan.owned.is_none(); nodes];
        plan.owned.iter().flatten().for_each(|node| owned[*node as usize] = true);
        let ports = usize::from(params.ports);
        debug_assert!(ports == 1 || plan.channels == 1, "several endpoints have a port each");
        let channels = ports.max(plan.channels);
        let lay = Layout::new(net.dirs, channels, plan.adapter);
        let split = plan.adapter && owned.contains(&false);
        let unit = if plan.units_are_flits { angara_abi::PACKET_FLITS_MAX } else { 1 };
        let (data, tree) = (params.slots as usize * unit, params.collective_slots as usize);
        let tree = if plan.adapter { tree } else { 0 };
        let slots = Slots::new(nodes * lay.outs, [data, data, data, tree, tree]);
        Chip {
            params,
            seed: plan.seed,
            carry: plan.carry,
            adapter: plan.adapter,
            timing: Timing::new(params.core_flit, params.link_flit, params.port_flit),
            hop_ps: params.link_ps + params.router_ps,
            unit,
            units_are_flits: plan.units_are_flits,
            now: 0,
            events: Events::default(),
            handled: 0,
            packets: Packets::default(),
            payloads: Payloads::default(),
            routers: Routers::new(&net, &lay, &slots, plan.adapter),
            slots,
            degraded: Degraded::new(&owned),
            observers: Observers::new(nodes),
            routes: if params.balanced { Routes::balanced(net.clone()) } else { Routes::new(net.clone()) },
            split,
            special: split,
            route_change: 0,
            inject_busy: vec![0; nodes * channels],
            ports: Ports::new(&net, ports),
            raw: Raw::default(),
            edge: Edge::default(),
            notices: Vec::new(),
            owned,
            lay,
            net,
        }
    }

    /// The way of a packet where nothing is dead.
    #[inline(always)]
    pub(crate) fn usual_way(&self, from: NodeId, to: NodeId) -> Way {
        if self.params.balanced { self.routes.usual_way(from, to) } else { Way::plain(&self.net, from, to) }
    }

    /// When the next event is due, if it is due by `limit`.
    #[inline(always)]
    pub(crate) fn peek(&mut self, limit: Tick) -> Option<Tick> {
        if self.events.is_used_up() {
            let next = self.events.peek(limit);
            if self.events.open_events() >= TOUCH_MIN {
                self.touch();
            }
            return next;
        }
        self.events.peek(limit)
    }

    /// Reads what the heads of the next few hundred picoseconds will need: packets are spread over memory, and the
    /// processor fetches them side by side here, one after the other when their turn comes.
    fn touch(&self) {
        let mut sum = 0;
        for (node, queue) in self.events.heads() {
            let front = self.routers.inputs[node * self.lay.queues + queue].front;
            if let Some(p) = self.packets.get(front) {
                let out = p.way.next().unwrap_or(self.lay.dirs);
                sum ^= self.routers.outputs[node * self.lay.outs + out].busy;
            }
        }
        std::hint::black_box(sum);
    }

    /// The end of a pass over the events of one tick: decisions in order of node. False if there was nothing to decide,
    /// so that the tick is over.
    #[inline(always)]
    pub(crate) fn decide_all(&mut self) -> bool {
        if self.routers.dirty.is_empty() {
            return false;
        }
        let mut dirty = std::mem::take(&mut self.routers.dirty);
        if dirty.len() > 1 {
            dirty.sort_unstable();
        }
        for node in dirty.drain(..) {
            self.decide(node);
        }
        self.routers.dirty = dirty; // keep the allocation; deciding makes no node dirty
        self.plan_escapes();
        true
    }

    /// True if packets can go from one node to the other.
    pub(crate) fn reachable(&self, from: NodeId, to: NodeId) -> bool {
        !self.degraded.by_table || self.routes.route(from, to).is_some()
    }

    /// Frees a packet and its payload.
    pub(crate) fn free_packet(&mut self, h: PacketHandle) {
        self.payloads.release(self.packets[h].payload);
        self.packets.free(h);
    }
}
