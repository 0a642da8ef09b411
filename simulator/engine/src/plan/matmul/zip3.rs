//! The numbering `zip3`: one placement of multiplications that is best at every level at once.
//!
//! The bits of the three indices are interleaved, so that the leading bits of the result cut the
//! cube of multiplications into blocks whose sides differ at most by a factor of two, for however
//! many leading bits a level of the machine looks at. [`measure`] does not trust the formula: it
//! places every single multiplication and counts the distinct words each module touches.

use crate::Error;
use crate::rng::{Purpose, Stream};
use serde::Serialize;

/// Largest order that is counted multiplication by multiplication.
pub const MEASURE_MAX: u32 = 256;

/// `zip3(2a+d, 2b+e, 2c+f) = ((zip3(a,b,c)·2+d)·2+e)·2+f`: bits dealt in turn, from the top.
pub fn zip3(i: u32, k: u32, j: u32) -> u128 {
    let mut zipped = 0;
    for bit in (0..32).rev() {
        for index in [i, k, j] {
            zipped = zipped << 1 | u128::from(index >> bit & 1);
        }
    }
    zipped
}

/// (12): the module, of `modules`, that does multiplication (i, k, j) of matrices of order `n`;
/// ⌊modules·zip3/n³⌋. `n` must be a power of two, `modules` need not be.
pub fn module(i: u32, k: u32, j: u32, n: u32, modules: u64) -> u64 {
    debug_assert!(n.is_power_of_two());
    ((zip3(i, k, j) * u128::from(modules)) >> (3 * n.trailing_zeros())) as u64
}

/// (13): the same as a fraction of the machine in [0, 1), whatever its elements are.
pub fn fraction(i: u32, k: u32, j: u32, n: u32) -> f64 {
    zip3(i, k, j) as f64 / f64::from(n).powi(3)
}

/// How `bits` leading bits of the numbering split the cube: blocks along i, k and j.
pub fn split(bits: u32) -> [u64; 3] {
    [0, 1, 2].map(|turn| 1 << ((bits + 2 - turn) / 3))
}

/// How multiplications are placed when counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// By [`module`].
    Zip3,
    /// Each multiplication anywhere.
    Random {
        /// Seed of the placement.
        seed: u64,
    },
}

/// Words and multiplications counted for a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Measured {
    /// Distinct words of A, B and C touched, summed over the modules.
    pub words: u64,
    /// Multiplications of the least loaded module.
    pub least: u64,
    /// Multiplications of the most loaded module.
    pub most: u64,
}

/// Places all n³ multiplications on `modules` and counts.
///
/// # Errors
/// `n` is not a power of two or too large to count, or there are more modules than work.
pub fn measure(n: u32, modules: u64, placement: Placement) -> Result<Measured, Error> {
    if !n.is_power_of_two() || n > MEASURE_MAX {
        return Err(Error::invalid("--zip3-n", n, format!("give a power of two up to {MEASURE_MAX}")));
    }
    let total = u64::from(n).pow(3);
    if modules == 0 || modules > total {
        return Err(Error::invalid("number of modules", modules, format!("give 1 to n^3 = {total}")));
    }
    let stream = Stream::new(if let Placement::Random { seed } = placement { seed } else { 0 }, 0, Purpose::Placement);
    let place = |i: u32, k: u32, j: u32| match placement {
        Placement::Zip3 => module(i, k, j, n, modules),
        Placement::Random { .. } => {
            let index = (u64::from(i) * u64::from(n) + u64::from(k)) * u64::from(n) + u64::from(j);
            ((u128::from(stream.at(index)) * u128::from(modules)) >> 64) as u64
        }
    };
    let mut load = vec![0u64; modules as usize];
    for i in 0..n {
        for k in 0..n {
            for j in 0..n {
                load[place(i, k, j) as usize] += 1;
            }
        }
    }
    // An element is used along one line of the cube; count the modules along each line.
    let mut words = 0;
    let mut line = Vec::with_capacity(n as usize);
    let mut count = |at: &dyn Fn(u32) -> u64| {
        line.clear();
        line.extend((0..n).map(at));
        line.sort_unstable();
        line.dedup();
        words += line.len() as u64;
    };
    for a in 0..n {
        for b in 0..n {
            count(&|j| place(a, b, j));
            count(&|i| place(i, a, b));
            count(&|k| place(a, k, b));
        }
    }
    let (least, most) = (load.iter().min().copied().unwrap_or(0), load.iter().max().copied().unwrap_or(0));
    Ok(Measured { words, least, most })
}

#[cfg(test)]
mod tests {
    use super::super::formulas::{Sizes, random_words_reused};
    use super::*;

    #[test]
    fn zip3_follows_its_recursion() {
        assert_eq!(zip3(0, 0, 0), 0);
        for (a, b, c) in [(0, 0, 0), (1, 2, 3), (5, 0, 7), (1023, 512, 1), (u32::MAX >> 1, 0, 9)] {
            for bits in 0..8u32 {
                let (d, e, f) = (bits >> 2 & 1, bits >> 1 & 1, bits & 1);
                let expected = ((zip3(a, b, c) * 2 + u128::from(d)) * 2 + u128::from(e)) * 2 + u128::from(f);
                assert_eq!(zip3(2 * a + d, 2 * b + e, 2 * c + f), expected);
            }
        }
    }

    #[test]
    fn leading_bits_split_as_table_2_does() {
        let known = [(19, [128, 64, 64]), (17, [64, 64, 32]), (13, [32, 16, 16]), (9, [8, 8, 8]), (4, [4, 2, 2])];
        for (bits, expected) in known {
            assert_eq!(split(bits), expected, "{bits} bits");
        }
    }

    #[test]
    fn zip3_reaches_the_formula_with_perfect_balance() {
        let n = 16u32;
        for bits in 1..=12 {
            let modules = 1u64 << bits;
            let m = measure(n, modules, Placement::Zip3).unwrap();
            assert_eq!(m.words, 256 * split(bits).iter().sum::<u64>(), "K = {modules}");
            assert_eq!((m.least, m.most), (4096 / modules, 4096 / modules));
        }
        assert_eq!(measure(n, 64, Placement::Zip3).unwrap().words, 3072);
    }

    #[test]
    fn random_placement_matches_its_expectation() {
        for modules in [2u64, 16, 64, 512] {
            let m = measure(16, modules, Placement::Random { seed: 1 }).unwrap();
            let expected = random_words_reused(Sizes::cube(16), modules);
            assert!((m.words as f64 / expected - 1.0).abs() < 0.02, "K = {modules}: {} {expected}", m.words);
        }
    }

    #[test]
    fn a_number_of_modules_that_is_no_power_of_two_works_too() {
        let m = measure(16, 12, Placement::Zip3).unwrap();
        assert!(m.most - m.least <= 1 + 4096 / 12 / 100, "{m:?}");
        assert!(m.words < measure(16, 12, Placement::Random { seed: 1 }).unwrap().words);
    }

    #[test]
    fn the_fraction_names_the_module_of_any_machine() {
        for modules in [4u64, 64, 4096] {
            for (i, k, j) in [(0, 0, 0), (15, 15, 15), (3, 9, 14)] {
                assert_eq!((fraction(i, k, j, 16) * modules as f64) as u64, module(i, k, j, 16, modules));
            }
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        assert!(measure(12, 4, Placement::Zip3).unwrap_err().to_string().contains("power of two"));
        assert!(measure(4, 65, Placement::Zip3).is_err());
    }
}
