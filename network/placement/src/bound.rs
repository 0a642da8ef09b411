//! How little the busiest link of a set can carry when every pair sends one packet.
//!
//! The largest of three counts, none of which depends on how routes are chosen: all links share the hops
//! that the shortest legal routes need; a node's packets leave by its own links; and packets between a
//! slab of the set (all nodes with one coordinate in a range) and the rest cross the links between them.

use crate::{Machine, NodeSet};
use angara_fabric::Routes;
use angara_net::Link;

/// The bound, for pairs that have routes.
pub(crate) fn of(machine: &Machine, routes: &Routes, set: &NodeSet, links: &[Link]) -> u64 {
    let (shape, n) = (machine.shape(), set.nodes.len() as u64);
    if links.is_empty() || n < 2 {
        return 0;
    }
    let shared = least_hops(machine, routes, set).div_ceil(links.len() as u64);
    let own = set.nodes.iter().map(|node| links.iter().filter(|l| l.node == *node).count() as u64);
    let leaving = own.filter(|own| *own > 0).map(|own| (n - 1).div_ceil(own)).max().unwrap_or(0);
    let mut most = shared.max(leaving);
    for dim in 0..shape.dims().len() {
        let size = shape.size(dim);
        let at = |node: u32| shape.coords(node).0[dim] as usize;
        // By coordinate: nodes, and links to the next coordinate up and down.
        let (mut nodes, mut up, mut down) = (vec![0u64; size], vec![0u64; size], vec![0u64; size]);
        set.nodes.iter().for_each(|node| nodes[at(*node)] += 1);
        for link in links.iter().filter(|l| l.dir.dim() == dim) {
            if link.dir.is_plus() { up[at(link.node)] += 1 } else { down[at(link.node)] += 1 }
        }
        for first in 0..size {
            let mut inside = 0;
            for last in first..size {
                inside += nodes[last];
                if last - first + 1 == size {
                    break;
                }
                // Out of the slab: up from its last coordinate, down from its first.
                let crossing = up[last] + down[first];
                if inside > 0 && inside < n && crossing > 0 {
                    most = most.max((inside * (n - inside)).div_ceil(crossing));
                }
            }
        }
    }
    most
}

/// Hops of all pairs if each had the shortest way that a torus without faults and borders offers.
fn least_hops(machine: &Machine, routes: &Routes, set: &NodeSet) -> u64 {
    let shape = machine.shape();
    let served = |a: u32, b: u32| a != b && routes.route(a, b).is_some();
    let pairs = set.nodes.iter().flat_map(|a| set.nodes.iter().map(move |b| (*a, *b)));
    pairs.filter(|(a, b)| served(*a, *b)).map(|(a, b)| u64::from(shape.distance(a, b))).sum()
}
