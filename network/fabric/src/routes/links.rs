//! Which links can be used: what is dead, and where one part of the machine ends and another begins.

use super::candidates::candidates;
use super::net::{DIRS, NONE, Net, link_index};
use super::route::Route;
use super::table::plain;
use crate::bits::bits;
use crate::types::{Link, Outage};
use angara_net::NodeSet;
use angara_net::torus::{NodeId, Shape};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of a part: that of a node set, as its maker counts, or [`REST`].
pub(crate) type PartId = u32;
/// The part of all nodes that no set holds.
pub(super) const REST: PartId = PartId::MAX;

/// The links of a network, less those out of service and those between parts.
#[derive(Clone, Debug)]
pub struct Links {
    pub(super) net: Arc<Net>,
    pub(super) dead_links: BTreeSet<Link>,
    pub(super) dead_nodes: BTreeSet<NodeId>,
    /// Per node: the part it belongs to. Empty while no set holds a node.
    part: Vec<PartId>,
    /// Per directed link: usable links from here on in its direction, 0 if this one cannot be used;
    /// [`WHOLE`] in a ring without a gap. Empty while nothing is dead and no set holds a node.
    run: Vec<u16>,
    /// Per directed link that can be used and is not of a ring without a gap: the first link of its row.
    first: Vec<u32>,
}

/// Links in a row of a ring without a gap: more than any route takes.
const WHOLE: u16 = u16::MAX;

impl Links {
    /// The links of a machine in which these cables and nodes, which must exist, are out of service.
    pub fn of(shape: Shape, dead: &[Outage]) -> Links {
        let mut links = Links::new(Arc::new(Net::new(shape)));
        dead.iter().for_each(|what| links.set(*what, true));
        links.find_runs();
        links
    }

    pub(super) fn new(net: Arc<Net>) -> Links {
        Links {
            net,
            dead_links: BTreeSet::new(),
            dead_nodes: BTreeSet::new(),
            part: Vec::new(),
            run: Vec::new(),
            first: Vec::new(),
        }
    }

    /// Links out of service themselves, one direction each, whatever their ends are.
    pub fn dead(&self) -> &BTreeSet<Link> {
        &self.dead_links
    }

    /// True if anything is dead.
    pub(super) fn any_dead(&self) -> bool {
        !self.dead_links.is_empty() || !self.dead_nodes.is_empty()
    }

    /// True if all links can be used.
    #[inline]
    pub(super) fn whole(&self) -> bool {
        self.run.is_empty()
    }

    pub(super) fn node_up(&self, node: NodeId) -> bool {
        !self.dead_nodes.contains(&node)
    }

    /// The part that a node belongs to.
    #[inline]
    pub(super) fn part(&self, node: NodeId) -> PartId {
        self.part.get(node as usize).copied().unwrap_or(REST)
    }

    /// Nodes now belong to part `id`.
    pub(super) fn assign(&mut self, nodes: impl Iterator<Item = NodeId>, id: PartId) {
        if self.part.is_empty() {
            self.part = vec![REST; self.net.nodes];
        }
        nodes.for_each(|node| self.part[node as usize] = id);
        if self.part.iter().all(|part| *part == REST) {
            self.part = Vec::new();
        }
        self.find_runs();
    }

    /// The links inside a set, which is part 0: those that work. No others can be used.
    pub fn inside(&self, set: &NodeSet) -> Links {
        let net = self.net.clone();
        let part = vec![REST; net.nodes];
        let (dead_links, dead_nodes) = (self.dead_links.clone(), self.dead_nodes.clone());
        let mut links = Links { net, dead_links, dead_nodes, part, run: Vec::new(), first: Vec::new() };
        set.held().for_each(|node| links.part[node as usize] = 0);
        links.run = vec![0; links.net.nodes * DIRS];
        links.find_runs_of(|| set.held());
        links
    }

    /// Takes a cable (both directions) or a node out of service, or back.
    pub(super) fn set(&mut self, what: Outage, dead: bool) {
        match what {
            Outage::Link(link) => {
                for link in [Some(link), self.net.reverse(link)].into_iter().flatten() {
                    if dead {
                        self.dead_links.insert(link)
                    } else {
                        self.dead_links.remove(&link)
                    };
                }
            }
            Outage::Node(node) => {
                if dead {
                    self.dead_nodes.insert(node)
                } else {
                    self.dead_nodes.remove(&node)
                };
            }
        }
    }

    /// True if a link cannot be used.
    #[inline]
    pub(super) fn blocked(&self, node: NodeId, dir: usize) -> bool {
        match self.run.get(link_index(node, dir)) {
            Some(run) => *run == 0,
            None => self.net.neighbour(node, dir) == NONE,
        }
    }

    /// Usable links in a row from a node in a direction; more than any route takes where the ring has no gap.
    #[inline]
    pub(super) fn reach(&self, node: NodeId, dir: usize) -> u16 {
        match self.run.get(link_index(node, dir)) {
            Some(run) => *run,
            None if self.net.is_ring(dir) => WHOLE,
            None => self.net.to_edge(node, dir),
        }
    }

    /// Finds out which links can be used, after a change.
    pub(super) fn find_runs(&mut self) {
        (self.run, self.first) = (Vec::new(), Vec::new());
        if !self.any_dead() && self.part.is_empty() {
            return;
        }
        self.run = vec![0; self.net.nodes * DIRS];
        let nodes = self.net.nodes as NodeId;
        self.find_runs_of(|| 0..nodes);
    }

    /// The same for links that begin at these nodes.
    fn find_runs_of<N: Iterator<Item = NodeId>>(&mut self, nodes: impl Fn() -> N) {
        let mut down = vec![false; self.net.nodes];
        self.dead_nodes.iter().for_each(|node| down[*node as usize] = true);
        let (mut run, mut first) = (std::mem::take(&mut self.run), vec![NONE; self.net.nodes * DIRS]);
        for (node, dir) in nodes().flat_map(|node| (0..DIRS).map(move |dir| (node, dir))) {
            let far = self.net.neighbour(node, dir);
            let cut = far == NONE || self.part(node) != self.part(far) || down[node as usize] || down[far as usize];
            run[link_index(node, dir)] = if cut { 0 } else { WHOLE };
        }
        for link in &self.dead_links {
            run[link_index(link.node, link.dir.index())] = 0;
        }
        // Back from each gap, link by link, to the gap before it.
        for (gap, dir) in nodes().flat_map(|node| (0..DIRS).map(move |dir| (node, dir))) {
            if run[link_index(gap, dir)] != 0 {
                continue;
            }
            let back = self.net.opposite(dir);
            let (mut at, mut links, mut last) = (self.net.neighbour(gap, back), 1, NONE);
            while at != NONE && run[link_index(at, dir)] != 0 {
                run[link_index(at, dir)] = links;
                links += 1;
                last = at;
                at = self.net.neighbour(at, back);
            }
            // The one that was met last is the first of the row.
            let mut at = last;
            for _ in 1..links {
                first[link_index(at, dir)] = link_index(last, dir) as u32;
                at = self.net.neighbour(at, dir);
            }
        }
        (self.run, self.first) = (run, first);
    }

    /// True if a link can be used.
    pub fn up(&self, link: Link) -> bool {
        !self.blocked(link.node, link.dir.index())
    }

    /// Tells whether some route of the grammar leads from `src` to `dst` over usable links.
    pub fn any_route(&self, src: NodeId, dst: NodeId) -> bool {
        if !self.node_up(src) || !self.node_up(dst) || self.part(src) != self.part(dst) {
            return false;
        }
        if self.carry(src, dst, &plain(&self.net, &[], src, dst)) {
            return true;
        }
        let mut found = false;
        candidates(self, src, dst, true, |_, _| found = true);
        found
    }

    /// True if `route` crosses usable links only.
    pub(super) fn carry(&self, src: NodeId, dst: NodeId, route: &Route) -> bool {
        if self.run.is_empty() {
            return true;
        }
        let mut at = src;
        let mut end = dst;
        if let Some(dir) = route.last_step {
            end = self.net.neighbour(dst, dir.opposite().index());
            if end == NONE || self.run[link_index(end, dir.index())] == 0 {
                return false;
            }
        }
        if let Some(dir) = route.first_step {
            if self.run[link_index(at, dir.index())] == 0 {
                return false;
            }
            at = self.net.neighbour(at, dir.index());
        }
        let to = self.net.coords(end);
        for dir in bits(route.dirbits).map(|dir| dir as usize) {
            let dim = self.net.dim(dir);
            let hops = self.net.hops_towards(at, end, dim, dir < DIRS / 2);
            if self.run[link_index(at, dir)] < hops {
                return false;
            }
            at = self.net.with_coordinate(at, dim, to[dim]);
        }
        true
    }

    /// The run of usable links in one direction that a usable link belongs to, named by its first
    /// link; a ring without a gap by the link that leaves coordinate 0. Buffers of two runs are
    /// never the same.
    pub(super) fn segment(&self, link: Link) -> u32 {
        let dir = link.dir.index();
        match self.first.get(link_index(link.node, dir)) {
            Some(first) if *first != NONE => *first,
            _ if self.net.is_ring(dir) => {
                link_index(self.net.with_coordinate(link.node, self.net.dim(dir), 0), dir) as u32
            }
            // The line of a mesh in which all can be used.
            _ => {
                let edge = if dir < DIRS / 2 { 0 } else { self.net.coords_max(self.net.dim(dir)) };
                link_index(self.net.with_coordinate(link.node, self.net.dim(dir), edge), dir) as u32
            }
        }
    }
}
