//! Puts a network of `generic` routers together, or parts of one for several threads or processes.

use super::state::CutThrough;
use crate::engine::Engine;
use crate::member::{Crew, Member};
use crate::parallel::{AnyPart, Parallel, Part, PartsError, cuts, part_of};
use crate::profile::{Plan, Switching};
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::place::{Range, beyond_one, links};
use crate::routers::timing::WINDOW;
use crate::topology::{End, Route, Topology};
use crate::wormhole::Wormhole;
use std::collections::BTreeSet;

/// Most parts of a network.
const PARTS_MAX: usize = u16::MAX as usize;

/// A network cut into one range of routers per thread or process.
pub(crate) struct Cuts {
    /// First router of every part.
    pub(crate) routers: Vec<u32>,
    /// First endpoint of every part.
    pub(crate) endpoints: Vec<u32>,
    /// Cycles from an event to anything it causes in another part.
    window: u64,
    /// Parts that this process's part touches.
    near: Vec<usize>,
    crew: Crew,
    /// Least cycles of a link.
    link: u16,
}

/// The parts that links join with part `part`.
pub(crate) fn near(topology: &dyn Topology, cuts: &[u32], part: usize) -> Vec<usize> {
    let joined = links(topology).map(|(from, _, to)| [from, to].map(|router| part_of(cuts, router)));
    let others = joined.filter(|[a, b]| (*a == part) != (*b == part)).map(|[a, b]| if a == part { b } else { a });
    others.collect::<BTreeSet<_>>().into_iter().collect()
}

/// True if every endpoint receives by the port by which it sends.
fn receives_where_it_sends(topology: &dyn Topology) -> bool {
    let places = (0..topology.endpoints() as u32).map(|e| (e, topology.attach(e)));
    places.into_iter().all(|(e, (router, port))| topology.output(router, port) == End::Endpoint(e))
}

impl Cuts {
    pub(crate) fn new(topology: &dyn Topology, link: u16, crew: &Crew) -> Result<Cuts, PartsError> {
        let (routers, endpoints) = (topology.routers(), topology.endpoints());
        if let (Crew::Processes(peers), false) = (crew, receives_where_it_sends(topology)) {
            return Err(PartsError::Apart(peers.count()));
        }
        let cuts = cuts(routers, crew.parts(routers.min(PARTS_MAX))?);
        // Endpoints are attached in ascending order, so those of a range of routers are a range, too.
        let attached: Vec<u32> = (0..endpoints as u32).map(|e| topology.attach(e).0).collect();
        let endpoints = cuts.iter().map(|&cut| attached.partition_point(|&r| r < cut) as u32).collect();
        let across = links(topology).filter(|(from, _, to)| part_of(&cuts, *from) != part_of(&cuts, *to));
        let extra = match cuts.len() {
            1 => None,
            _ => across.map(|(r, p, _)| beyond_one(topology, link, r, p)).min(),
        };
        let window = WINDOW + u64::from(extra.unwrap_or(0));
        let near = match crew {
            Crew::Processes(peers) => near(topology, &cuts, peers.rank()),
            Crew::Threads(_) => Vec::new(),
        };
        Ok(Cuts { window, routers: cuts, endpoints, near, crew: crew.clone(), link })
    }
    pub(crate) fn range(&self, part: usize) -> Range<'_> {
        Range { cuts: &self.routers, endpoint_cuts: &self.endpoints, window: self.window, part, link: self.link }
    }
    /// The only part, all of them, each with a thread of its own, or this process's.
    pub(crate) fn engine<P: Part>(&self, part: impl Fn(Range) -> P) -> Result<Box<dyn Engine>, PartsError> {
        Ok(match (self.routers.len(), &self.crew) {
            (1, _) => Box::new(part(self.range(0))),
            (_, Crew::Processes(peers)) => {
                Box::new(Member::new(Box::new(part(self.range(peers.rank()))), peers.clone(), self.near.clone()))
            }
            (n, Crew::Threads(_)) => {
                let parts = (0..n).map(|p| Box::new(part(self.range(p))) as AnyPart<P::Message>).collect();
                Box::new(Parallel::new(parts, self.endpoints.clone())?)
            }
        })
    }
}

/// Ports that a router of so many ports and virtual channels has places for, and channels of each. Every size costs compile
/// time.
pub(crate) fn places(ports: usize, vcs: u8) -> (usize, usize) {
    match (ports, vcs) {
        (..=8, ..=4) => (8, 4),
        (..=16, ..=4) => (16, 4),
        (..=8, ..=8) => (8, 8),
        (_, ..=8) => (64, 8),
        (..=8, _) => (8, 32),
        _ => (64, 32),
    }
}

/// An engine of as many parts as there are threads, with routers as large as necessary.
pub(crate) fn engine<T: Route>(topology: T, plan: &Plan, crew: &Crew) -> Result<Box<dyn Engine>, PartsError> {
    match places(topology.ports(), plan.router.vcs) {
        (8, 4) => assemble::<T, u8, 32, 8, 1>(topology, plan, crew),
        (16, 4) => assemble::<T, u8, 64, 16, 1>(topology, plan, crew),
        (8, 8) => assemble::<T, u8, 64, 8, 1>(topology, plan, crew),
        (64, 8) => assemble::<T, u8, 512, 64, 8>(topology, plan, crew),
        (8, _) => assemble::<T, u32, 256, 8, 4>(topology, plan, crew),
        _ => assemble::<T, u32, 2048, 64, 32>(topology, plan, crew),
    }
}

fn assemble<T: Route, F: Field, const N: usize, const P: usize, const W: usize>(
    topology: T,
    plan: &Plan,
    crew: &Crew,
) -> Result<Box<dyn Engine>, PartsError> {
    let Plan { router: p, changes, .. } = *plan;
    let cuts = Cuts::new(&topology, p.link, crew)?;
    if T::ADAPTS && topology.routing().adapts() {
        return cuts.engine(|range| Routers::<T, CutThrough<F, true>, N, P, W>::new(topology.clone(), plan, &range));
    }
    let changes = changes.iter().filter_map(|(cycle, left)| Some((*cycle, left.downcast_ref::<T>()?.clone())));
    let changes: Vec<(u64, T)> = changes.collect();
    match p.switching {
        Switching::CutThrough => cuts.engine(|range| {
            let routers = Routers::<T, CutThrough<F, false>, N, P, W>::new(topology.clone(), plan, &range);
            routers.that_change(changes.clone())
        }),
        Switching::Wormhole { hold } => cuts.engine(|range| {
            let routers = Routers::<T, Wormhole<F>, N, P, W>::new(topology.clone(), plan, hold, &range);
            routers.that_change(changes.clone())
        }),
    }
}
