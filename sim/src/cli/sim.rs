//! `angara sim`: simulations of networks.

use super::output::{print, write, write_chart};
use crate::Error;
use crate::reproduce;
use crate::run::Progress;
use crate::run::presets::{self, PRESETS};
use crate::run::{Keys, Outcome};
use crate::sweep::{self, Sweep};
use crate::table::{Table, number};
use crate::toml_file::TomlFile;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// `angara sim …`
#[derive(Args, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    what: Sim,
}

#[derive(Subcommand, Debug)]
enum Sim {
    /// Simulate one network under one load
    Run(RunArgs),
    /// Simulate every combination of the values a file lists; writes CSV, JSON and SVG charts
    Sweep(SweepArgs),
    /// Repeat what BookSim 2 simulated and compare
    Reproduce(ReproduceArgs),
    /// List the prepared networks, or print one as a file to start from
    Presets(PresetsArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// TOML file with settings, the same names as the options below without the dashes
    file: Option<PathBuf>,
    /// Start from a prepared network (see `angara sim presets`); file and options win over it
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    #[command(flatten)]
    keys: Keys,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the distribution of latencies into FILE
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct SweepArgs {
    /// TOML file with settings and a [sweep] table of lists
    file: PathBuf,
    /// Directory for sweep.csv, sweep.json, latency.svg and throughput.svg [default: the file's name without .toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ReproduceArgs {
    /// Only cases whose name contains one of these, such as t8x3_L1 or hot
    case: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct PresetsArgs {
    /// Print this one as TOML
    name: Option<String>,
}

/// Runs an `angara sim` subcommand, printing to standard output.
///
/// # Errors
/// Settings that do not fit together, or files that cannot be read or written.
pub fn sim(args: SimArgs) -> Result<(), Error> {
    match args.what {
        Sim::Run(args) => run(args),
        Sim::Sweep(args) => sweep(args),
        Sim::Reproduce(args) => reproduce(args),
        Sim::Presets(args) => presets(args),
    }
}

fn run(args: RunArgs) -> Result<(), Error> {
    let file = args.file.as_deref().map(TomlFile::read).transpose()?;
    let from_file = file.as_ref().map(TomlFile::parse::<Keys>).transpose()?.unwrap_or_default();
    let preset = args.preset.as_deref().map(presets::find).transpose()?.unwrap_or_default();
    let keys = args.keys.over(from_file.over(preset));
    let threads = threads(&keys)?;
    let mut experiment = keys.resolve().map_err(|(e, key)| match &file {
        Some(file) => file.locate(e, Some(key)),
        None => e,
    })?;
    experiment.threads = threads;
    let bar = bar("{msg:12} [{bar:40}] {pos}/{len} cycles");
    let report = experiment.workload.workload.run(&experiment, &mut |p| show(&bar, p));
    bar.finish_and_clear();
    let report = report?;
    if let Some(path) = &args.histogram {
        let Some((_, chart)) = report.charts.iter().find(|(name, _)| name == "histogram") else {
            return Err(Error::invalid("--histogram", path.display(), "this workload has none; leave it out"));
        };
        write_chart(path, chart)?;
    }
    print(args.json, &report.json, || report.text.clone());
    Ok(())
}

/// The number of threads asked for; results never depend on it.
fn threads(keys: &Keys) -> Result<usize, Error> {
    match keys.threads.unwrap_or(1) {
        0 => Err(Error::invalid("threads", 0, "give at least 1")),
        n => Ok(n),
    }
}

fn bar(template: &str) -> ProgressBar {
    // Draws on a terminal only, and on standard error.
    ProgressBar::new(1).with_style(ProgressStyle::with_template(template).expect("templates here are well formed"))
}

fn show(bar: &ProgressBar, p: Progress) -> ControlFlow<()> {
    bar.set_length(p.of);
    bar.set_position(p.done);
    bar.set_message(p.doing);
    ControlFlow::Continue(())
}

fn sweep(args: SweepArgs) -> Result<(), Error> {
    let file = TomlFile::read(&args.file)?;
    let threads = threads(&args.keys)?;
    let sweep = Sweep::read(&file, &args.keys)?;
    let out = args.out.unwrap_or_else(|| args.file.with_extension(""));
    if out == args.file {
        return Err(Error::invalid("--out", out.display(), "the file has no extension to leave out; name a directory"));
    }
    std::fs::create_dir_all(&out).map_err(|source| Error::File { path: out.clone(), source })?;
    let bar = bar("simulating   [{bar:40}] {pos}/{len} points, {eta} left");
    bar.set_length(sweep.points.len() as u64);
    let outcomes = sweep.run(threads, || bar.inc(1));
    bar.finish_and_clear();
    let outcomes = outcomes?;
    let rows = sweep::rows(&sweep, &outcomes);
    write(&out.join("sweep.csv"), &sweep::csv(&sweep, &outcomes))?;
    write(&out.join("sweep.json"), &serde_json::to_string_pretty(&rows).expect("rows hold only numbers and names"))?;
    if let Some(charts) = sweep::charts(&sweep, &outcomes) {
        for (chart, name) in charts.iter().zip(["latency.svg", "throughput.svg"]) {
            // With every point saturated there is no latency to draw.
            if chart.curves.iter().any(|(_, points)| !points.is_empty()) {
                write_chart(&out.join(name), chart)?;
            }
        }
    }
    print(args.json, &rows, || summary(&sweep, &outcomes, &out));
    Ok(())
}

fn summary(sweep: &Sweep, outcomes: &[Outcome], out: &Path) -> String {
    let titles = ["offered", "accepted", "latency", "±", "99 %", "routers"];
    let titles: Vec<String> = sweep.names.iter().cloned().chain(titles.map(|t| format!(">{t}"))).collect();
    let mut titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    titles.push("");
    let mut table = Table::new(&titles);
    for ((values, _), o) in sweep.points.iter().zip(outcomes) {
        let show = |v: Option<f64>| v.map_or("-".into(), |v| number(v, 5));
        let mut cells = values.clone();
        cells.extend([
            format!("{:.4}", o.offered_flits_per_node_cycle),
            format!("{:.4}", o.accepted_flits_per_node_cycle),
            show(o.packet_latency_cycles),
            show(o.confidence),
            number(o.latency_percentiles_cycles.p99, 6),
            show(o.mean_routers_visited),
            if o.saturated { "saturated" } else { "" }.into(),
        ]);
        table.row(&cells);
    }
    format!("{}\nsweep.csv, sweep.json and charts are in {}\n", table.render(), out.display())
}

fn reproduce(args: ReproduceArgs) -> Result<(), Error> {
    let mut cases = reproduce::references();
    if let Some(none) = args.case.iter().find(|text| !cases.iter().any(|r| r.case.contains(text.as_str()))) {
        return Err(Error::invalid("case", none, "no case has this in its name; without any, all are repeated"));
    }
    cases.retain(|r| args.case.is_empty() || args.case.iter().any(|text| r.case.contains(text.as_str())));
    let bar = bar("{msg:26} [{bar:40}] {pos}/{len} cases, {eta} left");
    bar.set_length(cases.len() as u64);
    let mut rows = Vec::new();
    for case in &cases {
        bar.set_message(case.case.clone());
        rows.push(reproduce::repeat(case)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(args.json, &rows, || reproduce::text(&rows));
    Ok(())
}

fn presets(args: PresetsArgs) -> Result<(), Error> {
    if let Some(name) = args.name {
        presets::find(&name)?;
        let preset = PRESETS.iter().find(|p| p.name == name).expect("found above");
        print!("# {}\n{}", preset.about, preset.toml);
        return Ok(());
    }
    let mut table = Table::new(&["preset", "what it is"]);
    PRESETS.iter().for_each(|p| table.row(&[p.name, p.about]));
    print!("{}", table.render());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Top {
        #[command(flatten)]
        sim: SimArgs,
    }

    fn sim_line(words: &[&str]) -> Result<(), Error> {
        sim(Top::try_parse_from(["sim"].iter().chain(words)).map_err(|e| Error::Network(e.to_string()))?.sim)
    }

    #[test]
    fn the_commands_are_well_formed() {
        use clap::CommandFactory;
        Top::command().debug_assert();
    }

    #[test]
    fn a_sweep_leaves_its_files() {
        let dir = std::env::temp_dir().join(format!("angara-sim-cli-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("small.toml");
        std::fs::write(&file, "topology = \"torus:4x4\"\nwarmup = 100\ncycles = 200\n[sweep]\nload = [0.1, 0.2]\n")
            .unwrap();
        sim_line(&["sweep", file.to_str().unwrap(), "--router", "generic", "--threads", "2"]).unwrap();
        for name in ["sweep.csv", "sweep.json", "latency.svg", "throughput.svg"] {
            assert!(dir.join("small").join(name).metadata().unwrap().len() > 0, "{name}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn bad_input_is_one_clear_error() {
        let refused = |words: &[&str]| sim_line(words).unwrap_err().to_string();
        assert!(refused(&["run", "/nonexistent.toml"]).starts_with("/nonexistent.toml: "));
        assert!(refused(&["run", "--preset", "none"]).contains("there are desmos"));
        assert!(refused(&["run", "--threads", "0"]).contains("at least 1"));
        assert!(refused(&["run", "--topology", "torus:0x4"]).contains("from 1 to 4096"));
        assert!(refused(&["run", "--pattern", "local:1"]).contains("local:RADIUS,SHARE"));
    }
}
