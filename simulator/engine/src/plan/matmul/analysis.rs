//! Tables 2 and 3: which level limits a machine, for which N, and what would balance it.
//!
//! The paper counts in binary units (a mega-word is 2^20 words, a peta-flop 2^50 operations over
//! 2^30 nanoseconds and so on), which makes its numbers round; [`Units::Decimal`] gives SI times.

use super::formulas::{Sizes, Split, optimal_words, random_words, random_words_reused};
use super::machine::Machine;
use crate::Error;
use serde::Serialize;

angara_net::words! {
    /// Meaning of mega, kilo and peta.
    #[derive(Debug, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Units {
        /// T\[µs\] = S\[Mi\] / (K\[Ki\]·BW\[Gwords/s\]), as in the paper's tables.
        Binary = "binary",
        /// SI.
        Decimal = "decimal",
    }
}

impl Units {
    /// Divides a time in nanoseconds into microseconds of this kind.
    fn us(self, ns: f64) -> f64 {
        ns / if self == Units::Binary { 1024.0 } else { 1000.0 }
    }
    /// GF/s into PF/s.
    fn petaflops(self, gflops: f64) -> f64 {
        gflops / if self == Units::Binary { 1024.0 * 1024.0 } else { 1e6 }
    }
}

/// A level of a machine multiplying matrices of one size: a row of table 2.
#[derive(Clone, Debug, Serialize)]
pub struct LevelLoad {
    /// Name of the level.
    pub level: String,
    /// K.
    pub components: u64,
    /// Gwords/s of one component.
    pub gwords: f64,
    /// The best split into K blocks.
    pub split: [u64; 3],
    /// S, words moved with it.
    pub words: f64,
    /// (4): the bound for any split.
    pub bound_words: f64,
    /// S over the bound.
    pub ratio: f64,
    /// T_COMM.
    pub time_us: f64,
    /// T_COMM over that of the slowest level.
    pub utilisation: f64,
    /// Gwords/s of one component with which T_COMM would equal T_COMP.
    pub balanced_gwords: f64,
    /// (8): words moved by a random distribution.
    pub random_words: f64,
    /// The same when operands are fetched once per component.
    pub random_reused_words: f64,
    /// T_COMM of the random distribution (8).
    pub random_time_us: f64,
}

/// A machine multiplying matrices of order N.
#[derive(Clone, Debug, Serialize)]
pub struct SizeLoad {
    /// N.
    pub n: u64,
    /// (11): arithmetic alone.
    pub compute_us: f64,
    /// The slowest level's communication.
    pub communicate_us: f64,
    /// That level.
    pub limit: String,
    /// Attainable performance: peak·min(1, T_COMP/T_COMM).
    pub petaflops: f64,
}

/// The N from which on a machine can work at its peak.
#[derive(Clone, Debug, Serialize)]
pub struct Threshold {
    /// Smallest N with T_COMP ≥ T_COMM.
    pub n: u64,
    /// Smallest power of two.
    pub power_of_two: u64,
    /// The level that decides.
    pub level: String,
}

/// (11): 2N³ operations at peak.
pub fn compute_us(machine: &Machine, n: u64, units: Units) -> f64 {
    units.us(2.0 * (n as f64).powi(3) / machine.gflops())
}

/// Table 2: every level of `machine` for matrices of order `n`.
///
/// # Errors
/// When N is too small to give every component a block.
pub fn levels(machine: &Machine, n: u64, units: Units) -> Result<Vec<LevelLoad>, Error> {
    let sizes = Sizes::cube(n);
    let compute = compute_us(machine, n, units);
    let mut rows = Vec::new();
    for level in &machine.levels {
        let k = level.count;
        let split = Split::best(sizes, k).ok_or_else(|| {
            let what = format!("{} components of level {} need larger matrices", k, level.name);
            Error::invalid("--n", n, what)
        })?;
        let words = split.words(sizes);
        let time = |words: f64| units.us(words / (k as f64 * level.gwords()));
        let bound_words = optimal_words(sizes, k);
        rows.push(LevelLoad {
            level: level.name.clone(),
            components: k,
            gwords: level.gwords(),
            split: split.0,
            words,
            bound_words,
            ratio: words / bound_words,
            time_us: time(words),
            utilisation: 0.0,
            balanced_gwords: level.gwords() * time(words) / compute,
            random_words: random_words(sizes, k),
            random_reused_words: random_words_reused(sizes, k),
            random_time_us: time(random_words(sizes, k)),
        });
    }
    let slowest = rows.iter().map(|r| r.time_us).fold(0.0, f64::max);
    for row in &mut rows {
        row.utilisation = row.time_us / slowest;
    }
    Ok(rows)
}

/// One row of table 3.
///
/// # Errors
/// When N is too small to give every component a block.
pub fn size(machine: &Machine, n: u64, units: Units) -> Result<SizeLoad, Error> {
    let rows = levels(machine, n, units)?;
    let slowest = rows.iter().max_by(|a, b| a.time_us.total_cmp(&b.time_us)).expect("a machine has levels");
    let compute = compute_us(machine, n, units);
    Ok(SizeLoad {
        n,
        compute_us: compute,
        communicate_us: slowest.time_us,
        limit: slowest.level.clone(),
        petaflops: units.petaflops(machine.gflops()) * (compute / slowest.time_us).min(1.0),
    })
}

/// The N from which on the machine can work at peak. T_COMP grows with N³ and T_COMM with N² as
/// long as the best split stays the same, so their ratio at one N tells the threshold.
///
/// # Errors
/// When not even the largest N tried gives every component a block.
pub fn threshold(machine: &Machine) -> Result<Threshold, Error> {
    let trial = 1u64 << 20;
    let at = size(machine, trial, Units::Decimal)?;
    let exact = trial as f64 * at.communicate_us / at.compute_us;
    let n = (exact - 1e-6).ceil().max(1.0) as u64;
    Ok(Threshold { n, power_of_two: n.next_power_of_two(), level: at.limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    #[test]
    fn table_2() {
        let known = [
            ("FPU", 512 << 10, 1.0, [64, 64, 128], 256.0, 0.5, 0.512, 1.058),
            ("cluster", 128 << 10, 0.5, [32, 64, 64], 160.0, 2.5, 2.560, 1.050),
            ("node", 8 << 10, 2.5, [16, 16, 32], 64.0, 3.2, 3.277, 1.058),
            ("board", 512, 10.0, [8, 8, 8], 24.0, 4.8, 4.915, 1.000),
            ("rack", 16, 160.0, [2, 2, 4], 8.0, 3.2, 3.277, 1.058),
        ];
        let machine = Machine::merrimac();
        let binary = levels(&machine, 1024, Units::Binary).unwrap();
        let decimal = levels(&machine, 1024, Units::Decimal).unwrap();
        for (i, (name, k, gwords, split, mega, paper, si, ratio)) in known.into_iter().enumerate() {
            let row = &binary[i];
            assert_eq!((row.level.as_str(), row.components, row.gwords, row.split), (name, k, gwords, split));
            assert_eq!(row.words / (1024.0 * 1024.0), mega, "{name}");
            assert!(close(row.time_us, paper, 1e-9), "{name}: {}", row.time_us);
            assert!(close(decimal[i].time_us, si, 5e-4), "{name}: {}", decimal[i].time_us);
            assert!(close(row.ratio, ratio, 5e-4), "{name}: {}", row.ratio);
        }
    }

    #[test]
    fn table_3() {
        let known = [
            (256, 0.03125, 0.3, 0.104),
            (512, 0.25, 1.2, 0.208),
            (1024, 2.0, 4.8, 0.417),
            (2048, 16.0, 19.2, 0.833),
            (4096, 128.0, 76.8, 1.0),
            (8192, 1024.0, 307.2, 1.0),
        ];
        for (n, compute, communicate, petaflops) in known {
            let row = size(&Machine::merrimac(), n, Units::Binary).unwrap();
            assert!(close(row.compute_us, compute, 1e-9), "{n}");
            assert!(close(row.communicate_us, communicate, 1e-9), "{n}");
            assert!(close(row.petaflops, petaflops, 5e-4), "{n}: {}", row.petaflops);
            assert_eq!(row.limit, "board");
        }
    }

    #[test]
    fn threshold_of_merrimac() {
        let t = threshold(&Machine::merrimac()).unwrap();
        assert_eq!((t.n, t.power_of_two, t.level.as_str()), (2458, 4096, "board"));
    }

    #[test]
    fn half_as_much_again_for_boards_balances_the_upper_levels() {
        let mut machine = Machine::merrimac();
        machine.levels[3].gbytes *= 1.5;
        let rows = levels(&machine, 1024, Units::Binary).unwrap();
        for row in &rows[2..] {
            assert!(close(row.time_us, 3.2, 1e-9), "{}", row.level);
        }
    }

    #[test]
    fn less_bisection_bandwidth_goes_unnoticed() {
        let rows = levels(&Machine::merrimac(), 1024, Units::Binary).unwrap();
        assert!(close(rows[4].utilisation, 2.0 / 3.0, 1e-9), "the racks' links are used to two thirds");
        let mut machine = Machine::merrimac();
        machine.levels[4].gbytes *= 0.7;
        let row = size(&machine, 1024, Units::Binary).unwrap();
        assert_eq!((row.limit.as_str(), row.communicate_us), ("board", 4.8));
    }

    #[test]
    fn balanced_bandwidth_gives_equal_times() {
        let mut machine = Machine::merrimac();
        let rows = levels(&machine, 1024, Units::Decimal).unwrap();
        for (level, row) in machine.levels.iter_mut().zip(&rows) {
            level.gbytes = row.balanced_gwords * 8.0;
        }
        let compute = compute_us(&machine, 1024, Units::Decimal);
        for row in levels(&machine, 1024, Units::Decimal).unwrap() {
            assert!(close(row.time_us, compute, 1e-9));
        }
    }

    #[test]
    fn too_small_a_matrix_is_refused_with_the_level() {
        let e = size(&Machine::merrimac(), 64, Units::Binary).unwrap_err();
        assert!(e.to_string().contains("level FPU"), "{e}");
    }
}
