//! The `fabricd` program: reads its options, sets up logging, runs the daemon.
#![forbid(unsafe_code)]

use angara_cluster::Membership;
use angara_cluster::args::Args;
use angara_cluster::check::{Severity, check};
use angara_cluster::usage::helpful;
use angara_net::units::show_bytes;
use clap::{CommandFactory, Parser};
use fabricd::config::{log_filter, resolve};
use fabricd::{Options, log, run};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// Exit status for bad usage or configuration, as clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    // Programs of users are started from here, and whoever started this may have had a file open that is not for them.
    angara_protocol::trust::keep_descriptors();
    angara_cluster::signals::survive_file_size_limit();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(e) => return say_usage(&helpful(e, &Args::command())),
    };
    let options = match resolve(&args) {
        Ok(options) => options,
        Err(e) => return fail(&e, USAGE),
    };
    if args.check_config {
        return describe(&options);
    }
    let (filter, json) = log_filter(&args);
    if let Err(e) = log::start(&filter, json, || Box::new(io::stderr()), io::stderr().is_terminal()) {
        return fail(&e, USAGE);
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}

fn fail(e: &dyn std::fmt::Display, code: u8) -> ExitCode {
    angara_protocol::complain!("fabricd: {e}");
    ExitCode::from(code)
}

/// Shows the help or version that was asked for, or what is wrong with the arguments.
fn say_usage(e: &clap::Error) -> ExitCode {
    match e.print().and_then(|()| std::io::stdout().flush()) {
        Err(failed) if !e.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => fail(&no_output(&failed), 1),
        _ => ExitCode::from(e.exit_code() as u8),
    }
}

fn no_output(error: &std::io::Error) -> String {
    format!("cannot write to standard output: {error}; make room where it goes, or send it elsewhere")
}

/// Says what the options mean and what the machine says to them.
fn describe(o: &Options) -> ExitCode {
    let mut text = String::new();
    let memory = o.memory_limit.map_or("none".into(), show_bytes);
    let _ = writeln!(text, "network       {} ({} nodes, {} hosted here)", o.shape, o.shape.nodes(), o.hosted().len());
    let _ = writeln!(text, "channels      {} per node", o.channels);
    let _ = writeln!(text, "runtime-dir   {}", o.runtime_dir.display());
    let _ =
        writeln!(text, "cores         {}", if o.cores.is_empty() { "any".into() } else { format!("{:?}", o.cores) });
    let _ = writeln!(text, "seed          {}", o.seed);
    let _ = writeln!(text, "memory-limit  {memory}");
    text += &o.limits.describe();
    for fault in &o.faults {
        let _ = writeln!(text, "fault         {fault}");
    }
    let mut worst = Severity::Fine;
    if let Some(Membership { cluster, host }) = &o.cluster {
        let _ = writeln!(text, "cluster       {} (hosts: {})", cluster.path.display(), cluster.hosts.len());
        let _ = writeln!(text, "host          {}", cluster.hosts[host.index()].name);
        let _ = writeln!(text, "crossing      {} links", cluster.crossings().len());
        for finding in check(cluster, *host) {
            let _ = writeln!(text, "{finding}");
            worst = worst.max(finding.severity);
        }
    }
    if worst == Severity::Error {
        // The error below is what counts.
        let _ = angara_protocol::print::out(&text);
        return fail(&"the configuration is well formed, but will not work here: see the errors above", USAGE);
    }
    text += "configuration is valid\n";
    match angara_protocol::print::out(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&no_output(&e), 1),
    }
}
