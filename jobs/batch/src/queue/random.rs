//! Random numbers of the distributions that workload models are made of.

use angara_fabric::rng::splitmix;

/// Numbers in a row from one stream; streams of different purposes of a seed are independent.
pub(super) struct Draws {
    key: u64,
    count: u64,
}

impl Draws {
    pub(super) fn new(seed: u64, purpose: u64) -> Draws {
        Draws { key: splitmix(splitmix(seed, purpose), purpose), count: 0 }
    }

    /// Uniform between 0 and 1, both excluded.
    pub(super) fn uniform(&mut self) -> f64 {
        let bits = splitmix(self.key, self.count) >> 11;
        self.count += 1;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform between two bounds.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Normal with mean 0 and variance 1 (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Gamma with shape at least 1, by rejection (Marsaglia and Tsang 2000). The mean is shape times scale.
    pub(super) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        debug_assert!(shape >= 1.0);
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean_and_variance() {
        for (shape, scale) in [(1.0, 2.0), (6.57, 0.823), (639.1, 0.0156)] {
            let mut draws = Draws::new(7, 1);
            let n = 100_000;
            let all: Vec<f64> = (0..n).map(|_| draws.gamma(shape, scale)).collect();
            let mean = all.iter().sum::<f64>() / f64::from(n);
            let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
            // Five standard errors of the mean; the variance has a heavier tail.
            let error = 5.0 * (shape / f64::from(n)).sqrt() * scale;
            assert!((mean - shape * scale).abs() < error, "seed 7: {shape}, {scale}: {mean}");
            assert!((variance / (shape * scale * scale) - 1.0).abs() < 0.05, "seed 7: {shape}, {scale}: {variance}");
        }
    }

    #[test]
    fn streams_differ_by_seed_and_purpose() {
        let first = |seed, purpose| Draws::new(seed, purpose).uniform();
        assert!(first(1, 1) != first(1, 2) && first(1, 1) != first(2, 1) && first(1, 2) != first(2, 1));
    }
}
