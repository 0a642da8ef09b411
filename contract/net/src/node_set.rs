//! A node set: the nodes that a job has for itself (paper 002, section 2.1).

use crate::torus::{NodeId, Shape};
use serde::{Deserialize, Serialize};

/// Nodes of one job. No other job uses them or any of their links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSet {
    /// Nodes that processes run on, ascending.
    pub nodes: Vec<NodeId>,
    /// Nodes that only pass packets on, ascending.
    pub transit: Vec<NodeId>,
}

impl NodeSet {
    /// A set without transit nodes.
    pub fn of(mut nodes: Vec<NodeId>) -> NodeSet {
        nodes.sort_unstable();
        NodeSet { nodes, transit: Vec::new() }
    }

    /// All nodes that the set holds: those of processes, then transit nodes.
    pub fn held(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().chain(&self.transit).copied()
    }

    /// Its nodes as people read them: `2 nodes: 0,0 2,0; transit: 1,0`.
    pub fn show(&self, shape: &Shape) -> String {
        let at = |nodes: &[NodeId]| nodes.iter().map(|n| shape.show(shape.coords(*n))).collect::<Vec<_>>().join(" ");
        let nodes = format!("{} nodes: {}", self.nodes.len(), at(&self.nodes));
        if self.transit.is_empty() { nodes } else { format!("{nodes}; transit: {}", at(&self.transit)) }
    }

    /// Number of nodes that the set holds.
    pub fn size(&self) -> usize {
        self.nodes.len() + self.transit.len()
    }
}
