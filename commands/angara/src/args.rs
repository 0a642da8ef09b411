//! The command line: subcommands. What stands before a program is read by `foreign` first.

use crate::run::{say, say_misread, start};
use crate::shared::WhereArgs;
use crate::shared::beside::{self, Elsewhere, asked_for, become_program};
use crate::shared::{foreign, hints, say_usage};
use crate::{capture, cluster, demo, doctor, fault, machine, new, report, run, shutdown, status, trace, web};
use angara_control::error::Failed;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// The line of help about all of it.
const ABOUT: &str = "Run programs on an emulated Angara torus, simulate and plan such networks";

/// A software Angara: run OpenSHMEM programs on an emulated torus and look at its links.
#[derive(Parser)]
#[command(name = "angara", version, about = ABOUT, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // one value per process
enum Sub {
    /// Run a program as N processes (PEs) on a torus
    Run(run::RunArgs),
    /// Write a small project in C, C++, Rust or Python, or with MPI, that builds and runs
    New(new::NewArgs),
    #[command(about = beside::WHATIF.about, disable_help_flag = true)]
    Whatif(Elsewhere),
    #[command(about = beside::VERBS.about, disable_help_flag = true)]
    Verbs(Elsewhere),
    /// Show daemons, their jobs, faults and link counters
    Status(status::StatusArgs),
    #[command(about = beside::TOP.about, disable_help_flag = true)]
    Top(Elsewhere),
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
    #[command(about = beside::BENCH.about, disable_help_flag = true)]
    Bench(Elsewhere),
    #[command(about = beside::PLAN.about, disable_help_flag = true)]
    Plan(Elsewhere),
    #[command(about = beside::ALLOC.about, disable_help_flag = true)]
    Alloc(Elsewhere),
    #[command(about = beside::SIM.about, disable_help_flag = true)]
    Sim(Elsewhere),
}

/// Parses the arguments of `angara` and does what they say; the result is the exit code.
pub(crate) fn dispatch(args: Vec<OsString>) -> Result<u8, Failed> {
    if let Some(beside) = asked_for(&args) {
        return Err(become_program(beside, &args));
    }
    let mut command = angara();
    command.build();
    let (mut args, mut notes) = (args, Vec::new());
    if let Some(name) = args.get(1).filter(|a| *a == "run") {
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
        Err(e) => return say_usage(&hints::told(e, &command, "angara run", &line)),
    };
    match cli.command {
        Sub::Run(args) => {
            say(&notes, &args);
            start(args, &line)
        }
        Sub::New(args) => new::main(args),
        Sub::Status(args) => status::main(args),
        Sub::Capture(args) => capture::main(args),
        Sub::Web(args) => web::main(args),
        Sub::Report(args) => report::main(args),
        Sub::Trace(args) => trace::main(args),
        Sub::Fault(args) => fault::main(args),
        Sub::Cluster(args) => cluster::main(args),
        Sub::Shutdown(args) => shutdown::main(args),
        Sub::Doctor(args) => doctor::main(args),
        Sub::Demo(args) => demo::main(args),
        Sub::Machine(args) => machine::main(args),
        Sub::Alloc(_) | Sub::Bench(_) | Sub::Plan(_) | Sub::Sim(_) | Sub::Top(_) | Sub::Verbs(_) | Sub::Whatif(_) => {
            unreachable!("their programs have been asked for above")
        }
    }
}

/// Options of `angara` and its subcommands. Of those that are programs beside it only names and lines of help are there.
pub fn angara() -> Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oshrun::oshrun;

    #[test]
    fn every_command_is_well_formed() {
        Cli::command().debug_assert();
        oshrun().debug_assert();
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
}
