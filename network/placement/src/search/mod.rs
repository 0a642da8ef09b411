//! Searches for node sets, one file each.

mod best_fit_box;
mod boxes;
mod closed;
mod first_fit_box;
mod fragmentation;
mod ragged;
mod sums;
mod unconstrained;
mod utilisation;

pub use best_fit_box::BestFitBox;
pub use boxes::largest_free_box;
pub use closed::Closed;
pub use first_fit_box::FirstFitBox;
pub use fragmentation::Fragmentation;
pub use unconstrained::Unconstrained;
pub use utilisation::Utilisation;

use crate::{Machine, NodeSet};

/// A way to choose the nodes of a job.
pub trait Search {
    /// Name, as the command line has it.
    fn name(&self) -> &'static str;

    /// True if no set for a number of nodes means none for more, or on the same machine with less of it free. For a
    /// free box this holds, since it has boxes of every smaller number inside. Searches with holes look at a few boxes,
    /// others for each number: they may miss a set and find one for more.
    fn monotone(&self) -> bool {
        false
    }

    /// Returns a set with `wanted` nodes for processes, or `None` if the machine has none now.
    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet>;

    /// Returns such a set of a machine as it will be, for a job that waits; `None` if it knows none, though
    /// [`Search::find`] may.
    ///
    /// Searches with holes look for whole boxes: most of what is left is ragged, and proofs that it has no routes take
    /// longest.
    fn find_ahead(&self, then: &Machine, wanted: usize) -> Option<NodeSet> {
        if self.monotone() { self.find(then, wanted) } else { ragged::whole_box(then, wanted) }
    }

    /// The same, but the set leaves those nodes to others meanwhile that are free `now`. Whatever is free now is free
    /// then.
    fn find_later(&self, then: &Machine, now: &Machine, wanted: usize) -> Option<NodeSet> {
        self.find_ahead(&then.without_free(now), wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetTables;
    use angara_fabric::{Outage, Ways};
    use angara_net::Link;
    use angara_net::torus::{NodeId, Shape};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SEARCHES: [&dyn Search; 6] =
        [&FirstFitBox, &BestFitBox, &Closed, &Fragmentation, &Utilisation, &Unconstrained];

    /// Machines with dead nodes, some with dead links, and with nodes that others hold.
    fn machines() -> impl Strategy<Value = Machine> {
        let shapes = prop::sample::select(vec!["7", "4x4", "mesh:5x4", "4x3x3", "3x2x2x3", "mesh:3x3x3"]);
        let numbers = || prop::collection::vec(any::<prop::sample::Index>(), 0..5);
        (shapes, numbers(), numbers(), any::<bool>(), numbers()).prop_map(|(shape, nodes, links, cut, taken)| {
            let shape: Shape = shape.parse().unwrap();
            let all: Vec<Link> = Link::all(shape).collect();
            let node = |i: &prop::sample::Index| i.index(shape.nodes()) as NodeId;
            let mut dead: Vec<Outage> = nodes.iter().map(|i| Outage::Node(node(i))).collect();
            dead.extend(links.iter().filter(|_| cut).map(|i| Outage::Link(all[i.index(all.len())])));
            let mut machine = Machine::new(shape, &dead);
            let taken: BTreeSet<NodeId> = taken.iter().map(node).filter(|n| machine.is_free(*n)).collect();
            machine.take(&NodeSet::of(taken.into_iter().collect()));
            machine
        })
    }

    #[test]
    fn a_search_that_is_stopped_ends() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // Dead links: nothing is taken for granted.
        let dead = [Outage::Link(Link { node: 0, dir: angara_net::torus::Direction::ALL[0] })];
        let machine = Machine::new("8x8x8".parse().unwrap(), &dead).stops_with(stop.clone());
        let careful: [&dyn Search; 3] = [&Closed, &Fragmentation, &Utilisation];
        for search in careful {
            assert!(search.find(&machine, 300).is_some(), "{}", search.name());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for search in careful {
            assert_eq!(search.find(&machine, 300), None, "{}", search.name());
        }
    }

    proptest! {
        #[test]
        fn sets_are_free_and_their_pairs_have_routes_inside(machine in machines(), wanted in 1usize..20) {
            for search in SEARCHES {
                let Some(set) = search.find(&machine, wanted) else { continue };
                let name = search.name();
                prop_assert_eq!(set.nodes.len(), wanted, "{}", name);
                let held: BTreeSet<NodeId> = set.held().collect();
                prop_assert_eq!(held.len(), set.size(), "{}: a node twice", name);
                prop_assert!(held.iter().all(|n| machine.is_free(*n)), "{}: {:?}", name, set);
                // Batch systems place boxes without a look at links.
                let looks = !matches!(name, "unconstrained" | "first-fit-box" | "best-fit-box");
                if looks || (name != "unconstrained" && machine.links().dead().is_empty()) {
                    let tables = SetTables::of(&machine, &set, Ways::Parity);
                    prop_assert!(tables.complete(), "{}: {:?} lacks {:?}", name, set, tables.refused);
                    prop_assert!(tables.routes.acyclic(), "{}", name);
                    prop_assert!(tables.max_load >= tables.bound, "{}: {} < {}", name, tables.max_load, tables.bound);
                }
            }
        }
    }
}
