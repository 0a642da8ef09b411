//! State of the collective units of all nodes.

use super::reducer::Slot;
use super::tree::{TreeRow, TreeRows};
use crate::types::{JobSlot, Port, Tick};
use angara_abi::TREES;
use std::collections::{BTreeMap, VecDeque};

/// Results after which a parent tells its children (paper 000, section 2.4).
pub(super) const CREDIT_EVERY: u64 = 8;
/// Results over all trees after which the processor is told at once ...
pub(super) const TELL_EVERY: u32 = 128;
/// ... or this many router cycles after the first it has not been told of.
pub(super) const TELL_CYCLES: Tick = 4096;

/// One node's part in a tree.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) row: TreeRow,
    /// Local participants, as port indices, with the contributions each has made.
    pub(super) ports: Vec<(u32, u64)>,
    pub(super) slots: Vec<Slot>,
    /// Reductions finished at this node: results sent up, broadcast, or sent to the receiver.
    pub(super) emitted: u64,
    /// `emitted` may not pass this: 16 + 8 per credit from the parent.
    pub(super) window: u64,
    /// Emitted reductions, oldest first: ReduceId and whether its result is where it belongs.
    pub(super) pending: VecDeque<(u8, bool)>,
    /// Reductions finished in sequence as the local participants may see them.
    pub(super) done: u64,
    /// Reductions in `done` that the tree carries out again after it was moved.
    pub(super) repeated: u64,
    /// The `done` they have been told.
    pub(super) told: u64,
    pub(super) bcasts: u64,
    /// Broadcasts its local participants have posted.
    pub(super) casts: u64,
}

impl Member {
    /// A reduction is finished for the local participants; false if they know already.
    pub(super) fn count_done(&mut self) -> bool {
        let new = self.repeated == 0;
        if new {
            self.done += 1;
        } else {
            self.repeated -= 1;
        }
        new
    }
}

/// A loaded tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) job: JobSlot,
    pub(super) rows: TreeRows,
    pub(super) members: BTreeMap<u32, Member>,
}

/// Finished reductions of a node: TreeId, generation of the tree, count.
pub(super) type Finished = Vec<(u8, u32, u64)>;

/// The tree tables of all nodes.
#[derive(Debug)]
pub(crate) struct Trees {
    pub(super) loaded: [Option<Box<Tree>>; TREES],
    pub(crate) generations: [u32; TREES],
    /// Per node with a planned credit to the processor: when, and results since the last one.
    pub(super) timers: BTreeMap<u32, (Tick, u32)>,
    /// Counters on their way to the processors, by node, oldest first.
    pub(super) credits: BTreeMap<u32, VecDeque<Finished>>,
}

impl Default for Trees {
    fn default() -> Trees {
        Trees {
            loaded: std::array::from_fn(|_| None),
            generations: [0; TREES],
            timers: BTreeMap::new(),
            credits: BTreeMap::new(),
        }
    }
}

impl Trees {
    pub(super) fn member(&mut self, tree: u8, node: u32) -> Option<&mut Member> {
        self.loaded.get_mut(tree as usize)?.as_mut()?.members.get_mut(&node)
    }
    /// Changes whenever the tree is loaded or unloaded, so that stragglers are recognised.
    pub(crate) fn generation(&self, tree: u8) -> u32 {
        self.generations[tree as usize & 15]
    }
}

/// The ports among `ports` at a node, sorted.
pub(super) fn ports_at(ports: &[Port], node: u32) -> Vec<Port> {
    let mut here: Vec<Port> = ports.iter().filter(|p| p.node == node).copied().collect();
    here.sort_unstable();
    here
}
