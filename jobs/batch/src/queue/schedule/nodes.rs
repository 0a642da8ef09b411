//! Sets of nodes as bits.

use angara_placement::{Machine, NodeSet};

/// A bit for each node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes(Box<[u64]>);

impl Nodes {
    /// No node of a machine.
    fn none(machine: &Machine) -> Nodes {
        Nodes(vec![0; machine.shape().nodes().div_ceil(64)].into())
    }

    /// The free nodes of a machine.
    pub(super) fn free(machine: &Machine) -> Nodes {
        Nodes::none(machine).with((0..machine.shape().nodes() as u32).filter(|&node| machine.is_free(node)))
    }

    /// The nodes that a set holds.
    pub(super) fn held(machine: &Machine, set: &NodeSet) -> Nodes {
        Nodes::none(machine).with(set.held())
    }

    fn with(mut self, nodes: impl Iterator<Item = u32>) -> Nodes {
        nodes.for_each(|node| self.0[node as usize / 64] |= 1 << (node % 64));
        self
    }

    pub(super) fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] >> (node % 64) & 1 == 1
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn within(&self, other: &Nodes) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }

    pub(super) fn meets(&self, other: &Nodes) -> bool {
        self.0.iter().zip(&other.0).any(|(own, other)| own & other != 0)
    }

    pub(super) fn add(&mut self, other: &Nodes) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    pub(super) fn remove(&mut self, other: &Nodes) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }

    pub(super) fn keep(&mut self, other: &Nodes) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }
}
