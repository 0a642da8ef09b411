//! The routers' collective subnet, for collectives of the whole job.
//!
//! Used when all other PEs are reached through the network: PE 0 asks for one tree over all PEs at init and
//! tells the others its id; the last finalize closes it. Without a tree (all 16 taken, `--collectives p2p`, everything on this
//! host) the point-to-point algorithms do the same.

use super::area::word;
use super::table::How;
use crate::ctypes::Name;
use crate::rt::Runtime;
use crate::rt::teams::group::Group;
use angara::tree::Tree;
use angara_abi::job::Collectives;
use std::sync::atomic::Ordering;

impl Runtime {
    /// Opens the world tree. Collective, at the end of init.
    pub(crate) fn open_tree(&self, name: Name) {
        let world = self.world();
        let mut share = [0u64];
        if self.me == 0 {
            share[0] = self.try_open().map_or(0, |id| id as u64 + 1);
            for pe in 1..self.n {
                self.put_word(name, pe, word::TREE, share[0]);
            }
            self.word(word::TREE).store(share[0], Ordering::Relaxed);
            self.order(name);
        }
        self.group_sync(name, &world);
        let id = self.word(word::TREE).load(Ordering::Acquire);
        let _ = self.tree.set(id.checked_sub(1).map(|id| id as u8));
    }

    fn try_open(&self) -> Option<u8> {
        let worth_it = match self.job.geometry().collectives {
            Collectives::P2p => false,
            Collectives::Tree => true,
            // Stores into each other's memory need no help.
            Collectives::Auto => self.job.profile().others_far,
        };
        if !worth_it {
            return None;
        }
        let pes: Vec<usize> = (0..self.n).collect();
        // No tree left is no error: there are 16 for all jobs of the network.
        self.job.tree_open(0, &pes).ok()
    }

    /// The tree for a collective of `group`, if one is to be used: it was `chosen`, or is always to be used.
    pub(crate) fn tree_for(&self, group: &Group, chosen: Option<How>) -> Option<Tree<'_>> {
        let id = (*self.tree.get()?)?;
        if !self.is_world(group) {
            return None;
        }
        let forced = self.job.geometry().collectives == Collectives::Tree;
        (forced || chosen == Some(How::Routers)).then(|| self.job.tree(id))
    }
}
