//! Boxes with holes: what the searches share that take what is free in a box.
//!
//! Nodes of a box that are dead or taken are holes. The free ones are a set if routes lead around the
//! holes, which is tried for a few boxes: those that hold the fewest nodes beyond those asked for.

use super::best_fit_box::touching;
use super::boxes::{boxes, nodes_of, slide, volume};
use crate::{Machine, NodeSet};
use angara_fabric::{Routes, Ways};
use angara_net::torus::{NodeId, Shape};
use std::cmp::Reverse;

/// Largest set for which a table is made to see that all pairs have routes. Of a larger one, the pairs of
/// [`SOURCES`] nodes are looked at, one by one.
const EXACT: usize = 256;
const SOURCES: usize = 32;
/// Sizes of boxes that are looked at.
const SIZES: usize = 24;
/// Boxes have at most this many sixteenths more nodes than are asked for.
const SIXTEENTHS: usize = 6;

/// A box and what is free in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sizes: [u8; 4],
    pub(super) corner: NodeId,
    /// Free nodes of the box.
    pub(super) free: u32,
    /// Sides of the box that touch what is not free.
    touching: u32,
}

/// Boxes with at least `wanted` free nodes: the fewest free nodes first, then the most cubic, then those that touch
/// most of what is not free. Up to `most` of each size.
pub(super) fn places(machine: &Machine, wanted: usize, most: usize) -> Vec<Place> {
    let shape = machine.shape();
    let mut found = Vec::new();
    for sizes in sizes(shape, wanted) {
        let free = free_nodes(machine, sizes);
        let fewest = free.iter().filter(|free| **free as usize >= wanted).min();
        let Some(&fewest) = fewest else { continue };
        let touching = touching(machine, sizes);
        let corners = (0..).zip(&free).filter(|(_, free)| **free == fewest);
        let mut here: Vec<Place> = corners
            .map(|(corner, &free)| Place { sizes, corner, free, touching: touching[corner as usize] })
            .filter(|place| inside(shape, place))
            .collect();
        here.sort_by_key(|place| (Reverse(place.touching), place.corner));
        here.truncate(most);
        found.extend(here);
    }
    let sum = |sizes: [u8; 4]| sizes.into_iter().map(u32::from).sum::<u32>();
    found.sort_by_key(|place| (place.free, sum(place.sizes), Reverse(place.touching), place.sizes, place.corner));
    found
}

/// Sizes of boxes with `wanted` nodes or a few more, without and with room for holes.
fn sizes(shape: &Shape, wanted: usize) -> Vec<[u8; 4]> {
    let most = wanted + wanted * SIXTEENTHS / 16 + 2;
    let room = (0..=SIXTEENTHS).map(|k| wanted + wanted * k / 16 + usize::from(k > 0));
    let mut sizes: Vec<[u8; 4]> = room.flat_map(|nodes| boxes(shape, nodes).into_iter().take(SIZES / 3)).collect();
    sizes.retain(|sizes| volume(*sizes) <= most);
    sizes.sort_by_key(|sizes| (volume(*sizes), sizes.iter().map(|n| u32::from(*n)).sum::<u32>(), *sizes));
    sizes.dedup();
    sizes.truncate(SIZES);
    sizes
}

/// Per corner: free nodes in a box of these sizes, around the ring.
fn free_nodes(machine: &Machine, sizes: [u8; 4]) -> Vec<u32> {
    let shape = machine.shape();
    let mut sums: Vec<u32> = (0..shape.nodes() as NodeId).map(|node| u32::from(machine.is_free(node))).collect();
    let mut step = 1;
    for (dim, &size) in sizes.iter().enumerate() {
        let all = shape.size(dim);
        if size > 1 {
            sums.chunks_exact_mut(step * all).for_each(|block| slide(block, step, size as usize));
        }
        step *= all;
    }
    sums
}

/// True unless the box leaves a mesh.
fn inside(shape: &Shape, place: &Place) -> bool {
    let from = shape.coords(place.corner).0;
    shape.is_torus() || (0..4).all(|dim| from[dim] as usize + place.sizes[dim] as usize <= shape.size(dim))
}

/// The free nodes of a box; `wanted` of them are for processes, the others pass packets on.
pub(super) fn set_at(machine: &Machine, place: &Place, wanted: usize) -> NodeSet {
    let mut nodes = nodes_of(machine.shape(), place.corner, place.sizes).unwrap_or_default();
    nodes.retain(|node| machine.is_free(*node));
    let transit = nodes.split_off(wanted.min(nodes.len()));
    NodeSet { transit, ..NodeSet::of(nodes) }
}

/// True if all pairs of a set have routes inside it at once.
pub(super) fn routable(machine: &Machine, set: &NodeSet) -> bool {
    let links = machine.links().inside(set);
    let n = set.nodes.len();
    let sampled = set.nodes.iter().step_by((n / SOURCES).max(1));
    let reached = |a: NodeId| set.nodes.iter().all(|&b| a == b || (links.any_route(a, b) && links.any_route(b, a)));
    if !sampled.copied().all(reached) {
        return false;
    }
    if n > EXACT {
        return true;
    }
    let routes = Routes::alone(machine.links(), set, Ways::Parity);
    set.nodes.iter().all(|&a| set.nodes.iter().all(|&b| routes.route(a, b).is_some()))
}

/// True if the box is free as a whole and no link in the machine is dead: then its routes need no proof, since in
/// direction order there is always a way inside a box.
pub(super) fn needs_no_proof(machine: &Machine, place: &Place) -> bool {
    place.free as usize == volume(place.sizes) && machine.dead_links().is_empty()
}
