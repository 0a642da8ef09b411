//! The `angara` profile: packets of simulations on the router core that live rings run on.
//!
//! This file only translates: parameters and faults into a [`Fabric`]'s, packets in, deliveries out.
//! The router itself is in `crate::router` and `crate::arbiter`.

use super::config::{ANGARA_FLITS_MAX, Angara, Config, ConfigError, Rate};
use super::parallel::{Parallel, Part, cuts, part_of};
use super::topology::Shape;
use super::{Counters, Delivery, Engine, Inconsistent, LinkLoad, Lost, Packet, Tick, TraceEvent};
use crate::config::{FlitTime, Params};
use crate::raw::Crossing;
use crate::topology::Net;
use crate::{Fabric, Fault, Machine};
use std::collections::VecDeque;
use std::sync::Arc;

impl Angara {
    /// The same chip as a [`Fabric`] describes it.
    pub fn params(&self) -> Params {
        let time = |r: Rate| FlitTime { num: r.num as u64, den: r.den as u64 };
        Params {
            inject_ps: self.injection,
            eject_ps: self.ejection,
            router_ps: self.router,
            link_ps: self.link,
            credit_ps: self.credit,
            escape_ps: self.escape,
            age_limit: self.age_limit,
            slots: self.slots,
            link_flit: time(self.flit_link),
            core_flit: time(self.flit_internal),
            ..Params::default()
        }
    }
}

/// Builds the network of `config`, or the part of it made of the nodes `owned`.
pub(super) fn build(config: &Config, p: &Angara, owned: Option<Vec<u32>>) -> Result<Fabric, ConfigError> {
    let Shape::Grid { dims, wrap } = &config.shape else {
        return Err(ConfigError::NotAGrid(config.shape.clone()));
    };
    let net = Arc::new(Net::of_sizes(dims, *wrap));
    let (shape, nodes) = (net.shape, net.nodes);
    let mut fabric = Fabric::build(Machine {
        owned,
        carry: false,
        adapter: false,
        channels: p.channels as usize,
        units_are_flits: p.bubble_in_flits,
        ..Machine::new(net, p.params(), config.seed)
    });
    if !config.faults.is_empty() && shape.nodes() != nodes {
        return Err(ConfigError::FaultShape(config.shape.clone()));
    }
    for text in &config.faults {
        let fault = Fault::parse(text, &shape)?;
        fabric.set_fault(fault)?;
    }
    Ok(fabric)
}

/// The engine of `config`: one core, or as many as there are threads (and nodes).
pub(super) fn engine(config: &Config, p: &Angara, threads: usize) -> Result<Box<dyn Engine>, ConfigError> {
    if threads <= 1 {
        return Ok(Box::new(build(config, p, None)?));
    }
    config.check_threads(threads)?;
    let nodes = config.shape.endpoints();
    let cuts = cuts(nodes, threads.min(nodes));
    let last = |part: usize| cuts.get(part + 1).copied().unwrap_or(nodes as u32);
    let part = |part| {
        let mut fabric = build(config, p, Some((cuts[part]..last(part)).collect()))?;
        fabric.raw.cuts = cuts.clone();
        Ok(fabric)
    };
    let parts: Vec<Fabric> = (0..cuts.len()).map(part).collect::<Result<_, ConfigError>>()?;
    let endpoints = cuts.iter().map(|node| node * p.channels as u32).collect();
    Ok(Box::new(Parallel::new(parts, endpoints)))
}

/// A core that owns a range of nodes.
impl Part for Fabric {
    type Message = Crossing;
    fn lookahead(&self) -> Tick {
        Fabric::lookahead(self)
    }
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, Crossing)) {
        for crossing in self.raw.outgoing.drain(..) {
            post(part_of(&self.raw.cuts, crossing.to), crossing.at, crossing);
        }
    }
    fn accept(&mut self, _due: Tick, crossing: Crossing) {
        Fabric::accept(self, &crossing);
    }
}

impl Engine for Fabric {
    fn inject(&mut self, p: Packet) {
        assert!(
            (1..=ANGARA_FLITS_MAX).contains(&p.flits),
            "packet of {} flits; the angara router carries 1 to {ANGARA_FLITS_MAX}",
            p.flits
        );
        self.inject_raw(&p);
    }
    fn advance(&mut self, to: Tick) {
        Fabric::advance(self, to);
    }
    fn now(&self) -> Tick {
        Fabric::now(self)
    }
    fn next_event(&self) -> Option<Tick> {
        self.poll_timeout()
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.raw.delivered
    }
    fn lost(&mut self) -> Option<Lost> {
        self.raw.lost.pop_front()
    }
    fn counters(&self) -> Counters {
        self.raw.counters
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        Fabric::check_idle(self)
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.tracer.take()
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.raw_load(router, port)
    }
    fn memory_bytes(&self) -> usize {
        Fabric::memory_bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::{below, mix};
    use super::super::{Profile, TrafficClass};
    use super::*;
    use crate::topology::Way;

    /// Packets of mixed lengths go up to seven hops one way around a ring of eight, as they would if
    /// every link the other way had failed, with delays too short to thin them out. Whether all arrive.
    fn one_way_ring_survives(bubble_in_flits: bool, seed: u64) -> bool {
        let flit = Rate { num: 1, den: 1 };
        let instant = Angara {
            injection: 1,
            router: 1,
            link: 1,
            credit: 1,
            flit_internal: flit,
            flit_link: flit,
            ..Angara::default()
        };
        let p = Angara { bubble_in_flits, channels: 2, age_limit: 12, ..instant };
        let shape = Shape::Grid { dims: vec![8], wrap: true };
        let config = Config { shape, profile: Profile::Angara(p.clone()), seed, faults: Vec::new() };
        let mut ring = build(&config, &p, None).unwrap();
        for i in 0..30_000u64 {
            let random = |n| mix(seed.wrapping_mul(1 << 32) + 4 * i + n);
            let (node, hops) = (below(random(0), 8) as u32, 1 + below(random(1), 7) as u32);
            let flits = 2 + below(random(2), 17) as u16;
            let to = (node + hops) % 8;
            let h = ring.inject_raw(&Packet { src: 2 * node, dst: 2 * to, flits, at: 1, ..Packet::default() });
            ring.packets[h].way = Way::resume(&ring.net, node, to, 1, 0, 0);
        }
        // Ejection is kept busy by packets that nodes send to themselves on the preferred channel.
        for i in 0..100_000u32 {
            let (src, dst) = (2 * (i % 8) + 1, 2 * (i % 8));
            let class = TrafficClass::Response;
            ring.inject_raw(&Packet { src, dst, flits: 18, at: 1, class, ..Packet::default() });
        }
        ring.run_free();
        ring.check_idle().is_ok()
    }

    #[test]
    fn a_bubble_counted_in_flits_deadlocks_where_slots_do_not() {
        let deadlocks = (0..10).filter(|&seed| !one_way_ring_survives(true, seed)).count();
        assert!(deadlocks > 0, "flit-counted bubbles should deadlock with mixed lengths");
        assert!((0..10).all(|seed| one_way_ring_survives(false, seed)), "slots must never deadlock");
    }
}
