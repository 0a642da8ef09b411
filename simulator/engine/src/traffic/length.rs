//! How long messages are: one length, or several with their shares.

use crate::Error;
use crate::rng::Stream;
use angara_net::units;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most flits of a message; a message travels as one packet.
const FLITS_MAX: u16 = 4096;

/// A distribution of message lengths: `16`, or `4:0.1,32:0.9` for one message in ten of 4 flits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Lengths(Vec<(u16, f64)>);

/// In a file a single length may be written as a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of flits, or text such as \"4:0.1,32:0.9\"")]
enum Written {
    Number(i64),
    Text(String),
}

impl Lengths {
    /// Mean length in flits.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|&(flits, share)| f64::from(flits) * share).sum()
    }
    /// Mean of the squared length by the mean length, flits: what lengths add to the fluctuations of a
    /// load.
    pub fn dispersion(&self) -> f64 {
        self.0.iter().map(|&(flits, share)| f64::from(flits).powi(2) * share).sum::<f64>() / self.mean()
    }
    /// Longest message, flits.
    pub fn max(&self) -> u16 {
        self.0.iter().map(|&(flits, _)| flits).max().unwrap_or(1)
    }
    /// Draws a length.
    #[inline]
    pub fn pick(&self, stream: &mut Stream) -> u16 {
        let [(only, _)] = self.0[..] else {
            let mut rest = stream.unit();
            for &(flits, share) in &self.0 {
                if rest < share {
                    return flits;
                }
                rest -= share;
            }
            return self.0[self.0.len() - 1].0;
        };
        only
    }
}

impl FromStr for Lengths {
    type Err = Error;
    fn from_str(text: &str) -> Result<Lengths, Error> {
        let bad = |why: &str| {
            let form = "write a number of flits, or LENGTH:SHARE pairs such as 4:0.1,32:0.9";
            Error::invalid("length", text, format!("{why}; {form}"))
        };
        let mut parts = Vec::new();
        let pairs: Vec<&str> = text.split(',').collect();
        for pair in &pairs {
            let (flits, share) = match pair.split_once(':') {
                Some((flits, share)) => (flits, units::fraction(share).ok_or_else(|| bad("a share is no number"))?),
                None if pairs.len() == 1 => (*pair, 1.0),
                None => return Err(bad("a share is missing")),
            };
            let flits: u16 = flits.trim().parse().map_err(|_| bad("a length is no whole number"))?;
            if !(1..=FLITS_MAX).contains(&flits) {
                return Err(bad(&format!("lengths go from 1 to {FLITS_MAX} flits")));
            }
            if !(share > 0.0 && share <= 1.0) {
                return Err(bad("a share is above 0 and at most 1"));
            }
            if parts.iter().any(|&(other, _)| other == flits) {
                return Err(bad(&format!("length {flits} is given twice")));
            }
            parts.push((flits, share));
        }
        let sum: f64 = parts.iter().map(|p| p.1).sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(bad(&format!("the shares add up to {sum}, not to 1")));
        }
        Ok(Lengths(parts))
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(only, _)] = self.0[..] {
            return write!(f, "{only}");
        }
        let pairs: Vec<String> = self.0.iter().map(|(flits, share)| format!("{flits}:{share}")).collect();
        f.write_str(&pairs.join(","))
    }
}

impl TryFrom<Written> for Lengths {
    type Error = Error;
    fn try_from(written: Written) -> Result<Lengths, Error> {
        match written {
            Written::Number(n) => n.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Lengths> for String {
    fn from(lengths: Lengths) -> String {
        lengths.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn a_single_length_draws_nothing() {
        let lengths: Lengths = "16".parse().unwrap();
        let mut stream = Stream::new(1, 0, Purpose::Length);
        assert_eq!((lengths.pick(&mut stream), lengths.mean(), lengths.max()), (16, 16.0, 16));
        assert_eq!(lengths.to_string(), "16");
    }

    #[test]
    fn shares_are_kept() {
        let lengths: Lengths = "4:0.1,32:0.9".parse().unwrap();
        assert!((lengths.mean() - 29.2).abs() < 1e-9);
        let mut stream = Stream::new(1, 0, Purpose::Length);
        let short = (0..50_000).filter(|_| lengths.pick(&mut stream) == 4).count();
        assert!((short as f64 / 50_000.0 - 0.1).abs() < 0.005, "{short}");
        assert_eq!(lengths.to_string(), "4:0.1,32:0.9");
    }

    #[test]
    fn nonsense_is_refused_with_the_form() {
        for text in ["", "0", "x", "4:0.5", "4:0.5,8", "4:0.5,8:0.6", "70000", "4:-1,8:2"] {
            let e = text.parse::<Lengths>().unwrap_err().to_string();
            assert!(e.contains("4:0.1,32:0.9"), "{text}: {e}");
        }
    }
}
