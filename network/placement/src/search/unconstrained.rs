//! The free nodes with the lowest numbers, wherever they are: packets of jobs cross each other.

use super::Search;
use crate::{Machine, NodeSet};

/// What schedulers do that know no network: an upper bound of utilisation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unconstrained;

impl Search for Unconstrained {
    fn name(&self) -> &'static str {
        "unconstrained"
    }

    fn monotone(&self) -> bool {
        true
    }

    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted > machine.free() {
            return None;
        }
        let free = (0..machine.shape().nodes() as u32).filter(|&node| machine.is_free(node));
        Some(NodeSet::of(free.take(wanted).collect()))
    }

    fn find_later(&self, then: &Machine, now: &Machine, wanted: usize) -> Option<NodeSet> {
        if wanted > then.free() {
            return None;
        }
        let mut free: Vec<u32> = (0..then.shape().nodes() as u32).filter(|&node| then.is_free(node)).collect();
        free.sort_by_key(|&node| now.is_free(node));
        free.truncate(wanted);
        free.sort_unstable();
        Some(NodeSet::of(free))
    }
}
