//! Which nodes of a set cannot be reached, and which nodes would join them.
//!
//! The question is that of I. Pozhilov, A. Semenov, D. Makagon (Connectivity problem solution for
//! direction ordered deterministic routing in nD torus, 2015) and of the tools of paper 002, section
//! 2.1; only abstracts are public, so the steps are ours. A pair is connected if some route of the
//! grammar, first and last steps included, leads from one to the other inside the set; the tables then
//! say whether all pairs can have theirs at once.

use crate::{Machine, NodeSet, SetTables};
use angara_fabric::Ways;
use angara_net::torus::{Direction, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Transit nodes added one after another to join a set, and free neighbours tried for each.
const JOINS: usize = 8;
const TRIED: usize = 24;
/// Largest set for which they are looked for: each try makes a table.
const JOINED_NODES: usize = 128;

/// What keeps the nodes of a set apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// Pairs without a route.
    pub pairs: usize,
    /// A pair without a route.
    pub example: (NodeId, NodeId),
    /// Nodes that most pairs without a route have in common, ascending: without them all others have routes.
    pub nodes: Vec<NodeId>,
    /// Free nodes that join the set if they pass packets on; empty if none were found.
    pub joins: Vec<NodeId>,
}

/// Tells whether all pairs of a set have routes inside it.
///
/// # Errors
/// Who is cut off, and what would join them.
pub fn connected(machine: &Machine, set: &NodeSet, ways: Ways) -> Result<SetTables, CutOff> {
    let tables = SetTables::of(machine, set, ways);
    if tables.complete() {
        return Ok(tables);
    }
    let missing = &tables.refused;
    let joins = joins(machine, set, ways, missing.len());
    Err(CutOff { pairs: missing.len(), example: missing[0], nodes: cut_off(missing), joins })
}

/// The nodes to give up so that no pair is left: always the one with most pairs.
fn cut_off(missing: &[(NodeId, NodeId)]) -> Vec<NodeId> {
    let mut left: BTreeSet<(NodeId, NodeId)> = missing.iter().copied().collect();
    let mut given_up = Vec::new();
    while !left.is_empty() {
        let mut count: BTreeMap<NodeId, usize> = BTreeMap::new();
        left.iter().flat_map(|(a, b)| [*a, *b]).for_each(|node| *count.entry(node).or_default() += 1);
        let worst =
            count.iter().max_by_key(|(node, pairs)| (**pairs, std::cmp::Reverse(**node))).map(|(node, _)| *node);
        let Some(worst) = worst else { break };
        left.retain(|(a, b)| *a != worst && *b != worst);
        given_up.push(worst);
    }
    given_up.sort_unstable();
    given_up
}

/// Free nodes that join a set of which `left` pairs have no route, as transit nodes: one after another, always the neighbour after which the fewest pairs
/// are left. Of equals, the one nearest to all nodes of the set. Empty if some stay cut off, or for sets of more than
/// 128 nodes.
fn joins(machine: &Machine, set: &NodeSet, ways: Ways, mut left: usize) -> Vec<NodeId> {
    if set.nodes.len() > JOINED_NODES {
        return Vec::new();
    }
    let shape = *machine.shape();
    let mut grown = set.clone();
    let mut added = Vec::new();
    while left > 0 && added.len() < JOINS {
        let held: BTreeSet<NodeId> = grown.held().collect();
        let near = held.iter().flat_map(|node| Direction::ALL.map(|dir| shape.neighbour(*node, dir)));
        let near: BTreeSet<NodeId> = near.flatten().filter(|n| !held.contains(n) && machine.is_free(*n)).collect();
        let distance = |node: NodeId| grown.nodes.iter().map(|n| shape.distance(*n, node)).sum::<u32>();
        let mut near: Vec<NodeId> = near.into_iter().collect();
        near.sort_by_key(|node| distance(*node));
        let tried = near.into_iter().take(TRIED).map(|node| {
            let mut with = grown.clone();
            with.transit.push(node);
            (SetTables::of(machine, &with, ways).refused.len(), distance(node), node)
        });
        let Some((refused, _, node)) = tried.min() else { break };
        grown.transit.push(node);
        added.push(node);
        left = refused;
    }
    if left == 0 { added } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Outage;

    #[test]
    fn who_is_cut_off_and_what_joins_them_is_said() {
        let machine = Machine::new("4x4".parse().unwrap(), &[Outage::Node(1)]);
        let set = NodeSet::of(vec![0, 2, 6, 7]);
        let cut = connected(&machine, &set, Ways::Parity).unwrap_err();
        assert_eq!((cut.pairs, cut.nodes.as_slice()), (6, &[0][..]));
        assert!(!cut.joins.is_empty());
        let joined = NodeSet { transit: cut.joins, ..set };
        assert!(connected(&machine, &joined, Ways::Parity).is_ok());
    }

    #[test]
    fn what_nothing_joins_is_said_too() {
        let around = [1, 4, 12, 3].map(Outage::Node);
        let machine = Machine::new("4x4".parse().unwrap(), &around);
        let cut = connected(&machine, &NodeSet::of(vec![0, 10]), Ways::Parity).unwrap_err();
        assert_eq!((cut.pairs, cut.joins.len()), (2, 0));
    }
}
