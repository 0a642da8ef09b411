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
}
