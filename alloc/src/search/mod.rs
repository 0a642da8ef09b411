//! Searches for node sets, one file each.

mod best_fit_box;
mod boxes;
mod closed;
mod first_fit_box;
mod fragmentation;
mod ragged;
mod sums;
mod unconstrained;
mod utilisation;

pub use best_fit_box::BestFitBox;
pub use boxes::largest_free_box;
pub use closed::Closed;
pub use first_fit_box::FirstFitBox;
pub use fragmentation::Fragmentation;
pub use unconstrained::Unconstrained;
pub use utilisation::Utilisation;

use crate::{Machine, NodeSet};

/// A way to choose the nodes of a job.
pub trait Search {
    /// Name, as the command line has it.
    fn name(&self) -> &'static str;

    /// True if no set for a number of nodes means none for more, or on the same machine with less of it free. For a
    /// free box this holds, since it has boxes of every smaller number inside. Searches with holes look at a few boxes,
    /// others for each number: they may miss a set and find one for more.
    fn monotone(&self) -> bool {
        false
    }

    /// Returns a set with `wanted` nodes for processes, or `None` if the machine has none now.
    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet>;
}
