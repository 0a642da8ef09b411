//! The command line: subcommands, and the two spellings launchers have used for decades
//! (`-np 8`) that the parser would otherwise misread.

use crate::error::Failed;
use crate::run::options::RunArgs;
use crate::{bench, cluster, demo, doctor, fault, report, run, status};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// A software Angara: run OpenSHMEM programs on an emulated torus and look at its links.
#[derive(Parser)]
#[command(name = "angara", version, about, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // one value per process
enum Sub {
    /// Run a program as N processes (PEs) on a torus
    Run(RunArgs),
    /// Show daemons, their jobs, faults and link counters
    Status(status::StatusArgs),
    /// Print a report written by `angara run --report FILE` as tables and a heat map
    Report(report::ReportArgs),
    /// Break links and nodes of a running daemon, or mend them
    Fault(fault::FaultArgs),
    /// Write a cluster file, or show the trunks of a daemon to the other hosts
    Cluster(cluster::ClusterArgs),
    /// End a running daemon and every job on it
    Shutdown(WhereArgs),
    /// Say what this machine's kernel offers and which fallback is used where it does not
    Doctor(doctor::DoctorArgs),
    /// Compile an example, run it on 8 PEs over a 2x2x2 torus on both paths, show the traffic
    Demo(demo::DemoArgs),
    /// Measure latency, bandwidth and collectives, next to floors and to other libraries
    Bench(bench::BenchArgs),
    /// Plan without running: barrier and matrix costs, route tables, collective trees
    Plan(sim::cli::PlanArgs),
    /// Simulate networks: one load, sweeps, prepared machines
    Sim(sim::cli::SimArgs),
}

/// Which daemon a command talks to.
#[derive(Args, Clone, Default)]
pub(crate) struct WhereArgs {
    /// Runtime directory of the daemon [default: $ANGARA_RUNTIME_DIR, $XDG_RUNTIME_DIR/angara or /tmp/angara-UID]
    #[arg(long, value_name = "DIR")]
    pub(crate) runtime_dir: Option<PathBuf>,
}

impl WhereArgs {
    /// The same for an `angara run` that is started.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        self.runtime_dir.iter().flat_map(|dir| ["--runtime-dir".into(), dir.into()]).collect()
    }
}

/// The same options as `angara run`.
#[derive(Parser)]
#[command(name = "oshrun", version, about = "Run an OpenSHMEM program as N processes (PEs) on a torus")]
struct Oshrun {
    #[command(flatten)]
    run: RunArgs,
}

/// Parses the arguments of `angara` and does what they say; the result is the exit code.
pub(crate) fn dispatch(args: Vec<OsString>) -> Result<u8, Failed> {
    let mut command = Cli::command();
    command.build();
    let args = match args.iter().position(|a| a == "run") {
        Some(1) => {
            let sub = command.find_subcommand("run").expect("declared above");
            let tail = rewrite_np(sub, &args[2..]);
            args[..2].iter().cloned().chain(tail).collect()
        }
        _ => args,
    };
    let cli = Cli::from_arg_matches(&command.get_matches_from(args)).unwrap_or_else(|e| e.exit());
    match cli.command {
        Sub::Run(args) => run::main(args),
        Sub::Status(args) => status::main(args),
        Sub::Report(args) => report::main(args),
        Sub::Fault(args) => fault::main(args),
        Sub::Cluster(args) => cluster::main(args),
        Sub::Shutdown(args) => status::shutdown(args),
        Sub::Doctor(args) => doctor::main(args),
        Sub::Demo(args) => demo::main(args),
        Sub::Bench(args) => bench::main(args),
        Sub::Plan(args) => Ok(sim::cli::plan(args).map(|()| 0)?),
        Sub::Sim(args) => Ok(sim::cli::sim(args).map(|()| 0)?),
    }
}

/// Parses the arguments of `oshrun` and runs the program.
pub(crate) fn dispatch_oshrun(args: Vec<OsString>) -> Result<u8, Failed> {
    let mut command = Oshrun::command();
    command.build();
    let tail = rewrite_np(&command, &args[1..]);
    let args = args[..1].iter().cloned().chain(tail);
    let oshrun = Oshrun::from_arg_matches(&command.get_matches_from(args)).unwrap_or_else(|e| e.exit());
    run::main(oshrun.run)
}

/// Parses a command line of `angara run`, its name included; an error is text.
pub(crate) fn run_args(args: Vec<OsString>) -> Result<RunArgs, String> {
    Oshrun::try_parse_from(args).map(|o| o.run).map_err(|e| e.to_string())
}

/// Turns `-np` into `-n`, but only among the launcher's own options: the first word that is
/// neither an option nor an option's value is the program, and what follows belongs to it.
fn rewrite_np(command: &Command, args: &[OsString]) -> Vec<OsString> {
    let takes_value = |text: &str| {
        let arg = match text.strip_prefix("--") {
            Some(long) => command.get_arguments().find(|a| a.get_long() == Some(long)),
            None if text.len() == 2 => command.get_arguments().find(|a| a.get_short() == text[1..].chars().next()),
            None => None,
        };
        arg.is_some_and(|a| a.get_action().takes_values())
    };
    let mut out = Vec::with_capacity(args.len());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.to_str().unwrap_or_default();
        let option = text.len() > 1 && text.starts_with('-') && text != "--";
        if !option {
            out.push(arg.clone());
            break;
        }
        let arg = if text == "-np" { "-n".into() } else { arg.clone() };
        let takes = takes_value(arg.to_str().unwrap_or_default());
        out.push(arg);
        if takes {
            out.extend(rest.next().cloned());
        }
    }
    out.extend(rest.cloned());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let out = rewrite_np(&Oshrun::command(), &args);
        out.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn np_is_an_option_only_before_the_program() {
        assert_eq!(rewritten("-np 8 ./a -np 3"), "-n 8 ./a -np 3");
        assert_eq!(rewritten("--torus 2x2 -np 4 ./a"), "--torus 2x2 -n 4 ./a");
        assert_eq!(rewritten("--label -x A=-np -np 4 -- ./a -np"), "--label -x A=-np -n 4 -- ./a -np");
        assert_eq!(rewritten("--torus=2x2 -np 4 ./a"), "--torus=2x2 -n 4 ./a");
        assert_eq!(rewritten("-n 8 mpi -np 8"), "-n 8 mpi -np 8");
    }

    #[test]
    fn every_command_is_well_formed() {
        Cli::command().debug_assert();
        Oshrun::command().debug_assert();
    }

    #[test]
    fn options_after_the_program_belong_to_it() {
        let parsed = Oshrun::try_parse_from(["oshrun", "-n", "2", "sh", "-c", "exit 3", "--label"]).unwrap();
        assert_eq!(parsed.run.command, ["sh", "-c", "exit 3", "--label"].map(OsString::from));
        assert!(!parsed.run.label);
    }
}
