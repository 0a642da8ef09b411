//! What a job is to its processes: its page and those of its PEs ([`job`], [`note`]), and what a program takes for its
//! clock ([`program_clock`]).

pub mod job;
pub(crate) mod job_id;
pub mod note;
pub mod program_clock;
