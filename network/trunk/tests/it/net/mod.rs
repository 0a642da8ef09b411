//! Code that the tests share.

use angara_abi::random::SplitMix;

/// A generator; each test adds what it wants to draw.
#[derive(Clone)]
pub(crate) struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix(seed))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }
}
