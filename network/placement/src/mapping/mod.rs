//! Which process runs on which node, by what the processes send each other.
//!
//! Finding the best placement is NP-hard, so it is searched for in the way of T. Hoefler and M. Snir
//! ("Generic topology mapping strategies for large-scale parallel architectures", ICS 2011): [`greedy`]
//! places the most attached process next to those it talks to, [`local_search`] then swaps processes.
//! For Angara, M. Khalilov and A. Timofeev (Lobachevskii J. Math. 39(9), 2018, 1188-1198) partition
//! the graph of communication instead; only the abstract of that paper is public.

mod cost;
mod greedy;
mod local_search;
mod sites;
#[cfg(test)]
mod tests;
mod traffic;

pub use cost::{Cost, cost};
pub use sites::Sites;
pub use traffic::{Peer, Traffic};

use angara_net::torus::NodeId;
use local_search::Search;

/// Why processes cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MappingError {
    /// More processes than places.
    #[error("{processes} processes do not fit {nodes} nodes with {ppn} each")]
    TooMany {
        /// Processes to place.
        processes: u32,
        nodes: usize,
        /// Processes that a node takes.
        ppn: u32,
    },
    /// A node that is not in the network.
    #[error("node {0} is not in the network")]
    NoNode(NodeId),
    /// A node that is named twice.
    #[error("node {0} is named twice")]
    Twice(NodeId),
    /// A node that is out of service.
    #[error("node {0} is out of service")]
    Dead(NodeId),
    /// Two nodes without a way between them.
    #[error("faults have left no route from node {0} to node {1}")]
    Unreachable(NodeId, NodeId),
    /// A process that there is not.
    #[error("process {0} sends or receives, and there are {1}")]
    NoProcess(u32, u32),
    /// More bytes than costs can count.
    #[error("the processes send more than 2^48 bytes")]
    TooMuch,
}

/// How long is searched, and what decides whatever is random.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub seed: u64,
    /// Terms of the cost that may be computed, about a nanosecond each.
    pub terms: u64,
}

impl Effort {
    /// A search of well below a second.
    pub fn seeded(seed: u64) -> Effort {
        Effort { seed, terms: 50_000_000 }
    }
}

/// A placement that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Node of each process.
    pub nodes: Vec<NodeId>,
    pub cost: Cost,
}

/// Finds a placement that costs no more than the linear one. The same arguments give the same placement.
///
/// # Errors
/// More processes than places, or processes that cannot reach each other.
pub fn map(traffic: &Traffic, sites: &Sites, effort: Effort) -> Result<Mapped, MappingError> {
    if traffic.processes() == 0 {
        return Ok(Mapped { nodes: Vec::new(), cost: cost(traffic, sites, &[])? });
    }
    let linear = sites.linear(traffic.processes())?;
    let linear = Mapped { cost: cost(traffic, sites, &linear)?, nodes: linear };
    let found = Search::new(traffic, sites, effort).run();
    let found = Mapped { cost: cost(traffic, sites, &found)?, nodes: found };
    Ok(if found.cost.is_below(&linear.cost) { found } else { linear })
}
