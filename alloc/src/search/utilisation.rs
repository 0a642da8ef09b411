//! No node is held that no process runs on, if routes can do without.

use super::Search;
use super::fragmentation::better;
use super::ragged::{places, set_at};
use crate::{Machine, NodeSet};

/// Boxes that are compared.
const COMPARED: usize = 12;

/// Like [`Fragmentation`](super::Fragmentation), but the free nodes of a box beyond those asked for are given back where
/// all pairs have routes without them.
///
/// The goal is that of A. Mukosey, A. Simonov, A. Semenov (2019; bibliography of paper 002, item 21): the most
/// of the machine is to be used under a stream of jobs. The steps are ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilisation;

impl Search for Utilisation {
    fn name(&self) -> &'static str {
        "utilisation"
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let places = places(machine, wanted, COMPARED);
        let mut exact: Option<(usize, NodeSet)> = None;
        let mut held: Option<(usize, NodeSet)> = None;
        for place in places.into_iter().take(COMPARED) {
            let set = set_at(machine, &place, wanted);
            let only = NodeSet { transit: Vec::new(), ..set.clone() };
            exact = better(machine, &place, only, exact);
            if exact.is_none() && held.is_none() {
                held = better(machine, &place, set, held);
            }
        }
        exact.or(held).map(|(_, set)| set)
    }
}
