//! Routes that even out all-to-all traffic.
//!
//! A pair may have several shortest ways in direction order: half-way around a ring both directions are as short. Where the ring
//! has two nodes, these are its two cables. All begin with the way that parity says. Then pairs choose in turn the way whose busiest
//! link carries least when every pair sends one packet, then the one whose links carry least together, until nothing changes or
//! [`TURNS`] are over; the busiest link of all never gets more. Direction order is kept, so these tables are free of deadlock as all others are. The idea is that of load-aware tables (arXiv 2110.00851); the
//! steps are ours.

use super::net::{DIMS, NONE, Net, link_index};
use super::route::Route;
use super::way::Way;
use angara_net::torus::NodeId;

/// Most nodes for which balanced routes are found: the table has an entry for each pair.
pub const BALANCED_NODES: usize = 1024;
/// Times that each pair chooses.
const TURNS: usize = 8;

/// The balanced routes of all pairs, by source, then by target.
pub(super) fn balance(net: &Net) -> Vec<Route> {
    let nodes = net.nodes as NodeId;
    let mut load = vec![0u32; net.nodes * net.dirs];
    let mut chosen = vec![Route::LOCAL; net.nodes * net.nodes];
    for (src, dst) in (0..nodes).flat_map(|src| (0..nodes).map(move |dst| (src, dst))) {
        let route = ways(net, src, dst)[0];
        walk(net, src, dst, &route, |link| load[link] += 1);
        chosen[(src * nodes + dst) as usize] = route;
    }
    for _ in 0..TURNS {
        let mut changed = false;
        // Neighbouring pairs choose far from each other in time.
        for (offset, src) in (1..nodes).flat_map(|offset| (0..nodes).map(move |src| (offset, src))) {
            let dst = (src + offset) % nodes;
            let ways = ways(net, src, dst);
            if ways.len() == 1 {
                continue;
            }
            let route = &mut chosen[(src * nodes + dst) as usize];
            walk(net, src, dst, route, |link| load[link] -= 1);
            let cost = |route: &Route| {
                let (mut most, mut all) = (0, 0);
                walk(net, src, dst, route, |link| {
                    most = most.max(load[link]);
                    all += load[link];
                });
                (most, all)
            };
            // Among equal ways, the present one stays.
            let best = ways.into_iter().min_by_key(|way| (cost(way), way != route)).expect("there is a way");
            walk(net, src, dst, &best, |link| load[link] += 1);
            changed |= best != *route;
            *route = best;
        }
        if !changed {
            break;
        }
    }
    chosen
}

/// The shortest ways of a pair in direction order.
fn ways(net: &Net, src: NodeId, dst: NodeId) -> Vec<Route> {
    let (a, b) = (net.coords(src), net.coords(dst));
    let mut all = vec![Route::LOCAL];
    for dim in (0..DIMS).filter(|dim| a[*dim] != b[*dim]) {
        let (plus, hops) = net.shorter(src, dst, dim);
        let both = net.is_ring(dim) && net.hops_towards(src, dst, dim, !plus) == hops;
        let bit = |plus: bool| 1u8 << if plus { dim } else { dim + DIRECTIONS };
        let one = all.iter().map(|way| Route { dirbits: way.dirbits | bit(plus), hops: way.hops + hops, ..*way });
        let other = all.iter().map(|way| Route { dirbits: way.dirbits | bit(!plus), hops: way.hops + hops, ..*way });
        all = if both { one.chain(other).collect() } else { one.collect() };
    }
    all
}

/// From +X to −X in direction bits.
const DIRECTIONS: usize = 4;

/// Calls `visit` with the index of each link of a route.
fn walk(net: &Net, src: NodeId, dst: NodeId, route: &Route, mut visit: impl FnMut(usize)) {
    let (mut at, mut way) = (src, Way::along(net, src, route, dst));
    while let Some(dir) = way.next() {
        way.taken(dir, net.dim(dir));
        visit(link_index(at, dir));
        at = net.neighbour(at, dir);
        debug_assert_ne!(at, NONE, "shortest ways have their links");
    }
}
