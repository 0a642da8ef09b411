//! Route tables of a node set: are all pairs served, how evenly are links loaded, how even could they be.

use crate::{Machine, NodeSet, bound};
use angara_fabric::{Routes, Ways};
use angara_net::Link;
use angara_net::torus::{Direction, NodeId};

/// The tables of a set, and what they are worth when every pair sends one packet.
#[derive(Clone, Debug)]
pub struct SetTables {
    /// The routes; only those of the set are made.
    pub routes: Routes,
    /// Ordered pairs of different nodes.
    pub pairs: usize,
    /// Pairs without a route.
    pub refused: Vec<(NodeId, NodeId)>,
    /// Routes with a first or last step.
    pub detours: usize,
    /// Routes that leave direction order; admitted because no circle of waiting packets arises.
    pub out_of_order: usize,
    /// Links with both ends in the set that work, one direction each.
    pub links: usize,
    /// Packets on the busiest link.
    pub max_load: u64,
    /// Packets on a link, on average over all links of the set.
    pub mean_load: f64,
    /// No table of the set can have less on its busiest link ([`bound`]).
    pub bound: u64,
    /// Links of a route, on average.
    pub mean_hops: f64,
    /// Packets of each link, by node and direction.
    pub loads: Vec<u32>,
}

impl SetTables {
    /// Makes the tables of `set` in a machine, of which only dead parts count.
    pub fn of(machine: &Machine, set: &NodeSet, ways: Ways) -> SetTables {
        let routes = Routes::alone(machine.links(), set, ways);
        let shape = *machine.shape();
        let mut tables = SetTables {
            pairs: set.nodes.len() * set.nodes.len().saturating_sub(1),
            refused: Vec::new(),
            detours: 0,
            out_of_order: 0,
            links: 0,
            max_load: 0,
            mean_load: 0.0,
            bound: 0,
            mean_hops: 0.0,
            loads: vec![0; shape.nodes() * Direction::ALL.len()],
            routes,
        };
        let mut hops = 0u64;
        for (&src, &dst) in set.nodes.iter().flat_map(|a| set.nodes.iter().map(move |b| (a, b))) {
            if src == dst {
                continue;
            }
            let Some(route) = tables.routes.route(src, dst) else {
                tables.refused.push((src, dst));
                continue;
            };
            hops += u64::from(route.hops);
            tables.detours += usize::from(route.first_step.is_some() || route.last_step.is_some());
            let (mut before, mut ordered) = (0, true);
            let loads = &mut tables.loads;
            tables.routes.walk(src, dst, &route, |link| {
                loads[index(link)] += 1;
                ordered &= link.dir.index() >= before;
                before = link.dir.index();
            });
            tables.out_of_order += usize::from(!ordered);
        }
        let usable: Vec<Link> = links(&tables.routes, machine, set);
        tables.links = usable.len();
        tables.max_load = usable.iter().map(|l| u64::from(tables.loads[index(*l)])).max().unwrap_or(0);
        tables.mean_load = hops as f64 / tables.links.max(1) as f64;
        tables.mean_hops = hops as f64 / (tables.pairs - tables.refused.len()).max(1) as f64;
        tables.bound = bound::of(machine, &tables.routes, set, &usable);
        tables
    }

    /// True if every pair has a route.
    pub fn complete(&self) -> bool {
        self.refused.is_empty()
    }
}

/// Place of a link in lists of all.
pub(crate) fn index(link: Link) -> usize {
    link.node as usize * Direction::ALL.len() + link.dir.index()
}

/// Links that work and stay in the set.
fn links(routes: &Routes, machine: &Machine, set: &NodeSet) -> Vec<Link> {
    let shape = *machine.shape();
    set.held().flat_map(|node| Link::of_node(node, shape)).filter(|link| routes.link_up(*link)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Outage;

    fn set(nodes: impl IntoIterator<Item = NodeId>) -> NodeSet {
        NodeSet::of(nodes.into_iter().collect())
    }

    #[test]
    fn a_whole_torus_has_the_loads_of_the_cost_model() {
        // Paper 001: n^4/8 packets on each directed link of a cube of n = 4.
        let machine = Machine::new("4x4x4".parse().unwrap(), &[]);
        let tables = SetTables::of(&machine, &set(0..64), Ways::Balanced);
        assert_eq!((tables.pairs, tables.refused.len(), tables.links), (64 * 63, 0, 64 * 6));
        assert_eq!((tables.max_load, tables.mean_load, tables.bound), (32, 32.0, 32));
        assert_eq!(tables.mean_hops, 192.0 / 63.0);
    }

    #[test]
    fn a_box_of_a_torus_is_a_mesh() {
        let machine = Machine::new("8x8".parse().unwrap(), &[]);
        let square = set((0..4).flat_map(|y| (0..4).map(move |x| x + 8 * y)));
        let tables = SetTables::of(&machine, &square, Ways::Balanced);
        // 8·8 pairs cross the middle over 4 links. In direction order packets to the upper left go up at once, and
        // those to the upper right at the end: the last column has (2·4 + 2·3)·2 of them.
        assert_eq!((tables.links, tables.max_load, tables.bound), (48, 28, 16));
        assert!(tables.complete() && tables.routes.acyclic());
    }

    #[test]
    fn a_hole_needs_routes_that_leave_order_and_a_cut_refuses_pairs() {
        let shape = "8x8".parse().unwrap();
        let square = |without: NodeId| set((0..16).map(|i| i % 4 + i / 4 * 8).filter(move |n| *n != without));
        let machine = Machine::new(shape, &[Outage::Node(9)]);
        let tables = SetTables::of(&machine, &square(9), Ways::Balanced);
        assert!(tables.complete() && tables.out_of_order > 0 && tables.max_load >= tables.bound);
        assert!(tables.routes.acyclic());
        let apart = SetTables::of(&machine, &set([0, 2]), Ways::Balanced);
        assert_eq!(apart.refused, [(0, 2), (2, 0)]);
    }
}
