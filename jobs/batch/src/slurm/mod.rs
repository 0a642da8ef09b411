//! Node sets for jobs of Slurm: what Slurm knows is read, sets are found, jobs are released onto them.
//!
//! Slurm's own plugins for topology and selection must be built with Slurm. This needs none: jobs are
//! submitted on hold, get the nodes of a set as the list of nodes they require, and are released.
//! Nothing is remembered here. The set of a job stands in its administrator's comment, so that a
//! restarted program sees what the one before it has done.

mod commands;
mod hostlist;
mod jobs;
mod layout;
mod nodes;
mod plan;
mod set_comment;
mod shadow;

pub use commands::Slurm;
pub use hostlist::expand;
pub use jobs::{Job, State, jobs};
pub use layout::Layout;
pub use nodes::{Condition, Hosts};
pub use plan::{Decision, Place, Wanted, World};
