//! Places for processes: nodes of a network, each for several.

use super::MappingError;
use angara_fabric::rng::{Purpose, Stream, below};
use angara_fabric::{Outage, Routes};
use angara_net::torus::{Direction, NodeId, Shape};

/// Most nodes for which a table has the hops of all pairs. Of more, minimal routes are assumed while
/// searching; costs of what is found are those of the routes.
const TABLE_MAX: usize = 2048;
/// Nodes near to one, where its neighbours in the network are not in use.
const NEAR: usize = 8;
const NONE: u32 = u32::MAX;

/// Nodes that take processes, in the order in which linear placement fills them.
#[derive(Debug)]
pub struct Sites {
    shape: Shape,
    routes: Routes,
    nodes: Vec<NodeId>,
    ppn: u32,
    /// Hops there and back of each pair of nodes, by their numbers in `nodes`; empty if there are too many.
    round_trips: Vec<u16>,
}

impl Sites {
    /// `ppn` places on each of `nodes`, in a network with these parts out of service.
    ///
    /// # Errors
    /// A node that is none, is named twice, is out of service or does not reach another one.
    pub fn new(shape: Shape, dead: &[Outage], nodes: Vec<NodeId>, ppn: u32) -> Result<Sites, MappingError> {
        let mut seen = vec![false; shape.nodes()];
        let routes = Routes::of(shape, dead);
        for &node in &nodes {
            let seen = seen.get_mut(node as usize).ok_or(MappingError::NoNode(node))?;
            if std::mem::replace(seen, true) {
                return Err(MappingError::Twice(node));
            }
            if !routes.node_up(node) {
                return Err(MappingError::Dead(node));
            }
        }
        let mut round_trips = Vec::new();
        if nodes.len() <= TABLE_MAX {
            let hops = |a, b| routes.hops(a, b).ok_or(MappingError::Unreachable(a, b));
            let all = nodes.iter().flat_map(|&a| nodes.iter().map(move |&b| (a, b)));
            round_trips =
                all.map(|(a, b)| Ok((hops(a, b)? + hops(b, a)?) as u16)).collect::<Result<_, MappingError>>()?;
        }
        Ok(Sites { shape, routes, nodes, ppn, round_trips })
    }

    /// The network.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Processes that a node takes.
    pub fn ppn(&self) -> u32 {
        self.ppn
    }

    /// Routes of the network.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.nodes.len() * self.ppn as usize
    }

    /// Fills node after node.
    ///
    /// # Errors
    /// More processes than places.
    pub fn linear(&self, processes: u32) -> Result<Vec<NodeId>, MappingError> {
        self.check(processes)?;
        Ok((0..processes).map(|process| self.nodes[(process / self.ppn) as usize]).collect())
    }

    /// Puts processes anywhere, as `seed` decides.
    ///
    /// # Errors
    /// More processes than places.
    pub fn random(&self, processes: u32, seed: u64) -> Result<Vec<NodeId>, MappingError> {
        self.check(processes)?;
        let places = shuffled(self.places(), seed, 0);
        Ok(places.iter().take(processes as usize).map(|place| self.nodes[(place / self.ppn) as usize]).collect())
    }

    fn check(&self, processes: u32) -> Result<(), MappingError> {
        if processes as usize <= self.places() {
            return Ok(());
        }
        Err(MappingError::TooMany { processes, nodes: self.nodes.len(), ppn: self.ppn })
    }

    /// Hops there and back between two nodes, by their numbers in the list.
    pub(super) fn round_trip(&self, a: u32, b: u32) -> u64 {
        match self.round_trips.get(a as usize * self.nodes.len() + b as usize) {
            Some(hops) => u64::from(*hops),
            None => 2 * u64::from(self.shape.distance(self.nodes[a as usize], self.nodes[b as usize])),
        }
    }

    /// Of each node, the numbers of those near it: its neighbours in the network, or the nearest ones
    /// where hardly any of these is in the list.
    pub(super) fn near(&self) -> Vec<Vec<u32>> {
        let mut number = vec![NONE; self.shape.nodes()];
        for (i, &node) in (0..).zip(&self.nodes) {
            number[node as usize] = i;
        }
        let of = |(i, &node): (u32, &NodeId)| {
            let next = Direction::ALL.iter().filter_map(|&dir| self.shape.neighbour(node, dir));
            let mut near: Vec<u32> = next.map(|n| number[n as usize]).filter(|&n| n != NONE).collect();
            near.sort_unstable();
            near.dedup();
            if near.len() < 2 && !self.round_trips.is_empty() {
                near = (0..self.nodes.len() as u32).filter(|&n| n != i).collect();
                near.sort_by_key(|&n| self.round_trip(i, n));
                near.truncate(NEAR);
            }
            near
        };
        (0..).zip(&self.nodes).map(of).collect()
    }
}

/// The numbers below `count` in an order that (seed, purpose) decides.
pub(super) fn shuffled(count: usize, seed: u64, purpose: u64) -> Vec<u32> {
    let stream = Stream::new(seed, purpose, Purpose::Placement);
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, below(stream.at(i as u64), i as u64 + 1) as usize);
    }
    order
}
