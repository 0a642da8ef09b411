//! Random numbers that depend on what they are for, not on when they are drawn.
//!
//! A [`Stream`] walks through the words of `angara_fabric::rng` that are addressed by (seed, node,
//! purpose). Two nodes can therefore be simulated in any order, on any number of threads, and draw
//! the same numbers; a stream can be restarted at any point by its counter alone.

use angara_fabric::rng as words;
pub use angara_fabric::rng::Purpose;

/// A stream of random numbers and a place in it.
#[derive(Clone, Debug)]
pub struct Stream {
    words: words::Stream,
    counter: u64,
}

impl Stream {
    /// The stream of `node` for `purpose`, from its first number.
    pub fn new(seed: u64, node: u32, purpose: Purpose) -> Stream {
        Stream { words: words::Stream::new(seed, u64::from(node), purpose), counter: 0 }
    }

    /// The `index`-th number of the stream, wherever the stream stands.
    pub fn at(&self, index: u64) -> u64 {
        self.words.at(index)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let value = self.at(self.counter);
        self.counter += 1;
        value
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..bound, without bias; `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            // Lemire's method: reject the few products that would favour some results.
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponentially distributed with mean `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Number of failures before the first success of trials with probability `p` of success,
    /// 0 < p ≤ 1.
    pub fn geometric(&mut self, p: f64) -> u64 {
        if p >= 1.0 {
            return 0;
        }
        ((1.0 - self.unit()).ln() / (-p).ln_1p()) as u64
    }

    /// Shuffles `items`; every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_only_on_its_address() {
        let mut a = Stream::new(1, 7, Purpose::Arrival);
        let first: Vec<u64> = (0..100).map(|_| a.next_u64()).collect();
        assert_eq!(first, (0..100).map(|i| Stream::new(1, 7, Purpose::Arrival).at(i)).collect::<Vec<_>>());
        for other in [(2, 7, Purpose::Arrival), (1, 8, Purpose::Arrival), (1, 7, Purpose::Length)] {
            assert_ne!(first[0], Stream::new(other.0, other.1, other.2).next_u64());
        }
    }

    #[test]
    fn means_are_right() {
        let mut s = Stream::new(3, 0, Purpose::Destination);
        let n = 200_000;
        let mean = |total: f64| total / n as f64;
        assert!((mean((0..n).map(|_| s.unit()).sum()) - 0.5).abs() < 0.005);
        assert!((mean((0..n).map(|_| s.below(7) as f64).sum()) - 3.0).abs() < 0.03);
        assert!((mean((0..n).map(|_| s.exponential(4.0)).sum()) - 4.0).abs() < 0.05);
        assert!((mean((0..n).map(|_| s.geometric(0.2) as f64).sum()) - 4.0).abs() < 0.06);
        assert_eq!(s.geometric(1.0), 0);
    }

    #[test]
    fn streams_of_neighbouring_nodes_are_uncorrelated() {
        let n = 4096u32;
        let bits: u32 = (0..n)
            .map(|i| {
                (Stream::new(1, i, Purpose::Arrival).at(0) ^ Stream::new(1, i + 1, Purpose::Arrival).at(0)).count_ones()
            })
            .sum();
        let mean = f64::from(bits) / f64::from(n);
        assert!((mean - 32.0).abs() < 0.3, "{mean} of 64 bits differ");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..64).collect();
        Stream::new(5, 0, Purpose::Placement).shuffle(&mut items);
        assert_ne!(items, (0..64).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..64).collect::<Vec<_>>());
    }
}
