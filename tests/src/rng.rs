//! Random numbers whose seed is printed, so that a failure can be repeated.

use angara_abi::random::SplitMix;

/// A small splittable generator: tests need speed and repeatability, not quality.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// The generator of test program `program`: seeded by `ANGARA_TEST_SEED` if set, else by
    /// `default`. Prints how to repeat the run; the test harness shows it on failure.
    pub fn for_test(program: &str, default: u64) -> Rng {
        let seed = std::env::var("ANGARA_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
        println!("seed {seed}; repeat with: ANGARA_TEST_SEED={seed} cargo test -p angara-tests {program}::");
        Rng::new(seed)
    }
    /// The generator of a seed that the test has printed.
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix(seed))
    }
    /// A generator independent of this one.
    pub fn split(&mut self) -> Rng {
        Rng::new(self.u64())
    }
    /// Any 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0.draw()
    }
    /// Any 32 bits.
    pub fn u32(&mut self) -> u32 {
        self.u64() as u32
    }
    /// 0..`n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    /// One of `all`.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.u64().to_le_bytes()).take(len).collect()
    }
}
