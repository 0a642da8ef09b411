//! Batch systems: simulated queues of jobs on a torus ([`queue`]), and the choice of nodes for Slurm ([`slurm`]). Searches for
//! sets of nodes are in `angara_placement`.
#![forbid(unsafe_code)]

pub mod queue;
pub mod slurm;
