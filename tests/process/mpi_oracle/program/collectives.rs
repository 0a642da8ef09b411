//! Collectives, in the same order everywhere.

use super::types::{Collective, Op, Program};
use angara_tests::Rng;

/// Words of each rank's part of a collective.
const WORDS: [usize; 9] = [1, 1, 2, 32, 256, 300, 2044, 2045, 2500];

impl Program {
    pub(super) fn collective(&mut self, rng: &mut Rng, blocking: bool) {
        let comm = rng.below(3) as usize;
        // Collectives of a communicator begin in the same order everywhere.
        if self.collectives.iter().any(|c| c.comm == comm && c.started.contains(&None)) {
            return;
        }
        let name = rng.pick(&[
            "barrier",
            "bcast",
            "reduce",
            "allreduce",
            "scan",
            "gather",
            "allgather",
            "scatter",
            "alltoall",
        ]);
        let (root, words) = (self.rank(rng), rng.pick(&WORDS));
        self.collectives.push(Collective {
            name,
            comm,
            root,
            words,
            started: vec![None; self.ranks],
            ended: vec![None; self.ranks],
            slots: vec![None; self.ranks],
        });
        if blocking {
            self.meet(self.collectives.len() - 1);
        }
    }

    /// All ranks call a blocking collective.
    fn meet(&mut self, c: usize) {
        for rank in 0..self.ranks {
            let at = self.push(rank, Op::Coll(c));
            (self.collectives[c].started[rank], self.collectives[c].ended[rank]) = (Some(at), Some(at));
        }
        if ["barrier", "allreduce", "allgather", "alltoall"].contains(&self.collectives[c].name) {
            self.met = self.steps.len() - self.ranks;
        }
    }

    /// Some rank begins a nonblocking collective.
    pub(super) fn advance_collectives(&mut self, rng: &mut Rng) {
        let rank = self.rank(rng);
        if let Some(c) = self.collectives.iter().position(|c| c.started[rank].is_none()) {
            let slot = self.slot(rank);
            self.collectives[c].slots[rank] = Some(slot);
            self.collectives[c].started[rank] = Some(self.push(rank, Op::Icoll(c)));
        }
    }
    pub(super) fn barrier(&mut self) {
        let none = || vec![None; self.ranks];
        let (name, started, ended, slots) = ("barrier", none(), none(), none());
        self.collectives.push(Collective { name, comm: 0, root: 0, words: 0, started, ended, slots });
        self.meet(self.collectives.len() - 1);
    }
}
