//! Free nodes of boxes, at all corners at once: what decides where a box with holes may be.
//!
//! Sums of a window go along one dimension after another. In X a number leaves as another enters; in the
//! other dimensions whole rows do, which the compiler vectorises.

use crate::Machine;
use angara_net::torus::{Coords, NodeId, Shape};
use std::cell::OnceCell;

/// Free nodes of a machine as it is now.
pub(super) struct FreeNodes<'a> {
    shape: &'a Shape,
    /// By size in X, from 1 on: free nodes of a row of that length from each node on, around the ring.
    rows: Vec<OnceCell<Vec<u16>>>,
}

impl<'a> FreeNodes<'a> {
    pub(super) fn of(machine: &'a Machine) -> FreeNodes<'a> {
        let shape = machine.shape();
        let rows: Vec<OnceCell<Vec<u16>>> = (0..shape.size(0)).map(|_| OnceCell::new()).collect();
        let free = (0..shape.nodes() as NodeId).map(|node| u16::from(machine.is_free(node)));
        let _ = rows[0].set(free.collect());
        FreeNodes { shape, rows }
    }

    fn rows(&self, size: usize) -> &Vec<u16> {
        self.rows[size - 1].get_or_init(|| {
            let free = self.rows[0].get().expect("it is set from the beginning");
            let all = self.shape.size(0);
            let mut sums = vec![0; free.len()];
            for (row, sums) in free.chunks_exact(all).zip(sums.chunks_exact_mut(all)) {
                let mut sum: u16 = row[..size].iter().sum();
                for k in 0..all {
                    sums[k] = sum;
                    let enters = k + size;
                    sum = sum + row[if enters < all { enters } else { enters - all }] - row[k];
                }
            }
            sums
        })
    }

    /// Per corner: free nodes in a box of these sizes, around the ring, also in a mesh.
    pub(super) fn in_boxes(&self, sizes: [u8; 4]) -> Vec<u16> {
        let mut sums = self.rows(sizes[0] as usize).clone();
        let mut before = Vec::new();
        let mut step = self.shape.size(0);
        for dim in 1..4 {
            let (size, all) = (sizes[dim] as usize, self.shape.size(dim));
            if size > 1 {
                before.clone_from(&sums);
                for (from, to) in before.chunks_exact(step * all).zip(sums.chunks_exact_mut(step * all)) {
                    slide(from, to, step, size);
                }
            }
            step *= all;
        }
        sums
    }

    /// Per corner: sides of the nodes of a box of these sizes there that touch what is not free, or the edge of a
    /// mesh, from outside. Boxes do not leave a mesh.
    pub(super) fn touching(&self, sizes: [u8; 4], corners: &[NodeId]) -> Vec<u32> {
        let inside = self.in_boxes(sizes);
        let mut touching = vec![0; corners.len()];
        for dim in 0..4 {
            let (size, all) = (sizes[dim] as usize, self.shape.size(dim));
            let area: u32 = (0..4).filter(|d| *d != dim).map(|d| u32::from(sizes[d])).product();
            if size == all {
                // A box that goes around has no outside in this dimension; in a mesh it ends at both edges.
                let edges = if self.shape.is_torus() || all == 1 { 0 } else { 2 * area };
                touching.iter_mut().for_each(|sum| *sum += edges);
                continue;
            }
            let mut longer = sizes;
            longer[dim] += 1;
            let longer = self.in_boxes(longer);
            for (sum, &corner) in touching.iter_mut().zip(corners) {
                let mut at = self.shape.coords(corner);
                let from = at.0[dim] as usize;
                at.0[dim] = (if from > 0 { from - 1 } else { all - 1 }) as u8;
                let free =
                    |corner: NodeId, larger: NodeId| u32::from(longer[larger as usize] - inside[corner as usize]);
                let edge = |is: bool| is && !self.shape.is_torus();
                *sum += if edge(from == 0) { area } else { area - free(corner, self.id(at)) };
                *sum += if edge(from + size == all) { area } else { area - free(corner, corner) };
            }
        }
        touching
    }

    fn id(&self, at: Coords) -> NodeId {
        self.shape.id(at).expect("inside the shape")
    }
}

/// Sums of `size` rows of `step` numbers each, around the block.
fn slide(from: &[u16], to: &mut [u16], step: usize, size: usize) {
    let all = from.len() / step;
    let row = |k: usize| &from[k % all * step..][..step];
    let mut sum = row(0).to_vec();
    (1..size).for_each(|k| sum.iter_mut().zip(row(k)).for_each(|(sum, n)| *sum += n));
    for (k, to) in to.chunks_exact_mut(step).enumerate() {
        to.copy_from_slice(&sum);
        // In this order no sum is ever negative or larger than the machine.
        sum.iter_mut().zip(row(k)).zip(row(k + size)).for_each(|((sum, leaves), enters)| *sum = *sum - leaves + enters);
    }
}
