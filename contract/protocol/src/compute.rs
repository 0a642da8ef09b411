//! Virtual time of a program's computing between two calls of the library, as launcher and driver write it.

use angara_net::units;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The variable that tells the driver.
pub const ENV_COMPUTE: &str = "ANGARA_COMPUTE";
/// The first line of a file of intervals.
pub const HEADER: &str = "angara intervals 1: one line per PE, its number and picoseconds between its calls";

/// `none`, `fixed:NS`, `measured[:FACTOR]`, `record:FILE` or `replay:FILE`.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Compute {
    /// No time.
    #[default]
    None,
    /// N picoseconds each time.
    Fixed(u64),
    /// The processor time that it took here, times this.
    Measured(f64),
    /// The same times 1, written to a file.
    Record(PathBuf),
    /// As such a file says.
    Replay(PathBuf),
}

impl Compute {
    /// Two runs may differ.
    pub fn differs(&self) -> bool {
        matches!(self, Compute::Measured(_) | Compute::Record(_))
    }
}

/// Nanoseconds without a unit, or a time.
fn time(text: &str) -> Option<u64> {
    let plain = text.parse::<f64>().ok().filter(|ns| (0.0..=1e12).contains(ns));
    plain.map(|ns| (ns * 1000.0).round() as u64).or_else(|| units::time(text))
}

impl FromStr for Compute {
    type Err = String;
    fn from_str(text: &str) -> Result<Compute, String> {
        let (word, value) = text.split_once(':').map_or((text, None), |(word, value)| (word, Some(value)));
        match (word, value) {
            ("none", None) => Ok(Compute::None),
            ("fixed", Some(value)) => {
                time(value).map(Compute::Fixed).ok_or(format!("`{value}`: give nanoseconds, such as fixed:500"))
            }
            ("measured", None) => Ok(Compute::Measured(1.0)),
            ("measured", Some(value)) => {
                let factor = value.parse::<f64>().ok().filter(|f| f.is_finite() && *f > 0.0 && *f <= 1e6);
                let factor =
                    factor.ok_or(format!("`{value}`: give a factor above 0, up to 1e6, such as measured:0.5"))?;
                Ok(Compute::Measured(factor))
            }
            ("record", Some(file)) if !file.is_empty() => Ok(Compute::Record(file.into())),
            ("replay", Some(file)) if !file.is_empty() => Ok(Compute::Replay(file.into())),
            _ => Err(format!("`{text}`: use none, fixed:NS, measured, measured:FACTOR, record:FILE or replay:FILE")),
        }
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compute::None => f.write_str("none"),
            Compute::Fixed(ps) => write!(f, "fixed:{}", *ps as f64 / 1e3),
            Compute::Measured(factor) => write!(f, "measured:{factor}"),
            Compute::Record(file) => write!(f, "record:{}", file.display()),
            Compute::Replay(file) => write!(f, "replay:{}", file.display()),
        }
    }
}

/// The intervals of a PE in the text of such a file, in order. Errors: what is wrong, with its line.
pub fn intervals(text: &str, pe: usize) -> Result<Vec<u64>, String> {
    let mut lines = text.lines().zip(1..);
    if lines.next().is_none_or(|(first, _)| first != HEADER) {
        return Err("line 1: this is no file of intervals; `--compute record:FILE` writes one".into());
    }
    let mut all = Vec::new();
    for (line, number) in lines {
        let mut words = line.split_ascii_whitespace();
        let bad = |word: &str| format!("line {number}: `{word}` is no number");
        let Some(first) = words.next() else { continue };
        if first.parse::<usize>().map_err(|_| bad(first))? == pe {
            for word in words {
                all.push(word.parse::<u64>().ok().filter(|ps| *ps < 1 << 60).ok_or_else(|| bad(word))?);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_read() {
        let all = ["none", "fixed:500", "fixed:0.5", "measured:1", "measured:0.25", "record:a:b", "replay:/x/y"];
        for text in all {
            assert_eq!(text.parse::<Compute>().expect(text).to_string(), text);
        }
        assert_eq!("fixed:2us".parse(), Ok(Compute::Fixed(2_000_000)));
        assert_eq!("measured".parse(), Ok(Compute::Measured(1.0)));
        for bad in [
            "",
            "some",
            "fixed",
            "fixed:-1",
            "fixed:x",
            "measured:0",
            "measured:-1",
            "measured:inf",
            "record:",
            "none:1",
        ] {
            assert!(bad.parse::<Compute>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pe_finds_its_intervals() {
        let text = format!("{HEADER}\n0 5 6\n1 7\n\n0 8\n");
        assert_eq!(intervals(&text, 0), Ok(vec![5, 6, 8]));
        assert_eq!(intervals(&text, 1), Ok(vec![7]));
        assert_eq!(intervals(&text, 2), Ok(vec![]));
        assert!(intervals("0 5\n", 0).unwrap_err().contains("line 1"));
        assert!(intervals(&format!("{HEADER}\n0 5\n0 -1\n"), 0).unwrap_err().contains("line 3: `-1`"));
    }
}
