//! Routes of `docs/explain/model.md` section 4, "Failures", found by trying everything.

use crate::Grid;
use std::collections::{BTreeMap, BTreeSet};

/// Parts out of service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dead {
    /// Directed links: node and port; both directions of a cable.
    pub(super) links: BTreeSet<(u32, usize)>,
    pub(super) nodes: BTreeSet<u32>,
    /// The node set that each node belongs to, and whether it only passes packets on; nodes that are not
    /// here are in none.
    pub(super) sets: BTreeMap<u32, (usize, bool)>,
}

/// The ports every pair's packets leave through, node by node; `None` if the pair is unreachable.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    table: Vec<Option<Vec<usize>>>,
    nodes: u32,
    /// Parts in which some pair's route leaves routing order.
    pub(super) out_of_order: BTreeSet<Option<usize>>,
}

/// Place of a port among the links of a node: + of every dimension, then − of every dimension.
pub(super) fn order(port: usize) -> (usize, usize) {
    (port % 2, port / 2)
}

/// Half-way around a ring: does the pair go towards plus in dimension `d`?
fn tie(from: &[u32], to: &[u32], d: usize) -> bool {
    let others: u32 = to.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, c)| c).sum();
    (from.iter().sum::<u32>() + others).is_multiple_of(2)
}

/// The neighbour through `port`, if there is one.
fn neighbour(grid: &Grid, node: u32, port: usize) -> Option<u32> {
    let (size, c) = (grid.sizes[port / 2], grid.coords(node)[port / 2]);
    let edge = if port.is_multiple_of(2) { c + 1 == size } else { c == 0 };
    (size > 1 && (grid.wrap || !edge)).then(|| grid.step(node, port))
}

/// Ports from `from` to `to` in routing order, `towards[d]` saying which way in dimension `d`.
/// `None` where that way leads off a mesh.
fn ordered(grid: &Grid, from: u32, to: u32, towards: &[bool]) -> Option<Vec<usize>> {
    let (a, b) = (grid.coords(from), grid.coords(to));
    let mut ports: Vec<usize> = Vec::new();
    for d in (0..a.len()).filter(|&d| a[d] != b[d]) {
        if !grid.wrap && towards[d] != (b[d] > a[d]) {
            return None;
        }
        let (size, low, high) = if towards[d] { (grid.sizes[d], a[d], b[d]) } else { (grid.sizes[d], b[d], a[d]) };
        let hops = (high + size - low) % size;
        ports.extend(std::iter::repeat_n(2 * d + usize::from(!towards[d]), hops as usize));
    }
    ports.sort_by_key(|&p| order(p));
    Some(ports)
}

/// The pair's own route.
pub(super) fn own(grid: &Grid, from: u32, to: u32) -> Vec<usize> {
    let (a, b) = (grid.coords(from), grid.coords(to));
    let towards: Vec<bool> = (0..a.len()).map(|d| grid.towards_plus(a[d], b[d], d, tie(&a, &b, d))).collect();
    ordered(grid, from, to, &towards).unwrap()
}

impl Dead {
    /// The cable at `port` of `node` and what it leads to can be used.
    pub(super) fn usable(&self, grid: &Grid, node: u32, port: usize) -> bool {
        let far = neighbour(grid, node, port);
        far.is_some_and(|far| {
            !self.links.contains(&(node, port))
                && !self.nodes.contains(&node)
                && !self.nodes.contains(&far)
                && self.part(node) == self.part(far)
        })
    }
    /// The set of a node, if it is in one.
    pub(super) fn part(&self, node: u32) -> Option<usize> {
        self.sets.get(&node).map(|(set, _)| *set)
    }
    /// Packets may go from one node to another, if there is a way.
    fn may_talk(&self, from: u32, to: u32) -> bool {
        let ends = |node: &u32| !self.nodes.contains(node) && !self.sets.get(node).is_some_and(|(_, transit)| *transit);
        ends(&from) && ends(&to) && self.part(from) == self.part(to)
    }
    /// A route from `node` crosses nothing dead.
    pub(super) fn clear(&self, grid: &Grid, mut node: u32, route: &[usize]) -> bool {
        route.iter().all(|&port| {
            let usable = self.usable(grid, node, port);
            if usable {
                node = grid.step(node, port);
            }
            usable
        })
    }
    pub(super) fn any(&self) -> bool {
        !self.links.is_empty() || !self.nodes.is_empty() || !self.sets.is_empty()
    }
}

/// Every route the grammar allows and nothing dead forbids, in the order of preference, with "keeps
/// routing order".
fn candidates(grid: &Grid, dead: &Dead, from: u32, to: u32) -> Vec<(Vec<usize>, bool)> {
    let dims = grid.sizes.len();
    let mut steps: Vec<Option<usize>> = (0..2 * dims).map(Some).collect();
    steps.sort_by_key(|s| order(s.unwrap()));
    steps.insert(0, None);
    let mut found = Vec::new();
    for (f, &first) in steps.iter().enumerate() {
        let Some(start) = first.map_or(Some(from), |p| neighbour(grid, from, p)) else { continue };
        for (l, &last) in steps.iter().enumerate() {
            let Some(end) = last.map_or(Some(to), |p| neighbour(grid, to, p ^ 1)) else { continue };
            for signs in 0..1u32 << dims {
                let (a, b) = (grid.coords(start), grid.coords(end));
                // A sign where there is nowhere to go would only list the same route twice.
                if (0..dims).any(|d| a[d] == b[d] && signs >> d & 1 == 1) {
                    continue;
                }
                let towards: Vec<bool> = (0..dims).map(|d| signs >> d & 1 == 0).collect();
                let Some(middle) = ordered(grid, start, end, &towards) else { continue };
                let ports: Vec<usize> = first.into_iter().chain(middle).chain(last).collect();
                let turns_back = ports.windows(2).any(|w| w[0] == w[1] ^ 1);
                if ports.is_empty() || turns_back || !dead.clear(grid, from, &ports) {
                    continue;
                }
                let in_order = ports.is_sorted_by_key(|&p| order(p));
                found.push(((ports.len(), !in_order, first.is_some(), last.is_some(), f, l, signs), ports));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(key, ports)| (ports, !key.1)).collect()
}

/// A segment: all nodes whose link through a port follows on one another, and the port.
type Segment = (BTreeSet<u32>, usize);

/// The segment of a link that can be used.
fn segment(grid: &Grid, dead: &Dead, node: u32, port: usize) -> Segment {
    let mut nodes = BTreeSet::new();
    for towards in [port, port ^ 1] {
        let mut at = Some(node);
        while let Some(here) = at.filter(|&here| dead.usable(grid, here, port)) {
            if !nodes.insert(here) && here != node {
                break;
            }
            at = neighbour(grid, here, towards).filter(|&next| next != node);
        }
    }
    (nodes, port)
}

/// From which segments into which a route turns; segments are numbered as they are met.
fn turns(
    grid: &Grid,
    dead: &Dead,
    mut node: u32,
    route: &[usize],
    numbers: &mut BTreeMap<Segment, usize>,
) -> BTreeSet<(usize, usize)> {
    let mut segments = Vec::new();
    for &port in route {
        let next = numbers.len();
        segments.push(*numbers.entry(segment(grid, dead, node, port)).or_insert(next));
        node = grid.step(node, port);
    }
    segments.windows(2).filter(|w| w[0] != w[1]).map(|w| (w[0], w[1])).collect()
}

/// No segment is reached again by following turns: segments that nobody turns into are taken away until
/// none is left.
fn acyclic(turns: &BTreeSet<(usize, usize)>) -> bool {
    let mut left: Vec<&(usize, usize)> = turns.iter().collect();
    while !left.is_empty() {
        let into: BTreeSet<usize> = left.iter().map(|t| t.1).collect();
        let before = left.len();
        left.retain(|t| into.contains(&t.0));
        if left.len() == before {
            return false;
        }
    }
    true
}

type Pair = (u32, u32);
type Chosen = Vec<(Pair, Option<Vec<usize>>)>;
type Turns = BTreeSet<(usize, usize)>;

impl Routes {
    pub(super) fn new(grid: &Grid, dead: &Dead) -> Routes {
        let nodes = grid.nodes();
        let mut routes = Routes { table: Vec::new(), nodes, out_of_order: BTreeSet::new() };
        let mut without = Vec::new();
        for from in 0..nodes {
            for to in 0..nodes {
                let alive = dead.may_talk(from, to);
                let mut route = Some(own(grid, from, to)).filter(|r| alive && dead.clear(grid, from, r));
                if alive && route.is_none() {
                    let all = candidates(grid, dead, from, to);
                    route = all.iter().find(|(_, in_order)| *in_order).map(|(ports, _)| ports.clone());
                    if route.is_none() && !all.is_empty() {
                        without.push((from, to, all));
                    }
                }
                routes.table.push(route);
            }
        }
        let parts: BTreeSet<Option<usize>> = without.iter().map(|(from, _, _)| dead.part(*from)).collect();
        for part in parts {
            routes.leave_order(grid, dead, part);
        }
        routes
    }

    /// The pairs of a part choose again and again, as long as some find no route.
    fn leave_order(&mut self, grid: &Grid, dead: &Dead, part: Option<usize>) {
        let transit = |node: &u32| dead.sets.get(node).is_some_and(|(_, transit)| *transit);
        let nodes: Vec<u32> = (0..self.nodes).filter(|n| dead.part(*n) == part && !transit(n)).collect();
        let ordered = self.table.clone();
        let in_order = |(from, to): &(u32, u32)| ordered[(from * self.nodes + to) as usize].clone();
        let all: Vec<(u32, u32)> = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to))).collect();
        let up: Vec<(u32, u32)> = all.iter().copied().filter(|(from, to)| dead.may_talk(*from, *to)).collect();
        let attempts = ((1 << 20) / all.len()).clamp(1, 64);
        let mut refusals: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        let mut best: Option<(usize, Chosen)> = None;
        // What each pair may choose, in its order of preference, with the turns.
        let mut numbers = BTreeMap::new();
        let choices: BTreeMap<Pair, Vec<(Vec<usize>, Turns)>> = (up.iter())
            .map(|pair| {
                let others = candidates(grid, dead, pair.0, pair.1).into_iter().map(|(ports, _)| ports);
                let all = in_order(pair).into_iter().chain(others);
                let with_turns = all.map(|ports| (ports.clone(), turns(grid, dead, pair.0, &ports, &mut numbers)));
                (*pair, with_turns.collect())
            })
            .collect();
        for attempt in 0..attempts {
            let mut order = up.clone();
            if attempt == 0 {
                order.sort_by_key(|pair| in_order(pair).is_none());
            } else {
                let first = attempt * order.len() / 64;
                order.rotate_left(first);
                order.sort_by_key(|pair| std::cmp::Reverse(refusals.get(pair).copied().unwrap_or(0)));
            }
            let mut used = BTreeSet::new();
            let (mut chosen, mut refused) = (Vec::new(), Vec::new());
            for pair in order {
                let all = &choices[&pair];
                let found = all.iter().find_map(|(ports, new)| {
                    let more: BTreeSet<(usize, usize)> = used.union(new).copied().collect();
                    (new.is_subset(&used) || acyclic(&more)).then(|| (ports.clone(), more))
                });
                if !all.is_empty() && found.is_none() {
                    refused.push(pair);
                }
                chosen.push((
                    pair,
                    found.map(|(ports, more)| {
                        used = more;
                        ports
                    }),
                ));
            }
            let better = best.as_ref().is_none_or(|(fewest, _)| refused.len() < *fewest);
            if better {
                best = Some((refused.len(), chosen));
            }
            if refused.is_empty() {
                break;
            }
            refused.into_iter().for_each(|pair| *refusals.entry(pair).or_default() += 1);
        }
        let (_, chosen) = best.unwrap();
        for ((from, to), route) in chosen {
            let entry = &mut self.table[(from * self.nodes + to) as usize];
            if *entry != route {
                self.out_of_order.insert(part);
            }
            *entry = route;
        }
    }

    pub(super) fn get(&self, from: u32, to: u32) -> Option<Vec<usize>> {
        self.table[(from * self.nodes + to) as usize].clone()
    }
}
