//! The first free box of nodes, as the torus plugins of batch systems place jobs.

use super::Search;
use super::boxes::{FreeBoxes, boxes, set_of};
use crate::{Machine, NodeSet};

/// Takes the smallest box with room enough that is free as a whole, at the first place found. What
/// the box has beyond the nodes asked for is held as transit nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFitBox;

impl Search for FirstFitBox {
    fn name(&self) -> &'static str {
        "first-fit-box"
    }

    fn monotone(&self) -> bool {
        true
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let shape = machine.shape();
        let (sizes, corner) = FreeBoxes::of(machine).first(&boxes(shape, wanted))?;
        set_of(shape, corner, sizes, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Outage;

    #[test]
    fn boxes_avoid_what_is_dead_or_taken_and_go_around_the_ring() {
        let mut machine = Machine::new("4x4".parse().unwrap(), &[Outage::Node(5)]);
        let set = FirstFitBox.find(&machine, 4).unwrap();
        assert_eq!(set.nodes, [2, 3, 6, 7]);
        machine.take(&set);
        assert_eq!(FirstFitBox.find(&machine, 4).unwrap().nodes, [8, 9, 12, 13]);
        assert_eq!(FirstFitBox.find(&machine, 6).unwrap().nodes, [0, 1, 8, 9, 12, 13], "around the ring");
        assert_eq!(FirstFitBox.find(&machine, 12), None);
    }
}
