//! What all commands need: errors with their exit codes, talking to a daemon, reports, and starting programs.
//!
//! Nothing here reads a whole command line; that is for `angara-cli`, and for the crates beside it: `launch` (jobs), `recordings`
//! (notes, timelines, races, captures) and `bench`.
#![forbid(unsafe_code)]

pub mod code;
pub mod cores;
pub mod daemon;
pub mod error;
pub mod exec;
pub mod install;
pub mod program;
pub mod report;
pub mod signals;
pub mod waits;
