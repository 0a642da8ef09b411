//! The other machine of paper 003: HTMT, 64x64 superconducting processors (SPELL) running
//! Cannon's algorithm, formulas (14) and (15).

use super::analysis::Units;
use serde::Serialize;

/// SPELLs along one side of the grid.
pub const GRID: u64 = 64;
/// Arithmetic units per SPELL.
pub const UNITS: f64 = 5.0;
/// Cycle of an arithmetic unit, ps.
pub const CYCLE_PS: f64 = 15.0;
/// A SPELL's link to its neighbour, Gwords/s.
pub const LINK_GWORDS: f64 = 16.0;
/// Loading operands and storing results, from the speed of the SRAM, µs.
pub const LOAD_US: f64 = 0.3;

/// One multiplication on the grid.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Order of the matrices.
    pub n: u64,
    /// (14): M_s, multiplying two blocks, ns.
    pub multiply_ns: f64,
    /// (15): D_s, passing a block to the neighbour, ns.
    pub pass_ns: f64,
    /// Passing over multiplying; above 1 communication cannot be hidden.
    pub ratio: f64,
    /// 64 steps and the loading, µs.
    pub total_us: f64,
    /// 2N³ over the total, PF/s.
    pub petaflops: f64,
}

/// Cannon's algorithm for order `n`; a binary giga-word is 2^30 words.
pub fn step(n: u64, units: Units) -> Step {
    let block = n as f64 / GRID as f64;
    let giga = if units == Units::Binary { 1.073_741_824 } else { 1.0 };
    let multiply_ns = 2.0 * block.powi(3) / UNITS * CYCLE_PS / 1000.0;
    let pass_ns = block * block / (LINK_GWORDS * giga);
    let total_us = GRID as f64 * multiply_ns.max(pass_ns) / 1000.0 + LOAD_US;
    Step { n, multiply_ns, pass_ns, ratio: pass_ns / multiply_ns, total_us, petaflops: petaflops(n, total_us * 1e-6) }
}

/// Peak of the machine, PF/s.
pub fn peak() -> f64 {
    (GRID * GRID) as f64 * UNITS / CYCLE_PS * 1e12 / 1e15
}

/// 2N³ operations in `seconds`, PF/s.
pub fn petaflops(n: u64, seconds: f64) -> f64 {
    2.0 * (n as f64).powi(3) / seconds / 1e15
}

/// Smallest power of two whose multiplication runs at 1 PF or more.
pub fn smallest(units: Units) -> u64 {
    (6..20).map(|bit| 1u64 << bit).find(|&n| step(n, units).petaflops >= 1.0).unwrap_or(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    #[test]
    fn published_runs() {
        assert!(close(petaflops(208_000, 16.2), 1.111, 5e-4));
        assert!(close(petaflops(8_000, 0.75e-3), 1.365, 5e-4));
        assert!(close(peak(), 1.365, 5e-4), "the second run is at peak");
    }

    #[test]
    fn order_1024_is_at_the_limit() {
        let s = step(1024, Units::Decimal);
        assert!(close(s.multiply_ns, 24.6, 0.05) && close(s.pass_ns, 16.0, 1e-9));
        assert!(close(step(1024, Units::Binary).pass_ns, 14.9, 0.05));
        assert!(close(64.0 * s.multiply_ns / 1000.0, 1.57, 5e-3));
        assert!(close(s.petaflops, 1.15, 5e-3));
        assert_eq!(smallest(Units::Decimal), 1024);
        assert_eq!(smallest(Units::Binary), 1024);
    }

    #[test]
    fn order_512_is_limited_by_its_links() {
        let (si, binary) = (step(512, Units::Decimal), step(512, Units::Binary));
        assert!(close(si.multiply_ns, 3.07, 5e-3) && close(si.pass_ns, 4.0, 1e-9) && close(si.ratio, 1.30, 5e-3));
        assert!(close(binary.pass_ns, 3.73, 5e-3) && close(binary.ratio, 1.21, 5e-3), "the paper's 20 %");
    }
}
