//! Free boxes of a machine, all at once: what the searches for boxes share.
//!
//! A map says for each node how long the row of free nodes is that begins there in +X, around the
//! ring in a torus. The minimum of the maps of a window in Y, Z and W is the longest box with that
//! cross-section at each corner. One more row of a window is one pass over bytes, which the
//! compiler vectorises: all cross-sections of 32,768 nodes take milliseconds.

use crate::{Machine, NodeSet};
use angara_net::torus::{Coords, NodeId, Shape};
use std::borrow::Cow;

/// Sizes of boxes that are looked at one by one before the table of all cross-sections is made.
const ONE_BY_ONE: usize = 6;

/// Lengths of free rows, for boxes of any size.
pub(crate) struct FreeBoxes<'a> {
    shape: &'a Shape,
    /// Per node: free nodes in a row from here in +X.
    rows: Vec<u8>,
}

impl<'a> FreeBoxes<'a> {
    /// The free boxes of a machine as it is now.
    pub(crate) fn of(machine: &'a Machine) -> FreeBoxes<'a> {
        let shape = machine.shape();
        let width = shape.size(0);
        let mut rows = vec![0u8; shape.nodes()];
        for (first, row) in rows.chunks_exact_mut(width).enumerate() {
            let free = |x: usize| machine.is_free((first * width + x) as NodeId);
            // Around the ring: what begins at the upper edge goes on at the lower one.
            let mut run = if shape.is_torus() { (0..width).take_while(|&x| free(x)).count() } else { 0 };
            for x in (0..width).rev() {
                run = if free(x) { (run + 1).min(width) } else { 0 };
                row[x] = run as u8;
            }
        }
        FreeBoxes { shape, rows }
    }

    /// Nodes that a window of one more layer of dimension `dim` steps over, and those after which it repeats.
    fn strides(&self, dim: usize) -> (usize, usize) {
        let step: usize = (0..dim).map(|d| self.shape.size(d)).product();
        (step, step * self.shape.size(dim))
    }

    /// Reduces `map` to the minimum of it and of `other` `layers` further on in dimension `dim`.
    fn narrow(&self, map: &mut [u8], other: &[u8], dim: usize, layers: usize) {
        let (step, block) = self.strides(dim);
        let ahead = layers * step;
        for (to, from) in map.chunks_exact_mut(block).zip(other.chunks_exact(block)) {
            let (straight, around) = to.split_at_mut(block - ahead);
            least(straight, &from[ahead..]);
            if self.shape.is_torus() { least(around, &from[..ahead]) } else { around.fill(0) }
        }
    }

    /// Per corner: the longest free box in X whose other sizes are these.
    fn longest_at(&self, sizes: [u8; 4]) -> Vec<u8> {
        let mut map = self.rows.clone();
        let mut before = Vec::new();
        for dim in 1..4 {
            let size = sizes[dim] as usize;
            // Windows of 1, 2, 4 … layers, the last step as wide as is left.
            let mut have = 1;
            while have < size {
                let step = have.min(size - have);
                before.clone_from(&map);
                self.narrow(&mut map, &before, dim, step);
                have += step;
            }
        }
        map
    }

    /// Corners where a box of these sizes is free.
    pub(crate) fn corners(&self, sizes: [u8; 4]) -> Vec<NodeId> {
        let fits = |(node, &long): (usize, &u8)| (long >= sizes[0]).then_some(node as NodeId);
        self.longest_at(sizes).iter().enumerate().filter_map(fits).collect()
    }

    fn first_corner(&self, sizes: [u8; 4]) -> Option<NodeId> {
        self.longest_at(sizes).iter().position(|&long| long >= sizes[0]).map(|node| node as NodeId)
    }

    /// The first of `sizes` that is free somewhere, and its first corner.
    pub(crate) fn first(&self, sizes: &[[u8; 4]]) -> Option<([u8; 4], NodeId)> {
        let (few, rest) = sizes.split_at(sizes.len().min(ONE_BY_ONE));
        if let Some(found) = few.iter().find_map(|&s| Some((s, self.first_corner(s)?))) {
            return Some(found);
        }
        let most = |dim: usize| rest.iter().map(|s| s[dim] as usize).max().unwrap_or(0);
        let least = rest.first().map_or(1, |&s| volume(s));
        let longest = self.longest([most(1), most(2), most(3)], least);
        let found = rest.iter().find(|s| longest.of(s[1], s[2], s[3]) >= s[0])?;
        Some((*found, self.first_corner(*found).expect("the table has this box")))
    }

    /// The longest free box of every cross-section up to `most` in Y, Z and W; 0 where none has
    /// `least` nodes.
    fn longest(&self, most: [usize; 3], least: usize) -> Longest {
        let mut found = Longest { most, length: vec![0; most.iter().product()] };
        if found.length.is_empty() {
            return found;
        }
        let mut y_map = self.rows.clone();
        for y in 1..=most[0] {
            if y > 1 {
                self.narrow(&mut y_map, &self.rows, 1, y - 1);
            }
            let long = highest(&y_map) as usize;
            if long == 0 {
                break;
            }
            if long * y * most[1] * most[2] < least {
                continue;
            }
            let mut z_map = y_map.clone();
            for z in 1..=most[1] {
                if z > 1 {
                    self.narrow(&mut z_map, &y_map, 2, z - 1);
                }
                let long = self.longest_in_w(&z_map, [y, z], &mut found);
                if long * y * most[1] * most[2] < least.max(1) {
                    break;
                }
            }
        }
        found
    }

    /// Fills in one Y and Z; returns the longest box with a W of 1.
    fn longest_in_w(&self, z_map: &[u8], [y, z]: [usize; 2], found: &mut Longest) -> usize {
        let first = highest(z_map);
        *found.at(y, z, 1) = first;
        if first == 0 || found.most[2] == 1 {
            return first as usize;
        }
        let mut map = z_map.to_vec();
        for w in 2..=found.most[2] {
            self.narrow(&mut map, z_map, 3, w - 1);
            let long = highest(&map);
            *found.at(y, z, w) = long;
            if long == 0 {
                break;
            }
        }
        first as usize
    }

    /// The largest free box, if it has more nodes than this: its nodes, sizes and first corner.
    pub(crate) fn largest_above(&self, nodes: usize) -> Option<(usize, [u8; 4], NodeId)> {
        let most = [1, 2, 3].map(|dim| self.shape.size(dim));
        let mut best = (nodes, [0; 4]);
        let mut y_map = self.rows.clone();
        for y in 1..=most[0] {
            if y > 1 {
                self.narrow(&mut y_map, &self.rows, 1, y - 1);
            }
            let long = highest(&y_map) as usize;
            if long == 0 {
                break;
            }
            if long * y * most[1] * most[2] <= best.0 {
                continue;
            }
            let mut z_map = y_map.clone();
            for z in 1..=most[1] {
                if z > 1 {
                    self.narrow(&mut z_map, &y_map, 2, z - 1);
                }
                if highest(&z_map) as usize * y * most[1] * most[2] <= best.0 {
                    break;
                }
                self.larger_in_w(&z_map, [y, z], &mut best);
            }
        }
        (best.0 > nodes).then(|| (best.0, best.1, self.first_corner(best.1).expect("it was found")))
    }

    /// Looks for a larger box with this Y and Z.
    fn larger_in_w(&self, z_map: &[u8], [y, z]: [usize; 2], best: &mut (usize, [u8; 4])) {
        let most = self.shape.size(3);
        let mut map = Cow::Borrowed(z_map);
        for w in 1..=most {
            if w > 1 {
                self.narrow(map.to_mut(), z_map, 3, w - 1);
            }
            let long = highest(&map);
            if long as usize * y * z * w > best.0 {
                *best = (long as usize * y * z * w, [long, y as u8, z as u8, w as u8]);
            }
            if long as usize * y * z * most <= best.0 {
                break;
            }
        }
    }
}

/// Length of the longest free box of each cross-section.
struct Longest {
    most: [usize; 3],
    length: Vec<u8>,
}

impl Longest {
    fn index(&self, y: usize, z: usize, w: usize) -> usize {
        y - 1 + self.most[0] * (z - 1 + self.most[1] * (w - 1))
    }
    fn at(&mut self, y: usize, z: usize, w: usize) -> &mut u8 {
        let index = self.index(y, z, w);
        &mut self.length[index]
    }
    fn of(&self, y: u8, z: u8, w: u8) -> u8 {
        self.length[self.index(y as usize, z as usize, w as usize)]
    }
}

fn least(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = (*to).min(from));
}

fn highest(map: &[u8]) -> u8 {
    map.iter().fold(0, |most, &long| most.max(long))
}

/// Nodes of the largest free box of a machine: what is left in one piece.
pub fn largest_free_box(machine: &Machine) -> usize {
    FreeBoxes::of(machine).largest_above(0).map_or(0, |largest| largest.0)
}

/// Sizes of boxes with at least `wanted` nodes: the fewest nodes first, then the most cubic. Of
/// boxes with one size more than needed there are none.
pub(crate) fn boxes(shape: &Shape, wanted: usize) -> Vec<[u8; 4]> {
    let size = |dim: usize| shape.size(dim);
    let mut found = Vec::new();
    // The size in Z follows from the others, so that a machine of three dimensions takes two loops.
    for x in 1..=size(0).min(wanted) {
        for y in 1..=size(1).min(wanted.div_ceil(x)) {
            for w in 1..=size(3).min(wanted.div_ceil(x * y)) {
                let z = wanted.div_ceil(x * y * w);
                let shrinks = |a: usize, rest: usize| a > 1 && (a - 1) * rest >= wanted;
                let too_large = shrinks(x, y * z * w) || shrinks(y, x * z * w) || shrinks(w, x * y * z);
                if z <= size(2) && !too_large {
                    found.push([x as u8, y as u8, z as u8, w as u8]);
                }
            }
        }
    }
    found.sort_by_cached_key(|b| (volume(*b), b.iter().map(|&n| n as usize).sum::<usize>(), *b));
    found
}

/// Nodes of a box.
pub(crate) fn volume(sizes: [u8; 4]) -> usize {
    sizes.iter().map(|&n| n as usize).product()
}

/// The nodes of a box that begins at `corner`, X fastest; `None` if it leaves a mesh.
pub(crate) fn nodes_of(shape: &Shape, corner: NodeId, sizes: [u8; 4]) -> Option<Vec<NodeId>> {
    let from = shape.coords(corner).0;
    let mut nodes = Vec::with_capacity(volume(sizes));
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

/// A set of `wanted` nodes in a box; the others of the box are transit nodes.
pub(crate) fn set_of(shape: &Shape, corner: NodeId, sizes: [u8; 4], wanted: usize) -> Option<NodeSet> {
    let nodes = nodes_of(shape, corner, sizes)?;
    let (used, rest) = nodes.split_at(wanted);
    let mut set = NodeSet { nodes: used.to_vec(), transit: rest.to_vec() };
    set.nodes.sort_unstable();
    set.transit.sort_unstable();
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_fabric::Outage;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_box_with_room_is_first() {
        let shape: Shape = "4x4x4".parse().unwrap();
        assert_eq!(boxes(&shape, 8)[0], [2, 2, 2, 1]);
        assert_eq!(boxes(&shape, 7)[0], [2, 2, 2, 1], "7 is prime and longer than a side");
        assert!(boxes(&shape, 65).is_empty());
    }

    /// Tries every box at every corner, node by node.
    fn slowly(machine: &Machine, sizes: [u8; 4]) -> Vec<NodeId> {
        let free = |&corner: &NodeId| {
            nodes_of(machine.shape(), corner, sizes).is_some_and(|nodes| nodes.iter().all(|&n| machine.is_free(n)))
        };
        (0..machine.shape().nodes() as NodeId).filter(free).collect()
    }

    fn machines() -> impl Strategy<Value = Machine> {
        let shapes = prop::sample::select(vec!["5", "mesh:7", "4x3", "mesh:4x4", "3x4x2", "mesh:3x3x3", "3x2x3x2"]);
        (shapes, any::<u64>(), 0u32..4).prop_map(|(shape, bits, holes)| {
            let shape: Shape = shape.parse().unwrap();
            let dead = |&n: &NodeId| (0..=holes).all(|k| bits.rotate_left(17 * k + n) & 1 == 1);
            let outages: Vec<Outage> = (0..shape.nodes() as NodeId).filter(dead).map(Outage::Node).collect();
            Machine::new(shape, &outages)
        })
    }

    proptest! {
        #[test]
        fn every_free_box_is_found_and_no_other(machine in machines(), wanted in 1usize..40) {
            let shape = *machine.shape();
            let free = FreeBoxes::of(&machine);
            let sizes = boxes(&shape, wanted);
            for &s in &sizes {
                prop_assert_eq!(free.corners(s), slowly(&machine, s), "{:?} in {}", s, shape);
            }
            let first = sizes.iter().find_map(|&s| Some((s, *slowly(&machine, s).first()?)));
            prop_assert_eq!(free.first(&sizes), first);
            let largest = (1..=shape.nodes()).rev().find(|&n| {
                let exact = boxes(&shape, n).into_iter().filter(|s| volume(*s) == n);
                exact.into_iter().any(|s| !slowly(&machine, s).is_empty())
            });
            prop_assert_eq!(largest_free_box(&machine), largest.unwrap_or(0));
        }
    }
}
