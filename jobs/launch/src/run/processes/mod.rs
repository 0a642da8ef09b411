//! Processes of a job: here, on other hosts, or all PEs in one.

pub mod bind;
pub mod forward;
mod frames;
pub(super) mod inside;
pub mod program;
pub mod remote;
pub mod spawn;
pub(super) mod terminal;
pub mod wrap;
