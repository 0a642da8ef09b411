//! How far posts to each PE are known to be complete. A job may have many PEs and one of them talk to a few: memory is taken for
//! those it talks to, in groups of neighbours.

use super::reached;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// PEs of a group.
const GROUP: usize = 64;

/// Per PE: every post up to this number is complete there, or 0.
pub(super) struct Marks(Box<[OnceLock<Box<[AtomicU32; GROUP]>>]>);

impl Marks {
    /// Nothing is known of any of `pes` PEs.
    pub(super) fn new(pes: usize) -> Marks {
        Marks((0..pes.div_ceil(GROUP)).map(|_| OnceLock::new()).collect())
    }

    /// The last post known to be complete at `pe`, or 0.
    pub(super) fn get(&self, pe: usize) -> u32 {
        self.0[pe / GROUP].get().map_or(0, |group| group[pe % GROUP].load(Ordering::Acquire))
    }

    /// Every post up to `seq` is complete at `pe`.
    pub(super) fn note(&self, pe: usize, seq: u32) {
        let group = self.0[pe / GROUP].get_or_init(|| Box::new([const { AtomicU32::new(0) }; GROUP]));
        let newer = |old: u32| (old == 0 || reached(seq, old)).then_some(seq);
        let _ = group[pe % GROUP].fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
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
        assert!(marks.0[0].get().is_none(), "nobody has spoken to PE 0 or its neighbours");
    }
}
