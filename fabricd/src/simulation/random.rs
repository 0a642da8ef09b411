//! Chance that a seed repeats.

/// SplitMix64.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
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
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.add(u64::from(*byte)));
    }
}
