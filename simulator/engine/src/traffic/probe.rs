//! Extra messages between two nodes, whose latency is measured apart from all others.

use serde::Serialize;
use std::str::FromStr;

/// Extra messages from one node to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Probe {
    /// Source endpoint.
    pub from: u32,
    /// Destination endpoint.
    pub to: u32,
    /// Cycles between messages.
    pub period: u64,
}

impl FromStr for Probe {
    type Err = crate::Error;
    fn from_str(text: &str) -> Result<Probe, crate::Error> {
        let bad = || {
            crate::Error::invalid("probe", text, "write FROM,TO or FROM,TO,PERIOD with a period of at least 1 cycle")
        };
        let numbers: Result<Vec<u64>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        let node = |n: u64| u32::try_from(n).map_err(|_| bad());
        match numbers.map_err(|_| bad())?[..] {
            [from, to] => Ok(Probe { from: node(from)?, to: node(to)?, period: 1000 }),
            [from, to, period] if period > 0 => Ok(Probe { from: node(from)?, to: node(to)?, period }),
            _ => Err(bad()),
        }
    }
}
