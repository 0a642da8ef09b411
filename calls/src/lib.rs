//! What is known of calls and packets of a job: what its PEs note of their calls ([`notes`]), timelines made of that
//! ([`trace`]), races found in it ([`races`]), and packets of the network ([`capture`]).
#![forbid(unsafe_code)]

pub mod capture;
pub mod notes;
pub mod races;
pub mod trace;
