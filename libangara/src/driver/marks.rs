//! How far posts to each PE are known to be complete.

use super::reached;
use crate::per_peer::PerPeer;
use std::sync::atomic::{AtomicU32, Ordering};

/// Per PE: every post up to this number is complete there, or 0.
pub(super) struct Marks(PerPeer<AtomicU32>);

impl Marks {
    /// Nothing is known of any of `pes` PEs.
    pub(super) fn new(pes: usize) -> Marks {
        Marks(PerPeer::new(pes))
    }

    /// The last post known to be complete at `pe`, or 0.
    pub(super) fn get(&self, pe: usize) -> u32 {
        self.0.get(pe).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    /// Every post up to `seq` is complete at `pe`.
    pub(super) fn note(&self, pe: usize, seq: u32) {
        let newer = |old: u32| (old == 0 || reached(seq, old)).then_some(seq);
        let _ = self.0.of(pe).fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_never_goes_back_and_concerns_one_pe() {
        let marks = Marks::new(130);
        marks.note(129, 7);
        marks.note(129, 5);
        assert_eq!((marks.get(129), marks.get(128), marks.get(0)), (7, 0, 0));
        marks.note(129, 9);
        assert_eq!(marks.get(129), 9);
    }
}
