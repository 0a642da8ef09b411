//! `angara alloc`: which nodes of a torus a job gets. The searches themselves are in `angara_placement`.
//! The name is that of Angara's own tools (ANSU, paper 002, section 2.1).
#![forbid(unsafe_code)]

pub mod cli;
pub mod queue;
pub mod slurm;
