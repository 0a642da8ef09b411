//! Which rank runs on which endpoint.
//!
//! Patterns speak of ranks; a mapping places them. Space-filling curves keep ranks with close
//! numbers close in the network, which local traffic rewards.

use crate::Error;
use crate::rng::{Purpose, Stream};
use angara_model::topology::Layout;
use serde::{Deserialize, Serialize};

angara_net::words! {
    /// An order of endpoints.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Mapping {
        /// Rank i on endpoint i.
        Linear = "linear",
        /// Anywhere, decided by the seed.
        Random = "random",
        /// Z-order curve: interleaved coordinate bits.
        Morton = "morton",
        /// Hilbert curve: successive ranks are neighbours.
        Hilbert = "hilbert",
    }
}

#[expect(clippy::derivable_impls, reason = "an enum of words takes no attributes of its values")]
impl Default for Mapping {
    fn default() -> Mapping {
        Mapping::Linear
    }
}

impl Mapping {
    /// The endpoint of every rank.
    ///
    /// # Errors
    /// A Hilbert curve needs equal sizes that are powers of two.
    pub fn endpoints(self, layout: &Layout, seed: u64) -> Result<Vec<u32>, Error> {
        let n = layout.endpoints();
        let mut order: Vec<u32> = (0..n).collect();
        match self {
            Mapping::Linear => {}
            Mapping::Random => Stream::new(seed, 1, Purpose::Placement).shuffle(&mut order),
            Mapping::Morton => {
                let bits = layout.dims().iter().map(|s| s.next_power_of_two().ilog2()).max().unwrap_or(0);
                order.sort_by_key(|&id| morton(&layout.digits(id)[layout.first()..], bits));
            }
            Mapping::Hilbert => {
                let dims = layout.dims();
                let side = dims[0];
                if !side.is_power_of_two() || dims.iter().any(|&s| s != side) {
                    let why = format!("a Hilbert curve needs equal powers of two, not {dims:?}; use morton");
                    return Err(Error::invalid("map", "hilbert", why));
                }
                order.sort_by_key(|&id| hilbert(layout.digits(id)[layout.first()..].to_vec(), side.ilog2()));
            }
        }
        Ok(order)
    }
}

/// Interleaves `bits` bits of each coordinate, the first coordinate lowest.
fn morton(digits: &[u32], bits: u32) -> u128 {
    let mut key = 0;
    for bit in (0..bits).rev() {
        for digit in digits.iter().rev() {
            key = key << 1 | u128::from(digit >> bit & 1);
        }
    }
    key
}

/// Position along the Hilbert curve of 2^bits points per side (Skilling's transpose algorithm).
fn hilbert(mut x: Vec<u32>, bits: u32) -> u128 {
    if bits == 0 {
        return 0;
    }
    let n = x.len();
    let top = 1 << (bits - 1);
    let mut q = top;
    while q > 1 {
        let p = q - 1;
        for i in 0..n {
            if x[i] & q != 0 {
                x[0] ^= p;
            } else {
                let swapped = (x[0] ^ x[i]) & p;
                x[0] ^= swapped;
                x[i] ^= swapped;
            }
        }
        q >>= 1;
    }
    for i in 1..n {
        x[i] ^= x[i - 1];
    }
    let mut flip = 0;
    let mut q = top;
    while q > 1 {
        if x[n - 1] & q != 0 {
            flip ^= q - 1;
        }
        q >>= 1;
    }
    x.iter_mut().for_each(|v| *v ^= flip);
    x.reverse();
    morton(&x, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_mapping_places_every_rank_once() {
        let layout = Layout::torus(&[4, 4, 4]);
        for mapping in [Mapping::Linear, Mapping::Random, Mapping::Morton, Mapping::Hilbert] {
            let all: BTreeSet<u32> = mapping.endpoints(&layout, 1).unwrap().into_iter().collect();
            assert_eq!(all.len(), 64, "{mapping:?}");
        }
    }

    #[test]
    fn a_hilbert_curve_takes_single_steps() {
        for sizes in [&[8, 8][..], &[4, 4, 4], &[2, 2, 2, 2], &[16]] {
            let layout = Layout::mesh(sizes);
            let order = Mapping::Hilbert.endpoints(&layout, 1).unwrap();
            assert!(order.windows(2).all(|w| layout.distance(w[0], w[1]) == 1), "{sizes:?}");
        }
    }

    #[test]
    fn morton_order_fills_blocks() {
        let order = Mapping::Morton.endpoints(&Layout::torus(&[4, 4]), 1).unwrap();
        assert_eq!(order[..5], [0, 1, 4, 5, 2]);
    }

    #[test]
    fn ranks_of_a_router_follow_each_other() {
        let layout = Layout::torus(&[4, 4]).with_endpoints(3);
        for map in [Mapping::Morton, Mapping::Hilbert] {
            let order = map.endpoints(&layout, 1).unwrap();
            assert!(order.chunks(3).all(|chunk| chunk[0] % 3 == 0 && chunk[2] == chunk[0] + 2), "{map:?}: {order:?}");
        }
    }

    #[test]
    fn a_hilbert_curve_that_does_not_fit_is_refused() {
        let e = Mapping::Hilbert.endpoints(&Layout::torus(&[3, 4]), 1).unwrap_err();
        assert!(e.to_string().contains("use morton"), "{e}");
    }
}
