//! Participants of a job's barriers: its nodes, the nodes between them, and how far they are apart.

use super::family::BarrierFamily;
use super::state::Barriers;
use super::state::Member;
use crate::adapter::Adapters;
use crate::routes::{DIRS, NONE};
use crate::types::JobSlot;
use angara_net::torus::{Coords, NodeId, Shape};

/// Above this many nodes of a job (and for jobs that fill the network) the group is every node.
const GROUP_EXACT: usize = 128;
/// Above this many nodes of a job K is not the longest route but a bound for it.
const LONGEST_EXACT: usize = 2048;

impl Barriers {
    /// Computes K and the transit nodes if a route change or a new job made that necessary.
    pub(crate) fn prepare_group(&mut self, host: &mut Adapters, job: JobSlot) {
        let Some(j) = self.jobs.get_mut(job.index()).and_then(Option::as_mut) else { return };
        if j.group.phases.is_some() {
            return;
        }
        let (nodes, family) = (j.nodes.clone(), j.group.family);
        let (longest, cut) = match family == BarrierFamily::Multiphase || !host.chip.routes.whole() {
            true => self.longest_among(host, &nodes),
            false => (0, None),
        };
        let inside = if family == BarrierFamily::Multiphase { self.inside(host, &nodes) } else { Vec::new() };
        let (net, routes) = (host.chip.net.clone(), &host.chip.routes);
        let Some(j) = self.jobs[job.index()].as_mut() else { return };
        let group = &mut j.group;
        group.phases = Some(longest);
        group.cut = cut;
        group.checked &= cut.is_none();
        if family != BarrierFamily::Multiphase {
            return self.prepare_messages(host, job);
        }
        let barrier = group.members.iter().filter(|m| m.ports > 0).map(|m| m.done).min().unwrap_or(0);
        for node in 0..net.nodes as u32 {
            // Nodes of other parts of the machine are cut off, and have barriers of their own.
            let between = inside[node as usize] && routes.node_up(node) && routes.together(node, nodes[0]);
            let member = nodes.binary_search(&node).is_ok() || between;
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

    fn longest_among(&self, host: &Adapters, nodes: &[NodeId]) -> (u32, Option<(NodeId, NodeId)>) {
        let whole = host.chip.routes.whole();
        if nodes.len() > LONGEST_EXACT && !whole {
            // A detour may go the long way round in every dimension, with a first and a last step.
            let hops: usize = host.chip.net.shape.dims().iter().map(|size| *size as usize - 1).sum();
            let dead = nodes.iter().find(|n| !host.chip.routes.node_up(**n));
            return (hops as u32 + 2, dead.map(|n| (nodes[0], *n)));
        }
        if whole {
            return (longest_route(&host.chip.net.shape, nodes), None);
        }
        let mut longest = 0;
        for &a in nodes {
            for &b in nodes {
                match host.chip.routes.hops(a, b) {
                    Some(hops) => longest = longest.max(hops),
                    None => return (longest, Some((a, b))),
                }
            }
        }
        (longest, None)
    }

    /// Nodes a packet between two of `nodes` may pass, adaptive ones included.
    fn inside(&self, host: &Adapters, nodes: &[NodeId]) -> Vec<bool> {
        if host.chip.routes.whole() || nodes.len() > GROUP_EXACT {
            return between(&host.chip.net.shape, nodes);
        }
        let mut inside = vec![false; host.chip.net.nodes];
        for &a in nodes {
            for &b in nodes {
                for link in host.chip.routes.path(a, b).into_iter().flatten() {
                    inside[link.node as usize] = true;
                }
            }
        }
        inside
    }
}

/// The longest route between two of `nodes`, everything in service; the longest there can be if they are many.
pub(super) fn longest_route(shape: &Shape, nodes: &[NodeId]) -> u32 {
    if nodes.len() > LONGEST_EXACT {
        let reach = |size: &u8| u32::from(if shape.is_torus() { *size / 2 } else { *size - 1 });
        return shape.dims().iter().map(reach).sum();
    }
    let from = |(i, a): (usize, &NodeId)| nodes[i..].iter().map(|b| shape.distance(*a, *b)).max();
    nodes.iter().enumerate().filter_map(from).max().unwrap_or(0)
}

/// Nodes on minimal ways between two of `nodes`, everything in service; all if they are many.
pub(super) fn between(shape: &Shape, nodes: &[NodeId]) -> Vec<bool> {
    let all = shape.nodes();
    if nodes.len() > GROUP_EXACT || nodes.len() == all {
        return vec![true; all];
    }
    let mut inside = vec![false; all];
    for (i, &a) in nodes.iter().enumerate() {
        for &b in &nodes[i + 1..] {
            let (from, to) = (shape.coords(a), shape.coords(b));
            let mut box_of = vec![Coords::default()];
            for dim in 0..shape.dims().len() {
                let passed = passed(from.0[dim], to.0[dim], shape.size(dim) as u8, shape.is_torus());
                let extend = |c: &Coords| passed.iter().map(move |at| with(*c, dim, *at)).collect::<Vec<_>>();
                box_of = box_of.iter().flat_map(extend).collect();
            }
            box_of.iter().filter_map(|c| shape.id(*c)).for_each(|n| inside[n as usize] = true);
        }
    }
    inside
}

fn with(mut at: Coords, dim: usize, value: u8) -> Coords {
    at.0[dim] = value;
    at
}

/// Coordinates on minimal ways from `a` to `b` in a dimension of `size`, both included; both ways round if they are equally long.
fn passed(a: u8, b: u8, size: u8, wrap: bool) -> Vec<u8> {
    if !wrap {
        return (a.min(b)..=a.max(b)).collect();
    }
    let size = u16::from(size);
    let up = (u16::from(b) + size - u16::from(a)) % size;
    let down = (size - up) % size;
    let step = |n: u16| ((u16::from(a) + n) % size) as u8;
    let mut at: Vec<u8> = if up <= down { (0..=up).map(step).collect() } else { Vec::new() };
    if down <= up && down > 0 {
        at.extend((0..=down).map(|n| step(size - n)));
    }
    at
}
