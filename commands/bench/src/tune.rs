//! `angara bench shmem --write-table FILE`: measures every algorithm of the collectives and writes down the
//! fastest for each path, number of PEs and size.
//!
//! An algorithm is forced by a table that knows no other one. Algorithms take turns, so that whatever
//! disturbs the machine disturbs all of them; medians are compared.

use super::shmem::{Library, ShmemArgs};
use angara_control::error::Failed;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Collectives as the table and the program call them, and what there is to choose from.
const COLLECTIVES: [(&str, &[&str]); 3] = [
    ("broadcast", &["flat", "binomial", "routers"]),
    ("reduce", &["last", "doubling", "sliced", "routers"]),
    ("fcollect", &["flat", "bruck"]),
];
/// Above a size that was measured the same algorithm is taken up to this many times that size: half-way, in
/// logarithms, to the next one.
const HALF_WAY: u64 = 3;

/// Medians by collective, bytes and algorithm.
type Medians = BTreeMap<(usize, u64), Vec<(f64, &'static str)>>;

/// Returns what the library calls a path.
fn name(path: &str, pes: u32, cores: usize) -> &'static str {
    match path {
        "ring" => "ring",
        _ if pes as usize > cores => "crowded",
        _ => "direct",
    }
}

/// True if an algorithm exists on a path.
fn possible(algorithm: &str, path: &str) -> bool {
    match algorithm {
        "routers" => path == "ring",
        "last" => path != "ring",
        _ => true,
    }
}

/// Measures and returns the table.
pub(super) fn table(
    args: &ShmemArgs,
    ours: &dyn Fn(&str) -> Library,
    dir: &Path,
    command: &str,
) -> Result<String, Failed> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut text = format!("# {command}\n# on a machine with {cores} cores. COLLECTIVE PATH PES BYTES ALGORITHM\n");
    let mut pes = args.pes.clone();
    pes.sort_unstable();
    for path in ["direct", "crowded", "ring"] {
        let engine = if path == "ring" { "ring" } else { "direct" };
        let sizes: Vec<u32> = pes.iter().copied().filter(|n| name(engine, *n, cores) == path).collect();
        for (i, n) in sizes.iter().enumerate() {
            let medians = measure(args, ours, dir, engine, path, *n)?;
            let up_to = if i + 1 < sizes.len() { (u64::from(*n) * HALF_WAY / 2).to_string() } else { "max".into() };
            rows(&mut text, &medians, path, &up_to);
        }
        if sizes.is_empty() || !args.path.iter().any(|p| p == engine) {
            return Err(Failed::usage(
                format!("no number of PEs is `{path}` here: a table needs all of direct, crowded and ring"),
                format!("give --pes a number up to {cores} and one above, and both paths"),
            ));
        }
    }
    Ok(text)
}

fn measure(
    args: &ShmemArgs,
    ours: &dyn Fn(&str) -> Library,
    dir: &Path,
    engine: &str,
    path: &str,
    pes: u32,
) -> Result<Medians, Failed> {
    let mut samples: BTreeMap<(usize, u64, &'static str), Vec<f64>> = BTreeMap::new();
    let most = COLLECTIVES.iter().map(|(_, algorithms)| algorithms.len()).max().unwrap_or(0);
    for round in 1..=args.repeat {
        angara_protocol::complain!("angara: run {round} of {}, {pes} PEs, {path}", args.repeat);
        for turn in 0..most {
            // One run measures one algorithm of each collective.
            let mut forced = String::new();
            let mut chosen = [None; COLLECTIVES.len()];
            for (c, (collective, algorithms)) in COLLECTIVES.iter().enumerate() {
                chosen[c] = algorithms.get(turn).copied().filter(|a| possible(a, path));
                let first = algorithms.iter().find(|a| possible(a, path)).copied().unwrap_or(algorithms[0]);
                let how = chosen[c].unwrap_or(first);
                let _ = writeln!(forced, "{collective} {path} max max {how}");
            }
            if chosen.iter().all(Option::is_none) {
                continue;
            }
            let file = dir.join("forced.table");
            std::fs::write(&file, forced).map_err(|e| {
                Failed::runtime(format!("cannot write {}: {e}", file.display()), "make room in the temporary directory")
            })?;
            let mut library = ours(engine);
            library.launch.extend(["--collectives-table".into(), file.into_os_string()]);
            let words = [args.time.to_string(), "sweep".into()];
            let (text, _) = library.run(pes, &words, Duration::from_secs(args.limit)).map_err(|why| {
                Failed::runtime(format!("{pes} PEs, {path}: {why}"), "give --limit more seconds, or fewer --pes")
            })?;
            for (c, bytes, value) in text.lines().filter_map(sample) {
                if let Some(how) = chosen[c] {
                    samples.entry((c, bytes, how)).or_default().push(value);
                }
            }
        }
    }
    let mut medians = Medians::new();
    for ((c, bytes, how), mut values) in samples {
        values.sort_by(f64::total_cmp);
        medians.entry((c, bytes)).or_default().push((values[values.len() / 2], how));
    }
    Ok(medians)
}

/// `sample us 12.5 sweep reduce 512` as (collective, bytes, value).
fn sample(line: &str) -> Option<(usize, u64, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["sample", "us", value, "sweep", collective, bytes] = words[..] else { return None };
    let c = COLLECTIVES.iter().position(|(name, _)| *name == collective)?;
    Some((c, bytes.parse().ok()?, value.parse().ok()?))
}

/// The rows of a path and number of PEs; neighbouring sizes with the same algorithm are one row.
fn rows(text: &mut String, medians: &Medians, path: &str, pes: &str) {
    for (c, (collective, _)) in COLLECTIVES.iter().enumerate() {
        let best: Vec<(u64, &str)> = medians
            .iter()
            .filter(|((its, _), _)| *its == c)
            .filter_map(|((_, bytes), all)| {
                all.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, how)| (*bytes, *how))
            })
            .collect();
        for (i, (bytes, how)) in best.iter().enumerate() {
            match best.get(i + 1) {
                Some((_, next)) if next == how => {}
                Some(_) => {
                    let _ = writeln!(text, "{collective} {path} {pes} {} {how}", bytes * HALF_WAY);
                }
                None => {
                    let _ = writeln!(text, "{collective} {path} {pes} max {how}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_merged_where_the_algorithm_stays() {
        let mut medians = Medians::new();
        for (bytes, last, sliced) in [(8, 1.0, 2.0), (64, 1.5, 2.0), (512, 3.0, 2.5), (4096, 30.0, 5.0)] {
            medians.insert((1, bytes), vec![(last, "last"), (sliced, "sliced")]);
        }
        let mut text = String::new();
        rows(&mut text, &medians, "crowded", "8");
        assert_eq!(text, "reduce crowded 8 192 last\nreduce crowded 8 max sliced\n");
    }

    #[test]
    fn samples_and_paths_are_those_of_the_program_and_the_library() {
        assert_eq!(sample("sample us 12.5 sweep reduce 512"), Some((1, 512, 12.5)));
        assert_eq!(sample("sample us 12.5 barrier_all"), None);
        assert_eq!((name("direct", 2, 2), name("direct", 3, 2), name("ring", 1, 2)), ("direct", "crowded", "ring"));
        assert!(!possible("routers", "crowded") && possible("routers", "ring") && !possible("last", "ring"));
    }
}
