//! Jobs: what `angara run` does ([`run`](mod@run)), once or many times ([`many`]), with what it takes for MPI ([`mpi`]); and
//! examples to run ([`example`]).
//!
//! It looks for a daemon whose torus fits (or starts a private one), asks it for a job over the control socket, starts one
//! process per PE with the job's place in the environment, forwards their input and output, and takes everything down again
//! whatever happens.
//!
//! No `unsafe` here: what must happen between fork and exec is done by a hidden mode of this same program, see
//! `angara_control::exec`.
#![forbid(unsafe_code)]

pub mod example;
pub mod machine;
pub mod many;
pub mod mpi;
pub mod run;
