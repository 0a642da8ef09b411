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
//! Modules: [`routes`] (which way), `router` (queues, outputs, bubble rule), `link` (credits,
//! checksums, replay), `wire` (flits, boundary links), `adapter` (packets ↔ operations),
//! `barrier`, [`collective`], [`fault`]. `docs/fabric.md` states the model's rules.
#![forbid(unsafe_code)]

mod adapter;
mod barrier;
pub mod collective;
mod counters;
mod event;
pub mod fault;
mod job;
mod link;
pub mod model;
mod ops;
mod post;
mod router;
pub mod routes;
mod slab;
#[cfg(test)]
mod tests;
mod topology;
mod types;
mod wire;

pub use barrier::{BarrierCheck, BarrierFamily};
pub use collective::{TreeError, TreeRow, TreeRows};
pub use counters::NodeCounters;
pub use fault::{Fault, FaultError, FaultKind};
pub use routes::{Route, Routes};
pub use types::*;
pub use wire::{Frame, FrameError, Meta, Note};

use abi::PACKET_FLITS_MAX;
use abi::account::{CLASSES, Load};
use abi::torus::{NodeId, Shape};
use event::{Events, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use topology::{DIRS, NONE, Net, link_index};

/// The network. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Fabric {
    net: Arc<Net>,
    params: Params,
    seed: u64,
    /// Packets carry data.
    carry: bool,
    owned: Vec<bool>,
    /// Time of 0..=18 flits on a link and inside the chip.
    link_time: [Tick; PACKET_FLITS_MAX + 1],
    core_time: [Tick; PACKET_FLITS_MAX + 1],
    now: Tick,
    events: Events,
    /// Outputs to arbitrate at this tick: node × 16 + output.
    dirty: Vec<u32>,
    packets: slab::Packets,
    payloads: slab::Payloads,
    routers: router::Routers,
    links: link::Links,
    counters: counters::Counters,
    routes: Routes,
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
    inject_busy: Vec<Tick>,
    ops: ops::Ops,
    jobs: Vec<Option<job::Job>>,
    generations: Vec<u16>,
    trees: collective::Trees,
    /// Some job's barriers count packets.
    counting: bool,
    boundary: BTreeMap<usize, VecDeque<(Tick, Frame)>>,
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
        let nodes = config.shape.nodes();
        for slots in [params.slots, params.collective_slots] {
            if !(2..=link::SLOTS_MAX as u8).contains(&slots) {
                return Err(ConfigError::Slots(slots));
            }
        }
        for (name, value) in [
            ("link_flit.den", params.link_flit.den),
            ("core_flit.den", params.core_flit.den),
            ("hop_ps", params.hop_ps),
            ("cycle_ps", params.cycle_ps),
            ("ops_per_port", params.ops_per_port as u64),
            ("staged_per_port", params.staged_per_port as u64),
            ("reads_per_port", params.reads_per_port as u64),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero(name));
            }
        }
        let mut owned = vec![config.owned.is_none(); nodes];
        for node in config.owned.into_iter().flatten() {
            *owned.get_mut(node as usize).ok_or(ConfigError::Node(node, nodes))? = true;
        }
        let net = Arc::new(Net::new(config.shape));
        let times = |flit: FlitTime| std::array::from_fn(|n| flit.of(n as u64));
        Ok(Fabric {
            params,
            seed: config.seed,
            carry: config.payload,
            owned,
            link_time: times(params.link_flit),
            core_time: times(params.core_flit),
            now: 0,
            events: Events::default(),
            dirty: Vec::new(),
            packets: slab::Packets::default(),
            payloads: slab::Payloads::default(),
            routers: router::Routers::new(nodes),
            links: link::Links::new(nodes * DIRS, params.slots, params.collective_slots),
            counters: counters::Counters::new(nodes),
            routes: Routes::new(net.clone()),
            epoch: 0,
            held: BTreeMap::new(),
            drain_all: false,
            faults: Vec::new(),
            planned: Vec::new(),
            ports: Vec::new(),
            free_ports: Vec::new(),
            port_of: vec![Vec::new(); nodes],
            inject_busy: vec![0; nodes],
            ops: ops::Ops::default(),
            jobs: Vec::new(),
            generations: Vec::new(),
            trees: collective::Trees::default(),
            counting: false,
            boundary: BTreeMap::new(),
            waiting: 0,
            effects: VecDeque::new(),
            effects_made: 0,
            effects_polled: 0,
            lent: NONE,
            completions: VecDeque::new(),
            net,
        })
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
        self.events.next_time()
    }

    /// Runs every event up to and including `to` and returns the time reached: `to`, or the
    /// earlier time of an effect that needs [`Fabric::supply`] before time may go on.
    pub fn advance(&mut self, to: Tick) -> Tick {
        self.return_lent();
        while let Some(next) = self.events.peek().filter(|t| *t <= to) {
            if self.waiting > 0 && next > self.now {
                return self.now;
            }
            self.run_tick(next);
        }
        if self.waiting == 0 {
            self.now = self.now.max(to);
        }
        self.now
    }

    /// Free clock: jumps from event to event until nothing is left to happen by itself. Effects
    /// that need memory do not stop it; what depends on them goes on when it is supplied.
    pub fn run_free(&mut self) {
        self.return_lent();
        while let Some(next) = self.events.peek() {
            self.run_tick(next);
        }
    }

    /// Like [`Fabric::run_free`] for at most `ticks` different times, so that a driver with other
    /// work can come back to it. Returns whether everything is quiet.
    pub fn run_some(&mut self, ticks: usize) -> bool {
        self.return_lent();
        for _ in 0..ticks {
            match self.events.peek() {
                Some(next) => self.run_tick(next),
                None => return true,
            }
        }
        self.events.next_time().is_none()
    }

    /// All events of one tick: updates, then arbitration in canonical order, until none is left.
    fn run_tick(&mut self, time: Tick) {
        self.now = time;
        loop {
            while let Some(event) = self.events.pop_at(time) {
                match event.kind {
                    Kind::Fault => self.on_fault(event.arg),
                    Kind::Head => self.on_head(event.node, event.arg as usize),
                    Kind::Pump => self.on_pump(event.arg as usize),
                    Kind::Deliver => self.on_deliver(event.node, event.arg),
                    Kind::Arrive => self.on_arrive(event.node, event.arg as usize),
                    Kind::Replay => self.on_replay(event.node, event.arg as usize),
                    Kind::TreeTimer => self.on_tree_timer(event.node),
                    Kind::Phase => self.on_phase(event.node, event.arg as JobId),
                    Kind::Arbitrate => self.dirty.push(event.node * 16 + event.arg),
                }
            }
            if self.dirty.is_empty() {
                return;
            }
            let mut dirty = std::mem::take(&mut self.dirty);
            if dirty.len() > 1 {
                dirty.sort_unstable();
                dirty.dedup();
            }
            for output in dirty.drain(..) {
                self.arbitrate(output / 16, (output % 16) as usize);
            }
            if self.dirty.is_empty() {
                self.dirty = dirty; // keep the allocation
            }
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
        self.routes.route(from, to).is_some()
    }

    /// Counters of a link; zero for one that does not exist.
    pub fn link_counters(&self, link: Link) -> LinkCounters {
        if link.node as usize >= self.net.nodes {
            return LinkCounters::default();
        }
        self.counters.link(link_index(link.node, link.dir.index()))
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
