//! The `fabricd` program: reads its options, sets up logging, runs the daemon.

use clap::Parser;
use fabricd::config::{Args, show_size};
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
        describe(&options);
        return ExitCode::SUCCESS;
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

fn describe(o: &Options) {
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
    println!("configuration is valid");
}
