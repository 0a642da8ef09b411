//! The `fabricd` program: reads its options, sets up logging, runs the daemon.

use clap::Parser;
use fabricd::cluster::check::{Severity, check};
use fabricd::config::{Args, Membership, show_size};
use fabricd::{Options, run};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Exit status for bad usage or configuration, as clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let options = match args.resolve() {
        Ok(options) => options,
        Err(e) => return fail(&e, USAGE),
    };
    if args.check_config {
        return describe(&options);
    }
    let (filter, json) = args.log_filter();
    if let Err(e) = start_logging(&filter, json) {
        return fail(&e, USAGE);
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}

fn fail(e: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("fabricd: {e}");
    ExitCode::from(code)
}

fn start_logging(filter: &str, json: bool) -> Result<(), String> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|e| format!("log: `{filter}` is not a filter ({e}); write a level such as info, or fabricd=debug"))?;
    let base = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match json {
        true => base.json().init(),
        false => base.init(),
    }
    Ok(())
}

/// Says what the options mean and what the machine says to them.
fn describe(o: &Options) -> ExitCode {
    let memory = o.memory_limit.map_or("none".into(), show_size);
    println!("network       {} ({} nodes, {} hosted here)", o.shape, o.shape.nodes(), o.hosted().len());
    println!("channels      {} per node", o.channels);
    println!("runtime-dir   {}", o.runtime_dir.display());
    println!("cores         {}", if o.cores.is_empty() { "any".into() } else { format!("{:?}", o.cores) });
    println!("seed          {}", o.seed);
    println!("memory-limit  {memory}");
    for fault in &o.faults {
        println!("fault         {fault}");
    }
    let mut worst = Severity::Fine;
    if let Some(Membership { cluster, host }) = &o.cluster {
        println!("cluster       {} (hosts: {})", cluster.path.display(), cluster.hosts.len());
        println!("host          {}", cluster.hosts[*host].name);
        println!("crossing      {} links", cluster.crossings().len() / 2);
        for finding in check(cluster, *host) {
            println!("{finding}");
            worst = worst.max(finding.severity);
        }
    }
    if worst == Severity::Error {
        return fail(&"the configuration is well formed, but will not work here: see the errors above", USAGE);
    }
    println!("configuration is valid");
    ExitCode::SUCCESS
}
