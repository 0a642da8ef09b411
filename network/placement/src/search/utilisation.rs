//! No node is held that no process runs on, if routes can do without.

use super::Search;
use super::ragged::{Comparison, places, proven, set_at, whole_box};
use crate::{Machine, NodeSet};

/// Boxes that are compared.
const COMPARED: usize = 4;

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
        let (mut exact, mut held) = (Comparison::new(machine), None);
        for place in places(machine, wanted, COMPARED) {
            if exact.decided() || machine.is_stopped() {
                break;
            }
            let set = set_at(machine, &place, wanted);
            exact.add(&place, NodeSet { transit: Vec::new(), ..set.clone() });
            if !exact.any() && held.is_none() && !set.transit.is_empty() && proven(machine, &place, &set) {
                held = Some(set);
            }
        }
        exact.best().or(held).or_else(|| whole_box(machine, wanted))
    }
}
