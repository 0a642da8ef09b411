//! The collective subnet: reductions and broadcasts on trees embedded in the torus.
//!
//! It has two virtual channels of its own (Up towards the root, Down from it), 16 trees and 16
//! simultaneous reductions per tree (paper 000, sections 1 and 2). A *row* per node and tree says
//! where the root is, which directions lead down and how many processors of the node take part.
//! The paper has one processor per node; here a node's row counts its local contributor ports,
//! and the expected number of packets of a reduction is children + local contributors.

mod progress;
mod recovery;
mod reducer;
mod relocate;
mod state;
mod subnet;
mod tree;

pub(crate) use progress::{JobName, Range, TreeState};
pub(crate) use state::Trees;
pub use tree::{TreeError, TreeRow, TreeRows, build, validate};
