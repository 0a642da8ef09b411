//! The free box that leaves the rest of the machine in the largest pieces.

use super::Search;
use super::boxes::{FreeBoxes, boxes, set_of, slide};
use crate::{Machine, NodeSet};
use angara_net::torus::{Coords, NodeId, Shape};

/// Takes a box of the size that [`FirstFitBox`](super::FirstFitBox) takes, and of its places the one
/// where most of its outer sides touch a taken or dead node, or the edge of a mesh.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFitBox;

impl Search for BestFitBox {
    fn name(&self) -> &'static str {
        "best-fit-box"
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let shape = machine.shape();
        let free = FreeBoxes::of(machine);
        let (sizes, _) = free.first(&boxes(shape, wanted))?;
        let touching = touching(machine, sizes);
        // The last of the best by the reversed number: the first by number.
        let corner = free.corners(sizes).into_iter().rev().max_by_key(|&corner| touching[corner as usize])?;
        set_of(shape, corner, sizes, wanted)
    }
}

/// Per corner: sides of the nodes of a box of these sizes there that touch what is not free, from outside.
pub(super) fn touching(machine: &Machine, sizes: [u8; 4]) -> Vec<u32> {
    let shape = machine.shape();
    let mut touching = vec![0; shape.nodes()];
    for dim in 0..4 {
        let (size, all) = (sizes[dim] as usize, shape.size(dim));
        // A box that goes around has no outside in this dimension.
        if size == all && (shape.is_torus() || all == 1) {
            continue;
        }
        let area = sizes.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, &n)| u32::from(n)).product();
        let face = face_sums(machine, sizes, dim);
        for (corner, sum) in touching.iter_mut().enumerate() {
            let at = shape.coords(corner as NodeId);
            let from = at.0[dim] as usize;
            for layer in [from.checked_sub(1), Some(from + size)] {
                *sum += match layer {
                    Some(layer) if layer < all => face[beside(shape, at, dim, layer)],
                    _ if !shape.is_torus() => area,
                    layer => face[beside(shape, at, dim, layer.map_or(all - 1, |layer| layer % all))],
                };
            }
        }
    }
    touching
}

/// The node with another coordinate in dimension `dim`.
fn beside(shape: &Shape, mut at: Coords, dim: usize, layer: usize) -> usize {
    at.0[dim] = layer as u8;
    shape.id(at).expect("inside the shape") as usize
}

/// Per corner: nodes that are not free in a face of the box, one layer across `dim`.
fn face_sums(machine: &Machine, sizes: [u8; 4], dim: usize) -> Vec<u32> {
    let shape = machine.shape();
    let mut sums: Vec<u32> = (0..shape.nodes() as NodeId).map(|node| u32::from(!machine.is_free(node))).collect();
    let mut step = 1;
    for d in 0..4 {
        let (size, all) = (sizes[d] as usize, shape.size(d));
        if d != dim && size > 1 {
            sums.chunks_exact_mut(step * all).for_each(|block| slide(block, step, size));
        }
        step *= all;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FirstFitBox;
    use crate::search::boxes::nodes_of;
    use angara_fabric::Outage;
    use angara_net::torus::Direction;

    #[test]
    fn sides_are_counted_as_one_by_one() {
        for (shape, dead) in
            [("4x3x3", &[1, 7, 8, 20][..]), ("mesh:4x4", &[0, 9]), ("3x2x3x2", &[0, 13, 30]), ("5", &[2])]
        {
            let shape: Shape = shape.parse().unwrap();
            let outages: Vec<_> = dead.iter().map(|&n| Outage::Node(n)).collect();
            let machine = Machine::new(shape, &outages);
            for sizes in (1..=shape.nodes()).flat_map(|n| boxes(&shape, n)) {
                let sums = touching(&machine, sizes);
                for corner in FreeBoxes::of(&machine).corners(sizes) {
                    let inside = nodes_of(&shape, corner, sizes).unwrap();
                    let mut expected = 0;
                    for &node in &inside {
                        for direction in Direction::ALL.into_iter().filter(|d| shape.size(d.dim()) > 1) {
                            let neighbour = shape.neighbour(node, direction);
                            expected +=
                                u32::from(neighbour.is_none_or(|n| !inside.contains(&n) && !machine.is_free(n)));
                        }
                    }
                    assert_eq!(sums[corner as usize], expected, "{sizes:?} at {corner} of {shape}");
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
