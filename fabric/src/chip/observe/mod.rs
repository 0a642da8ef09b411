//! What is known of packets from outside: counts per link, plain records of what goes in and comes out, traces, captures; and how full channels are.

pub(super) mod capture;
pub(super) mod counters;
pub(super) mod occupancy;
pub(super) mod records;
pub(super) mod trace;
