//! The routes of one part of a machine: of a node set, or of all nodes that no set holds.
//!
//! A part is a network of its own. What is outside of it is blocked for it, as what is dead is, so
//! its table depends on nothing outside it.

use super::balance::balance;
use super::candidates::{candidates, preference};
use super::links::{Links, PartId};
use super::route::Route;
use super::table::plain;
use super::turns::{Turns, turns};
use angara_net::torus::NodeId;
use std::sync::Arc;

/// Most nodes of a part for which a table of all pairs is kept. Larger ones find detours when asked
/// and use only those that keep direction order.
pub const TABLE_NODES: usize = 2048;
/// Most nodes for which balanced routes are found: the table has an entry for each pair.
pub const BALANCED_NODES: usize = 1024;

/// Which of a pair's equally short ways it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ways {
    /// As the parity of its coordinates says.
    #[default]
    Parity,
    /// As evens out the links' loads when every pair sends one packet; in parts of more than
    /// [`BALANCED_NODES`] nodes by parity.
    Balanced,
}

/// Nodes with routes among each other.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) id: PartId,
    /// Ascending; nodes that only pass packets on are not among them.
    pub(super) nodes: Arc<[NodeId]>,
    pub(super) ways: Ways,
    /// By source, then by target, as places in `nodes`; empty if there are too many.
    table: Vec<Option<Route>>,
    pub(super) out_of_order: bool,
    /// Times that the table has been made.
    pub(super) made: u64,
}

impl Part {
    pub(super) fn new(id: PartId, nodes: Arc<[NodeId]>, ways: Ways) -> Part {
        Part { id, nodes, ways, table: Vec::new(), out_of_order: false, made: 0 }
    }

    /// The same nodes with the routes that there are now.
    pub(super) fn again(&self, links: &Links, usual: &[Route]) -> Part {
        let mut part = Part::new(self.id, self.nodes.clone(), self.ways);
        part.made = self.made + 1;
        if part.nodes.len() <= TABLE_NODES {
            part.build(links, usual);
        }
        part
    }

    /// The route of a pair of the part's nodes, whose places in `nodes` are given.
    pub(super) fn route(
        &self,
        links: &Links,
        usual: &[Route],
        pair: (NodeId, NodeId),
        place: (u32, u32),
    ) -> Option<Route> {
        match self.table.get(place.0 as usize * self.nodes.len() + place.1 as usize) {
            Some(entry) => *entry,
            None => ordered(links, usual, pair.0, pair.1),
        }
    }

    fn build(&mut self, links: &Links, usual: &[Route]) {
        let nodes = self.nodes.clone();
        let balanced = self.ways == Ways::Balanced && nodes.len() <= BALANCED_NODES;
        self.table = match balanced {
            true => balance(links, &nodes),
            false => {
                let pairs = nodes.iter().flat_map(|&src| nodes.iter().map(move |&dst| (src, dst)));
                pairs.map(|(src, dst)| ordered(links, usual, src, dst)).collect()
            }
        };
        let up = |place: usize| links.node_up(nodes[place]);
        let missing: Vec<usize> = (0..self.table.len())
            .filter(|&i| self.table[i].is_none() && up(i / nodes.len()) && up(i % nodes.len()))
            .collect();
        if missing.is_empty() {
            return;
        }
        let mut known = Turns::default();
        self.add_turns(links, usual, &mut known);
        for i in missing {
            let (src, dst) = (nodes[i / nodes.len()], nodes[i % nodes.len()]);
            let mut found = Vec::new();
            candidates(links, src, dst, true, |route, ordered| {
                if links.carry(src, dst, &route) {
                    found.push((preference(&route, ordered), route));
                }
            });
            found.sort_by_key(|(preference, _)| *preference);
            let admitted = found.into_iter().find(|(_, route)| known.admit(&turns(links, src, dst, route)));
            self.table[i] = admitted.map(|(_, route)| route);
            self.out_of_order |= admitted.is_some();
        }
    }

    /// Adds the turns of all routes.
    pub(super) fn add_turns(&self, links: &Links, usual: &[Route], all: &mut Turns) {
        for (i, &src) in (0..).zip(self.nodes.iter()) {
            for (j, &dst) in (0..).zip(self.nodes.iter()) {
                if let Some(route) = self.route(links, usual, (src, dst), (i, j)) {
                    all.add(turns(links, src, dst, &route));
                }
            }
        }
    }
}

/// The pair's own route if it can be used, else the best one that keeps direction order.
fn ordered(links: &Links, usual: &[Route], src: NodeId, dst: NodeId) -> Option<Route> {
    if !links.node_up(src) || !links.node_up(dst) {
        return None;
    }
    let own = plain(&links.net, usual, src, dst);
    if links.carry(src, dst, &own) {
        return Some(own);
    }
    let mut best = None;
    candidates(links, src, dst, true, |route, ordered| {
        let preference = preference(&route, ordered);
        if ordered && best.is_none_or(|(least, _)| preference < least) && links.carry(src, dst, &route) {
            best = Some((preference, route));
        }
    });
    best.map(|(_, route)| route)
}
