//! `angara bench`: first figures on this machine, next to its own floors.
//!
//! A small OpenSHMEM program (`examples/c/bench_basic.c`) measures; this command compiles it, runs
//! it on both paths and with 2, 8 and 64 PEs, and puts medians and spreads of the repetitions side
//! by side. The floors are measured in the same run: a plain memcpy of the same size, and one cache
//! line handed back and forth between two processes.

use crate::demo::{Temporary, build, compile, example};
use crate::error::Failed;
use crate::install;
use crate::table::Table;
use clap::Args;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Arguments of `angara bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark: `basic` is the only one so far
    #[arg(default_value = "basic", value_parser = ["basic"])]
    which: String,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(7..=1000))]
    repeat: u32,
    /// Largest number of PEs for the barrier
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pes: u32,
}

/// Samples of each quantity, by name: `put8 ns`.
type Samples = BTreeMap<String, Vec<f64>>;

/// Measures and shows.
pub(crate) fn main(args: BenchArgs) -> Result<u8, Failed> {
    let bin = install::bin_dir()?;
    build(&bin)?;
    let source = example(&bin, "bench_basic.c")?;
    let temporary = Temporary::new("bench")?;
    let program = temporary.0.join("bench_basic");
    compile(&bin, &source, &program)?;
    // Floors do not depend on the path; only direct runs can hand a cache line over.
    let mut floors = Samples::new();
    let mut table =
        Table::new(&["quantity", "path", ">PEs", ">median", ">fastest", ">slowest", "unit", ">floor", "floor is"]);
    for path in ["direct", "ring"] {
        for pes in [2, 8, 64].into_iter().filter(|n| *n <= args.pes) {
            eprintln!("angara: measuring {path}, {pes} PEs");
            let samples = measure(&bin, &program, path, pes, args.repeat)?;
            for floor in ["pingpong ns", "memcpy1m GB/s"] {
                if let Some(values) = samples.get(floor) {
                    floors.entry(floor.into()).or_insert_with(|| values.clone());
                }
            }
            rows(&mut table, path, pes, &samples, &floors);
        }
    }
    println!(
        "{} cores; {} repetitions each; medians\n{}",
        std::thread::available_parallelism().map_or(1, |n| n.get()),
        args.repeat,
        table.render()
    );
    Ok(0)
}

fn measure(bin: &Path, program: &Path, path: &str, pes: u32, repeat: u32) -> Result<Samples, Failed> {
    let failed =
        |what: String| Failed::runtime(format!("{path}, {pes} PEs: {what}"), "run `angara doctor`; try fewer --pes");
    let out = Command::new(bin.join("angara"))
        .args(["run", "-q", "--timeout", "300", "--heap", "16M", "--path", path, "-n", &pes.to_string(), "--"])
        .arg(program)
        .arg(repeat.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !out.status.success() {
        return Err(failed(format!("the measurement failed ({})", out.status)));
    }
    Ok(parse(&String::from_utf8_lossy(&out.stdout)))
}

/// Reads lines `sample NAME UNIT VALUE`.
fn parse(text: &str) -> Samples {
    let mut samples = Samples::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["sample", name, unit, value] = words[..]
            && let Ok(value) = value.parse::<f64>()
        {
            samples.entry(format!("{name} {unit}")).or_default().push(value);
        }
    }
    samples.values_mut().for_each(|v| v.sort_by(f64::total_cmp));
    samples
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Three significant digits.
fn figure(x: f64) -> String {
    match x {
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

fn rows(table: &mut Table, path: &str, pes: u32, samples: &Samples, measured: &Samples) {
    let floors = [("put8", "pingpong"), ("put1m", "memcpy1m"), ("get1m", "memcpy1m"), ("barrier", "pingpong")];
    let names = [
        ("put8", "put+quiet 8 B"),
        ("put1m", "put 1 MiB"),
        ("get1m", "get 1 MiB"),
        ("barrier", "barrier"),
        ("pingpong", ""),
        ("memcpy1m", ""),
    ];
    for (key, values) in samples {
        let (name, unit) = key.split_once(' ').unwrap_or((key, ""));
        let Some((_, shown)) = names.iter().find(|n| n.0 == name && !n.1.is_empty()) else { continue };
        let floor = floors.iter().find(|f| f.0 == name).map(|f| f.1).unwrap_or_default();
        let value = measured.get(&format!("{floor} {unit}")).map_or("-".to_string(), |v| figure(median(v)));
        let meaning = match floor {
            "pingpong" => "cache line handed over",
            "memcpy1m" => "memcpy",
            _ => "",
        };
        table.row(&[
            shown.to_string(),
            path.into(),
            pes.to_string(),
            figure(median(values)),
            figure(values.first().copied().unwrap_or(f64::NAN)),
            figure(values.last().copied().unwrap_or(f64::NAN)),
            unit.into(),
            value,
            meaning.into(),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sorted_and_the_middle_one_counts() {
        let s = parse("hello\nsample put8 ns 12.5\nsample put8 ns 9\nsample put8 ns 30\nsample barrier us x\n");
        assert_eq!(s.len(), 1);
        assert_eq!(median(&s["put8 ns"]), 12.5);
        assert_eq!((figure(1234.5), figure(12.34), figure(1.234)), ("1234".into(), "12.3".into(), "1.23".into()));
    }
}
