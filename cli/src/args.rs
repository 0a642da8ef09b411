//! The command line: subcommands. What stands before a program is read by `foreign` first.

use crate::daemon::{WhereArgs, cluster, fault, status, web};
use crate::error::Failed;
use crate::foreign::{self, Misread};
use crate::run::options::{RunArgs, after_help};
use crate::{bench, capture, demo, doctor, machine, many, report, run, top, trace, whatif};
use angara_cluster::usage::helpful;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};

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
    /// Run a program in virtual time under every combination of circumstances: tori, machines, placements, values
    Whatif(whatif::WhatIfArgs),
    /// Show daemons, their jobs, faults and link counters
    Status(status::StatusArgs),
    /// Watch a daemon at work: jobs, trunks, the hottest links
    Top(top::TopArgs),
    /// Capture packets of a running daemon's network, for Wireshark
    Capture(capture::CaptureArgs),
    /// Print the URL of a daemon's page, which shows the network at work in a browser
    Web(web::WebArgs),
    /// Print a report written by `angara run --report FILE` as tables and a heat map
    Report(report::ReportArgs),
    /// Say where the time of a timeline went that `angara run --trace FILE` has written
    Trace(trace::TraceArgs),
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
    /// Print a machine file with every key: shape, times and buffers, with units and sources
    Machine(machine::MachineArgs),
    /// Measure latency, bandwidth and collectives, next to floors and to other libraries
    Bench(bench::BenchArgs),
    /// Plan without running: barrier and matrix costs, route tables, collective trees
    Plan(angara_sim::cli::PlanArgs),
    /// Simulate networks: one load, sweeps, prepared machines
    Sim(angara_sim::cli::SimArgs),
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
    let mut command = angara();
    command.build();
    let (mut args, mut notes) = (args, Vec::new());
    if let Some(name) = args.get(1).filter(|a| *a == "run" || *a == "whatif") {
        let sub = command.find_subcommand(name).expect("declared above");
        let read = match foreign::read(sub, &args[2..]) {
            Ok(read) => read,
            Err(e) => return say_misread(e),
        };
        args.splice(2.., read.args);
        notes = read.notes;
    }
    let line = args.clone();
    let cli = match command.try_get_matches_from_mut(args).and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) => return say_usage(&helpful(e, &command)),
    };
    match cli.command {
        Sub::Run(args) => {
            say(&notes, &args);
            start(args, &line)
        }
        Sub::Whatif(args) => whatif::main(args),
        Sub::Status(args) => status::main(args),
        Sub::Top(args) => top::main(args),
        Sub::Capture(args) => capture::main(args),
        Sub::Web(args) => web::main(args),
        Sub::Report(args) => report::main(args),
        Sub::Trace(args) => trace::main(args),
        Sub::Fault(args) => fault::main(args),
        Sub::Cluster(args) => cluster::main(args),
        Sub::Shutdown(args) => status::shutdown(args),
        Sub::Doctor(args) => doctor::main(args),
        Sub::Demo(args) => demo::main(args),
        Sub::Machine(args) => machine::main(args),
        Sub::Bench(args) => bench::main(args),
        Sub::Plan(args) => Ok(angara_sim::cli::plan(args).map(|()| 0)?),
        Sub::Sim(args) => Ok(angara_sim::cli::sim(args, capture::save).map(|()| 0)?),
    }
}

/// Parses the arguments of `oshrun` and runs the program.
pub(crate) fn dispatch_oshrun(args: Vec<OsString>) -> Result<u8, Failed> {
    let mut command = oshrun();
    command.build();
    let read = match foreign::read(&command, &args[1..]) {
        Ok(read) => read,
        Err(e) => return say_misread(e),
    };
    let line: Vec<OsString> = args[..1].iter().cloned().chain(read.args).collect();
    match command.try_get_matches_from_mut(&line).and_then(|m| Oshrun::from_arg_matches(&m)) {
        Ok(oshrun) => {
            say(&read.notes, &oshrun.run);
            start(oshrun.run, &line)
        }
        Err(e) => say_usage(&helpful(e, &command)),
    }
}

/// Runs a program, once or with many seeds. `line` is the whole command line.
fn start(args: RunArgs, line: &[OsString]) -> Result<u8, Failed> {
    let Some(seeds) = args.seeds else { return run::main(args) };
    run::check(&args)?;
    many::seeds::main(seeds, line, args.quiet)
}

/// Shows the help or version that was asked for, or what is wrong with the arguments.
fn say_usage(e: &clap::Error) -> Result<u8, Failed> {
    match e.print().and_then(|()| std::io::stdout().flush()) {
        Err(failed) if !e.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => Err(Failed::output(&failed)),
        _ => Ok(e.exit_code() as u8),
    }
}

/// The same for what stands before a program.
fn say_misread(e: Misread) -> Result<u8, Failed> {
    match e {
        Misread::Unknown(e) => say_usage(&e),
        Misread::Other(e) => Err(e),
    }
}

/// Options of `angara` and its subcommands.
pub(crate) fn angara() -> Command {
    Cli::command()
}

/// Options of `oshrun`.
pub(crate) fn oshrun() -> Command {
    Oshrun::command().after_help(after_help("oshrun"))
}

/// Says what had no effect.
fn say(notes: &[String], args: &RunArgs) {
    if !args.quiet {
        notes.iter().for_each(|note| angara_protocol::complain!("angara: {note}"));
    }
}

/// Parses a command line of `angara run`, its name included; an error is text.
pub(crate) fn run_args(args: Vec<OsString>) -> Result<RunArgs, String> {
    let read = foreign::read(&oshrun(), &args[1..]).map_err(|e| e.to_string())?;
    let args = args[..1].iter().cloned().chain(read.args);
    Oshrun::try_parse_from(args).map(|o| o.run).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_well_formed() {
        Cli::command().debug_assert();
        Oshrun::command().debug_assert();
    }

    #[test]
    fn examples_call_the_launcher_as_the_user_did() {
        let mut angara = angara();
        angara.build();
        let run = angara.find_subcommand("run").expect("declared").clone();
        for (mut command, called, other) in
            [(run, "angara run -n ", "oshrun"), (oshrun(), "oshrun -n ", "angara run -n")]
        {
            let help = command.render_long_help().to_string();
            let (_, examples) = help.split_once("EXAMPLES:\n").expect("examples");
            let lines: Vec<&str> = examples.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert!(lines.len() > 1 && lines.iter().all(|line| line.starts_with(called)), "{examples}");
            assert!(!examples.contains(other), "{examples}");
        }
    }

    #[test]
    fn options_after_the_program_belong_to_it() {
        let parsed = Oshrun::try_parse_from(["oshrun", "-n", "2", "sh", "-c", "exit 3", "--label"]).unwrap();
        assert_eq!(parsed.run.command, ["sh", "-c", "exit 3", "--label"].map(OsString::from));
        assert!(!parsed.run.label);
    }
}
