//! The `angara` profile: packets of simulations on the router core that live rings run on.
//!
//! This file only translates: parameters and faults into a [`RawFabric`]'s, packets in, deliveries out.

use crate::engine::Engine;
use crate::generic::build::near;
use crate::member::{Crew, Member};
use crate::parallel::{AnyPart, Parallel, Part, cuts, part_of};
use crate::setup::{ANGARA_FLITS_MAX, Angara, Rate, Setup, SetupError};
use crate::topology::AnyTopology;
use angara_fabric::raw::{
    Crossing, Delivery, Inconsistent, Injection, LinkLoad, Lost, RawConfig, RawFabric, Totals, TraceEvent, chip_shape,
};
use angara_fabric::{BALANCED_NODES, Filter, FlitTime, Heard, Params, Tick, Ways};
use angara_net::fault::Fault;
use std::collections::VecDeque;

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
            ..self.rest
        }
    }
}

/// Builds the network of `config`, or the part of it made of the nodes `owned`.
fn build(config: &Setup, p: &Angara, owned: Option<Vec<u32>>) -> Result<RawFabric, SetupError> {
    let AnyTopology::Grid(grid) = &config.shape else {
        return Err(SetupError::NotAGrid(config.shape.clone()));
    };
    if p.params().balanced && (grid.dims().len() > 4 || config.shape.endpoints() > BALANCED_NODES) {
        return Err(SetupError::Balanced(config.shape.clone()));
    }
    let mut fabric = RawFabric::new(&RawConfig {
        dims: grid.dims().to_vec(),
        wrap: grid.wraps(),
        owned,
        seed: config.seed,
        params: p.params(),
        channels: p.channels as usize,
        units_are_flits: p.bubble_in_flits,
    });
    let shape = chip_shape(grid.dims(), grid.wraps());
    if !config.faults.is_empty() && shape.nodes() != config.shape.endpoints() {
        return Err(SetupError::FaultShape(config.shape.clone()));
    }
    config.check_sets(shape.nodes())?;
    let ways = if p.params().balanced { Ways::Balanced } else { Ways::Parity };
    (0..).zip(&config.sets).for_each(|(id, set)| fabric.form_set(id, set, ways));
    for text in &config.faults {
        fabric.set_fault(Fault::parse(text, &shape)?)?;
    }
    Ok(fabric)
}

/// The engine of `config`: one core, as many as there are threads (and nodes), or this process's.
pub(crate) fn engine(config: &Setup, p: &Angara, crew: &Crew) -> Result<Box<dyn Engine>, SetupError> {
    let nodes = config.shape.endpoints();
    let parts = crew.parts(nodes)?;
    if parts == 1 {
        return Ok(Box::new(build(config, p, None)?));
    }
    config.check_threads(parts)?;
    let cuts = cuts(nodes, parts);
    let last = |part: usize| cuts.get(part + 1).copied().unwrap_or(nodes as u32);
    let part = |part| -> Result<AnyPart<Crossing>, SetupError> {
        let fabric = build(config, p, Some((cuts[part]..last(part)).collect()))?;
        Ok(Box::new(Range { fabric, cuts: cuts.clone() }))
    };
    if let Crew::Processes(peers) = crew {
        let near = near(&*config.shape, &cuts, peers.rank());
        return Ok(Box::new(Member::new(part(peers.rank())?, peers.clone(), near)));
    }
    let parts = (0..parts).map(part).collect::<Result<_, SetupError>>()?;
    let endpoints = cuts.iter().map(|node| node * p.channels as u32).collect();
    Ok(Box::new(Parallel::new(parts, endpoints)?))
}

/// A core that owns a range of nodes.
struct Range {
    fabric: RawFabric,
    /// First node of every part.
    cuts: Vec<u32>,
}

impl Part for Range {
    type Message = Crossing;
    fn lookahead(&self) -> Tick {
        self.fabric.lookahead()
    }
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, Crossing)) {
        for crossing in self.fabric.take_crossings() {
            post(part_of(&self.cuts, crossing.to), crossing.at, crossing);
        }
    }
    fn accept(&mut self, _due: Tick, crossing: Crossing) {
        self.fabric.accept(&crossing);
    }
}

impl Engine for Range {
    fn inject(&mut self, p: Injection) {
        Engine::inject(&mut self.fabric, p);
    }
    fn advance(&mut self, to: Tick) {
        self.fabric.advance(to);
    }
    fn now(&self) -> Tick {
        self.fabric.now()
    }
    fn next_event(&self) -> Option<Tick> {
        self.fabric.poll_timeout()
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        self.fabric.deliveries()
    }
    fn lost(&mut self) -> Option<Lost> {
        self.fabric.poll_lost()
    }
    fn counters(&self) -> Totals {
        self.fabric.totals()
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        self.fabric.check_idle()
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.fabric.take_trace()
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.fabric.link_load(router, port)
    }
    fn memory_bytes(&self) -> usize {
        self.fabric.memory_bytes()
    }
}

impl Engine for RawFabric {
    fn inject(&mut self, p: Injection) {
        assert!(
            (1..=ANGARA_FLITS_MAX).contains(&p.flits),
            "packet of {} flits; the angara router carries 1 to {ANGARA_FLITS_MAX}",
            p.flits
        );
        RawFabric::inject(self, &p);
    }
    fn advance(&mut self, to: Tick) {
        RawFabric::advance(self, to);
    }
    fn now(&self) -> Tick {
        RawFabric::now(self)
    }
    fn next_event(&self) -> Option<Tick> {
        self.poll_timeout()
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        RawFabric::deliveries(self)
    }
    fn lost(&mut self) -> Option<Lost> {
        self.poll_lost()
    }
    fn counters(&self) -> Totals {
        self.totals()
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        RawFabric::check_idle(self)
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        RawFabric::take_trace(self)
    }
    fn listen(&mut self, on: bool) -> bool {
        RawFabric::listen(self, if on { vec![Filter::default()] } else { Vec::new() });
        true
    }
    fn heard(&mut self) -> Vec<Heard> {
        RawFabric::heard(self)
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        RawFabric::link_load(self, router, port)
    }
    fn memory_bytes(&self) -> usize {
        RawFabric::memory_bytes(self)
    }
}
