//! The first free box of nodes, as the torus plugins of batch systems place jobs.

use super::Search;
use crate::{Machine, NodeSet};
use angara_net::torus::{Coords, NodeId, Shape};

/// Takes the smallest box with room enough that is free as a whole, at the first place found. What
/// the box has beyond the nodes asked for is held as transit nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFitBox;

impl Search for FirstFitBox {
    fn name(&self) -> &'static str {
        "first-fit-box"
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted == 0 || wanted > machine.free() {
            return None;
        }
        let shape = machine.shape();
        for sizes in boxes(shape, wanted) {
            for corner in (0..shape.nodes() as NodeId).filter(|&node| machine.is_free(node)) {
                let Some(nodes) = nodes_of(shape, corner, sizes) else { continue };
                if nodes.iter().all(|&node| machine.is_free(node)) {
                    let (used, rest) = nodes.split_at(wanted);
                    let mut set = NodeSet { nodes: used.to_vec(), transit: rest.to_vec() };
                    set.nodes.sort_unstable();
                    set.transit.sort_unstable();
                    return Some(set);
                }
            }
        }
        None
    }
}

/// Sizes of boxes with at least `wanted` nodes: the fewest nodes first, then the most cubic. Of
/// boxes with one size more than needed there are none.
pub(crate) fn boxes(shape: &Shape, wanted: usize) -> Vec<[u8; 4]> {
    let size = |dim: usize| shape.size(dim);
    let mut found = Vec::new();
    for x in 1..=size(0) {
        for y in 1..=size(1) {
            for z in 1..=size(2) {
                let w = wanted.div_ceil(x * y * z);
                let shrinks = |a: usize, rest: usize| a > 1 && (a - 1) * rest >= wanted;
                let too_large = shrinks(x, y * z * w) || shrinks(y, x * z * w) || shrinks(z, x * y * w);
                if w <= size(3) && !too_large {
                    found.push([x as u8, y as u8, z as u8, w as u8]);
                }
            }
        }
    }
    let key = |b: &[u8; 4]| {
        let product: usize = b.iter().map(|&n| n as usize).product();
        let sum: usize = b.iter().map(|&n| n as usize).sum();
        (product, sum, *b)
    };
    found.sort_by_key(key);
    found
}

/// The nodes of a box that begins at `corner`, X fastest; `None` if it leaves a mesh.
pub(crate) fn nodes_of(shape: &Shape, corner: NodeId, sizes: [u8; 4]) -> Option<Vec<NodeId>> {
    let from = shape.coords(corner).0;
    let mut nodes = vec![];
    for w in 0..sizes[3] {
        for z in 0..sizes[2] {
            for y in 0..sizes[1] {
                for x in 0..sizes[0] {
                    let mut at = [0; 4];
                    for (dim, step) in [x, y, z, w].into_iter().enumerate() {
                        let to = from[dim] as usize + step as usize;
                        if to >= shape.size(dim) && !shape.is_torus() {
                            return None;
                        }
                        at[dim] = (to % shape.size(dim)) as u8;
                    }
                    nodes.push(shape.id(Coords(at))?);
                }
            }
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Outage;

    #[test]
    fn the_smallest_box_with_room_is_taken() {
        let shape: Shape = "4x4x4".parse().unwrap();
        assert_eq!(boxes(&shape, 8)[0], [2, 2, 2, 1]);
        assert_eq!(boxes(&shape, 7)[0], [2, 2, 2, 1], "7 is prime and longer than a side");
        assert!(boxes(&shape, 65).is_empty());
    }

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
