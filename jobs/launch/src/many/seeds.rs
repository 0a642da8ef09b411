//! `angara run --clock virtual --seeds A..B`: the same program again and again, each time with other delays, until one fails.

use super::run;
use crate::run::options::Seeds;
use angara_control::error::{Failed, say};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;

/// Runs them all. `line` is the command line of this command, with its name.
pub fn main(seeds: Seeds, line: &[OsString], quiet: bool) -> Result<u8, Failed> {
    let (name, line) = line.split_first().expect("a command line has the command's name");
    let name = Path::new(name).file_name().unwrap_or(name).to_string_lossy();
    let all: Vec<Vec<OsString>> = (seeds.first..=seeds.last).map(|seed| with_seed(line, seed)).collect();
    let (mut failed, mut unsure, mut passed) = (None, Vec::new(), 0);
    let ended = run(&all, |mut done| {
        let seed = seeds.first + done.index as u64;
        if done.is_in_doubt() {
            unsure.push(seed);
        }
        if done.code != 0 {
            failed = Some((seed, done.code, done.output()));
            return ControlFlow::Break(());
        }
        passed += 1;
        if !quiet && (done.index + 1).is_multiple_of(100) {
            angara_protocol::complain!("angara: seeds up to {seed} passed");
        }
        ControlFlow::Continue(())
    })?;
    if let Some(ended) = &ended {
        let none = if failed.is_none() { ", none failed" } else { "" };
        let runs = passed + usize::from(failed.is_some());
        say!("seeds {seeds}: ended by a signal after {runs} of {} runs{none}{}", all.len(), differ(&unsure))?;
        if failed.is_none() {
            return Ok(ended.code);
        }
    }
    match failed {
        None => say!("seeds {seeds}: no run failed{}", differ(&unsure)).map(|()| 0),
        Some((seed, code, output)) => {
            let again: Vec<_> = with_seed(line, seed).iter().map(|word| quoted(&word.to_string_lossy())).collect();
            let same = if unsure.contains(&seed) {
                "it went on without a PE, so this may differ"
            } else {
                "the same run again"
            };
            say!("{output}seed {seed}: exit code {code}; {same}: {name} {}", again.join(" "))?;
            Ok(ended.map_or(code, |ended| ended.code))
        }
    }
}

/// Returns what is said of runs that went on without a PE.
fn differ(unsure: &[u64]) -> String {
    const MOST: usize = 10;
    let Some(first) = unsure.get(..unsure.len().min(MOST)).filter(|first| !first.is_empty()) else { return "".into() };
    let seeds: Vec<String> = first.iter().map(u64::to_string).collect();
    let more = unsure.len() - seeds.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; another run may differ with {}{more}, as this one went on without a PE", seeds.join(", "))
}

/// The command line with one seed instead of many. The program's own options are behind the launcher's.
fn with_seed(line: &[OsString], seed: u64) -> Vec<OsString> {
    let mut words = line.iter();
    let mut one = Vec::new();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--seeds") => drop(words.next()),
            Some(word) if word.starts_with("--seeds=") => {}
            _ => {
                one.push(word.clone());
                continue;
            }
        }
        one.extend(["--seed".into(), seed.to_string().into()]);
        break;
    }
    one.extend(words.cloned());
    one
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range() {
        assert_eq!("1..200".parse(), Ok(Seeds { first: 1, last: 200 }));
        assert_eq!("7..=7".parse(), Ok(Seeds { first: 7, last: 7 }));
        for bad in ["", "5", "2..1", "a..b", "1..", "0..1000000"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }

    #[test]
    fn runs_that_may_differ_are_named() {
        assert_eq!(differ(&[]), "");
        assert_eq!(differ(&[3, 5]), "; another run may differ with 3, 5, as this one went on without a PE");
        let many: Vec<u64> = (1..=12).collect();
        assert!(differ(&many).contains("8, 9, 10 and 2 more,"), "{}", differ(&many));
    }

    #[test]
    fn one_seed_stands_where_many_stood() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let one = words("run --clock virtual --seed 3 -n 2 prog --seeds 5..6");
        assert_eq!(with_seed(&words("run --clock virtual --seeds 1..9 -n 2 prog --seeds 5..6"), 3), one);
        assert_eq!(with_seed(&words("run --clock virtual --seeds=1..9 -n 2 prog --seeds 5..6"), 3), one);
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
