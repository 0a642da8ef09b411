//! Which host is which node of the torus.

use super::hostlist;
use angara_cluster::Cluster;
use angara_control::error::Failed;
use angara_net::torus::{NodeId, Shape};
use std::collections::HashMap;

/// Hosts of a cluster file as nodes of Slurm: one node of the torus each, by the same name.
#[derive(Clone, Debug)]
pub struct Layout {
    shape: Shape,
    /// Names by node.
    names: Vec<String>,
    nodes: HashMap<String, NodeId>,
}

impl Layout {
    /// Hosts of a cluster. Jobs are given hosts, so a host with several nodes would make sets other than
    /// those that were found.
    pub fn of(cluster: &Cluster) -> Result<Layout, Failed> {
        if let Some(host) = cluster.hosts.iter().find(|host| host.nodes.len() != 1) {
            return Err(Failed::usage(
                format!(
                    "{}: host `{}` has {} nodes of the torus; a node of Slurm must be one of them",
                    cluster.path.display(),
                    host.name,
                    host.nodes.len()
                ),
                "give every node of the torus a [[host]] of its own, called as Slurm calls it",
            ));
        }
        let mut named: Vec<(NodeId, &str)> =
            cluster.hosts.iter().map(|host| (host.nodes[0], host.name.as_str())).collect();
        named.sort_unstable();
        Ok(Layout {
            shape: cluster.shape,
            names: named.iter().map(|(_, name)| name.to_string()).collect(),
            nodes: named.iter().map(|(node, name)| (name.to_string(), *node)).collect(),
        })
    }

    /// The torus.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Name of a node's host.
    pub fn name(&self, node: NodeId) -> &str {
        &self.names[node as usize]
    }

    /// Node of a host.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).copied()
    }

    /// Nodes of a list of hosts; those that are not of the torus are left out, `None` if it is no list.
    pub fn nodes(&self, list: &str) -> Option<Vec<NodeId>> {
        Some(hostlist::expand(list)?.iter().filter_map(|name| self.node(name)).collect())
    }

    /// Names of some hosts with commas between them, as Slurm takes them.
    pub fn list(&self, nodes: &[NodeId]) -> String {
        nodes.iter().map(|&node| self.name(node)).collect::<Vec<_>>().join(",")
    }
}
