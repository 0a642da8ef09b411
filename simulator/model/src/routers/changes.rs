//! Links and routers that fail under way, and what is left of the network then.

use angara_fabric::raw::Lost;
use std::collections::VecDeque;

/// Changes of a network under way, the same in all of its parts.
pub(crate) struct Changes<T> {
    /// What is left from a cycle on, in order of time.
    pub(crate) due: VecDeque<(u64, T)>,
    /// While the network drains: what is left when it is empty.
    pub(crate) next: Option<T>,
    /// Ports that are closed then, as a mask, by router.
    pub(crate) closed: Vec<u64>,
    /// Packets that wait at their sources, while the network drains.
    pub(crate) queued: usize,
    /// Flits of lost packets that have yet to come to where those were lost.
    pub(crate) vanishing: usize,
    pub(crate) lost: VecDeque<Lost>,
}

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        let (due, lost) = (VecDeque::new(), VecDeque::new());
        Changes { due, next: None, closed: Vec::new(), queued: 0, vanishing: 0, lost }
    }
}

impl<T> Changes<T> {
    pub(crate) fn new(due: Vec<(u64, T)>) -> Changes<T> {
        Changes { due: due.into(), ..Changes::default() }
    }
    /// The network drains: sources send nothing.
    #[inline(always)]
    pub(crate) fn drains(&self) -> bool {
        self.next.is_some()
    }
    /// The next change, unless the network drains for one.
    pub(crate) fn next_cycle(&self) -> Option<u64> {
        self.due.front().filter(|_| !self.drains()).map(|due| due.0)
    }
}
