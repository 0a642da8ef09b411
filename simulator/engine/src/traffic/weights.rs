//! How much each rank sends, against the others.

use super::process::{Process, Rate};
use crate::Error;
use angara_traffic::TextFile;
use serde::{Serialize, Serializer};
use std::str::FromStr;

/// Relative rates of all ranks, from a file.
#[derive(Clone, Debug)]
pub struct Weights {
    file: TextFile,
    /// Weight and line of each rank, from 0.
    of: Vec<(f64, usize)>,
}

impl Weights {
    /// Weights with the lines of `file` that say them.
    ///
    /// # Errors
    /// Nobody sends.
    pub fn new(file: TextFile, of: Vec<(f64, usize)>) -> Result<Weights, Error> {
        if of.iter().all(|(weight, _)| *weight == 0.0) {
            return Err(file.wrong(1, "all rates are 0, so nobody sends; give a rate above 0").into());
        }
        Ok(Weights { file, of })
    }

    /// The rate of every rank by their mean.
    pub fn relative(&self) -> Vec<f64> {
        let largest = self.largest();
        let mean = self.of.iter().map(|(weight, _)| weight / largest).sum::<f64>() / self.of.len() as f64;
        self.of.iter().map(|(weight, _)| weight / largest / mean).collect()
    }

    /// The largest one. Divided by it first, the sum of large weights stays finite.
    fn largest(&self) -> f64 {
        self.of.iter().fold(0.0, |most: f64, (weight, _)| most.max(*weight))
    }

    /// The rate of every rank, with the mean `mean` messages per cycle, which is the load `load`.
    ///
    /// # Errors
    /// A rank would have more than `process` can create.
    pub fn rates(&self, mean: Rate, process: Process, load: f64) -> Result<Vec<Rate>, Error> {
        let most = process.rate_max();
        let rate = |((rank, &(weight, line)), relative): ((usize, &(f64, usize)), f64)| {
            let rate = relative * mean.per_cycle();
            if rate <= most * (1.0 + 1e-12) {
                return Rate::messages(rate.min(1.0));
            }
            // Four digits, rounded down, so that the load proposed is accepted.
            let fits = load * most / rate;
            let digits = 10f64.powi(3 - fits.log10().floor() as i32);
            let fits = (fits * digits).floor() / digits;
            Err(self.file.wrong(
                line,
                format!(
                    "rank {rank} has the rate {weight} and would create {rate:.4} messages per cycle at load {load}, more \
                     than {most:.4}; give a load of at most {fits}, or a smaller rate"
                ),
            )
            .into())
        };
        self.of.iter().enumerate().zip(self.relative()).map(rate).collect()
    }
}

/// A file with the rate of every rank.
#[derive(Clone, PartialEq, Debug)]
pub struct RatesFile(TextFile);

impl RatesFile {
    /// The weights of `ranks` ranks.
    ///
    /// # Errors
    /// Something else than a rate, or another number of them.
    pub fn weights(&self, ranks: u32) -> Result<Weights, Error> {
        let mut of = Vec::new();
        for (line, words) in self.0.lines() {
            for word in words {
                of.push((self.0.rate(line, word)?, line));
                if of.len() > ranks as usize {
                    return Err(self.0.wrong(line, format!("`{word}` is rate {}, for {ranks} ranks", of.len())).into());
                }
            }
        }
        if of.len() < ranks as usize {
            let last = of.last().map_or(1, |(_, line)| *line);
            let why = format!("{} rates end here, for {ranks} ranks; give one for each, 0 for a silent one", of.len());
            return Err(self.0.wrong(last, why).into());
        }
        Weights::new(self.0.clone(), of)
    }
}

impl FromStr for RatesFile {
    type Err = Error;
    fn from_str(text: &str) -> Result<RatesFile, Error> {
        Ok(RatesFile(TextFile::read("rates", text, text)?))
    }
}

impl Serialize for RatesFile {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(text: &str, ranks: u32) -> Result<Weights, Error> {
        RatesFile(TextFile::of("r", text)).weights(ranks)
    }

    fn rates(text: &str, mean: f64) -> Result<Vec<f64>, String> {
        let rates = weights(text, 4).unwrap().rates(Rate::messages(mean).unwrap(), Process::Bernoulli, mean);
        rates.map(|r| r.into_iter().map(Rate::per_cycle).collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn rates_are_scaled_to_their_mean() {
        assert_eq!(rates("1 1 1 1", 0.3).unwrap(), [0.3; 4]);
        assert_eq!(rates("0\n10\n20\n10\n", 0.25).unwrap(), [0.0, 0.25, 0.5, 0.25]);
        assert_eq!(rates("0, 0, 0, 1e308", 0.25).unwrap(), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_rate_above_one_is_refused_with_a_load_that_fits() {
        let e = rates("1\n1\n1\n5\n", 0.5).unwrap_err();
        assert!(e.starts_with("r:4: rank 3 has the rate 5 and would create 1.2500"), "{e}");
        assert!(e.contains("at most 0.4,"), "{e}");
        assert!(rates("1\n1\n1\n5\n", 0.4).is_ok());
        let half = "on-off:0.1,0.1".parse().unwrap();
        let e = weights("1 1 1 5", 4).unwrap().rates(Rate::messages(0.4).unwrap(), half, 0.4).unwrap_err();
        assert!(e.to_string().contains("more than 0.5000"), "{e}");
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        for (text, said) in [
            ("1 1\n-1 1", "r:2: `-1` is no rate"),
            ("1 1 1 nan", "r:1: `nan` is no rate"),
            ("1 1\n1", "r:2: 3 rates end here, for 4 ranks"),
            ("1 1\n1 1 1", "r:2: `1` is rate 5, for 4 ranks"),
            ("", "r:1: 0 rates end here"),
            ("0 0 0 0", "r:1: all rates are 0"),
        ] {
            let e = weights(text, 4).unwrap_err().to_string();
            assert!(e.starts_with(said), "{text}: {e}");
        }
    }
}
