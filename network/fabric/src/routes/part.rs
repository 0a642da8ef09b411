//! The routes of one part of a machine: of a node set, or of all nodes that no set holds.
//!
//! A part is a network of its own. What is outside of it is blocked for it, as what is dead is, so
//! its table depends on nothing outside it.

use super::balance::balance;
use super::candidates::{candidates, order, preference};
use super::links::{Links, PartId};
use super::route::Route;
use super::spread::spread;
use super::table::plain;
use super::turns::{AllTurns, Turns, turns};
use angara_net::torus::NodeId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most nodes of a part for which a table of all pairs is kept. Larger ones find detours when asked
/// and use only those that keep direction order.
pub const TABLE_NODES: usize = 2048;
/// Most nodes for which balanced routes are found: the table has an entry for each pair.
pub const BALANCED_NODES: usize = 1024;

/// Most times that the pairs of a part choose routes if some find none.
const ATTEMPTS: usize = 64;
/// Most choices in all of these times together, but for the first.
const CHOICES: usize = 1 << 20;

/// Which of a pair's equally short ways it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ways {
    /// As the parity of its coordinates says.
    #[default]
    Parity,
    /// As evens out the links' loads when every pair sends one packet; in parts of more than
    /// [`BALANCED_NODES`] nodes by parity.
    Balanced,
    /// The same, and with first and last steps that leave direction order.
    Spread,
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
        let ways = if nodes.len() <= BALANCED_NODES { self.ways } else { Ways::Parity };
        self.table = match ways {
            Ways::Balanced => balance(links, &nodes),
            Ways::Spread => spread(links, &nodes),
            Ways::Parity => {
                let pairs = nodes.iter().flat_map(|&src| nodes.iter().map(move |&dst| (src, dst)));
                pairs.map(|(src, dst)| ordered(links, usual, src, dst)).collect()
            }
        };
        let up = |place: usize| links.node_up(nodes[place]);
        let wanted = |i: usize| up(i / nodes.len()) && up(i % nodes.len());
        let left: Vec<usize> = (0..self.table.len()).filter(|&i| self.table[i].is_none() && wanted(i)).collect();
        if !left.is_empty() {
            self.leave_order(links, left);
        }
        let in_order = |route: &Option<Route>| route.is_none_or(|route| order(&route) == Some(true));
        self.out_of_order = !self.table.iter().all(in_order);
    }

    /// Tells whether all pairs have routes at once, by the first attempt alone.
    pub(super) fn is_served(&self, links: &Links) -> bool {
        let pairs = self.nodes.iter().flat_map(|&src| self.nodes.iter().map(move |&dst| (src, dst)));
        let routes: Vec<Option<Route>> = pairs.map(|(src, dst)| ordered(links, &[], src, dst)).collect();
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|i| routes[*i].is_none());
        let all_in_order = order.last().is_none_or(|last| routes[*last].is_some());
        all_in_order || self.choose(links, &routes, &order, true).0.iter().all(Option::is_some)
    }

    /// Finds routes that leave direction order for pairs that have none in it.
    fn leave_order(&mut self, links: &Links, left: Vec<usize>) {
        let ordered = std::mem::take(&mut self.table);
        let mut refusals: BTreeMap<usize, usize> = left.iter().map(|i| (*i, 0)).collect();
        let mut fewest = usize::MAX;
        let attempts = (CHOICES / ordered.len()).clamp(1, ATTEMPTS);
        for attempt in 0..attempts {
            // At first those with a route in order choose before those without; then those that were refused
            // choose before all others, which begin with another pair each time.
            let mut order: Vec<usize> =
                (0..ordered.len()).filter(|i| ordered[*i].is_some() || refusals.contains_key(i)).collect();
            match attempt {
                0 => order.sort_by_key(|i| ordered[*i].is_none()),
                _ => {
                    let first = attempt * order.len() / ATTEMPTS;
                    order.rotate_left(first);
                    order.sort_by_key(|i| Reverse(refusals.get(i).copied().unwrap_or(0)));
                }
            }
            let (table, refused) = self.choose(links, &ordered, &order, false);
            if refused.len() < fewest {
                fewest = refused.len();
                self.table = table;
            }
            if refused.is_empty() {
                return;
            }
            refused.into_iter().for_each(|i| *refusals.entry(i).or_default() += 1);
        }
    }

    /// Pairs choose in this order: the route in direction order, or else the best one that closes no circle with
    /// those chosen before. Returns the table, and who finds none although there are routes; `all` ends it with the
    /// first that finds none.
    fn choose(
        &self,
        links: &Links,
        ordered: &[Option<Route>],
        order: &[usize],
        all: bool,
    ) -> (Vec<Option<Route>>, Vec<usize>) {
        let n = self.nodes.len();
        let (mut table, mut refused, mut known) = (vec![None; ordered.len()], Vec::new(), Turns::default());
        let mut found = Vec::new();
        for &i in order {
            let (src, dst) = (self.nodes[i / n], self.nodes[i % n]);
            table[i] = ordered[i].filter(|route| known.admit(&turns(links, src, dst, route)));
            if table[i].is_some() {
                continue;
            }
            usable(links, src, dst, &mut found);
            table[i] = found.iter().copied().find(|route| known.admit(&turns(links, src, dst, route)));
            if table[i].is_none() {
                refused.extend((!found.is_empty()).then_some(i));
                if all {
                    break;
                }
            }
        }
        (table, refused)
    }

    /// Adds the turns of all routes.
    pub(super) fn add_turns(&self, links: &Links, usual: &[Route], all: &mut AllTurns) {
        for (i, &src) in (0..).zip(self.nodes.iter()) {
            for (j, &dst) in (0..).zip(self.nodes.iter()) {
                if let Some(route) = self.route(links, usual, (src, dst), (i, j)) {
                    all.add(turns(links, src, dst, &route));
                }
            }
        }
    }
}

/// Replaces `found` by all usable routes of a pair, in the order of preference.
fn usable(links: &Links, src: NodeId, dst: NodeId, found: &mut Vec<Route>) {
    let mut all = Vec::new();
    candidates(links, src, dst, true, |route, ordered| {
        all.push((preference(&route, ordered), route));
    });
    all.sort_by_key(|(preference, _)| *preference);
    found.clear();
    found.extend(all.into_iter().map(|(_, route)| route));
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
        if ordered && best.is_none_or(|(least, _)| preference < least) {
            best = Some((preference, route));
        }
    });
    best.map(|(_, route)| route)
}
