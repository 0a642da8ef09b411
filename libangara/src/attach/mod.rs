//! How a process comes to its job: over the daemon's socket ([`connection`]), told who it is by
//! `angara run` or by a launcher of MPI ([`launcher`], which speaks [`pmi`] and [`pmix`]), and what a
//! child process may do with what its parent has ([`fork`]).

pub(crate) mod connection;
pub(crate) mod fork;
pub mod launcher;
mod pmi;
mod pmix;
