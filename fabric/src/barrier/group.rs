//! Who takes part in a job's barriers: its nodes, the nodes between them, and how far they are apart.

use super::{BarrierFamily, Member};
use crate::Fabric;
use crate::topology::{DIRS, NONE};
use crate::types::JobId;
use abi::torus::NodeId;

/// Above this many nodes of a job (and for jobs that fill the network) the group is every node.
const GROUP_EXACT: usize = 128;
/// Above this many nodes of a job K is not the longest route but a bound for it.
const LONGEST_EXACT: usize = 2048;

impl Fabric {
    /// Computes K and the transit nodes if a route change or a new job made that necessary.
    pub(crate) fn prepare_group(&mut self, job: JobId) {
        let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else { return };
        if j.group.phases.is_some() {
            return;
        }
        let (nodes, family) = (j.nodes.clone(), j.group.family);
        let (longest, cut) = match family == BarrierFamily::Multiphase || self.routes.any_dead() {
            true => self.longest_among(&nodes),
            false => (0, None),
        };
        let inside = if family == BarrierFamily::Multiphase { self.inside(&nodes) } else { Vec::new() };
        let (net, routes) = (self.net.clone(), &self.routes);
        let Some(j) = self.jobs[job as usize].as_mut() else { return };
        let group = &mut j.group;
        group.phases = Some(longest);
        group.cut = cut;
        group.checked &= cut.is_none();
        if family != BarrierFamily::Multiphase {
            return self.prepare_messages(job);
        }
        let barrier = group.members.iter().filter(|m| m.ports > 0).map(|m| m.done).min().unwrap_or(0);
        for node in 0..net.nodes as u32 {
            let member = nodes.binary_search(&node).is_ok() || (inside[node as usize] && routes.node_up(node));
            if member && group.index[node as usize] == NONE {
                group.index[node as usize] = group.members.len() as u32;
                group.members.push(Member { done: barrier, ..Member::new(0) });
                group.nodes.push(node);
            }
        }
        for i in 0..group.nodes.len() {
            let node = group.nodes[i];
            let near = |dir: &usize| {
                let far = net.neighbour(node, *dir);
                let takes_part = |n: u32| inside[n as usize] || nodes.binary_search(&n).is_ok();
                far != NONE && !routes.blocked(node, *dir) && takes_part(node) && takes_part(far)
            };
            // Nodes that dropped out of the group keep their place but have no neighbours in it.
            group.members[i].dirs = (0..DIRS).filter(near).fold(0, |bits, dir| bits | 1u16 << dir);
        }
    }

    fn longest_among(&self, nodes: &[NodeId]) -> (u32, Option<(NodeId, NodeId)>) {
        if nodes.len() > LONGEST_EXACT {
            // A detour may go the long way round in every dimension, with a first and a last step.
            let (shape, whole) = (&self.net.shape, !self.routes.any_dead());
            let reach = |size: usize| if whole && shape.is_torus() { size / 2 } else { size - 1 };
            let hops: usize = shape.dims().iter().map(|size| reach(*size as usize)).sum();
            let dead = nodes.iter().find(|n| !self.routes.node_up(**n));
            return (hops as u32 + if whole { 0 } else { 2 }, dead.map(|n| (nodes[0], *n)));
        }
        let mut longest = 0;
        for &a in nodes {
            for &b in nodes {
                match self.routes.hops(a, b) {
                    Some(hops) => longest = longest.max(hops),
                    None => return (longest, Some((a, b))),
                }
            }
        }
        (longest, None)
    }

    /// Nodes a packet between two of `nodes` may pass, adaptive ones included.
    fn inside(&self, nodes: &[NodeId]) -> Vec<bool> {
        let all = self.net.nodes;
        if nodes.len() > GROUP_EXACT || nodes.len() == all {
            return vec![true; all];
        }
        let mut inside = vec![false; all];
        for &a in nodes {
            for &b in nodes {
                for link in self.routes.path(a, b).into_iter().flatten() {
                    inside[link.node as usize] = true;
                }
                let shortest = self.net.shape.distance(a, b);
                if !self.routes.any_dead() && shortest > 1 {
                    let between = |n: u32| self.distance(a, n) + self.distance(n, b) == shortest;
                    (0..all as u32).filter(|n| between(*n)).for_each(|n| inside[n as usize] = true);
                }
            }
        }
        inside
    }

    /// Length of a minimal route, from the coordinate tables.
    fn distance(&self, a: NodeId, b: NodeId) -> u32 {
        let (a, b) = (self.net.coords(a), self.net.coords(b));
        let torus = self.net.shape.is_torus();
        (0..4)
            .map(|d| {
                let straight = a[d].abs_diff(b[d]) as u32;
                if torus { straight.min(self.net.shape.size(d) as u32 - straight) } else { straight }
            })
            .sum()
    }
}
