//! What of the network whoever looks on is shown: packets for captures, counters for samples. Off costs nothing.

pub mod capture;
pub mod figures;
