//! Which way packets go: direction order, and detours around what is broken.
//!
//! A route is `[first step] · hops in direction order · [last step]` (paper 002, section 2). The
//! hops visit the directions +X +Y +Z +W −X −Y −Z −W in that order, at most one sign per
//! dimension, as said by the direction bits. Coordinates are compared with those of the node one
//! last step short of the target. Without faults every route is minimal.
//!
//! **Detours.** A pair whose route crosses a dead link or node gets the shortest live route among
//! all sign choices and all first and last steps. Routes that keep direction order throughout
//! (a first step before, a last step after the directions in between) are taken first: the graph
//! "packets turn from ring A into ring B" then only has edges towards later directions. Only for
//! pairs that have none a route that breaks the order is tried, and kept if that graph stays
//! acyclic. With the bubble rule inside each ring this makes every table free of deadlock.

use super::balance::balance;
use super::net::{DIRS, NONE, Net, link_index};
use super::route::Route;
use super::way::Way;
use crate::bits::bits;
use crate::types::{Link, Outage};
use angara_abi::packet::Detour;
use angara_net::torus::{Direction, NodeId, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Largest network for which a table of all pairs is kept once something is broken. Larger ones
/// find detours when asked and use only those that keep direction order.
pub const TABLE_NODES: usize = 2048;

/// The route tables and the faults they were made for.
#[derive(Clone, Debug)]
pub struct Routes {
    net: Arc<Net>,
    dead_links: BTreeSet<Link>,
    dead_nodes: BTreeSet<NodeId>,
    /// Per directed link: cannot be used (no neighbour, dead, or an end is dead). Empty while nothing is dead.
    blocked: Vec<bool>,
    table: Vec<Option<Route>>,
    out_of_order: bool,
    /// Route of each pair while nothing is dead; empty where the pair's parity decides.
    balanced: Arc<[Route]>,
}

impl Routes {
    pub(crate) fn new(net: Arc<Net>) -> Routes {
        Routes {
            net,
            dead_links: BTreeSet::new(),
            dead_nodes: BTreeSet::new(),
            blocked: Vec::new(),
            table: Vec::new(),
            out_of_order: false,
            balanced: Arc::default(),
        }
    }

    /// Default routes of a network of which these cables and nodes are out of service.
    pub fn of(shape: Shape, dead: &[Outage]) -> Routes {
        let mut routes = Routes::new(Arc::new(Net::new(shape)));
        if !dead.is_empty() {
            routes.replace(dead);
        }
        routes
    }

    /// With routes that even out all-to-all traffic.
    pub(crate) fn balanced(net: Arc<Net>) -> Routes {
        let balanced = balance(&net).into();
        Routes { balanced, ..Routes::new(net) }
    }

    /// Takes a cable (both directions) or a node out of service or back and rebuilds the tables.
    pub(crate) fn set(&mut self, what: Outage, dead: bool) {
        let change = |set: &mut BTreeSet<Link>, link| if dead { set.insert(link) } else { set.remove(&link) };
        match what {
            Outage::Link(link) => {
                change(&mut self.dead_links, link);
                if let Some(back) = self.net.reverse(link) {
                    change(&mut self.dead_links, back);
                }
            }
            Outage::Node(node) => {
                if dead {
                    self.dead_nodes.insert(node);
                } else {
                    self.dead_nodes.remove(&node);
                }
            }
        }
        self.rebuild();
    }

    /// Takes these cables and nodes out of service, and no others.
    pub(crate) fn replace(&mut self, dead: &[Outage]) {
        self.dead_links.clear();
        self.dead_nodes.clear();
        for what in dead {
            match *what {
                Outage::Link(link) => {
                    self.dead_links.extend([Some(link), self.net.reverse(link)].into_iter().flatten())
                }
                Outage::Node(node) => drop(self.dead_nodes.insert(node)),
            }
        }
        self.rebuild();
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }
    /// True if anything is dead.
    pub fn any_dead(&self) -> bool {
        !self.dead_links.is_empty() || !self.dead_nodes.is_empty()
    }
    /// Some route in use breaks direction order (and was admitted by the acyclicity check).
    pub fn out_of_order(&self) -> bool {
        self.out_of_order
    }
    /// True if the node forwards packets.
    pub fn node_up(&self, node: NodeId) -> bool {
        !self.dead_nodes.contains(&node)
    }
    /// True if the link exists and it and both its ends work.
    pub fn link_up(&self, link: Link) -> bool {
        !self.blocked(link.node, link.dir.index())
    }
    pub(crate) fn blocked(&self, node: NodeId, dir: usize) -> bool {
        match self.blocked.get(link_index(node, dir)) {
            Some(blocked) => *blocked,
            None => self.net.neighbour(node, dir) == NONE,
        }
    }

    /// The route from `src` to `dst`; `None` if the pair is unreachable.
    #[inline]
    pub fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if !self.any_dead() {
            return Some(self.plain(src, dst));
        }
        if let Some(entry) = self.table.get(src as usize * self.net.nodes + dst as usize) {
            return *entry;
        }
        self.ordered(src, dst)
    }

    /// Nodes and links of the route: each link as it is crossed.
    pub fn path(&self, src: NodeId, dst: NodeId) -> Option<Vec<Link>> {
        let route = self.route(src, dst)?;
        let mut links = Vec::with_capacity(route.hops as usize);
        self.walk(src, dst, &route, |link| {
            links.push(link);
            true
        });
        Some(links)
    }

    /// Returns what breaks the default route of an unreachable pair.
    pub fn outage(&self, src: NodeId, dst: NodeId) -> Outage {
        for node in [src, dst] {
            if !self.node_up(node) {
                return Outage::Node(node);
            }
        }
        let mut outage = None;
        self.walk(src, dst, &self.plain(src, dst), |link| {
            let far = self.net.neighbour(link.node, link.dir.index());
            if self.dead_links.contains(&link) {
                outage = Some(Outage::Link(link));
            } else if !self.node_up(far) {
                outage = Some(Outage::Node(far));
            }
            outage.is_none()
        });
        // A detour in use earlier may have been cut instead: name any dead link then.
        outage
            .or_else(|| self.dead_links.iter().next().map(|l| Outage::Link(*l)))
            .or_else(|| self.dead_nodes.iter().next().map(|n| Outage::Node(*n)))
            .unwrap_or(Outage::Node(dst))
    }

    /// The way of a pair where nothing is dead.
    pub(crate) fn usual_way(&self, src: NodeId, dst: NodeId) -> Way {
        Way::along(&self.net, src, &self.plain(src, dst), dst)
    }

    /// Minimal route ignoring faults.
    fn plain(&self, src: NodeId, dst: NodeId) -> Route {
        if src == dst {
            return Route::LOCAL;
        }
        if let Some(route) = self.balanced.get(src as usize * self.net.nodes + dst as usize) {
            return *route;
        }
        let (a, b) = (self.net.coords(src), self.net.coords(dst));
        let mut route = Route::LOCAL;
        for dim in (0..4).filter(|d| a[*d] != b[*d]) {
            let (plus, hops) = self.net.shorter(src, dst, dim);
            route.dirbits |= 1 << if plus { dim } else { dim + 4 };
            route.hops += hops;
        }
        route
    }

    /// Calls `visit` for each link of `route` until it returns false. Returns whether the target was reached.
    fn walk(&self, src: NodeId, dst: NodeId, route: &Route, mut visit: impl FnMut(Link) -> bool) -> bool {
        let mut at = src;
        let mut way = Way::along(&self.net, src, route, dst);
        while let Some(dir) = way.next() {
            way.taken(dir, dir & 3);
            let far = self.net.neighbour(at, dir);
            if far == NONE || !visit(Link { node: at, dir: direction(dir) }) {
                return false;
            }
            at = far;
        }
        at == dst
    }

    fn alive(&self, src: NodeId, dst: NodeId, route: &Route) -> bool {
        self.walk(src, dst, route, |l| !self.blocked(l.node, l.dir.index()))
    }

    fn rebuild(&mut self) {
        let net = self.net.clone();
        let nodes = if self.any_dead() { net.nodes as u32 } else { 0 };
        self.blocked = (0..nodes)
            .flat_map(|n| (0..DIRS).map(move |d| (n, d)))
            .map(|(node, dir)| {
                let far = net.neighbour(node, dir);
                far == NONE
                    || self.dead_links.contains(&Link { node, dir: direction(dir) })
                    || self.dead_nodes.contains(&node)
                    || self.dead_nodes.contains(&far)
            })
            .collect();
        self.table = Vec::new();
        self.out_of_order = false;
        if self.any_dead() && net.nodes <= TABLE_NODES {
            self.build_table();
        }
    }

    fn build_table(&mut self) {
        let nodes = self.net.nodes as u32;
        let mut missing = Vec::new();
        let mut table = Vec::with_capacity((nodes * nodes) as usize);
        for src in 0..nodes {
            for dst in 0..nodes {
                let route = self.ordered(src, dst);
                if route.is_none() && self.node_up(src) && self.node_up(dst) {
                    missing.push((src, dst));
                }
                table.push(route);
            }
        }
        self.table = table;
        if missing.is_empty() {
            return;
        }
        let mut rings = self.ring_graph();
        for (src, dst) in missing {
            for (route, _) in self.candidates(src, dst) {
                if self.alive(src, dst, &route) && rings.admit(&self.turns(src, dst, &route)) {
                    self.table[(src * nodes + dst) as usize] = Some(route);
                    self.out_of_order = true;
                    break;
                }
            }
        }
    }

    /// The default route if alive, else the shortest live one that keeps direction order.
    fn ordered(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if !self.node_up(src) || !self.node_up(dst) {
            return None;
        }
        let plain = self.plain(src, dst);
        if self.alive(src, dst, &plain) {
            return Some(plain);
        }
        let candidates = self.candidates(src, dst);
        candidates.iter().find(|(r, ordered)| *ordered && self.alive(src, dst, r)).map(|(r, _)| *r)
    }

    /// Every route the grammar allows, shortest first, with "keeps direction order".
    fn candidates(&self, src: NodeId, dst: NodeId) -> Vec<(Route, bool)> {
        let steps = || std::iter::once(None).chain(Direction::ALL.into_iter().map(Some));
        let mut found = Vec::new();
        for first_step in steps() {
            let start = first_step.map_or(src, |d| self.net.neighbour(src, d.index()));
            for last_step in steps() {
                let end = last_step.map_or(dst, |d| self.net.neighbour(dst, d.opposite().index()));
                if start != NONE && end != NONE {
                    self.sign_choices(start, end, first_step, last_step, &mut found);
                }
            }
        }
        found.sort_by_key(|(r, ordered)| (r.hops, !ordered, r.first_step.is_some(), r.last_step.is_some()));
        found
    }

    fn sign_choices(
        &self,
        start: NodeId,
        end: NodeId,
        first_step: Detour,
        last_step: Detour,
        found: &mut Vec<(Route, bool)>,
    ) {
        let (a, b) = (self.net.coords(start), self.net.coords(end));
        let torus = self.net.shape.is_torus();
        let differ: Vec<usize> = (0..4).filter(|&d| a[d] != b[d]).collect();
        for signs in 0..1u32 << differ.len() {
            let mut route = Route { dirbits: 0, first_step, last_step, hops: 0 };
            route.hops = first_step.is_some() as u16 + last_step.is_some() as u16;
            let mut possible = true;
            for (i, &dim) in differ.iter().enumerate() {
                let plus = signs >> i & 1 == 0;
                possible &= torus || (b[dim] > a[dim]) == plus;
                route.dirbits |= 1 << if plus { dim } else { dim + 4 };
                route.hops += self.net.hops_towards(start, end, dim, plus);
            }
            let sequence = sequence(&route);
            let reverses = sequence.windows(2).any(|w| w[0] ^ 4 == w[1]);
            if possible && !reverses && route.hops > 0 {
                found.push((route, sequence.is_sorted()));
            }
        }
    }

    /// Rings the route turns between, in order: `(from, to)` pairs.
    fn turns(&self, src: NodeId, dst: NodeId, route: &Route) -> Vec<(u32, u32)> {
        let mut turns = Vec::new();
        let mut last = NONE;
        self.walk(src, dst, route, |link| {
            let ring = self.ring(link);
            if last != NONE && last != ring {
                turns.push((last, ring));
            }
            last = ring;
            true
        });
        turns
    }

    /// Index of the unidirectional ring (or mesh line) a link belongs to.
    fn ring(&self, link: Link) -> u32 {
        let mut at = self.net.header_coords(link.node);
        at[link.dir.dim()] = 0;
        let base = self.net.shape.id(angara_net::torus::Coords(at)).expect("a coordinate set to 0 is inside");
        base * DIRS as u32 + link.dir.index() as u32
    }

    fn ring_graph(&self) -> Rings {
        let nodes = self.net.nodes as u32;
        let mut rings = Rings::default();
        for src in 0..nodes {
            for dst in 0..nodes {
                if let Some(route) = self.route(src, dst) {
                    for (a, b) in self.turns(src, dst, &route) {
                        rings.edges.entry(a).or_default().insert(b);
                    }
                }
            }
        }
        rings
    }

    /// The deadlock check for the whole table: no cycle among the rings packets turn between.
    /// Walks all pairs; meant for tests and for tools that load their own tables.
    pub fn acyclic(&self) -> bool {
        let rings = self.ring_graph();
        // Kahn's algorithm: remove rings nobody turns into until none is left, or a cycle is.
        let mut into: BTreeMap<u32, usize> = BTreeMap::new();
        for (a, next) in &rings.edges {
            into.entry(*a).or_default();
            next.iter().for_each(|b| *into.entry(*b).or_default() += 1);
        }
        let mut free: Vec<u32> = into.iter().filter(|(_, n)| **n == 0).map(|(r, _)| *r).collect();
        let mut removed = 0;
        while let Some(ring) = free.pop() {
            removed += 1;
            for b in rings.edges.get(&ring).into_iter().flatten() {
                let n = into.get_mut(b).expect("every target was entered above");
                *n -= 1;
                if *n == 0 {
                    free.push(*b);
                }
            }
        }
        removed == into.len()
    }

    /// Links crossed between two nodes, `None` if unreachable.
    pub fn hops(&self, src: NodeId, dst: NodeId) -> Option<u32> {
        self.route(src, dst).map(|r| r.hops as u32)
    }
}

/// Directions of a route in the order travelled, as indices.
fn sequence(route: &Route) -> Vec<u8> {
    let step = |d: Detour| d.map(|d| d.index() as u8);
    let ordered = bits(route.dirbits).map(|d| d as u8);
    step(route.first_step).into_iter().chain(ordered).chain(step(route.last_step)).collect()
}

fn direction(index: usize) -> Direction {
    Direction::ALL[index]
}

/// Graph of turns between rings.
#[derive(Default)]
struct Rings {
    edges: BTreeMap<u32, BTreeSet<u32>>,
}

impl Rings {
    /// Adds `turns` unless one would close a cycle; then nothing is added.
    fn admit(&mut self, turns: &[(u32, u32)]) -> bool {
        let mut added = Vec::new();
        for &(a, b) in turns {
            if self.reaches(b, a) {
                for (a, b) in added {
                    self.edges.entry(a).or_default().remove(&b);
                }
                return false;
            }
            if self.edges.entry(a).or_default().insert(b) {
                added.push((a, b));
            }
        }
        true
    }
    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(ring) = open.pop() {
            if ring == to {
                return true;
            }
            open.extend(self.edges.get(&ring).into_iter().flatten().filter(|r| seen.insert(**r)));
        }
        false
    }
}
