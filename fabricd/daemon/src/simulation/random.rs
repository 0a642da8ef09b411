//! Chance that a seed repeats.

use angara_abi::random::{STEP, SplitMix};

/// A generator with what a simulation wants to draw.
#[derive(Clone)]
pub(super) struct Random(SplitMix);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(SplitMix(seed))
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// 0 to `n` - 1.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.draw() as u8)
    }
}

/// What has happened, as one number: the same seed must give the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Trace(pub(super) u64);

impl Trace {
    pub(super) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(STEP).rotate_left(29);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.add(u64::from(*byte)));
    }
}
