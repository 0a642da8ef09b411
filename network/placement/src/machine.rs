//! A machine as the allocator sees it: its torus, what is dead, what is taken.

use crate::NodeSet;
use angara_fabric::{Links, Outage};
use angara_net::torus::{NodeId, Shape};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a node is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// A set holds it.
    Taken,
    /// It is out of service.
    Dead,
}

/// A torus or mesh with dead and taken parts.
#[derive(Clone, Debug)]
pub struct Machine {
    shape: Shape,
    links: Arc<Links>,
    nodes: Vec<State>,
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
            nodes: vec![State::Free; nodes],
            free: nodes,
            stop: Arc::default(),
        };
        for outage in outages {
            if let Outage::Node(node) = outage {
                machine.nodes[*node as usize] = State::Dead;
            }
        }
        machine.free = machine.working();
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
        self.nodes[node as usize] == State::Free
    }

    /// Tells whether this node is out of service.
    pub fn is_dead(&self, node: NodeId) -> bool {
        self.nodes[node as usize] == State::Dead
    }

    /// Number of nodes that work, free or not.
    pub fn working(&self) -> usize {
        self.nodes.iter().filter(|state| **state != State::Dead).count()
    }

    /// Number of free nodes.
    pub fn free(&self) -> usize {
        self.free
    }

    /// A set takes its nodes. All must be free.
    pub fn take(&mut self, set: &NodeSet) {
        for node in set.held() {
            debug_assert!(self.is_free(node), "node {node} is not free");
            self.nodes[node as usize] = State::Taken;
            self.free -= 1;
        }
    }

    /// The machine without the nodes of a set, of which some may be taken.
    pub fn without(&self, set: &NodeSet) -> Machine {
        let mut machine = self.clone();
        for node in set.held().filter(|node| self.is_free(*node)) {
            machine.nodes[node as usize] = State::Taken;
            machine.free -= 1;
        }
        machine
    }

    /// The machine with those of its working nodes free that are to be, and the others taken.
    pub fn with_free(&self, is_free: impl Fn(NodeId) -> bool) -> Machine {
        let mut machine = self.clone();
        machine.free = 0;
        for (state, node) in machine.nodes.iter_mut().zip(0..).filter(|(state, _)| **state != State::Dead) {
            let free = is_free(node);
            *state = if free { State::Free } else { State::Taken };
            machine.free += usize::from(free);
        }
        machine
    }

    /// The machine without what is free in another of the same shape.
    pub fn without_free(&self, other: &Machine) -> Machine {
        let mut machine = self.clone();
        for (state, _) in machine.nodes.iter_mut().zip(&other.nodes).filter(|(_, other)| **other == State::Free) {
            machine.free -= usize::from(*state == State::Free);
            if *state == State::Free {
                *state = State::Taken;
            }
        }
        machine
    }

    /// A set gives its nodes back.
    pub fn give_back(&mut self, set: &NodeSet) {
        for node in set.held() {
            debug_assert!(self.nodes[node as usize] == State::Taken, "node {node} is not taken");
            self.nodes[node as usize] = State::Free;
            self.free += 1;
        }
    }
}
