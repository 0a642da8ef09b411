//! What one look at everything has found.

use angara_plane::observe::figures::{LinkFigures, PlaneFigures};
use angara_protocol::msg::{ClusterStatus, JobStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Figures of links that other hosts count, by the number of the link ([`Link::index`](angara_net::Link::index)).
pub(crate) type FarLinks = BTreeMap<u32, LinkFigures>;

/// What the daemon has of its machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Bytes in memory now.
    pub(crate) resident: u64,
    pub(crate) descriptors: u64,
}

/// What the daemon has come to.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Since the daemon's start.
    pub(crate) at: Duration,
    /// The same on the host's monotonic clock, ns.
    pub(crate) at_ns: u64,
    /// By node and direction: number of the node × 8 + number of the direction.
    pub(crate) links: Vec<LinkFigures>,
    /// Links that other hosts count, as far as they were asked.
    pub(crate) far: Arc<FarLinks>,
    pub(crate) plane: PlaneFigures,
    pub(crate) jobs: Vec<JobStatus>,
    pub(crate) cluster: Option<ClusterStatus>,
    /// How often each limit was met.
    pub(crate) refused: Vec<(&'static str, u64)>,
    pub(crate) memory: Memory,
    /// Time of the data plane that it has cost.
    pub(crate) took: Duration,
}

impl Sample {
    /// Figures of a link: those of the host that counts them, and whether it works, as all agree.
    pub(crate) fn figures(&self, index: usize) -> LinkFigures {
        let own = self.links[index];
        let of = if own.here { own } else { self.far.get(&(index as u32)).copied().unwrap_or_default() };
        LinkFigures { up: own.up, ..of }
    }
}
