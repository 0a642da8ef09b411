//! Views of the network for observers: packets for captures, counters for samples. Without observers they cost nothing.

pub mod capture;
pub mod figures;
pub(crate) mod link_reports;
