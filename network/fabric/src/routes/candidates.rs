//! Every route that the grammar allows: `[first step] · directions in order · [last step]`.

use super::links::Links;
use super::net::NONE;
use super::route::Route;
use crate::bits::bits;
use angara_abi::packet::Detour;
use angara_net::torus::{Direction, NodeId};

/// Calls `visit` for every route from `src` to `dst` that the grammar allows and that crosses usable links only, with
/// "keeps direction order throughout". First steps come in routing order, then last steps, then signs;
/// without `detours` there are no such steps.
pub(super) fn candidates(links: &Links, src: NodeId, dst: NodeId, detours: bool, mut visit: impl FnMut(Route, bool)) {
    let net = &links.net;
    let used = if detours { &Direction::ALL[..] } else { &[] };
    let steps = || std::iter::once(None).chain(used.iter().copied().map(Some));
    for first_step in steps() {
        if first_step.is_some_and(|d| links.blocked(src, d.index())) {
            continue;
        }
        let start = first_step.map_or(src, |d| net.neighbour(src, d.index()));
        for last_step in steps() {
            let end = last_step.map_or(dst, |d| net.neighbour(dst, d.opposite().index()));
            if end == NONE || last_step.is_some_and(|d| links.blocked(end, d.index())) {
                continue;
            }
            let hops = u16::from(first_step.is_some()) + u16::from(last_step.is_some());
            let mut found = Found { routes: [Route { dirbits: 0, first_step, last_step, hops }; 16], count: 0 };
            let left = (0..4).filter(|&d| net.coords(start)[d] != net.coords(end)[d]).fold(0, |bits, d| bits | 1 << d);
            follow(links, start, end, 0, left, found.routes[0], &mut found);
            // Plus before minus, the highest dimension weighing most.
            let routes = &mut found.routes[..found.count];
            routes.sort_unstable_by_key(|route| route.dirbits >> 4);
            for route in routes.iter().filter(|route| route.hops > 0) {
                if let Some(ordered) = order(route) {
                    visit(*route, ordered);
                }
            }
        }
    }
}

/// Routes that differ in signs alone.
struct Found {
    routes: [Route; 16],
    count: usize,
}

/// Goes on from `at` with direction `dir` and later ones, while links can be used; `left` has the dimensions in which hops are
/// left, one bit each.
fn follow(links: &Links, at: NodeId, end: NodeId, dir: usize, left: u8, route: Route, found: &mut Found) {
    if left == 0 {
        found.routes[found.count] = route;
        found.count += 1;
        return;
    }
    // After the last direction nothing can be left to go.
    if dir == 2 * DIMENSIONS {
        return;
    }
    let (dim, plus) = (dir % DIMENSIONS, dir < DIMENSIONS);
    if left & 1 << dim == 0 {
        return follow(links, at, end, dir + 1, left, route, found);
    }
    let net = &links.net;
    let towards = net.shape.is_torus() || (net.coords(end)[dim] > net.coords(at)[dim]) == plus;
    let hops = net.hops_towards(at, end, dim, plus);
    if towards && links.reach(at, dir) >= hops {
        let taken = Route { dirbits: route.dirbits | 1 << dir, hops: route.hops + hops, ..route };
        let next = net.with_coordinate(at, dim, net.coords(end)[dim]);
        follow(links, next, end, dir + 1, left & !(1 << dim), taken, found);
    }
    if plus {
        follow(links, at, end, dir + 1, left, route, found);
    }
}

/// Dimensions of the chip.
const DIMENSIONS: usize = 4;

/// Whether a route keeps direction order throughout; `None` if it turns back on itself.
pub(super) fn order(route: &Route) -> Option<bool> {
    let step = |d: Detour| d.map(|d| d.index() as u8);
    let middle = bits(route.dirbits).map(|d| d as u8);
    let (mut before, mut ordered) = (None::<u8>, true);
    for dir in step(route.first_step).into_iter().chain(middle).chain(step(route.last_step)) {
        if let Some(before) = before {
            if before ^ 4 == dir {
                return None;
            }
            ordered &= before <= dir;
        }
        before = Some(dir);
    }
    Some(ordered)
}

/// Preference among routes of one pair: fewer links; direction order; no first step; no last step.
/// Of equals the first visited is taken.
pub(super) fn preference(route: &Route, ordered: bool) -> (u16, bool, bool, bool) {
    (route.hops, !ordered, route.first_step.is_some(), route.last_step.is_some())
}
