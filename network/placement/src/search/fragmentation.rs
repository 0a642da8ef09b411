//! The place after which the machine's largest free box is largest.

use super::Search;
use super::ragged::{Comparison, places, set_at, whole_box};
use crate::{Machine, NodeSet};

/// Boxes that are compared.
const COMPARED: usize = 4;

/// Compares the boxes that [`Closed`](super::Closed) would try by the largest box that stays free
/// once the set is taken.
///
/// The goal is that of A. Mukosey, A. Semenov (Allocation optimization for reducing resource fragmentation
/// in Angara high-speed interconnect, 2018, DOI 10.14529/cmse180204): sets are judged by size and number of
/// the largest boxes that can be inscribed in what is left. The abstract alone is public; the steps are ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fragmentation;

impl Search for Fragmentation {
    fn name(&self) -> &'static str {
        "fragmentation"
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let places = places(machine, wanted, COMPARED);
        let fewest = places.first().map_or(0, |place| place.free);
        let mut sets = Comparison::new(machine);
        for place in places {
            // More nodes held are a loss for certain.
            if sets.decided() || sets.any() && place.free > fewest || machine.is_stopped() {
                break;
            }
            sets.add(&place, set_at(machine, &place, wanted));
        }
        sets.best().or_else(|| whole_box(machine, wanted))
    }
}
