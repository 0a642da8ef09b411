//! What a job is to be: how many PEs, where, with how much memory, and how they reach each other.

use angara_abi::job::{Barrier, Collectives};
use angara_net::torus::NodeId;
use serde::{Deserialize, Serialize};

/// Which engines a job may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Direct where the target is on this host, else ring.
    #[default]
    Auto,
    /// Direct only.
    Direct,
    /// Everything through the rings and the emulated torus.
    Ring,
}

/// Which node each PE is placed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// PE i on node i / ppn, of the nodes that have free channels.
    #[default]
    Linear,
    /// The same in a seeded random permutation of the nodes.
    Random(u64),
    /// Node of each PE.
    List(Vec<NodeId>),
}

/// A new job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Number of PEs.
    pub pes: u32,
    /// Most PEs on one node.
    pub ppn: u32,
    /// Which PE sits on which node.
    pub map: Map,
    /// Symmetric heap bytes per PE (the library's internal area comes on top).
    pub heap: u64,
    /// Nobody asked for this size: where memory does not allow it, less will do.
    #[serde(default)]
    pub heap_may_shrink: bool,
    /// Most bytes behind the heap for registered memory, whose pages programs exchange for their own, and which count as theirs.
    /// The daemon gives fewer, or none, where addresses would not suffice.
    #[serde(default)]
    pub registered: u64,
    /// How PEs reach each other.
    pub path: Path,
    /// How the job does barriers.
    pub barrier: Barrier,
    /// How the job does collectives.
    pub collectives: Collectives,
    /// Name for status output.
    pub name: String,
    /// The job gets nodes of its own, and its packets stay among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc: Option<Alloc>,
    /// Its PEs are seats that any process of the same user may take and leave: made by [`crate::msg::AdapterRequest::Join`], never
    /// by a request for a job.
    #[serde(default)]
    pub open: bool,
    /// Its PEs may be programs of several architectures. Only the heap is symmetric.
    #[serde(default)]
    pub heterogeneous: bool,
}

/// How the nodes of a job are found that it has for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alloc {
    /// As the daemon thinks best: by utilisation.
    Auto,
    /// No node is held that no process runs on, if routes can do without.
    Utilisation,
    /// The largest free box stays as large as possible.
    Fragmentation,
    /// The fewest nodes to which all packets belong.
    Closed,
    /// The first free box.
    FirstFitBox,
    /// The free box that touches most of what is not free.
    BestFitBox,
}
