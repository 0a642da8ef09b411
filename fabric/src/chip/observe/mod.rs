//! What is known of packets from outside: counts per link, plain records of what goes in and comes out, traces.

pub(super) mod counters;
pub(super) mod records;
pub(super) mod trace;
