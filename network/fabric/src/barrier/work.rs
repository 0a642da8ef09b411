//! Cost of emulating a barrier, predicted from shape and nodes alone.
//!
//! A live network's time is free: what a program waits for is the work of the model, which grows with *packet-hops*, the
//! packets of a barrier times the links each crosses, and the hand-overs between its PEs and the daemon. A multiphase
//! barrier keeps every link between the nodes busy for 2K phases, also those of nodes without a PE. That is little where
//! the PEs are neighbours, and thousands of times what a tree sends where they are scattered over a large torus.

use super::family::BarrierFamily;
use super::group::{between, longest_route};
use super::messages::{middle, tree_parents};
use crate::routes::Routes;
use crate::routes::{NONE, Net};
use angara_net::torus::{Direction, NodeId, Shape};
use std::sync::Arc;

/// Packets a multiphase barrier sends over a link in one phase: the special.
const PER_PHASE: u64 = 1;
/// The hand-over of a PE to the daemon and back takes as long as this many packet-hops (10 us, 0.1 us).
const HAND_OVER: u64 = 100;
/// The multiphase barrier, which rests on nothing but the links, is kept until a tree takes less than this part of its time.
const WORTH_IT: u64 = 2;

/// Packet-hops of one full barrier of a job, everything in service, by the two families that `auto` chooses from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierWork {
    /// PEs of the job.
    pub pes: u64,
    /// [`BarrierFamily::Multiphase`].
    pub multiphase: u64,
    /// [`BarrierFamily::Tree`].
    pub tree: u64,
}

impl BarrierWork {
    /// For a job with PEs at `nodes` of `shape`, each named once per PE.
    pub fn new(shape: Shape, nodes: &[NodeId]) -> BarrierWork {
        let pes = nodes.len() as u64;
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        BarrierWork { pes, multiphase: multiphase(&shape, &nodes), tree: tree(shape, &nodes) }
    }

    /// How long the barrier takes, the hand-overs included, in packet-hops.
    fn time(&self, hops: u64) -> u64 {
        hops + HAND_OVER * self.pes
    }

    /// Returns what `auto` takes: the multiphase barrier, unless a tree takes less than half of its time.
    pub fn choice(&self) -> BarrierFamily {
        if self.time(self.multiphase) <= WORTH_IT * self.time(self.tree) {
            BarrierFamily::Multiphase
        } else {
            BarrierFamily::Tree
        }
    }
}

fn multiphase(shape: &Shape, nodes: &[NodeId]) -> u64 {
    let mut group = between(shape, nodes);
    nodes.iter().for_each(|n| group[*n as usize] = true);
    let is_near = |n: NodeId, dir: &Direction| shape.neighbour(n, *dir).is_some_and(|far| group[far as usize]);
    let members = (0..shape.nodes() as NodeId).filter(|n| group[*n as usize]);
    let links: u64 = members.map(|n| Direction::ALL.iter().filter(|dir| is_near(n, dir)).count() as u64).sum();
    2 * u64::from(longest_route(shape, nodes)) * links * PER_PHASE
}

fn tree(shape: Shape, nodes: &[NodeId]) -> u64 {
    let routes = Routes::new(Arc::new(Net::new(shape)));
    let up = tree_parents(&routes, nodes, middle(&shape, nodes));
    let hops = |(i, up): (usize, &u32)| match *up {
        NONE => 0,
        up => 2 * u64::from(shape.distance(nodes[i], nodes[up as usize])),
    };
    up.iter().enumerate().map(hops).sum()
}
