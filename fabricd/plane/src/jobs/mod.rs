//! Jobs in the network: their memory, who sits where, and what they put on links.

pub(crate) mod departures;
pub(crate) mod job;
pub(crate) mod memory;
pub(crate) mod routing;
pub(crate) mod seats;
pub(crate) mod traffic;
