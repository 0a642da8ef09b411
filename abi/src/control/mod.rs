//! Pages of a job and of its PEs ([`job`], [`note`]), and the clock that a program reads ([`program_clock`]).

pub mod job;
pub(crate) mod job_id;
pub mod note;
pub mod program_clock;
