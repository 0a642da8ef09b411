//! Pages of a job and of its PEs ([`job`], [`note`]), the clock that a program reads ([`program_clock`]) with what makes its
//! times doubtful ([`doubts`]), and what a library and the process that all PEs are in know of each other ([`inside`]).

pub(crate) mod architecture;
pub mod doubts;
pub mod inside;
pub mod job;
pub(crate) mod job_id;
pub mod note;
pub mod program_clock;
