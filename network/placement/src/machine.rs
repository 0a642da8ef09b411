//! A machine as the allocator sees it: its torus, what is dead, what is taken.

use crate::NodeSet;
use angara_fabric::{Links, Outage};
use angara_net::torus::{NodeId, Shape};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A torus or mesh with dead and taken parts.
#[derive(Clone, Debug)]
pub struct Machine {
    shape: Shape,
    links: Arc<Links>,
    /// Per node: out of service.
    dead: Vec<bool>,
    /// Per node: a set holds it.
    taken: Vec<bool>,
    free: usize,
    stop: Arc<AtomicBool>,
}

impl Machine {
    /// A machine of which nothing is taken. Outages outside the shape are the caller's mistake.
    pub fn new(shape: Shape, outages: &[Outage]) -> Machine {
        let nodes = shape.nodes();
        let mut machine = Machine {
            shape,
            links: Arc::new(Links::of(shape, outages)),
            dead: vec![false; nodes],
            taken: vec![false; nodes],
            free: nodes,
            stop: Arc::default(),
        };
        for outage in outages {
            if let Outage::Node(node) = outage {
                machine.dead[*node as usize] = true;
            }
        }
        machine.free = machine.dead.iter().filter(|dead| !**dead).count();
        machine
    }

    /// Searches on this machine, and on copies of it, end early once this is set: with what they have found, or with nothing.
    pub fn stops_with(self, stop: Arc<AtomicBool>) -> Machine {
        Machine { stop, ..self }
    }

    /// A search is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The torus.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The links that work.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Tells whether a set may hold this node: it works and no set holds it.
    pub fn is_free(&self, node: NodeId) -> bool {
        !self.dead[node as usize] && !self.taken[node as usize]
    }

    /// Tells whether this node is out of service.
    pub fn is_dead(&self, node: NodeId) -> bool {
        self.dead[node as usize]
    }

    /// Number of nodes that work, free or not.
    pub fn working(&self) -> usize {
        self.dead.iter().filter(|dead| !**dead).count()
    }

    /// Number of free nodes.
    pub fn free(&self) -> usize {
        self.free
    }

    /// A set takes its nodes. All must be free.
    pub fn take(&mut self, set: &NodeSet) {
        for node in set.held() {
            debug_assert!(self.is_free(node), "node {node} is not free");
            self.taken[node as usize] = true;
            self.free -= 1;
        }
    }

    /// The machine without the nodes of a set, of which some may be taken.
    pub fn without(&self, set: &NodeSet) -> Machine {
        let mut machine = self.clone();
        for node in set.held().filter(|node| self.is_free(*node)) {
            machine.taken[node as usize] = true;
            machine.free -= 1;
        }
        machine
    }

    /// A set gives its nodes back.
    pub fn give_back(&mut self, set: &NodeSet) {
        for node in set.held() {
            debug_assert!(self.taken[node as usize], "node {node} is not taken");
            self.taken[node as usize] = false;
            self.free += usize::from(!self.dead[node as usize]);
        }
    }
}
