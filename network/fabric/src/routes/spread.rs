//! Routes that even out all-to-all traffic of a part by leaving direction order.
//!
//! In direction order a packet that needs −X and +Y goes up first, and one that needs +X and +Y goes
//! up last, so the columns at one side of a part carry more than those at the other. A first or last
//! step in a direction that the packet needs anyway costs no hop and moves its middle by one row. All
//! pairs begin with their balanced route in order ([`super::balance`]). Then they choose in turn among
//! their shortest ways with such steps the one whose busiest link carries least, then the one whose
//! links carry least together, if it closes no circle with the turns of all routes chosen so far.
//!
//! The goal is that of the load-aware shortest paths on a routing graph of arXiv 2110.00851; the
//! steps are ours.

use super::balance::{balance, cost, visit};
use super::links::Links;
use super::net::DIRS;
use super::route::Route;
use super::turns::{Turns, turns};
use crate::bits::bits;
use angara_net::torus::{Direction, NodeId};

/// Times that each pair chooses.
const TURNS: usize = 2;

/// The routes of all pairs of `nodes`, by source, then by target; `None` for pairs without a usable
/// route in direction order.
pub(super) fn spread(links: &Links, nodes: &[NodeId]) -> Vec<Option<Route>> {
    let n = nodes.len();
    let mut load = vec![0u32; links.net.nodes * DIRS];
    let mut known = Turns::default();
    let mut chosen = balance(links, nodes);
    for (i, route) in chosen.iter().enumerate() {
        let Some(route) = route else { continue };
        let (src, dst) = (nodes[i / n], nodes[i % n]);
        visit(links, src, dst, route, |link| load[link] += 1);
        let in_order = known.admit(&turns(links, src, dst, route));
        debug_assert!(in_order, "routes in direction order close no circle");
    }
    for _ in 0..TURNS {
        let mut changed = false;
        // Neighbouring pairs choose far from each other in time.
        for (offset, i) in (1..n).flat_map(|offset| (0..n).map(move |i| (offset, i))) {
            let (src, dst) = (nodes[i], nodes[(i + offset) % n]);
            let Some(present) = &mut chosen[i * n + (i + offset) % n] else { continue };
            visit(links, src, dst, present, |link| load[link] -= 1);
            let mut best = (cost(links, src, dst, present, &load), *present);
            for way in ways(links, src, dst, present) {
                let cost = cost(links, src, dst, &way, &load);
                if cost < best.0 && known.admit(&turns(links, src, dst, &way)) {
                    best = (cost, way);
                }
            }
            changed |= best.1 != *present;
            *present = best.1;
            visit(links, src, dst, present, |link| load[link] += 1);
        }
        if !changed {
            break;
        }
    }
    chosen
}

/// The usable ways over as few links as `route`, with its directions: each with and without first and last step.
fn ways(links: &Links, src: NodeId, dst: NodeId, route: &Route) -> Vec<Route> {
    let net = &links.net;
    let mut dirs = route.dirbits;
    [route.first_step, route.last_step].into_iter().flatten().for_each(|dir| dirs |= dir.bit());
    if dirs.count_ones() < 2 {
        return Vec::new();
    }
    let steps = || std::iter::once(None).chain(bits(dirs).map(|dir| Direction::from_index(dir as usize)));
    let mut found = Vec::new();
    for first_step in steps() {
        let start = first_step.map_or(src, |d| net.neighbour(src, d.index()));
        for last_step in steps() {
            let end = last_step.map_or(dst, |d| net.neighbour(dst, d.opposite().index()));
            let (a, b) = (net.coords(start), net.coords(end));
            let mut way = Route { dirbits: 0, first_step, last_step, hops: 0 };
            way.hops = u16::from(first_step.is_some()) + u16::from(last_step.is_some());
            for dir in bits(dirs).map(|dir| dir as usize).filter(|&dir| a[net.dim(dir)] != b[net.dim(dir)]) {
                way.dirbits |= 1 << dir;
                way.hops += net.hops_towards(start, end, net.dim(dir), dir < DIRS / 2);
            }
            if way.hops == route.hops && way != *route && links.carry(src, dst, &way) {
                found.push(way);
            }
        }
    }
    found
}
