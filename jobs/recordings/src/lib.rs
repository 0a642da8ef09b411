//! Calls and packets of a job: notes that its PEs make of their calls ([`notes`]), timelines made of them
//! ([`trace`]), races found in them ([`races`]), and packets of the network ([`capture`]).
#![forbid(unsafe_code)]

pub mod capture;
pub mod notes;
pub mod races;
pub mod trace;
