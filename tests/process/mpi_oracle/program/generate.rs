//! A whole program, drawn at random: kinds of steps in turn, then the ends of all that has begun.

use super::types::{Mix, Op, Program};
use angara_tests::Rng;
use std::collections::BTreeMap;

impl Program {
    pub(crate) fn of(number: u64, ranks: usize, mut rng: Rng, mix: Mix) -> Program {
        let mut program = Program {
            number,
            ranks,
            steps: Vec::new(),
            messages: Vec::new(),
            receives: Vec::new(),
            collectives: Vec::new(),
            trips: Vec::new(),
            memory: BTreeMap::new(),
            used: vec![Vec::new(); ranks],
            buffered: vec![0; ranks],
            regions: Vec::new(),
            names: 0,
            met: 0,
            mix,
        };
        program.fill(&mut rng);
        program
    }

    fn fill(&mut self, rng: &mut Rng) {
        let moves = 5 + rng.below(40);
        for _ in 0..moves {
            match rng.below(20) {
                0..4 => self.plan(rng),
                4 => self.plan_group(rng),
                5..7 => {
                    let (rank, ns) = (self.rank(rng), rng.below(10_000));
                    self.push(rank, Op::Sleep(ns));
                }
                7 => self.collective(rng, true),
                8 => self.collective(rng, false),
                9 if self.blocking_sends() => self.shift(rng),
                10 if self.mix.one_sided && self.passive_targets() => self.passive(rng),
                11 if self.mix.one_sided => self.active(rng),
                12..15 => self.wait(rng, false),
                _ => self.advance(rng),
            }
        }
        while self.messages.iter().any(|m| !m.done) || self.receives.iter().any(|r| !r.done) {
            self.advance(rng);
            self.wait(rng, true);
        }
        while self.collectives.iter().any(|c| c.ended.contains(&None)) {
            self.advance_collectives(rng);
            self.wait(rng, true);
        }
        if rng.one_in(2) {
            self.trip(rng);
        }
        self.windows();
    }
}
