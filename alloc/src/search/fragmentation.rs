//! The place after which the machine's largest free box is largest.

use super::Search;
use super::boxes::FreeBoxes;
use super::ragged::{Place, needs_no_proof, places, routable, set_at};
use crate::{Machine, NodeSet};

/// Boxes that are compared.
const COMPARED: usize = 12;

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
        let fewest = places.first()?.free;
        let mut best: Option<(usize, NodeSet)> = None;
        for place in places.into_iter().take(COMPARED) {
            // More nodes held are a loss for certain.
            if best.is_some() && place.free > fewest {
                break;
            }
            best = better(machine, &place, set_at(machine, &place, wanted), best);
        }
        best.map(|(_, set)| set)
    }
}

/// The better of `best` and a set at `place`, by the largest free box that each leaves; of equals the former.
pub(super) fn better(
    machine: &Machine,
    place: &Place,
    set: NodeSet,
    best: Option<(usize, NodeSet)>,
) -> Option<(usize, NodeSet)> {
    let mut after = machine.clone();
    after.take(&set);
    let left = FreeBoxes::of(&after).largest();
    if best.as_ref().is_some_and(|(most, _)| left <= *most) {
        return best;
    }
    let known = needs_no_proof(machine, place) && set.size() == place.free as usize;
    if known || routable(machine, &set) { Some((left, set)) } else { best }
}
