//! How a process comes to its job: over the daemon's socket ([`connection`]), told who it is by
//! `angara run` or by a launcher of MPI ([`launcher`], which speaks [`pmi`] and [`pmix`] for a [`key_space`]), and what a
//! child process may do with what its parent has ([`fork`]). Or it takes a seat of a job that is open to all ([`open`]).

pub(crate) mod connection;
pub(crate) mod fork;
mod key_space;
pub mod launcher;
pub mod open;
mod pmi;
mod pmix;
