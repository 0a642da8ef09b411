//! The free box that leaves the rest of the machine in the largest pieces.

use super::Search;
use super::boxes::{FreeBoxes, boxes, set_of};
use super::sums::FreeNodes;
use crate::{Machine, NodeSet};

/// Takes a box of the size that [`FirstFitBox`](super::FirstFitBox) takes, and of its places the one
/// where most of its outer sides touch a taken or dead node, or the edge of a mesh.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFitBox;

impl Search for BestFitBox {
    fn name(&self) -> &'static str {
        "best-fit-box"
    }

    fn monotone(&self) -> bool {
        true
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let shape = machine.shape();
        let free = FreeBoxes::of(machine);
        let (sizes, _) = free.first(&boxes(shape, wanted))?;
        let corners = free.corners(sizes);
        let touching = FreeNodes::of(machine).touching(sizes, &corners);
        // The last of the best by the reversed number: the first by number.
        let (&corner, _) = corners.iter().zip(touching).rev().max_by_key(|(_, touching)| *touching)?;
        set_of(shape, corner, sizes, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FirstFitBox;
    use crate::search::boxes::nodes_of;
    use angara_fabric::Outage;
    use angara_net::torus::{Direction, Shape};

    #[test]
    fn sides_are_counted_as_one_by_one() {
        for (shape, dead) in
            [("4x3x3", &[1, 7, 8, 20][..]), ("mesh:4x4", &[0, 9]), ("3x2x3x2", &[0, 13, 30]), ("5", &[2])]
        {
            let shape: Shape = shape.parse().unwrap();
            let outages: Vec<_> = dead.iter().map(|&n| Outage::Node(n)).collect();
            let machine = Machine::new(shape, &outages);
            for sizes in (1..=shape.nodes()).flat_map(|n| boxes(&shape, n)) {
                let corners = FreeBoxes::of(&machine).corners(sizes);
                let sums = FreeNodes::of(&machine).touching(sizes, &corners);
                for (corner, sum) in corners.into_iter().zip(sums) {
                    let inside = nodes_of(&shape, corner, sizes).unwrap();
                    let mut expected = 0;
                    for &node in &inside {
                        for direction in Direction::ALL.into_iter().filter(|d| shape.size(d.dim()) > 1) {
                            let neighbour = shape.neighbour(node, direction);
                            expected +=
                                u32::from(neighbour.is_none_or(|n| !inside.contains(&n) && !machine.is_free(n)));
                        }
                    }
                    assert_eq!(sum, expected, "{sizes:?} at {corner} of {shape}");
                }
            }
        }
    }

    #[test]
    fn the_gap_is_filled_before_the_open_space() {
        // A row of 8 with a gap of 2 at 5 and 6, and open space at 0 to 3.
        let machine = Machine::new("8".parse().unwrap(), &[Outage::Node(4), Outage::Node(7)]);
        assert_eq!(FirstFitBox.find(&machine, 2).unwrap().nodes, [0, 1]);
        assert_eq!(BestFitBox.find(&machine, 2).unwrap().nodes, [5, 6]);
        assert_eq!(BestFitBox.find(&machine, 3).unwrap().nodes, [0, 1, 2]);
    }
}
