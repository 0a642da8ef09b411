//! Faults in force, and those to come.

pub(crate) mod book;
pub(crate) mod outages;
