//! Formulas (2) to (9): words to be moved, for a given, the best, and a random distribution.

use serde::Serialize;

/// Sizes of the box of multiplications: N0 (k, summed), N1 (i), N2 (j).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Sizes(pub [u64; 3]);

/// Number of blocks along each dimension of the box.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Split(pub [u64; 3]);

impl Sizes {
    /// Square matrices of order `n`.
    pub fn cube(n: u64) -> Sizes {
        Sizes([n; 3])
    }
    /// Scalar multiplications, N0·N1·N2.
    pub fn multiplications(&self) -> f64 {
        self.0.iter().map(|&n| n as f64).product()
    }
}

impl Split {
    /// K = K0·K1·K2.
    pub fn modules(&self) -> u64 {
        self.0.iter().product()
    }
    /// (2): words of one module, d1·d0 of A and d0·d2 of B in, d1·d2 of C out.
    pub fn words_per_module(&self, sizes: Sizes) -> f64 {
        let d = |l: usize| sizes.0[l] as f64 / self.0[l] as f64;
        d(1) * d(0) + d(0) * d(2) + d(1) * d(2)
    }
    /// (3), and for a cube (5): words of all modules.
    pub fn words(&self, sizes: Sizes) -> f64 {
        self.modules() as f64 * self.words_per_module(sizes)
    }

    /// The split of the box into `modules` equal blocks with the fewest words, found by trying
    /// every way to write `modules` as a product of three; `None` when no factor triple fits into
    /// the box. For a cube the factors come in ascending order, as the paper's table has them.
    pub fn best(sizes: Sizes, modules: u64) -> Option<Split> {
        let mut best: Option<(f64, Split)> = None;
        for a in divisors(modules) {
            for b in divisors(modules / a) {
                let split = Split([a, b, modules / a / b]);
                if (0..3).any(|l| split.0[l] > sizes.0[l]) {
                    continue;
                }
                let words = split.words(sizes);
                if best.is_none_or(|(least, _)| words < least) {
                    best = Some((words, split));
                }
            }
        }
        best.map(|(_, split)| split)
    }
}

/// All divisors of `n`, ascending.
fn divisors(n: u64) -> Vec<u64> {
    let mut low: Vec<u64> = (1..).take_while(|d| d * d <= n).filter(|d| n.is_multiple_of(*d)).collect();
    let high: Vec<u64> = low.iter().rev().map(|d| n / d).filter(|h| !low.contains(h)).collect();
    low.extend(high);
    low
}

/// (4), and for a cube (6): 3·∛K·(N0·N1·N2)^(2/3), a lower bound reached when all blocks are cubes.
pub fn optimal_words(sizes: Sizes, modules: u64) -> f64 {
    3.0 * (modules as f64).cbrt() * sizes.multiplications().cbrt().powi(2)
}

/// (8): every operand and result of every multiplication moved unless it happens to be at home.
pub fn random_words(sizes: Sizes, modules: u64) -> f64 {
    3.0 * sizes.multiplications() * (modules as f64 - 1.0) / modules as f64
}

/// Expected words of a random distribution when a module fetches each operand once: element
/// A(i,k) is needed by K·(1−(1−1/K)^N2) modules, and so on.
pub fn random_words_reused(sizes: Sizes, modules: u64) -> f64 {
    let k = modules as f64;
    let used_by = |uses: u64| k * -(uses as f64 * (-1.0 / k).ln_1p()).exp_m1();
    let [n0, n1, n2] = sizes.0;
    let of = |a: u64, b: u64, uses: u64| {
        let modules = if modules == 1 { 1.0 } else { used_by(uses) };
        a as f64 * b as f64 * modules
    };
    of(n1, n0, n2) + of(n0, n2, n1) + of(n1, n2, n0)
}

/// (9): how many times more a random distribution moves than the best, about N/∛K.
pub fn random_penalty(sizes: Sizes, modules: u64) -> f64 {
    random_words(sizes, modules) / optimal_words(sizes, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_the_word_count_agree() {
        let (sizes, split) = (Sizes([64, 128, 32]), Split([4, 8, 2]));
        let [n0, n1, n2] = sizes.0.map(|n| n as f64);
        let [k0, k1, k2] = split.0.map(|k| k as f64);
        let printed = n0 * n1 * k2 + n0 * n2 * k1 + n1 * n2 * k0;
        let factored = n0 * n1 * n2 * (k0 / n0 + k1 / n1 + k2 / n2);
        assert_eq!(split.words(sizes), printed);
        assert_eq!(printed, factored);
        assert_eq!(split.words_per_module(sizes) * 64.0, printed);
    }

    #[test]
    fn a_cube_needs_n_squared_times_the_sum_of_the_factors() {
        assert_eq!(Split([8, 8, 8]).words(Sizes::cube(1024)), 1024.0 * 1024.0 * 24.0);
    }

    #[test]
    fn the_optimum_is_reached_by_cubic_blocks_and_never_beaten() {
        let n = Sizes::cube(1024);
        assert!((optimal_words(n, 512) - Split([8, 8, 8]).words(n)).abs() < 1.0);
        for modules in [2, 6, 16, 36, 100, 8192, 131072] {
            assert!(Split::best(n, modules).unwrap().words(n) >= optimal_words(n, modules) - 1e-3);
        }
    }

    #[test]
    fn the_best_split_of_a_long_box_cuts_the_long_side() {
        assert_eq!(Split::best(Sizes([1024, 16, 16]), 4), Some(Split([4, 1, 1])));
        assert_eq!(Split::best(Sizes::cube(2), 16), None, "more modules than multiplications");
    }

    #[test]
    fn random_distribution() {
        let n = Sizes::cube(16);
        assert_eq!(random_words(n, 64), 3.0 * 4096.0 * 63.0 / 64.0);
        assert!((random_words_reused(n, 64) - 49152.0 * (1.0 - (63.0f64 / 64.0).powi(16))).abs() < 1e-6);
        assert_eq!(random_words_reused(n, 1), 3.0 * 256.0);
        let penalty = random_penalty(Sizes::cube(1024), 512);
        assert!((penalty - 1024.0 / 8.0).abs() < 0.3, "(9): N over the cube root of K, {penalty}");
    }

    #[test]
    fn with_as_many_modules_as_multiplications_random_is_as_good_as_any() {
        let n = Sizes::cube(16);
        assert!((random_penalty(n, 4096) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn divisors_are_complete_and_ascending() {
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(7), [1, 7]);
    }
}
