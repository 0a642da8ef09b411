//! Searches for node sets, one file each.

mod best_fit_box;
mod boxes;
mod first_fit_box;
mod unconstrained;

pub use best_fit_box::BestFitBox;
pub use boxes::largest_free_box;
pub use first_fit_box::FirstFitBox;
pub use unconstrained::Unconstrained;

use crate::{Machine, NodeSet};

/// A way to choose the nodes of a job.
pub trait Search {
    /// Name, as the command line has it.
    fn name(&self) -> &'static str;

    /// Returns a set with `wanted` nodes for processes, or `None` if the machine has none now.
    fn find(&self, machine: &Machine, wanted: usize) -> Option<NodeSet>;
}
