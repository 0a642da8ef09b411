//! Boxes with holes: what the searches share that take what is free in a box.
//!
//! Nodes of a box that are dead or taken are holes. The free ones are a set if routes lead around the
//! holes, which is tried for a few boxes: those that hold the fewest nodes beyond those asked for.

use super::Search;
use super::best_fit_box::BestFitBox;
use super::boxes::{FreeBoxes, boxes, nodes_of, volume};
use super::sums::FreeNodes;
use crate::{Machine, NodeSet};
use angara_fabric::Routes;
use angara_net::torus::{Direction, NodeId, Shape};
use std::cmp::Reverse;

/// Largest set for which a table is made to see that all pairs have routes. Of a larger one, the pairs of
/// a few nodes are looked at, one by one: of [`SPREAD`] nodes and of [`LONELY`] ones with the fewest neighbours.
const EXACT: usize = 256;
const SPREAD: usize = 8;
const LONELY: usize = 8;
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

/// All places of boxes of one size with the fewest free nodes, but enough.
struct Fit {
    free: u32,
    sum: u32,
    sizes: [u8; 4],
    corners: Vec<NodeId>,
}

/// Boxes with at least `wanted` free nodes, at most `most`: the fewest free nodes first, then the most cubic, then
/// those that touch most of what is not free.
pub(super) fn places(machine: &Machine, wanted: usize, most: usize) -> Vec<Place> {
    let shape = machine.shape();
    let nodes = FreeNodes::of(machine);
    let (mut fits, mut exact) = (Vec::new(), 0);
    for sizes in sizes(shape, wanted) {
        if machine.is_stopped() {
            break;
        }
        let Some(fit) = fit(shape, &nodes, sizes, wanted) else { continue };
        exact += if fit.free as usize == wanted { fit.corners.len() } else { 0 };
        fits.push(fit);
        // Larger boxes with as few free nodes have more holes.
        if exact >= most {
            break;
        }
    }
    fits.sort_by_key(|fit| (fit.free, fit.sum, fit.sizes));
    let mut found: Vec<Place> = Vec::new();
    for equals in fits.chunk_by(|a, b| (a.free, a.sum) == (b.free, b.sum)) {
        let mut here = Vec::new();
        for fit in equals {
            let touching = nodes.touching(fit.sizes, &fit.corners);
            let place = |(&corner, touching)| Place { sizes: fit.sizes, corner, free: fit.free, touching };
            here.extend(fit.corners.iter().zip(touching).map(place));
        }
        here.sort_by_key(|place| (Reverse(place.touching), place.sizes, place.corner));
        found.extend(here.into_iter().take(most - found.len()));
        if found.len() == most {
            break;
        }
    }
    found
}

fn fit(shape: &Shape, nodes: &FreeNodes, sizes: [u8; 4], wanted: usize) -> Option<Fit> {
    let sums = nodes.in_boxes(sizes);
    let places =
        || (0..).zip(&sums).filter(|(corner, free)| **free as usize >= wanted && inside(shape, *corner, sizes));
    let fewest = *places().map(|(_, free)| free).min()?;
    let corners = places().filter(|(_, free)| **free == fewest).map(|(corner, _)| corner).collect();
    Some(Fit { free: u32::from(fewest), sum: sizes.into_iter().map(u32::from).sum(), sizes, corners })
}

/// Sizes of boxes with `wanted` nodes or a few more, without and with room for holes; the smallest first.
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

/// True unless the box leaves a mesh.
fn inside(shape: &Shape, corner: NodeId, sizes: [u8; 4]) -> bool {
    let from = shape.coords(corner).0;
    shape.is_torus() || (0..4).all(|dim| from[dim] as usize + sizes[dim] as usize <= shape.size(dim))
}

/// The free nodes of a box; `wanted` of them are for processes, the others pass packets on.
pub(super) fn set_at(machine: &Machine, place: &Place, wanted: usize) -> NodeSet {
    let mut nodes = nodes_of(machine.shape(), place.corner, place.sizes).unwrap_or_default();
    nodes.retain(|node| machine.is_free(*node));
    let transit = nodes.split_off(wanted.min(nodes.len()));
    NodeSet { transit, ..NodeSet::of(nodes) }
}

/// True if all pairs of a set have routes inside it at once; of sets of more than 256 nodes, a sample is looked at.
pub(super) fn routable(machine: &Machine, set: &NodeSet) -> bool {
    let n = set.nodes.len();
    let lonely = neighbours(machine, set);
    if n > 1 && lonely.first().is_some_and(|(neighbours, _)| *neighbours == 0) {
        return false;
    }
    let links = machine.links().inside(set);
    let spread = set.nodes.iter().copied().step_by((n / SPREAD).max(1));
    let mut sampled = lonely.into_iter().take(LONELY).map(|(_, node)| node).chain(spread);
    let joined = |a: NodeId, b: NodeId| a == b || links.any_route(a, b) && links.any_route(b, a);
    let reached = |a: NodeId| set.nodes.iter().all(|&b| !machine.is_stopped() && joined(a, b));
    if !sampled.all(reached) {
        return false;
    }
    if n > EXACT {
        return true;
    }
    Routes::serve(machine.links(), set)
}

/// A box that is free as a whole, for where no box with holes has routes for all pairs.
pub(super) fn whole_box(machine: &Machine, wanted: usize) -> Option<NodeSet> {
    let proven = |set: &NodeSet| machine.links().dead().is_empty() || routable(machine, set);
    BestFitBox.find(machine, wanted).filter(proven)
}

/// The nodes for processes, by the number of their neighbours in the set.
fn neighbours(machine: &Machine, set: &NodeSet) -> Vec<(usize, NodeId)> {
    let shape = machine.shape();
    let mut held = vec![false; shape.nodes()];
    set.held().for_each(|node| held[node as usize] = true);
    let count = |node: NodeId| {
        let near = Direction::ALL.into_iter().filter_map(|dir| shape.neighbour(node, dir));
        near.filter(|near| held[*near as usize]).count()
    };
    let mut nodes: Vec<(usize, NodeId)> = set.nodes.iter().map(|&node| (count(node), node)).collect();
    nodes.sort_unstable();
    nodes
}

/// True if the box is free as a whole and no link in it is dead: then its routes need no proof, since in direction
/// order there is always a way inside a box.
fn needs_no_proof(machine: &Machine, place: &Place) -> bool {
    let shape = machine.shape();
    let holds = |node: NodeId| overlap(shape, (place.sizes, place.corner), ([1; 4], node));
    place.free as usize == volume(place.sizes)
        && machine.links().dead().iter().all(|link| {
            let far = shape.neighbour(link.node, link.dir);
            !holds(link.node) || !far.is_some_and(holds)
        })
}

/// True if all pairs of a set, found at a place, have routes inside it.
pub(super) fn proven(machine: &Machine, place: &Place, set: &NodeSet) -> bool {
    let known = set.size() == place.free as usize && needs_no_proof(machine, place);
    known || routable(machine, set)
}

/// True if two boxes have nodes in common.
fn overlap(shape: &Shape, a: ([u8; 4], NodeId), b: ([u8; 4], NodeId)) -> bool {
    let (from, to) = (shape.coords(a.1).0, shape.coords(b.1).0);
    (0..4).all(|dim| {
        let all = shape.size(dim);
        let ahead = |x: u8, y: u8| (y as usize + all - x as usize) % all;
        ahead(from[dim], to[dim]) < a.0[dim] as usize || ahead(to[dim], from[dim]) < b.0[dim] as usize
    })
}

/// Compares sets by the largest free box that each leaves.
pub(super) struct Comparison<'a> {
    machine: &'a Machine,
    /// The largest box that is free now: its nodes, sizes and corner.
    largest: (usize, [u8; 4], NodeId),
    best: Option<(usize, NodeSet)>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(machine: &'a Machine) -> Comparison<'a> {
        Comparison { machine, largest: FreeBoxes::of(machine).largest_above(0).unwrap_or_default(), best: None }
    }

    /// A set at a place; of equals the first one stays the best.
    pub(super) fn add(&mut self, place: &Place, set: NodeSet) {
        let most = self.best.as_ref().map_or(0, |(most, _)| *most);
        let (now, sizes, corner) = self.largest;
        let left = if overlap(self.machine.shape(), (place.sizes, place.corner), (sizes, corner)) {
            let mut after = self.machine.clone();
            after.take(&set);
            FreeBoxes::of(&after).largest_above(most).map_or(0, |largest| largest.0)
        } else {
            now
        };
        if (self.best.is_none() || left > most) && proven(self.machine, place, &set) {
            self.best = Some((left, set));
        }
    }

    /// True if no other set can be better.
    pub(super) fn decided(&self) -> bool {
        self.best.as_ref().is_some_and(|(left, _)| *left == self.largest.0)
    }

    pub(super) fn any(&self) -> bool {
        self.best.is_some()
    }

    pub(super) fn best(self) -> Option<NodeSet> {
        self.best.map(|(_, set)| set)
    }
}
