//! Counts that targets keep of packets from other parts.

use super::ledger::Ledger;
use crate::chip::{Ends, Streams};
use crate::collective::JobName;
use crate::routes::NONE;
use crate::types::Port;
use std::collections::BTreeSet;

/// Packets of a stream that its target has ejected.
#[derive(Clone, Copy, Debug)]
struct Ejected {
    count: u64,
    /// The boundary link on which the source hears of it, once known for the present routes.
    link: u32,
}

impl Default for Ejected {
    fn default() -> Ejected {
        Ejected { count: 0, link: NONE }
    }
}

/// Packets of a job that have come from other parts of the network.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Packets ejected, at their targets here.
    ejected: Streams<Ejected>,
    /// Ports elsewhere and their operations, by key, whose answers had to be given up here.
    unanswered: BTreeSet<(Port, u64)>,
}

impl Arrivals {
    /// One more packet of a stream has been ejected. `nodes`: of the whole network.
    #[inline]
    pub(crate) fn count(&mut self, ends: Ends, nodes: usize) {
        self.ejected.at(ends, nodes).count += 1;
    }
    /// The boundary link towards the source of a stream; `find` is asked once for the present routes.
    #[inline]
    pub(crate) fn way_back(&mut self, ends: Ends, nodes: usize, find: impl FnOnce() -> Option<u32>) -> u32 {
        let stream = self.ejected.at(ends, nodes);
        if stream.link == NONE {
            stream.link = find().unwrap_or(NONE);
        }
        stream.link
    }
    /// Other routes lead back from now on.
    pub(crate) fn forget_ways(&mut self) {
        self.ejected.list.iter_mut().for_each(|(_, ejected)| ejected.link = NONE);
    }
    /// An operation of a port elsewhere gets no answer.
    pub(crate) fn give_up(&mut self, to: Port, op: u64) {
        self.unanswered.insert((to, op));
    }
    /// Writes all this into a ledger.
    pub(crate) fn tell(&self, name: JobName, ledger: &mut Ledger) {
        for ((dst, src, vc), ejected) in &self.ejected.list {
            ledger.ejected.insert((name, *src, *dst, *vc), ejected.count);
        }
        ledger.unanswered.extend(self.unanswered.iter().map(|(to, op)| (name, *to, *op)));
    }
}
