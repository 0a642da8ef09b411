//! Routes that even out all-to-all traffic of a part.
//!
//! A pair may have several shortest ways in direction order: half-way around a ring both directions
//! are as short. Where the ring has two nodes, these are its two cables; around a hole there may be
//! several detours. All begin with the one that parity says, if it is there. Then pairs choose in
//! turn the way whose busiest link carries least when every pair sends one packet, then the one whose
//! links carry least together, until nothing changes or [`TURNS`] are over; the busiest link of all
//! never gets more. Direction order is kept, so these tables are free of deadlock as all others are.
//! The idea is that of load-aware tables (arXiv 2110.00851); the steps are ours.

use super::candidates::candidates;
use super::links::Links;
use super::net::{DIRS, link_index};
use super::route::Route;
use super::table::{plain, walk};
use angara_net::torus::NodeId;

/// Times that each pair chooses.
const TURNS: usize = 8;

/// The balanced routes of all pairs of `nodes`, by source, then by target; `None` for pairs without
/// a usable route in direction order.
pub(super) fn balance(links: &Links, nodes: &[NodeId]) -> Vec<Option<Route>> {
    let n = nodes.len();
    let mut load = vec![0u32; links.net.nodes * DIRS];
    let mut chosen = vec![None; n * n];
    // Pairs with a choice, and their shortest ways.
    let mut choices = Vec::new();
    for i in 0..n * n {
        let (src, dst) = (nodes[i / n], nodes[i % n]);
        let ways = ways(links, src, dst);
        chosen[i] = ways.first().copied();
        ways.first().into_iter().for_each(|route| visit(links, src, dst, route, |link| load[link] += 1));
        if ways.len() > 1 {
            choices.push((i, ways));
        }
    }
    // Neighbouring pairs choose far from each other in time.
    let offset = |i: usize| (i % n + n - i / n) % n;
    choices.sort_by_key(|(i, _)| (offset(*i), i / n));
    for _ in 0..TURNS {
        let mut changed = false;
        for (i, ways) in &choices {
            let (src, dst) = (nodes[i / n], nodes[i % n]);
            let Some(route) = &mut chosen[*i] else { continue };
            visit(links, src, dst, route, |link| load[link] -= 1);
            // Among equal ways, the present one stays.
            let key = |way: &&Route| (cost(links, src, dst, way, &load), *way != route);
            let best = ways.iter().min_by_key(key).copied().unwrap_or(*route);
            visit(links, src, dst, &best, |link| load[link] += 1);
            changed |= best != *route;
            *route = best;
        }
        if !changed {
            break;
        }
    }
    chosen
}

/// The shortest usable ways of a pair in direction order, the pair's own first.
fn ways(links: &Links, src: NodeId, dst: NodeId) -> Vec<Route> {
    if src == dst {
        return if links.node_up(src) { vec![Route::LOCAL] } else { Vec::new() };
    }
    let own = plain(&links.net, &[], src, dst);
    let mut found: Vec<Route> = if links.carry(src, dst, &own) { vec![own] } else { Vec::new() };
    // A shortest way without first and last step is as good as any with them: these lead over the same links.
    let steps = found.is_empty();
    candidates(links, src, dst, steps, |route, ordered| {
        let least = found.first().map_or(u16::MAX, |first| first.hops);
        if !ordered || route == own || route.hops > least {
            return;
        }
        if route.hops < least {
            found.clear();
        }
        found.push(route);
    });
    found
}

/// What a way costs while links carry `load`: on its busiest link, then on all of them together.
#[inline]
pub(super) fn cost(links: &Links, src: NodeId, dst: NodeId, route: &Route, load: &[u32]) -> (u32, u32) {
    let (mut most, mut all) = (0, 0);
    visit(links, src, dst, route, |link| {
        most = most.max(load[link]);
        all += load[link];
    });
    (most, all)
}

/// Calls `visit` with the index of each link of a route.
#[inline]
pub(super) fn visit(links: &Links, src: NodeId, dst: NodeId, route: &Route, mut visit: impl FnMut(usize)) {
    walk(&links.net, src, dst, route, |link| {
        visit(link_index(link.node, link.dir.index()));
        true
    });
}
