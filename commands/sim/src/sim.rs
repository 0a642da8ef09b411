//! `angara sim`: simulations of networks.

use crate::{booksim, goal, merge, plot, presets, reproduce, run, sweep, workloads};
use angara_sim::Error;
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
    Run(run::RunArgs),
    /// Simulate every combination of the values a file lists; writes CSV, JSON and charts
    #[command(allow_negative_numbers = true)]
    Sweep(sweep::SweepArgs),
    /// Write the results of a sweep again, or those that a cluster has left in parts
    Merge(merge::MergeArgs),
    /// Draw the results of several sweeps in one figure
    Plot(plot::PlotArgs),
    /// Check what others measured or claimed: another simulator's numbers, five papers
    Reproduce(reproduce::ReproduceArgs),
    /// List the prepared networks, or print one as a file to start from
    Presets(presets::PresetsArgs),
    /// Print a configuration of BookSim 2 as a file to start from, with what is different here
    Booksim(booksim::BooksimArgs),
    /// Write a recorded program as a GOAL schedule, for LogGOPSim, ATLAHS or --workload goal:FILE
    Goal(goal::GoalArgs),
    /// List the workloads and how they are written
    Workloads,
}

/// Runs an `angara sim` subcommand, printing to standard output.
///
/// # Errors
/// Settings that do not fit together, or files that cannot be read or written.
pub(crate) fn main(args: SimArgs) -> Result<(), Error> {
    match args.what {
        Sim::Run(args) => run::main(args),
        Sim::Sweep(args) => sweep::main(args),
        Sim::Merge(args) => merge::main(args),
        Sim::Plot(args) => plot::main(args),
        Sim::Reproduce(args) => reproduce::main(args),
        Sim::Presets(args) => presets::main(args),
        Sim::Booksim(args) => booksim::main(args),
        Sim::Goal(args) => goal::main(args),
        Sim::Workloads => workloads::main(),
    }
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
        main(Top::try_parse_from(["sim"].iter().chain(words)).map_err(|e| Error::Network(e.to_string()))?.sim)
    }

    #[test]
    fn the_commands_are_well_formed() {
        use clap::CommandFactory;
        Top::command().debug_assert();
    }

    fn path_of(dir: &std::path::Path, name: &str) -> String {
        dir.join(name).to_str().unwrap().into()
    }

    #[test]
    fn a_runs_pictures_are_in_the_formats_of_their_names() {
        let dir = std::env::temp_dir().join(format!("angara-sim-formats-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let begins = |name: &str| std::fs::read(dir.join(name)).unwrap()[..4].to_vec();
        let run = |words: &[&str]| {
            sim_line(&[&["run", "--topology", "torus:4x4", "--warmup", "10", "--cycles", "2000"], words].concat())
        };
        for (histogram, heat) in [("h.svg", "l.svg"), ("h.pdf", "l.pdf"), ("h.csv", "l.csv"), ("h.gp", "l.svg")] {
            run(&["--histogram", &path_of(&dir, histogram), "--heat-map", &path_of(&dir, heat)]).unwrap();
        }
        assert_eq!([begins("h.svg"), begins("l.svg"), begins("h.pdf"), begins("l.pdf")].concat(), b"<svg<svg%PDF%PDF");
        assert!(std::fs::read_to_string(dir.join("h.gp")).unwrap().contains("set logscale y"));
        run(&["--histogram", &path_of(&dir, "h.gp"), "--y-axis", "zero"]).unwrap();
        assert!(!std::fs::read_to_string(dir.join("h.gp")).unwrap().contains("set logscale y"));
        let e = run(&["--heat-map", &path_of(&dir, "l.gp")]).unwrap_err().to_string();
        assert!(e.ends_with("give FILE.svg, FILE.pdf or FILE.csv"), "{e}");

        run(&["--out", &path_of(&dir, "all"), "--charts", "pdf,gnuplot"]).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(dir.join("all"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let histogram = ["histogram.csv", "histogram.dat", "histogram.gp", "histogram.pdf"];
        assert_eq!(names, [&histogram[..], &["links.csv", "links.pdf", "result.json"]].concat());
        let e = run(&["--charts", "png"]).unwrap_err().to_string();
        assert!(e.contains("'png'") && e.contains("gnuplot"), "{e}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_sweep_leaves_its_files() {
        let dir = std::env::temp_dir().join(format!("angara-sim-cli-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("small.toml");
        std::fs::write(&file, "topology = \"torus:4x4\"\nwarmup = 100\ncycles = 200\n[sweep]\nload = [0.1, 0.2]\n")
            .unwrap();
        sim_line(&["sweep", file.to_str().unwrap(), "--router", "generic", "--threads", "2"]).unwrap();
        let written = |names: &[&str]| {
            for name in names {
                assert!(dir.join(name).metadata().is_ok_and(|m| m.len() > 0), "{name}");
            }
        };
        written(&["small/sweep.csv", "small/sweep.json", "small/latency.svg", "small/throughput.svg"]);
        written(&["small/latency.gp", "small/latency.dat", "small/throughput.gp", "small/throughput.dat"]);
        assert!(!dir.join("small/latency.pdf").exists());

        // Its results are drawn again, with those of another one.
        let (path, again) = (|name: &str| dir.join(name).to_str().unwrap().to_string(), path_of(&dir, "again"));
        let words = [
            "sweep",
            &path("small.toml"),
            "--router",
            "generic",
            "--out",
            &again,
            "--charts",
            "pdf",
            "--y-axis",
            "log",
        ];
        sim_line(&words).unwrap();
        written(&["again/latency.pdf", "again/throughput.pdf"]);
        assert!(!dir.join("again/latency.svg").exists() && !dir.join("again/latency.gp").exists());
        for figure in ["both.svg", "both.pdf", "both.gp"] {
            sim_line(&["plot", &path("small"), &again, "--out", &path(figure), "--x-axis", "zero"]).unwrap();
            written(&[figure, "both.gp", "both.dat"]);
        }
        let script = std::fs::read_to_string(dir.join("both.gp")).unwrap();
        assert!(script.contains("title 'small'") && script.contains("title 'again'"), "{script}");
        let refused = |out: &str| sim_line(&["plot", &path("small"), "--out", out]).unwrap_err().to_string();
        assert!(refused("both.png").ends_with("give FILE.svg, FILE.pdf or FILE.gp"));
        assert!(refused("/nonexistent/both.svg").ends_with("give a file in a directory that exists"));
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
