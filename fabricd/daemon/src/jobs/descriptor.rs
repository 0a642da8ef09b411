//! A job as hosts tell each other of it.

use angara_abi::JobId;
use angara_abi::job::Barrier;
use angara_fabric::JobSlot;
use angara_net::torus::NodeId;
use angara_net::{HostId, NodeSet};
use angara_protocol::msg::JobSpec;
use serde::{Deserialize, Serialize};

/// A job about to be made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct NewJob {
    pub(crate) id: JobId,
    pub(crate) slot: JobSlot,
    pub(crate) generation: u16,
    pub(crate) uid: u32,
    /// Name of that user, where the job was asked for.
    pub(crate) user: Option<String>,
    pub(crate) key: String,
    pub(crate) spec: JobSpec,
    pub(crate) nodes: Vec<NodeId>,
    /// Nodes that the job has for itself, if it has asked for some.
    #[serde(default)]
    pub(crate) set: Option<NodeSet>,
    pub(crate) heap_stride: u64,
    /// Of the latest change, which must be the same on all hosts.
    pub(crate) number: u64,
}

/// What is known when every host has reserved its share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct OpenJob {
    pub(crate) id: JobId,
    /// Endpoint of each PE.
    pub(crate) endpoints: Vec<u16>,
    pub(crate) barrier: Barrier,
    /// Hosts that know the job.
    pub(crate) hosts: Vec<HostId>,
}

/// All another host must know to let packets of a job pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct JobDescriptor {
    pub(crate) coordinator: HostId,
    /// The job cannot go on and is about to end: nobody else needs to know it.
    pub(crate) over: bool,
    pub(crate) new: NewJob,
    pub(crate) open: OpenJob,
}

impl JobDescriptor {
    pub(crate) fn id(&self) -> JobId {
        self.new.id
    }

    /// Node of each PE.
    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.new.nodes
    }

    /// True if both tell of one job. A daemon that was started again gives its numbers away once more, but not its
    /// keys.
    pub(crate) fn is_of(&self, other: &JobDescriptor) -> bool {
        (self.new.id, &self.new.key) == (other.new.id, &other.new.key)
    }
}
