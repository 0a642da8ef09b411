//! A network of chips without adapters.

use crate::chip::{
    Chip, ChipConfig, Crossing, Delivery, Event, EventKind, Filter, Heard, Inconsistent, Injection, LinkLoad, Lost,
    Network, Notice, Totals, TraceEvent,
};
use crate::config::Params;
use crate::faults::{FaultError, Faults};
use crate::packet::PacketHandle;
use crate::routes::{Net, Ways};
use crate::types::{Outage, Tick};
use angara_net::NodeSet;
use angara_net::fault::Fault;
use angara_net::torus::{NodeId, Shape};
use std::collections::VecDeque;
use std::sync::Arc;

/// Configuration of a [`RawFabric`]. Its driver has checked the values.
#[derive(Clone, Debug)]
pub struct RawConfig {
    /// Sizes, X first: 1 to 6, at most 2²⁴ nodes.
    pub dims: Vec<u16>,
    /// Links wrap around (torus).
    pub wrap: bool,
    /// Nodes modelled here; `None` means all.
    pub owned: Option<Vec<NodeId>>,
    /// Seed of what befalls packets on impaired links.
    pub seed: u64,
    /// Timing and buffers.
    pub params: Params,
    /// Endpoints per node, each with an injection and an ejection channel: 1 to [`super::channels_max`], and 1 if
    /// `params` has several ports.
    pub channels: usize,
    /// Count free buffer space in flits instead of packets. Wrong on purpose: see `docs/explain/model.md`, section 4.
    pub units_are_flits: bool,
}

/// The chip's idea of a torus or mesh, as faults name its nodes; a single node if it is larger than chips can be.
pub fn chip_shape(dims: &[u16], wrap: bool) -> Shape {
    Net::of_sizes(dims, wrap).shape
}

/// A network of chips without adapters, or a part of one.
#[derive(Debug)]
pub struct RawFabric {
    chip: Chip,
    faults: Faults,
}

impl RawFabric {
    /// Builds the network, idle and without faults, at time 0.
    pub fn new(config: &RawConfig) -> RawFabric {
        let net = Arc::new(Net::of_sizes(&config.dims, config.wrap));
        let chip = Chip::new(ChipConfig {
            net,
            params: config.params,
            seed: config.seed,
            owned: config.owned.clone(),
            carry: false,
            adapter: false,
            channels: config.channels,
            units_are_flits: config.units_are_flits,
        });
        RawFabric { chip, faults: Faults::default() }
    }
    /// Sets a fault now, or plans it for its time.
    pub fn set_fault(&mut self, fault: Fault) -> Result<(), FaultError> {
        if let Some(dead) = self.faults.set(&mut self.chip, fault)? {
            self.change_routes(dead);
        }
        Ok(())
    }
    /// Gives nodes to set number `id`, which is new: their packets stay inside from now on. To be called before
    /// packets are injected, with nodes that no set holds.
    pub fn form_set(&mut self, id: u32, set: &NodeSet, ways: Ways) {
        self.chip.form_set(id, set, ways);
    }
    /// Gives a packet to its injection channel.
    pub fn inject(&mut self, packet: &Injection) {
        self.chip.inject_raw(packet);
    }
    /// Runs every event up to and including `to`, then sets the time to `to`.
    pub fn advance(&mut self, to: Tick) {
        while let Some(next) = self.chip.peek(to) {
            self.run_tick(next);
        }
        self.chip.now = self.chip.now.max(to);
    }

    fn run_tick(&mut self, time: Tick) {
        self.pass_tick::<false>(time);
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        let (node, arg) = (event.node, event.arg as usize);
        match event.kind {
            EventKind::Head => {
                self.chip.on_head(node, arg);
            }
            EventKind::Wake => self.chip.look_at(node, 1 << arg),
            EventKind::Deliver => self.chip.deliver_raw(PacketHandle::new(event.arg)),
            EventKind::Escape => self.chip.on_escape(node, arg),
            EventKind::Fault => {
                if let Some(dead) = self.faults.on_fault(&mut self.chip, event.arg) {
                    self.change_routes(dead);
                }
            }
            EventKind::Heard => {
                if let Some(link) = self.chip.on_heard(node, arg) {
                    self.faults.fail(Outage::Link(link));
                    self.change_routes(Outage::Link(link));
                }
            }
            EventKind::Line => self.chip.on_line(node, arg),
            EventKind::Pump | EventKind::TreeTimer | EventKind::Phase => unreachable!("events of adapters"),
        }
        self.drop_unreachable();
    }

    /// Drops packets for which no route is left.
    #[inline(always)]
    fn drop_unreachable(&mut self) {
        if self.chip.notices.is_empty() {
            return;
        }
        for notice in std::mem::take(&mut self.chip.notices) {
            match notice {
                Notice::Unreachable { h, .. } => self.chip.drop_raw(h),
                Notice::Injected(_) => {}
            }
        }
    }

    fn change_routes(&mut self, dead: Outage) {
        let before = self.chip.change_routes(dead, true);
        self.chip.reroute(&before);
    }

    /// Present time.
    pub fn now(&self) -> Tick {
        self.chip.now
    }
    /// When something happens next by itself, `None` if nothing is under way.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.chip.events.next_time()
    }
    /// Returns what has arrived, in order of (time of its tail, destination); take them out.
    pub fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.chip.raw.delivered
    }
    /// The next packet that was dropped because no route was left.
    pub fn poll_lost(&mut self) -> Option<Lost> {
        self.chip.raw.lost.pop_front()
    }
    /// Returns what has happened so far.
    pub fn totals(&self) -> Totals {
        self.chip.raw.totals
    }
    /// With nothing under way: every queue is empty, every slot is back or its time is known.
    pub fn check_idle(&self) -> Result<(), Inconsistent> {
        self.chip.check_idle()
    }
    /// Returns what happened to traced packets since the last call, in order of time.
    pub fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.chip.observers.tracer.take()
    }
    /// From now on each of these listeners is told of what happens to packets that pass its filter; see
    /// [`crate::Fabric::listen`]. Of a packet there is the header.
    ///
    /// # Panics
    /// If there are more than [`crate::LISTENERS_MAX`].
    pub fn listen(&mut self, filters: Vec<Filter>) {
        self.chip.listen(filters);
    }
    /// Returns what listeners have not been told yet, in order of time. To be called after every few events, since all
    /// is kept until then.
    pub fn heard(&mut self) -> Vec<Heard> {
        self.chip.heard()
    }
    /// Returns what left `router` through a network port (2 · dimension, odd towards smaller coordinates), or behind
    /// those an ejection channel.
    pub fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.chip.raw_load(router, port)
    }
    /// Bytes held by tables and queues.
    pub fn memory_bytes(&self) -> usize {
        self.chip.memory_bytes()
    }
    /// Time within which nothing that other parts of the network do can matter here.
    pub fn lookahead(&self) -> Tick {
        self.chip.lookahead()
    }
    /// Returns what has left for other parts of the network since the last call.
    pub fn take_crossings(&mut self) -> std::vec::Drain<'_, Crossing> {
        self.chip.raw.outgoing.drain(..)
    }
    /// Takes what crossed from another part. Its time must not have passed here.
    pub fn accept(&mut self, crossing: &Crossing) {
        self.chip.accept(crossing);
    }
}

impl Network for RawFabric {
    #[inline(always)]
    fn chip(&mut self) -> &mut Chip {
        &mut self.chip
    }
    #[inline(always)]
    fn handle_event(&mut self, event: Event) {
        self.handle(event);
    }
    #[inline(always)]
    fn hear(&mut self) {
        self.drop_unreachable();
    }
    #[inline(always)]
    fn must_stop(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FlitTime;
    use crate::raw::TrafficClass;
    use crate::rng::{below, mix};
    use crate::routes::Way;

    /// Packets of mixed lengths go up to seven hops one way around a ring of eight, as they would if
    /// every link the other way had failed, with delays too short to thin them out. Whether all arrive.
    fn one_way_ring_survives(bubble_in_flits: bool, seed: u64) -> bool {
        let flit = FlitTime { num: 1, den: 1 };
        let params = Params {
            inject_ps: 1,
            router_ps: 1,
            link_ps: 1,
            credit_ps: 1,
            core_flit: flit,
            link_flit: flit,
            age_limit: 12,
            ..Params::default()
        };
        let (dims, owned, units_are_flits) = (vec![8], None, bubble_in_flits);
        let config = RawConfig { dims, wrap: true, owned, seed, params, channels: 2, units_are_flits };
        let mut ring = RawFabric::new(&config);
        for i in 0..30_000u64 {
            let random = |n| mix(seed.wrapping_mul(1 << 32) + 4 * i + n);
            let (node, hops) = (below(random(0), 8) as u32, 1 + below(random(1), 7) as u32);
            let flits = 2 + below(random(2), 17) as u16;
            let to = (node + hops) % 8;
            let h =
                ring.chip.inject_raw(&Injection { src: 2 * node, dst: 2 * to, flits, at: 1, ..Injection::default() });
            ring.chip.packets[h].way = Way::resume(&ring.chip.net, node, to, 1, 0, 0);
        }
        // Ejection is kept busy by packets that nodes send to themselves on the preferred channel.
        for i in 0..100_000u32 {
            let (src, dst) = (2 * (i % 8) + 1, 2 * (i % 8));
            let class = TrafficClass::Response;
            ring.inject(&Injection { src, dst, flits: 18, at: 1, class, ..Injection::default() });
        }
        while let Some(time) = ring.poll_timeout() {
            ring.advance(time);
        }
        ring.check_idle().is_ok()
    }

    #[test]
    fn a_bubble_counted_in_flits_deadlocks_where_slots_do_not() {
        let deadlocks = (0..10).filter(|&seed| !one_way_ring_survives(true, seed)).count();
        assert!(deadlocks > 0, "flit-counted bubbles should deadlock with mixed lengths");
        assert!((0..10).all(|seed| one_way_ring_survives(false, seed)), "slots must never deadlock");
    }
}
