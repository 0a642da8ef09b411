//! The collective subnet: reductions and broadcasts on trees embedded in the torus.
//!
//! It has two virtual channels of its own (Up towards the root, Down from it), 16 trees and 16
//! simultaneous reductions per tree (paper 000, sections 1 and 2). A *row* per node and tree says
//! where the root is, which directions lead down and how many processors of the node take part.
//! The paper has one processor per node; here a node's row counts its local contributor ports,
//! and the expected number of packets of a reduction is children + local contributors.

mod mend;
mod reducer;
mod split;
mod subnet;
mod tree;

pub use tree::{TreeError, TreeRow, TreeRows, build, validate};

use crate::types::{JobId, Port, Tick};
use abi::TREES;
use reducer::Slot;
use std::collections::{BTreeMap, VecDeque};

/// Results after which a parent tells its children (paper 000, section 2.4).
const CREDIT_EVERY: u64 = 8;
/// Results over all trees after which the processor is told at once ...
const TELL_EVERY: u32 = 128;
/// ... or this many router cycles after the first it has not been told of.
const TELL_CYCLES: Tick = 4096;

/// One node's part in a tree.
#[derive(Debug)]
struct Member {
    row: TreeRow,
    /// Local participants, as port indices, with the contributions each has made.
    ports: Vec<(u32, u64)>,
    slots: Vec<Slot>,
    /// Reductions finished at this node: results sent up, broadcast, or sent to the receiver.
    emitted: u64,
    /// `emitted` may not pass this: 16 + 8 per credit from the parent.
    window: u64,
    /// Emitted reductions, oldest first: ReduceId and whether its result is where it belongs.
    pending: VecDeque<(u8, bool)>,
    /// Reductions finished in sequence as the local participants may see them.
    done: u64,
    /// Reductions in `done` that the tree carries out again after it was moved.
    repeated: u64,
    /// The `done` they have been told.
    told: u64,
    bcasts: u64,
    /// Broadcasts its local participants have posted.
    casts: u64,
}

impl Member {
    /// A reduction is finished for the local participants; false if they know already.
    fn count_done(&mut self) -> bool {
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
struct Tree {
    job: JobId,
    rows: TreeRows,
    members: BTreeMap<u32, Member>,
}

/// Finished reductions of a node: TreeId, generation of the tree, count.
type Finished = Vec<(u8, u32, u64)>;

/// The tree tables of all nodes.
#[derive(Debug)]
pub(crate) struct Trees {
    loaded: [Option<Box<Tree>>; TREES],
    generations: [u32; TREES],
    /// Per node with a planned credit to the processor: when, and results since the last one.
    timers: BTreeMap<u32, (Tick, u32)>,
    /// Counters on their way to the processors, by node, oldest first.
    credits: BTreeMap<u32, VecDeque<Finished>>,
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
    fn member(&mut self, tree: u8, node: u32) -> Option<&mut Member> {
        self.loaded.get_mut(tree as usize)?.as_mut()?.members.get_mut(&node)
    }
    /// Changes whenever the tree is loaded or unloaded, so that stragglers are recognised.
    pub(crate) fn generation(&self, tree: u8) -> u32 {
        self.generations[tree as usize & 15]
    }
}

/// The ports among `ports` at a node, sorted.
fn ports_at(ports: &[Port], node: u32) -> Vec<Port> {
    let mut here: Vec<Port> = ports.iter().filter(|p| p.node == node).copied().collect();
    here.sort_unstable();
    here
}
