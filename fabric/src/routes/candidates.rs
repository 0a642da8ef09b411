//! Every route that the grammar allows: `[first step] · directions in order · [last step]`.

use super::links::Links;
use super::net::NONE;
use super::route::Route;
use crate::bits::bits;
use angara_abi::packet::Detour;
use angara_net::torus::{Direction, NodeId};

/// Calls `visit` for every route from `src` to `dst` that the grammar allows, usable or not, with
/// "keeps direction order throughout". First steps come in routing order, then last steps, then signs;
/// without `detours` there are no such steps.
pub(super) fn candidates(links: &Links, src: NodeId, dst: NodeId, detours: bool, mut visit: impl FnMut(Route, bool)) {
    let net = &links.net;
    let used = if detours { &Direction::ALL[..] } else { &[] };
    let steps = || std::iter::once(None).chain(used.iter().copied().map(Some));
    for first_step in steps() {
        let start = first_step.map_or(src, |d| net.neighbour(src, d.index()));
        if start == NONE {
            continue;
        }
        for last_step in steps() {
            let end = last_step.map_or(dst, |d| net.neighbour(dst, d.opposite().index()));
            if end != NONE {
                sign_choices(links, (start, end), first_step, last_step, &mut visit);
            }
        }
    }
}

fn sign_choices(
    links: &Links,
    (start, end): (NodeId, NodeId),
    first_step: Detour,
    last_step: Detour,
    visit: &mut impl FnMut(Route, bool),
) {
    let net = &links.net;
    let (a, b) = (net.coords(start), net.coords(end));
    let torus = net.shape.is_torus();
    let mut differ = [0; 4];
    let mut count = 0;
    for dim in (0..4).filter(|&d| a[d] != b[d]) {
        differ[count] = dim;
        count += 1;
    }
    for signs in 0..1u32 << count {
        let mut route = Route { dirbits: 0, first_step, last_step, hops: 0 };
        route.hops = first_step.is_some() as u16 + last_step.is_some() as u16;
        let mut possible = true;
        for (i, &dim) in differ[..count].iter().enumerate() {
            let plus = signs >> i & 1 == 0;
            possible &= torus || (b[dim] > a[dim]) == plus;
            route.dirbits |= 1 << if plus { dim } else { dim + 4 };
            route.hops += net.hops_towards(start, end, dim, plus);
        }
        if !possible || route.hops == 0 {
            continue;
        }
        if let Some(ordered) = order(&route) {
            visit(route, ordered);
        }
    }
}

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
