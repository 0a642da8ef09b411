//! What of the network whoever looks on is shown: packets for captures, counters for samples. Off costs nothing.

pub(crate) mod capture;
pub(super) mod watch;
