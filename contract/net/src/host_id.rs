//! What hosts are called among daemons.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A host of a cluster: its place in the cluster file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(u16);

impl HostId {
    /// From a number that came from outside, such as from a trunk. There may be no such host.
    pub const fn new(number: u16) -> HostId {
        HostId(number)
    }
    /// As it goes out.
    pub const fn number(self) -> u16 {
        self.0
    }
    /// Its place among the hosts of the cluster file.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
