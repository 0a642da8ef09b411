//! The network as its driver sees it: parts, and time that passes for all of them.
//!
//! [`Fabric`] owns the parts and passes on what one says to another; each part knows only those below it: chips, adapters
//! on top of them, barrier and tree units beside each other on top of these.

mod boundary;
mod eject;
mod job;
mod post;
mod pump;
mod recovery;

use crate::adapter::{Adapters, OrderCheck};
use crate::barrier::{BarrierCheck, BarrierFamily, Barriers};
use crate::chip::{ChannelUse, Chip, ChipConfig, Event, EventKind, Filter, Heard, Network, NodeCounters, SLOTS_MAX};
use crate::collective::{TreeError, TreeRows, Trees, build};
use crate::config::{Config, ConfigError, Params};
use crate::faults::{FaultError, Faults, check_link};
use crate::packet::PacketHandle;
use crate::routes::{BALANCED_NODES, NONE, Net, Route, Routes, link_index};
use crate::split::Split;
use crate::types::*;
use angara_abi::account::{CLASSES, Load};
use angara_abi::packet::PacketType;
use angara_net::fault::{Fault, Impairment};
use angara_net::torus::{NodeId, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The network. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) adapters: Adapters,
    pub(crate) barriers: Barriers,
    pub(crate) trees: Trees,
    pub(crate) faults: Faults,
    pub(crate) split: Split,
    /// A tick has begun and waits for memory in its middle.
    half_way: bool,
}

impl Fabric {
    /// Builds the network, idle and without faults, at time 0.
    pub fn new(config: Config) -> Result<Fabric, ConfigError> {
        let params = config.params;
        for slots in [params.slots, params.collective_slots] {
            if !(2..=SLOTS_MAX).contains(&slots) {
                return Err(ConfigError::Slots(slots));
            }
        }
        if !(1..=crate::PORTS_MAX).contains(&params.ports.into()) {
            return Err(ConfigError::Ports(params.ports));
        }
        for (name, value) in [
            ("link_flit.den", params.link_flit.den),
            ("core_flit.den", params.core_flit.den),
            ("port_flit.den", params.port_flit.map_or(1, |port| port.den)),
            ("node_path.flit.den", params.node_path.map_or(1, |path| path.flit.den)),
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
        if params.balanced && nodes > BALANCED_NODES {
            return Err(ConfigError::Balanced(nodes));
        }
        let net = Arc::new(Net::new(config.shape));
        let (carry, trains) = (config.payload, config.trains && config.payload);
        let check_order = config.check_order && config.owned.is_none();
        let (owned, seed) = (config.owned, config.seed);
        let (adapter, channels, units_are_flits) = (true, 1, false);
        let chip = Chip::new(ChipConfig { net, params, seed, owned, carry, adapter, channels, units_are_flits });
        Ok(Fabric {
            adapters: Adapters::new(chip, trains, check_order),
            barriers: Barriers::default(),
            trees: Trees::default(),
            faults: Faults::default(),
            split: Split::default(),
            half_way: false,
        })
    }

    /// Its timing and buffers.
    pub fn params(&self) -> &Params {
        &self.adapters.chip.params
    }
    /// The whole network's shape.
    pub fn shape(&self) -> Shape {
        self.adapters.chip.net.shape
    }
    /// Present time.
    pub fn now(&self) -> Tick {
        self.adapters.chip.now
    }
    /// True if the node is modelled here.
    pub fn owns(&self, node: NodeId) -> bool {
        self.adapters.chip.owned.get(node as usize).is_some_and(|o| *o)
    }

    /// When something happens next by itself, `None` if only a call can change anything.
    pub fn poll_timeout(&self) -> Option<Tick> {
        match () {
            () if self.split.on_hold => None,
            () if self.half_way => Some(self.adapters.chip.now),
            () => self.adapters.chip.events.next_time(),
        }
    }

    /// Runs every event up to and including `to` and returns the time reached: `to`, or the
    /// earlier time of an effect that needs [`Fabric::supply`] before anything else may happen. So when memory is supplied
    /// has no say in the order of what happens at one tick, and a network without data does the same.
    pub fn advance(&mut self, to: Tick) -> Tick {
        self.adapters.return_lent();
        if self.split.on_hold {
            return self.adapters.chip.now;
        }
        loop {
            if self.adapters.waiting > 0 {
                return self.adapters.chip.now;
            }
            let unfinished = self.half_way.then_some(self.adapters.chip.now);
            let Some(next) = unfinished.or_else(|| self.adapters.chip.peek(to)) else { break };
            self.half_way = !self.run_tick::<true>(next);
        }
        self.rest();
        self.adapters.chip.now = self.adapters.chip.now.max(to);
        self.adapters.chip.now
    }

    /// Runs event by event, up to and including `to`, until the network has something to say: an effect, a completion, or
    /// nothing more by `to`. Behind each tick `goes_on` is asked whether the next one may come. True if anything
    /// happened; the time is that of the last event then, as after [`Fabric::advance`] to [`Fabric::poll_timeout`].
    pub fn advance_to_news(&mut self, to: Tick, mut goes_on: impl FnMut() -> bool) -> bool {
        self.adapters.return_lent();
        if self.split.on_hold || self.adapters.waiting > 0 {
            return false;
        }
        let mut any = false;
        loop {
            let next = match self.half_way {
                true => Some(self.adapters.chip.now).filter(|now| *now <= to),
                false => self.adapters.chip.events.peek_due(to),
            };
            let Some(next) = next else { break };
            self.half_way = !self.run_tick::<true>(next);
            any = true;
            if !self.adapters.effects.is_empty()
                || !self.adapters.completions.is_empty()
                || self.adapters.waiting > 0
                || !goes_on()
            {
                break;
            }
        }
        if any {
            self.rest();
        }
        any
    }

    /// Free clock: jumps from event to event until nothing is left to happen by itself. Effects
    /// that need memory do not stop it; what depends on them goes on when it is supplied.
    pub fn run_free(&mut self) {
        self.adapters.return_lent();
        if self.split.on_hold {
            return;
        }
        while let Some(next) = self.adapters.chip.peek(Tick::MAX) {
            self.run_tick::<false>(next);
        }
        self.rest();
    }

    /// Events so far: the work that running takes.
    pub fn events_handled(&self) -> u64 {
        self.adapters.chip.handled
    }

    /// Like [`Fabric::run_free`] for about `events` events (those of one time stay together), so that a
    /// driver with other work can come back to it. Returns whether everything is quiet.
    pub fn run_some(&mut self, events: u64) -> bool {
        self.adapters.return_lent();
        if self.split.on_hold {
            return true;
        }
        let end = self.adapters.chip.handled + events;
        while self.adapters.chip.handled < end {
            match self.adapters.chip.peek(Tick::MAX) {
                Some(next) => drop(self.run_tick::<false>(next)),
                None => break,
            }
        }
        self.rest();
        self.adapters.chip.events.next_time().is_none()
    }

    /// The same, but nothing that is due after `to`; returns whether all until then has happened. It is `to` then, unless an
    /// effect waits for memory.
    pub fn run_some_until(&mut self, to: Tick, events: u64) -> bool {
        self.adapters.return_lent();
        if self.split.on_hold {
            return true;
        }
        let end = self.adapters.chip.handled + events;
        while self.adapters.chip.handled < end {
            // Whoever supplies memory, posts, or hands over frames may do so before the next event.
            match self.adapters.chip.events.peek_due(to) {
                Some(next) => drop(self.run_tick::<false>(next)),
                None => {
                    self.rest();
                    self.adapters.chip.now = if self.adapters.waiting == 0 {
                        self.adapters.chip.now.max(to)
                    } else {
                        self.adapters.chip.now
                    };
                    return true;
                }
            }
        }
        false
    }

    /// With nothing under way no barrier or tree is at work until somebody posts to it.
    fn rest(&mut self) {
        if self.adapters.chip.special
            && self.adapters.chip.packets.in_flight() == 0
            && self.adapters.chip.events.is_empty()
        {
            self.adapters.chip.special = self.adapters.chip.split;
        }
    }

    /// All events of one tick; false if it `STOPS` because one waits for memory.
    fn run_tick<const STOPS: bool>(&mut self, time: Tick) -> bool {
        self.pass_tick::<STOPS>(time)
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        let (node, arg) = (event.node, event.arg as usize);
        match event.kind {
            EventKind::Head => {
                if let Some(h) = self.adapters.chip.on_head(node, arg) {
                    self.special_head(node, arg, h);
                }
                if !self.adapters.chip.notices.is_empty() {
                    self.hear_notices();
                }
            }
            EventKind::Wake => self.adapters.chip.look_at(node, 1 << arg),
            EventKind::Deliver => {
                self.on_deliver(self.adapters.chip.delivered_at(event), PacketHandle::new(event.arg));
            }
            EventKind::Escape => self.adapters.chip.on_escape(node, arg),
            EventKind::Pump => self.on_pump(arg),
            EventKind::Fault => {
                if let Some(dead) = self.faults.on_fault(&mut self.adapters.chip, event.arg) {
                    self.change_routes(dead, true);
                }
            }
            EventKind::Heard => self.on_heard(node, arg),
            EventKind::Line => self.adapters.chip.on_line(node, arg),
            EventKind::TreeTimer => self.trees.on_tree_timer(&mut self.adapters, node),
            EventKind::Phase => self.barriers.on_phase(&mut self.adapters, node, JobSlot::new(event.arg as u16)),
        }
    }

    /// A packet of a barrier or tree is at the front of a queue.
    fn special_head(&mut self, node: NodeId, queue: usize, h: PacketHandle) {
        let wants = match self.adapters.chip.packets[h].kind {
            PacketType::Barrier => self.barriers.barrier_head(&mut self.adapters, node, queue, h),
            _ => self.trees.tree_head(&mut self.adapters, node, queue, h),
        };
        if let Some(wants) = wants {
            self.adapters.chip.ask(node, queue, wants);
        }
    }

    /// [`EventKind::Heard`]: a sender repeats, or gives its link up.
    fn on_heard(&mut self, node: NodeId, dir: usize) {
        let Some(link) = self.adapters.chip.on_heard(node, dir) else { return };
        let (time, change) = (self.adapters.chip.now, self.adapters.chip.route_change);
        self.adapters.effect(Effect::LinkDown { link, time, change });
        if !self.adapters.chip.split {
            self.faults.fail(Outage::Link(link));
            self.change_routes(Outage::Link(link), true);
        }
    }

    /// Sets a fault now, or plans it for its time. Setting one twice changes nothing.
    pub fn set_fault(&mut self, fault: Fault) -> Result<(), FaultError> {
        if let Some(dead) = self.faults.set(&mut self.adapters.chip, fault)? {
            self.change_routes(dead, true);
        }
        Ok(())
    }
    /// Faults in force and planned.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.all()
    }
    /// Returns what is out of service.
    pub fn dead(&self) -> Vec<Outage> {
        self.faults.dead()
    }
    /// Takes back a fault in force or planned. A link that failed by itself is cleared like one set.
    pub fn clear_fault(&mut self, fault: Fault) {
        if let Some(back) = self.faults.clear(&mut self.adapters.chip, fault) {
            self.change_routes(back, false);
        }
    }
    /// Number of the latest route change. Parts of one network count alike.
    pub fn route_change(&self) -> u64 {
        self.adapters.chip.route_change
    }
    fn change_routes(&mut self, what: Outage, dead: bool) {
        if self.adapters.chip.split {
            return self.recover_alone();
        }
        let before = self.adapters.chip.change_routes(what, dead);
        if dead {
            self.trees.break_trees(&mut self.adapters, what);
        }
        self.use_routes(&before);
    }

    /// Barriers and packets under way turn to new routes.
    fn use_routes(&mut self, before: &Routes) {
        self.adapters.chip.special = true; // barriers begin again
        self.adapters.chip.take_out_specials();
        self.adapters.chip.reroute(before);
        self.barriers.barriers_restart(&mut self.adapters, |_| None);
    }

    /// Returns what befalls the packets of links (one direction each) from now on; others stay as they are.
    /// Transmissions begun earlier are not touched. In a split network all parts must be told: credits go the other
    /// way. If one is refused, nothing changes.
    pub fn set_impairments(&mut self, links: &BTreeMap<Link, Impairment>) -> Result<(), FaultError> {
        for (link, what) in links {
            what.check()?;
            check_link(&self.adapters.chip.net.shape, *link)?;
        }
        links.iter().for_each(|(link, what)| self.adapters.chip.impair(*link, *what));
        self.adapters.chip.impaired_otherwise();
        Ok(())
    }

    /// A link at a node modelled here takes its packets longer than the chip's links. A driver that wants them to take
    /// longer for others, too, must not let time run faster here than there.
    pub fn is_slow(&self) -> bool {
        self.adapters.chip.degraded.slow
    }

    /// Returns what befalls the packets of a link.
    pub fn impairment(&self, link: Link) -> Impairment {
        self.adapters.chip.impairment(link)
    }

    /// The next thing to do to memory. Apply effects strictly in this order. The payload of an
    /// effect is valid until the next call of this, `advance` or `run_free`.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.adapters.return_lent();
        let effect = self.adapters.effects.pop_front()?;
        self.adapters.effects_polled += 1;
        if let Effect::Write { data, .. } | Effect::TreeResult { data, .. } = effect {
            self.adapters.lent = data.slot;
        }
        Some(effect)
    }

    /// Bytes that came with the effect polled last; empty in a fabric without payload.
    pub fn payload(&self, data: PayloadRef) -> &[u8] {
        self.adapters.chip.payloads.get(data.slot, data.len())
    }

    /// The next state an operation reached. Held back until every effect that came before it has
    /// been polled, so that a completion never precedes the memory it promises.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        match self.adapters.completions.front() {
            Some((after, _)) if *after <= self.adapters.effects_polled => {
                self.adapters.completions.pop_front().map(|c| c.1)
            }
            _ => None,
        }
    }

    /// From now on, and no longer than the next call, each of these listeners is told of what happens to packets that pass
    /// its filter ([`Fabric::heard`]); none: nobody is. At most [`crate::LISTENERS_MAX`]. Results stay the same. What is listened
    /// to does not travel in trains, and nothing goes through at once.
    ///
    /// # Panics
    /// If there are more.
    pub fn listen(&mut self, filters: Vec<Filter>) {
        self.adapters.chip.listen(filters);
    }
    /// Returns what listeners have not been told yet, in order of time. To be called after every few events, since all
    /// is kept until then.
    pub fn heard(&mut self) -> Vec<Heard> {
        self.adapters.chip.heard()
    }

    /// Route tables, faults included.
    pub fn routes(&self) -> &Routes {
        &self.adapters.chip.routes
    }
    /// The route between two nodes, `None` if unreachable.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Route> {
        self.adapters.chip.routes.route(from, to)
    }
    /// Links between two nodes, `None` if unreachable.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.adapters.chip.routes.hops(from, to)
    }
    /// True if packets can go from one node to the other.
    pub fn reachable(&self, from: NodeId, to: NodeId) -> bool {
        self.adapters.chip.reachable(from, to)
    }

    /// Counters of a link; zero for one that does not exist.
    pub fn link_counters(&self, link: Link) -> LinkCounters {
        let far = match (link.node as usize) < self.adapters.chip.net.nodes {
            true => self.adapters.chip.net.neighbour(link.node, link.dir.index()),
            false => NONE,
        };
        if far == NONE {
            return LinkCounters::default();
        }
        let index = link_index(link.node, link.dir.index());
        let mut counters =
            LinkCounters { tx: self.adapters.chip.observers.counters.link(index), ..LinkCounters::default() };
        let (packets, _) = self.adapters.chip.routers.load(link.node, link.dir.index());
        counters.rx_packets = if self.adapters.chip.owned[far as usize] { packets } else { 0 };
        if let Some(l) = self.adapters.chip.degraded.links.get(&index) {
            (counters.crc_errors, counters.replays) = (l.crc_errors, l.replays);
            (counters.duplicates, counters.reordered) = (l.duplicates, l.reordered);
            counters.rx_packets = counters.rx_packets.saturating_sub(l.unreceived.len() as u64);
        }
        counters.crc_errors += self.adapters.chip.observers.counters.damaged(index);
        counters
    }
    /// Returns what is in use of each virtual channel of a link now, by channel; nothing of a link that does not
    /// exist. To be looked at now and then: it follows the packets that are there.
    pub fn link_channels(&self, link: Link) -> Vec<ChannelUse> {
        let chip = &self.adapters.chip;
        let exists = (link.node as usize) < chip.net.nodes && chip.net.neighbour(link.node, link.dir.index()) != NONE;
        if exists { chip.channels(link) } else { Vec::new() }
    }
    /// Returns what a job sent over a link since it was opened, by class.
    pub fn job_link_counters(&self, job: JobSlot, link: Link) -> [Load; CLASSES] {
        self.adapters.chip.observers.counters.job_link(job, link_index(link.node, link.dir.index()))
    }
    /// Counters of a node.
    pub fn node_counters(&self, node: NodeId) -> NodeCounters {
        self.adapters.chip.observers.counters.nodes[node as usize]
    }
    /// Packets and payload slots in use: both 0 when nothing is under way and all effects are polled.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.adapters.chip.packets.in_flight(), self.adapters.chip.payloads.in_use())
    }

    /// The longest route in use between nodes of the job: K of its barriers. 0 for one node.
    pub fn longest_route(&mut self, job: JobSlot) -> u32 {
        self.barriers.longest_route(&mut self.adapters, job)
    }
    /// Chooses how the job's barriers are done. Before the first of them only.
    pub fn set_barrier_family(&mut self, job: JobSlot, family: BarrierFamily) -> Result<(), JobError> {
        self.barriers.set_barrier_family(&mut self.adapters, job, family)
    }
    /// How the job's barriers are done.
    pub fn barrier_family(&self, job: JobSlot) -> BarrierFamily {
        self.barriers.barrier_family(job)
    }
    /// Leaves `phases` phases out of each half of the job's multiphase barriers, so that one
    /// may end too early: to show that K are needed, and that the model notices.
    pub fn shorten_barrier(&mut self, job: JobSlot, phases: u32) {
        self.barriers.shorten_barrier(job, phases);
    }
    /// Returns what the model saw of the job's barriers; see [`BarrierCheck`].
    pub fn barrier_check(&self, job: JobSlot) -> BarrierCheck {
        self.barriers.barrier_check(job)
    }

    /// Returns what the model saw of the job's fences and flushes; see [`OrderCheck`].
    pub fn order_check(&self, job: JobSlot) -> OrderCheck {
        self.adapters.order.check(job)
    }

    /// Builds a tree over the links that work now; see [`build`].
    pub fn build_tree(&self, root: NodeId, members: &[Port]) -> Result<TreeRows, TreeError> {
        build(&self.adapters.chip.routes, root, members)
    }
    /// Writes a tree into the tables of its nodes, after checking it.
    pub fn load_tree(&mut self, tree: u8, job: JobSlot, rows: &TreeRows) -> Result<(), TreeError> {
        self.trees.load_tree(&mut self.adapters, tree, job, rows)
    }
    /// Takes a tree out of the tables. Its packets are discarded, operations on it fail.
    pub fn unload_tree(&mut self, tree: u8) {
        self.trees.unload_tree(&mut self.adapters, tree);
    }
    /// The rows of a loaded tree.
    pub fn tree(&self, tree: u8) -> Option<&TreeRows> {
        self.trees.tree(tree)
    }
    /// Results sent and broadcasts delivered by a node on a tree, as its CSRs show them.
    pub fn tree_counters(&self, tree: u8, node: NodeId) -> (u64, u64) {
        self.trees.tree_counters(tree, node)
    }
}

impl Network for Fabric {
    #[inline(always)]
    fn chip(&mut self) -> &mut Chip {
        &mut self.adapters.chip
    }
    #[inline(always)]
    fn handle_event(&mut self, event: Event) {
        self.handle(event);
    }
    #[inline(always)]
    fn hear(&mut self) {
        self.hear_notices();
    }
    #[inline(always)]
    fn must_stop(&self) -> bool {
        self.adapters.waiting > 0
    }
}
