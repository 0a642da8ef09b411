//! Random numbers that do not depend on the order in which they are asked for.
//!
//! Every number is a pure function of (seed, node, purpose, counter): a node's tenth destination is
//! the same whether its neighbour drew before it or after, and whichever thread simulates it.

pub use angara_abi::random::{STEP, mix};

/// Purpose of a stream of random numbers; streams of different purposes are independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Times between injections.
    Arrival = 1,
    /// Destinations.
    Destination = 2,
    /// Packet lengths.
    Length = 3,
    /// Free choices of a route (ties, up-ports).
    Route = 4,
    /// Link errors.
    Error = 5,
    /// Random placements and permutations.
    Placement = 6,
    /// Packets of a link that are overtaken.
    Late = 7,
    /// Packets that a link sends twice.
    Twice = 8,
    /// Delays that show races.
    Jitter = 9,
}

/// The `counter`-th number of SplitMix64 started with `seed`.
pub fn splitmix(seed: u64, counter: u64) -> u64 {
    mix(seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(STEP)))
}

/// The `counter`-th number of the stream (seed, node, purpose).
#[inline(always)]
pub fn draw(seed: u64, node: u64, purpose: Purpose, counter: u64) -> u64 {
    Stream::new(seed, node, purpose).at(counter)
}

/// One stream, with its key mixed once; it holds no position, callers count.
#[derive(Clone, Copy, Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream (seed, node, purpose).
    #[inline(always)]
    pub fn new(seed: u64, node: u64, purpose: Purpose) -> Stream {
        Stream(mix(mix(seed.wrapping_add(STEP)) ^ node.wrapping_mul(STEP).wrapping_add((purpose as u64) << 56)))
    }
    /// Its `counter`-th number.
    #[inline(always)]
    pub fn at(self, counter: u64) -> u64 {
        mix(self.0.wrapping_add(counter.wrapping_mul(STEP)))
    }
}

/// Maps 64 random bits to 0..n (n ≥ 1) by the high half of a product.
#[inline(always)]
pub fn below(bits: u64, n: u64) -> u64 {
    ((bits as u128 * n as u128) >> 64) as u64
}

/// Counter-based random number for test data: a function of its arguments only.
#[cfg(test)]
pub(crate) fn random(seed: u64, link: u64, purpose: u64, counter: u64) -> u64 {
    let words = [seed, link, purpose, counter];
    words.into_iter().fold(STEP, |state: u64, word| mix(state.wrapping_add(word).wrapping_mul(STEP).wrapping_add(STEP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_uniform_and_differ_by_every_key() {
        let mut counts = [0u32; 16];
        for c in 0..16_000 {
            counts[below(draw(1, 7, Purpose::Destination, c), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
        let base = draw(1, 7, Purpose::Destination, 3);
        for other in [
            draw(2, 7, Purpose::Destination, 3),
            draw(1, 8, Purpose::Destination, 3),
            draw(1, 7, Purpose::Arrival, 3),
            draw(1, 7, Purpose::Destination, 4),
        ] {
            assert_ne!(base, other);
        }
    }
}
