//! `angara sim`: simulations of networks.

use super::output::say;
use super::reproduce::{ReproduceArgs, reproduce};
use super::run::{RunArgs, SavePackets, run};
use super::sweep::{SweepArgs, sweep};
use crate::Error;
use crate::run::presets::{self, PRESETS};
use crate::table::Table;
use crate::workload::KINDS;
use clap::{Args, Subcommand};

/// `angara sim …`
#[derive(Args, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    what: Sim,
}

#[derive(Subcommand, Debug)]
enum Sim {
    /// Simulate one network under one load
    #[command(allow_negative_numbers = true)]
    Run(RunArgs),
    /// Simulate every combination of the values a file lists; writes CSV, JSON and SVG charts
    #[command(allow_negative_numbers = true)]
    Sweep(SweepArgs),
    /// Check what others measured or claimed: another simulator's numbers, five papers
    Reproduce(ReproduceArgs),
    /// List the prepared networks, or print one as a file to start from
    Presets(PresetsArgs),
    /// List the workloads and how they are written
    Workloads,
}

#[derive(Args, Debug)]
struct PresetsArgs {
    /// Print this one as TOML
    name: Option<String>,
}

/// Runs an `angara sim` subcommand, printing to standard output; `save_packets` writes what `--capture` asks for.
///
/// # Errors
/// Settings that do not fit together, or files that cannot be read or written.
pub fn sim(args: SimArgs, save_packets: SavePackets) -> Result<(), Error> {
    match args.what {
        Sim::Run(args) => run(args, save_packets),
        Sim::Sweep(args) => sweep(args),
        Sim::Reproduce(args) => reproduce(args),
        Sim::Presets(args) => presets(args),
        Sim::Workloads => workloads(),
    }
}

fn presets(args: PresetsArgs) -> Result<(), Error> {
    if let Some(name) = args.name {
        presets::find(&name)?;
        let preset = PRESETS.iter().find(|p| p.name == name).expect("found above");
        return say(&format!("# {}\n{}", preset.about, preset.toml));
    }
    let mut table = Table::new(&["preset", "what it is"]);
    PRESETS.iter().for_each(|p| table.row(&[p.name, p.about]));
    say(&table.render())
}

fn workloads() -> Result<(), Error> {
    let mut table = Table::new(&["workload", "what nodes do"]);
    for kind in KINDS {
        table.row(&[kind.form, kind.about]);
    }
    say(&table.render())
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
        sim(Top::try_parse_from(["sim"].iter().chain(words)).map_err(|e| Error::Network(e.to_string()))?.sim, |_, _| {
            Ok(())
        })
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
    fn another_workload_on_a_presets_machine() {
        sim_line(&["run", "--preset", "desmos", "--workload", "all-to-all:64"]).unwrap();
        sim_line(&["run", "--preset", "angara-k1", "--workload", "request-reply:2,1,3"]).unwrap();
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
