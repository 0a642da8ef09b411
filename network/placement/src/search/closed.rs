//! The fewest nodes whose packets stay among them, holes and all.

use super::Search;
use super::ragged::{places, proven, set_at, whole_box};
use crate::{Machine, NodeSet};

/// Boxes for which routes are looked for.
const TRIES: usize = 4;

/// Takes what is free in a box, the fewest nodes first, if all pairs have routes there.
///
/// The goal is that of A. Mukosey, A. Semenov (An approximate algorithm for choosing the optimal subset of
/// nodes in the Angara interconnect with failures, 2017): a set of at least N nodes to which its packets
/// belong. The abstract alone is public; the steps are ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closed;

impl Search for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let ragged = places(machine, wanted, TRIES).into_iter().find_map(|place| {
            let set = set_at(machine, &place, wanted);
            proven(machine, &place, &set).then_some(set)
        });
        ragged.or_else(|| whole_box(machine, wanted))
    }
}
