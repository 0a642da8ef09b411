//! The Angara network as a pure state machine.
//!
//! A [`Fabric`] holds the adapters, routers and links of some or all nodes of a torus or mesh. It
//! opens no socket, starts no thread and reads no clock: a driver posts operations
//! ([`Fabric::inject`]), lets time pass ([`Fabric::advance`] or [`Fabric::run_free`]), applies what
//! the network does to memory ([`Fabric::poll_effect`]) and hears what became of its operations
//! ([`Fabric::poll_completion`]). The live daemon, virtual-time runs and simulations drive the same
//! code. Same configuration and same calls give the same results on every machine.
//!
//! A driver's loop:
//!
//! ```
//! use abi::account::Class;
//! use abi::desc::{Place, Region};
//! use abi::packet::Vc;
//! use fabric::{Config, Effect, Fabric, Op, OpState, Port, Source};
//!
//! let mut fabric = Fabric::new(Config::new("2x2x2".parse().unwrap())).unwrap();
//! let (a, b) = (Port { node: 0, endpoint: 0 }, Port { node: 7, endpoint: 0 });
//! fabric.open_job(0, &[a, b]).unwrap();
//! let place = Place { region: Region::Heap, offset: 64 };
//! let op = Op::Write { to: b, place, source: Source::Inline(b"hello"), vc: Vc::Request, adaptive: false };
//! fabric.inject(a, 0, Class::Put, op, 0, 1).unwrap();
//! fabric.run_free();
//! let Some(Effect::Write { at, data, time, .. }) = fabric.poll_effect() else { panic!("no write") };
//! assert_eq!((at, fabric.payload(data)), (b, &b"hello"[..]));
//! assert!(time >= 300_000 + 3 * 129_000 + 300_000);
//! assert_eq!(fabric.poll_completion().unwrap().state, OpState::Injected);
//! ```
//!
//! Modules: [`routes`] (which way), `router` (queues and outputs), `arbiter` (who may go), `link` (slots),
//! `impaired` (checksums, replay, delay), `wire` (flits, boundary links), `adapter` and `eject` (operations ↔ packets), `raw` (packets
//! of simulations, without operations), `barrier`, [`collective`], [`fault`], `reroute` (routes change in one
//! fabric), `mend`, `keep`, `ledger` (they change in several that model one network). `docs/model.md` and
//! `docs/fabric.md` state the rules.
#![forbid(unsafe_code)]

mod adapter;
mod arbiter;
mod barrier;
pub mod collective;
mod config;
mod counters;
mod eject;
mod event;
pub mod fault;
mod impaired;
mod job;
mod keep;
mod layout;
mod ledger;
mod link;
mod mend;
pub mod model;
mod ops;
mod post;
mod raw;
mod reroute;
mod router;
pub mod routes;
mod slab;
#[cfg(test)]
mod tests;
mod timing;
mod topology;
mod types;
mod wire;

pub use barrier::{BarrierCheck, BarrierFamily};
pub use collective::{TreeError, TreeRow, TreeRows};
pub use config::{Config, ConfigError, FlitTime, Params};
pub use counters::NodeCounters;
pub use fault::{Fault, FaultError, FaultKind, Impair, Impairment};
pub use ledger::{Ledger, LedgerError};
pub use routes::{Route, Routes};
pub use types::*;
pub use wire::{Frame, FrameError, Meta};

use abi::account::{CLASSES, Load};
use abi::torus::{NodeId, Shape};
use event::{Events, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use topology::{NONE, Net, link_index};

/// With fewer events at hand, little can be fetched side by side.
const TOUCH_MIN: usize = 4;

/// Everything a network is built from.
struct Machine {
    net: Arc<Net>,
    params: Params,
    seed: u64,
    owned: Option<Vec<NodeId>>,
    carry: bool,
    /// With the chip's adapter: jobs, operations, collectives.
    adapter: bool,
    trains: bool,
    channels: usize,
    units_are_flits: bool,
}

impl Machine {
    fn new(net: Arc<Net>, params: Params, seed: u64) -> Machine {
        let (carry, adapter, trains) = (true, true, false);
        Machine { net, params, seed, owned: None, carry, adapter, trains, channels: 1, units_are_flits: false }
    }
}

/// The network. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Fabric {
    net: Arc<Net>,
    params: Params,
    seed: u64,
    /// Packets carry data.
    carry: bool,
    trains: bool,
    owned: Vec<bool>,
    lay: layout::Layout,
    timing: timing::Timing,
    /// Router and link.
    hop_ps: Tick,
    /// Slots are counted in flits and a packet needs this many; 1 otherwise.
    unit: usize,
    units_are_flits: bool,
    now: Tick,
    events: Events,
    packets: slab::Packets,
    payloads: slab::Payloads,
    routers: router::Routers,
    slots: link::Slots,
    impaired: impaired::ImpairedLinks,
    /// No link is impaired now.
    sound: bool,
    /// See [`Fabric::is_slow`].
    slow: bool,
    /// By node: it is modelled here, and credits for its links take no longer than usual.
    prompt: Vec<bool>,
    counters: counters::Counters,
    routes: Routes,
    /// Something is out of service.
    any_dead: bool,
    /// A chip network of which other nodes are modelled elsewhere.
    split: bool,
    /// Nothing moves; see [`Fabric::hold`].
    on_hold: bool,
    /// Barriers or trees may be at work, or part of the network is modelled elsewhere.
    special: bool,
    /// Number of route changes.
    epoch: u64,
    /// Pairs whose new packets wait, with the number of packets they wait for.
    held: BTreeMap<(NodeId, NodeId), u32>,
    drain_all: bool,
    faults: Vec<Fault>,
    planned: Vec<Option<Fault>>,
    ports: Vec<adapter::PortState>,
    free_ports: Vec<u32>,
    port_of: Vec<Vec<u32>>,
    /// Until when each injection channel's host interface is busy.
    inject_busy: Vec<Tick>,
    raw: raw::Raw,
    tracer: model::trace::Tracer,
    ops: ops::Ops,
    jobs: Vec<Option<job::Job>>,
    generations: Vec<u16>,
    trees: collective::Trees,
    /// Some job's barriers count packets.
    counting: bool,
    boundary: BTreeMap<usize, VecDeque<(Tick, Frame)>>,
    /// When the latest packet came over each boundary link.
    arrived: BTreeMap<usize, Tick>,
    /// Effects waiting for memory to be supplied.
    waiting: usize,
    effects: VecDeque<Effect>,
    effects_made: u64,
    effects_polled: u64,
    /// Payload of the effect polled last.
    lent: u32,
    /// With the number of effects that must have been polled before.
    completions: VecDeque<(u64, Completion)>,
}

impl Fabric {
    /// Builds the network, idle and without faults, at time 0.
    pub fn new(config: Config) -> Result<Fabric, ConfigError> {
        let params = config.params;
        for slots in [params.slots, params.collective_slots] {
            if !(2..=link::SLOTS_MAX as u8).contains(&slots) {
                return Err(ConfigError::Slots(slots));
            }
        }
        for (name, value) in [
            ("link_flit.den", params.link_flit.den),
            ("core_flit.den", params.core_flit.den),
            ("router_ps", params.router_ps),
            ("cycle_ps", params.cycle_ps),
            ("ops_per_port", params.ops_per_port as u64),
            ("staged_per_port", params.staged_per_port as u64),
            ("reads_per_port", params.reads_per_port as u64),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero(name));
            }
        }
        if params.eject_ps < params.router_ps {
            return Err(ConfigError::Ejection(params.eject_ps, params.router_ps));
        }
        let nodes = config.shape.nodes();
        if let Some(node) = config.owned.iter().flatten().find(|n| **n as usize >= nodes) {
            return Err(ConfigError::Node(*node, nodes));
        }
        let net = Arc::new(Net::new(config.shape));
        let machine = Machine {
            owned: config.owned,
            carry: config.payload,
            trains: config.trains,
            ..Machine::new(net, params, config.seed)
        };
        Ok(Fabric::build(machine))
    }

    /// Puts a checked machine together.
    fn build(machine: Machine) -> Fabric {
        let Machine { net, params, .. } = machine;
        let nodes = net.nodes;
        let mut owned = vec![machine.owned.is_none(); nodes];
        machine.owned.iter().flatten().for_each(|node| owned[*node as usize] = true);
        let lay = layout::Layout::new(net.dirs, machine.channels, machine.adapter);
        let split = machine.adapter && owned.contains(&false);
        let unit = if machine.units_are_flits { abi::PACKET_FLITS_MAX } else { 1 };
        let (data, tree) = (params.slots as usize * unit, params.collective_slots as usize);
        let tree = if machine.adapter { tree } else { 0 };
        let slots = link::Slots::new(nodes * lay.outs, [data, data, data, tree, tree]);
        Fabric {
            params,
            seed: machine.seed,
            carry: machine.carry,
            trains: machine.trains && machine.carry,
            timing: timing::Timing::new(params.core_flit, params.link_flit),
            hop_ps: params.link_ps + params.router_ps,
            unit,
            units_are_flits: machine.units_are_flits,
            now: 0,
            events: Events::default(),
            packets: slab::Packets::default(),
            payloads: slab::Payloads::default(),
            routers: router::Routers::new(&net, &lay, &slots, machine.adapter),
            slots,
            impaired: BTreeMap::new(),
            sound: true,
            slow: false,
            prompt: owned.clone(),
            counters: counters::Counters::new(nodes),
            routes: Routes::new(net.clone()),
            any_dead: false,
            split,
            on_hold: false,
            special: split,
            epoch: 0,
            held: BTreeMap::new(),
            drain_all: false,
            faults: Vec::new(),
            planned: Vec::new(),
            ports: Vec::new(),
            free_ports: Vec::new(),
            port_of: vec![Vec::new(); if machine.adapter { nodes } else { 0 }],
            inject_busy: vec![0; nodes * machine.channels],
            raw: raw::Raw::default(),
            tracer: model::trace::Tracer::default(),
            ops: ops::Ops::default(),
            jobs: Vec::new(),
            generations: Vec::new(),
            trees: collective::Trees::default(),
            counting: false,
            boundary: BTreeMap::new(),
            arrived: BTreeMap::new(),
            waiting: 0,
            effects: VecDeque::new(),
            effects_made: 0,
            effects_polled: 0,
            lent: NONE,
            completions: VecDeque::new(),
            owned,
            lay,
            net,
        }
    }

    /// The whole network's shape.
    pub fn shape(&self) -> Shape {
        self.net.shape
    }
    /// Present time.
    pub fn now(&self) -> Tick {
        self.now
    }
    /// Whether the node is modelled here.
    pub fn owns(&self, node: NodeId) -> bool {
        self.owned.get(node as usize).is_some_and(|o| *o)
    }

    /// When something happens next by itself, `None` if only a call can change anything.
    pub fn poll_timeout(&self) -> Option<Tick> {
        if self.on_hold { None } else { self.events.next_time() }
    }

    /// Runs every event up to and including `to` and returns the time reached: `to`, or the
    /// earlier time of an effect that needs [`Fabric::supply`] before time may go on.
    pub fn advance(&mut self, to: Tick) -> Tick {
        self.return_lent();
        if self.on_hold {
            return self.now;
        }
        loop {
            if self.waiting > 0 && self.events.next_time().is_none_or(|t| t > self.now) {
                return self.now;
            }
            let Some(next) = self.peek(to) else { break };
            self.run_tick(next);
        }
        self.rest();
        self.now = self.now.max(to);
        self.now
    }

    /// Free clock: jumps from event to event until nothing is left to happen by itself. Effects
    /// that need memory do not stop it; what depends on them goes on when it is supplied.
    pub fn run_free(&mut self) {
        self.return_lent();
        if self.on_hold {
            return;
        }
        while let Some(next) = self.peek(Tick::MAX) {
            self.run_tick(next);
        }
        self.rest();
    }

    /// Like [`Fabric::run_free`] for at most `ticks` different times, so that a driver with other
    /// work can come back to it. Returns whether everything is quiet.
    pub fn run_some(&mut self, ticks: usize) -> bool {
        self.return_lent();
        if self.on_hold {
            return true;
        }
        for _ in 0..ticks {
            match self.peek(Tick::MAX) {
                Some(next) => self.run_tick(next),
                None => break,
            }
        }
        self.rest();
        self.events.next_time().is_none()
    }

    /// The same, but nothing that is due after `to`; returns whether all until then has happened. It is `to` then, unless an
    /// effect waits for memory.
    pub fn run_some_until(&mut self, to: Tick, ticks: usize) -> bool {
        self.return_lent();
        if self.on_hold {
            return true;
        }
        for _ in 0..ticks {
            match self.peek(to) {
                Some(next) => self.run_tick(next),
                None => {
                    self.rest();
                    self.now = if self.waiting == 0 { self.now.max(to) } else { self.now };
                    return true;
                }
            }
        }
        false
    }

    /// When the next event is due, if it is due by `limit`.
    #[inline(always)]
    fn peek(&mut self, limit: Tick) -> Option<Tick> {
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

    /// With nothing under way no barrier or tree is at work until somebody posts to it.
    fn rest(&mut self) {
        if self.special && self.packets.in_flight() == 0 && self.events.next_time().is_none() {
            self.special = self.split;
        }
    }

    /// All events of one tick: updates, then decisions in order of node, until none is left.
    fn run_tick(&mut self, time: Tick) {
        self.now = time;
        loop {
            while let Some(event) = self.events.pop_at(time) {
                match event.kind {
                    Kind::Head => self.on_head(event.node, event.arg as usize),
                    Kind::Wake => self.look_at(event.node, 1 << event.arg),
                    Kind::Deliver => self.on_deliver(event.node, event.arg),
                    Kind::Escape => self.on_escape(event.node, event.arg as usize),
                    Kind::Pump => self.on_pump(event.arg as usize),
                    Kind::Fault => self.on_fault(event.arg),
                    Kind::Heard => self.on_heard(event.node, event.arg as usize),
                    Kind::Line => self.on_line(event.node, event.arg as usize),
                    Kind::TreeTimer => self.on_tree_timer(event.node),
                    Kind::Phase => self.on_phase(event.node, event.arg as JobId),
                }
            }
            if self.routers.dirty.is_empty() {
                return;
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
        }
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
        self.effects_made += 1;
    }

    fn return_lent(&mut self) {
        let lent = std::mem::replace(&mut self.lent, NONE);
        self.payloads.release(lent);
    }

    /// The next thing to do to memory. Apply effects strictly in this order. The payload of an
    /// effect is valid until the next call of this, `advance` or `run_free`.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.return_lent();
        let effect = self.effects.pop_front()?;
        self.effects_polled += 1;
        if let Effect::Write { data, .. } | Effect::TreeResult { data, .. } = effect {
            self.lent = data.slot;
        }
        Some(effect)
    }

    /// Bytes that came with the effect polled last; empty in a fabric without payload.
    pub fn payload(&self, data: PayloadRef) -> &[u8] {
        self.payloads.get(data.slot, data.len())
    }

    /// The next state an operation reached. Held back until every effect that came before it has
    /// been polled, so that a completion never precedes the memory it promises.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        match self.completions.front() {
            Some((after, _)) if *after <= self.effects_polled => self.completions.pop_front().map(|c| c.1),
            _ => None,
        }
    }

    /// Route tables, faults included.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }
    /// The route between two nodes, `None` if unreachable.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Route> {
        self.routes.route(from, to)
    }
    /// Links between two nodes, `None` if unreachable.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.routes.hops(from, to)
    }
    /// Whether packets can go from one node to the other.
    pub fn reachable(&self, from: NodeId, to: NodeId) -> bool {
        !self.any_dead || self.routes.route(from, to).is_some()
    }

    /// Counters of a link; zero for one that does not exist.
    pub fn link_counters(&self, link: Link) -> LinkCounters {
        let far = match (link.node as usize) < self.net.nodes {
            true => self.net.neighbour(link.node, link.dir.index()),
            false => NONE,
        };
        if far == NONE {
            return LinkCounters::default();
        }
        let index = link_index(link.node, link.dir.index());
        let mut counters = LinkCounters { tx: self.counters.link(index), ..LinkCounters::default() };
        let (packets, _) = self.routers.load(link.node, link.dir.index());
        counters.rx_packets = if self.owned[far as usize] { packets } else { 0 };
        if let Some(l) = self.impaired.get(&index) {
            (counters.crc_errors, counters.replays) = (l.crc_errors, l.replays);
            (counters.duplicates, counters.reordered) = (l.duplicates, l.reordered);
            counters.rx_packets = counters.rx_packets.saturating_sub(l.unreceived.len() as u64);
        }
        counters.crc_errors += self.counters.damaged(index);
        counters
    }
    /// What a job sent over a link since it was opened, by class.
    pub fn job_link_counters(&self, job: JobId, link: Link) -> [Load; CLASSES] {
        self.counters.job_link(job, link_index(link.node, link.dir.index()))
    }
    /// Counters of a node.
    pub fn node_counters(&self, node: NodeId) -> NodeCounters {
        self.counters.nodes[node as usize]
    }
    /// Packets and payload slots in use: both 0 when nothing is under way and all effects are polled.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.packets.in_flight(), self.payloads.in_use())
    }
}
