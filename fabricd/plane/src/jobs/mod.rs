//! Jobs in the network: their memory, who sits where, and what they put on links.

pub(crate) mod job;
pub(crate) mod memory;
mod traffic;
