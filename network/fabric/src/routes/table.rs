//! Which way packets go: direction order, and detours around what is broken or not theirs.
//!
//! A route is `[first step] · hops in direction order · [last step]` (paper 002, section 2). The
//! hops visit the directions +X +Y +Z +W −X −Y −Z −W in that order, at most one sign per
//! dimension, as said by the direction bits. Coordinates are compared with those of the node one
//! last step short of the target. While nothing is dead and no node set holds a node, every route is
//! minimal.
//!
//! **Parts.** Node sets divide the machine: each set is a part of it, and all nodes that no set holds
//! are one, too. Routes never leave their part.
//!
//! **Detours.** A pair whose route crosses a link that is dead or leads out of its part gets the
//! shortest live route among all sign choices and all first and last steps. Routes that keep direction
//! order throughout (a first step before, a last step after the directions in between) are taken first:
//! the graph of turns then only has edges towards later directions. Only for pairs that have none a
//! route that breaks the order is tried, and kept if that graph stays without a circle
//! ([`super::turns`]). With the bubble rule inside each ring this makes all tables together free of
//! deadlock.

use super::balance::balance;
use super::links::{Links, PartId, REST};
use super::net::{NONE, Net};
use super::part::{Part, Ways};
use super::route::Route;
use super::turns::AllTurns;
use super::way::Way;
use crate::bits::bits;
use crate::types::{Link, Outage};
use angara_net::NodeSet;
use angara_net::torus::{Direction, NodeId, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The route tables of a machine, with the faults and node sets they were made for.
#[derive(Clone, Debug)]
pub struct Routes {
    links: Links,
    /// Node sets, by the numbers of their makers, and [`REST`].
    parts: BTreeMap<PartId, Arc<Part>>,
    /// Per node: its place in its part's table, [`NONE`] for transit nodes. Empty while no set holds a node.
    place: Vec<u32>,
    /// Route of each pair of a machine without faults and sets; empty where the pair's parity decides.
    usual: Arc<[Route]>,
}

impl Routes {
    /// The routes of a machine in which these cables and nodes, which must exist, are out of service.
    pub fn of(shape: Shape, dead: &[Outage]) -> Routes {
        let mut routes = Routes::new(Arc::new(Net::new(shape)));
        routes.replace(dead);
        routes
    }

    /// The routes of one set in a machine with these links; no other part has a table. The set is number 0.
    pub fn alone(links: &Links, set: &NodeSet, ways: Ways) -> Routes {
        let mut routes = Routes { links: links.inside(set), ..Routes::new(links.net.clone()) };
        routes.insert(0, set, ways);
        routes.count_places();
        let part = routes.parts.remove(&0).map(|part| Arc::new(part.again(&routes.links, &[])));
        routes.parts.extend(part.map(|part| (0, part)));
        routes
    }

    /// Tells whether all pairs of a set have routes inside it at once, by the first attempt to find some: faster than the
    /// whole table, which may find some where this does not.
    pub fn serve(links: &Links, set: &NodeSet) -> bool {
        let mut nodes = set.nodes.clone();
        nodes.sort_unstable();
        Part::new(0, nodes.into(), Ways::Parity).is_served(&links.inside(set))
    }

    pub(crate) fn new(net: Arc<Net>) -> Routes {
        Routes { links: Links::new(net), parts: BTreeMap::new(), place: Vec::new(), usual: Arc::default() }
    }

    /// With routes that even out all-to-all traffic.
    pub(crate) fn balanced(net: Arc<Net>) -> Routes {
        let all: Vec<NodeId> = (0..net.nodes as NodeId).collect();
        let routes = Routes::new(net);
        let usual = balance(&routes.links, &all).into_iter();
        let usual = usual.map(|route| route.expect("in a whole network every pair has a route")).collect();
        Routes { usual, ..routes }
    }

    /// Takes a cable (both directions) or a node out of service or back, and rebuilds the tables that it concerns.
    pub(crate) fn set(&mut self, what: Outage, dead: bool) {
        self.links.set(what, dead);
        self.links.find_runs();
        self.rebuild(&self.concerned(what));
    }

    /// Takes these cables and nodes out of service, and no others, and rebuilds the tables that this concerns.
    pub(crate) fn replace(&mut self, dead: &[Outage]) {
        let before = (std::mem::take(&mut self.links.dead_links), std::mem::take(&mut self.links.dead_nodes));
        dead.iter().for_each(|what| self.links.set(*what, true));
        let links = before.0.symmetric_difference(&self.links.dead_links).map(|link| Outage::Link(*link));
        let nodes = before.1.symmetric_difference(&self.links.dead_nodes).map(|node| Outage::Node(*node));
        let concerned: Vec<PartId> = links.chain(nodes).flat_map(|what| self.concerned(what)).collect();
        self.links.find_runs();
        self.rebuild(&concerned);
    }

    /// Gives nodes that no set holds to a set, number `id`, with routes of its own. Others keep theirs, but for
    /// nodes of no set whose routes crossed the set.
    pub(crate) fn form(&mut self, id: u32, set: &NodeSet, ways: Ways) {
        debug_assert!(id != REST && !self.parts.contains_key(&id), "set {id} is there already");
        self.links.assign(set.held(), id);
        self.insert(id, set, ways);
        self.divide(&[id, REST]);
    }

    fn insert(&mut self, id: PartId, set: &NodeSet, ways: Ways) {
        let mut nodes = set.nodes.clone();
        nodes.sort_unstable();
        self.parts.insert(id, Arc::new(Part::new(id, nodes.into(), ways)));
    }

    /// Dissolves a set, if there is one of this number.
    pub(crate) fn dissolve(&mut self, id: u32) {
        if id != REST && self.parts.remove(&id).is_some() {
            let nodes: Vec<NodeId> =
                (0..self.links.net.nodes as NodeId).filter(|n| self.links.part(*n) == id).collect();
            self.links.assign(nodes.into_iter(), REST);
            self.divide(&[REST]);
        }
    }

    /// Counts the nodes of all parts anew, and makes the tables of some.
    fn divide(&mut self, concerned: &[PartId]) {
        self.parts.remove(&REST);
        self.place = Vec::new();
        if !self.parts.is_empty() {
            let rest = (0..self.links.net.nodes as NodeId).filter(|n| self.links.part(*n) == REST).collect();
            self.parts.insert(REST, Arc::new(Part::new(REST, rest, Ways::Parity)));
            self.count_places();
        }
        self.rebuild(concerned);
    }

    /// Counts the nodes of every part.
    fn count_places(&mut self) {
        self.place = vec![NONE; self.links.net.nodes];
        for part in self.parts.values() {
            (0..).zip(part.nodes.iter()).for_each(|(place, node)| self.place[*node as usize] = place);
        }
    }

    /// The parts with a link that this outage blocks.
    fn concerned(&self, what: Outage) -> Vec<PartId> {
        match what {
            Outage::Node(node) => vec![self.links.part(node)],
            Outage::Link(link) => {
                let far = self.links.net.neighbour(link.node, link.dir.index());
                let inside = far != NONE && self.links.part(far) == self.links.part(link.node);
                if inside { vec![self.links.part(link.node)] } else { Vec::new() }
            }
        }
    }

    /// Makes the tables of these parts.
    fn rebuild(&mut self, concerned: &[PartId]) {
        if self.whole() {
            self.parts.clear();
            return;
        }
        if !self.parts.contains_key(&REST) {
            let all = (0..self.links.net.nodes as NodeId).collect();
            self.parts.insert(REST, Arc::new(Part::new(REST, all, Ways::Parity)));
        }
        for (id, part) in &mut self.parts {
            if concerned.contains(id) {
                *part = Arc::new(part.again(&self.links, &self.usual));
            }
        }
    }

    pub(crate) fn net(&self) -> &Net {
        &self.links.net
    }
    /// True if nothing is dead and no set holds a node: every pair has its default route.
    #[inline]
    pub fn whole(&self) -> bool {
        self.links.whole()
    }
    /// True if this route changes in a way that its part's packets must wait for: the part's routes,
    /// before or after, break direction order (and were admitted by the check for circles).
    pub(crate) fn must_drain(&self, before: &Routes, node: NodeId) -> bool {
        let of = |routes: &Routes| routes.parts.get(&routes.links.part(node)).cloned();
        match (of(before), of(self)) {
            (Some(old), Some(new)) if Arc::ptr_eq(&old, &new) => false,
            (old, new) => old.is_some_and(|part| part.out_of_order) || new.is_some_and(|part| part.out_of_order),
        }
    }
    /// Some route in use breaks direction order.
    pub fn out_of_order(&self) -> bool {
        self.parts.values().any(|part| part.out_of_order)
    }
    /// Number of times that the table of a set has been made, 0 without such a set.
    pub fn tables_made(&self, id: u32) -> u64 {
        self.parts.get(&id).map_or(0, |part| part.made)
    }
    /// True if the node forwards packets.
    pub fn node_up(&self, node: NodeId) -> bool {
        self.links.node_up(node)
    }
    /// True if a set holds the node.
    pub fn in_set(&self, node: NodeId) -> bool {
        self.links.part(node) != REST
    }
    /// True if there is a set of this number.
    pub(crate) fn has_set(&self, id: u32) -> bool {
        id != REST && self.parts.contains_key(&id)
    }
    /// The part that a node belongs to.
    pub(crate) fn part(&self, node: NodeId) -> PartId {
        self.links.part(node)
    }
    /// True if two nodes belong to one part: to one set, or to none.
    pub(crate) fn together(&self, a: NodeId, b: NodeId) -> bool {
        self.links.part(a) == self.links.part(b)
    }
    /// True if the link exists, it and both its ends work, and both ends belong to one part.
    pub fn link_up(&self, link: Link) -> bool {
        !self.blocked(link.node, link.dir.index())
    }
    /// True if the link exists and nothing of it is dead, whichever parts its ends belong to.
    pub fn link_works(&self, link: Link) -> bool {
        let far = self.links.net.neighbour(link.node, link.dir.index());
        far != NONE && !self.links.dead_links.contains(&link) && self.node_up(link.node) && self.node_up(far)
    }
    #[inline]
    pub(crate) fn blocked(&self, node: NodeId, dir: usize) -> bool {
        self.links.blocked(node, dir)
    }

    /// The route from `src` to `dst`; `None` if the pair is unreachable.
    #[inline]
    pub fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if self.whole() {
            return Some(plain(&self.links.net, &self.usual, src, dst));
        }
        self.route_in_part(src, dst)
    }

    fn route_in_part(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let id = self.links.part(src);
        let place = |node: NodeId| if self.place.is_empty() { node } else { self.place[node as usize] };
        let places = (place(src), place(dst));
        if self.links.part(dst) != id || places.0 == NONE || places.1 == NONE {
            return None;
        }
        self.parts.get(&id)?.route(&self.links, &self.usual, (src, dst), places)
    }

    /// Nodes and links of the route: each link as it is crossed.
    pub fn path(&self, src: NodeId, dst: NodeId) -> Option<Vec<Link>> {
        let route = self.route(src, dst)?;
        let mut links = Vec::with_capacity(route.hops as usize);
        self.walk(src, dst, &route, |link| links.push(link));
        Some(links)
    }

    /// Calls `visit` for each link of a route between two nodes, as it is crossed.
    pub fn walk(&self, src: NodeId, dst: NodeId, route: &Route, mut visit: impl FnMut(Link)) {
        walk(&self.links.net, src, dst, route, |link| {
            visit(link);
            true
        });
    }

    /// Returns what breaks the default route of an unreachable pair.
    pub fn outage(&self, src: NodeId, dst: NodeId) -> Outage {
        for node in [src, dst] {
            if !self.node_up(node) {
                return Outage::Node(node);
            }
        }
        let mut outage = None;
        walk(&self.links.net, src, dst, &plain(&self.links.net, &self.usual, src, dst), |link| {
            let far = self.links.net.neighbour(link.node, link.dir.index());
            if self.links.dead_links.contains(&link) {
                outage = Some(Outage::Link(link));
            } else if !self.node_up(far) {
                outage = Some(Outage::Node(far));
            }
            outage.is_none()
        });
        // A detour in use earlier may have been cut instead: name any dead link then.
        outage
            .or_else(|| self.links.dead_links.iter().next().map(|l| Outage::Link(*l)))
            .or_else(|| self.links.dead_nodes.iter().next().map(|n| Outage::Node(*n)))
            .unwrap_or(Outage::Node(dst))
    }

    /// The way of a pair where nothing is dead.
    pub(crate) fn usual_way(&self, src: NodeId, dst: NodeId) -> Way {
        Way::along(&self.links.net, src, &plain(&self.links.net, &self.usual, src, dst), dst)
    }

    /// The deadlock check for all tables together: no circle among the segments that packets turn between.
    /// Walks all pairs; meant for tests and for tools that load their own tables.
    pub fn acyclic(&self) -> bool {
        let mut turns = AllTurns::default();
        if self.whole() {
            // A part without a table finds each route when asked: here, the default ones.
            let all = (0..self.links.net.nodes as NodeId).collect();
            Part::new(REST, all, Ways::Parity).add_turns(&self.links, &self.usual, &mut turns);
        }
        self.parts.values().for_each(|part| part.add_turns(&self.links, &self.usual, &mut turns));
        turns.acyclic()
    }

    /// Links crossed between two nodes, `None` if unreachable.
    pub fn hops(&self, src: NodeId, dst: NodeId) -> Option<u32> {
        self.route(src, dst).map(|r| r.hops as u32)
    }
}

/// Minimal route ignoring faults and sets.
pub(super) fn plain(net: &Net, usual: &[Route], src: NodeId, dst: NodeId) -> Route {
    if src == dst {
        return Route::LOCAL;
    }
    if let Some(route) = usual.get(src as usize * net.nodes + dst as usize) {
        return *route;
    }
    let (a, b) = (net.coords(src), net.coords(dst));
    let mut route = Route::LOCAL;
    for dim in (0..4).filter(|d| a[*d] != b[*d]) {
        let (plus, hops) = net.shorter(src, dst, dim);
        route.dirbits |= 1 << if plus { dim } else { dim + 4 };
        route.hops += hops;
    }
    route
}

/// Calls `visit` for each link of `route` until it returns false. Returns whether the target was reached.
#[inline]
pub(super) fn walk(net: &Net, src: NodeId, dst: NodeId, route: &Route, mut visit: impl FnMut(Link) -> bool) -> bool {
    let mut at = src;
    let mut cross = |dir: Direction| {
        let far = net.neighbour(at, dir.index());
        let crossed = far != NONE && visit(Link { node: at, dir });
        if crossed {
            at = far;
        }
        crossed.then_some(at)
    };
    let end = route.last_step.map_or(dst, |dir| net.neighbour(dst, dir.opposite().index()));
    if let Some(dir) = route.first_step
        && cross(dir).is_none()
    {
        return false;
    }
    let start = route.first_step.map_or(src, |dir| net.neighbour(src, dir.index()));
    for dir in bits(route.dirbits).map(|dir| Direction::ALL[dir as usize]) {
        for _ in 0..net.hops_towards(start, end, dir.dim(), dir.is_plus()) {
            if cross(dir).is_none() {
                return false;
            }
        }
    }
    if let Some(dir) = route.last_step
        && cross(dir).is_none()
    {
        return false;
    }
    at == dst
}
