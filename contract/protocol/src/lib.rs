//! Messages of launchers, daemons and PEs about jobs, apart from memory that they share (`angara-abi`).
//!
//! | module | what is in it |
//! |---|---|
//! | [`msg`] | messages on the two sockets of a daemon, reports and times among them |
//! | [`launch`], [`env`] | what a launcher tells a PE in its environment, and variables that users set |
//! | [`trust`] | whom a client believes, and what a child inherits |
//! | [`compute`], [`mpi`] | what computing and an MPI library cost in virtual time |
//! | [`verbs`] | what RDMA programs are told in their environment |
//! | [`inside`] | a launcher and the process that all PEs are in |
//! | [`absence`] | what is known of a PE that does not come back |
//! | [`doubts`] | why times in virtual time may rest on a guess |
//! | [`calls`] | what each PE notes of its calls |
//! | [`recording`] | what each PE posted in virtual time, and what it waited for |
//! | [`print`](mod@print), [`whole_file`] | lines on standard output and error; files that are there as a whole or not at all |
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod absence;
pub mod calls;
pub mod compute;
pub mod doubts;
pub mod env;
mod history;
pub mod inside;
pub mod launch;
pub mod modes;
pub mod mpi;
pub mod msg;
pub mod print;
pub mod recording;
mod report;
mod times;
pub mod trust;
pub mod verbs;
pub mod whole_file;
