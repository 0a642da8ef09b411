//! How a job comes about: what launcher, daemon and PE tell each other in messages ([`msg`]), in the
//! environment ([`launch`], [`env`]) and in pages of the job ([`job`], [`note`]), and whom a client
//! believes ([`trust`]). What a program takes for its clock is here, too ([`program_clock`]), and what its computing
//! takes ([`compute`]), and an MPI library ([`mpi`]); what is known of a PE that does not come back ([`absence`]), and what each PE notes of its calls
//! ([`calls`]).

pub mod absence;
pub mod calls;
pub mod compute;
pub mod env;
pub mod job;
pub(crate) mod job_id;
pub mod launch;
pub mod mpi;
pub mod msg;
pub mod note;
pub mod program_clock;
pub(crate) mod report;
pub(crate) mod times;
pub mod trust;
