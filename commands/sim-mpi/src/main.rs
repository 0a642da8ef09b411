//! `mpiexec -n 4 angara-sim-mpi run …`: `angara sim run` by several processes, each with its part of the network.
//! Results are those of one process.

mod calls;
mod peers;

use angara_commands_sim::{RunArgs, run_among};
use angara_sim::Error;
use angara_sim::run::Together;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::Arc;

/// Simulates one network by several processes that mpiexec starts; `angara sim run` does it by one
#[derive(Parser)]
#[command(name = "angara-sim-mpi", version)]
struct Top {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Simulate one network under one load
    #[command(allow_negative_numbers = true)]
    Run(RunArgs),
}

/// Exit codes, those of `angara`.
const FAILED: u8 = 1;
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let peers = match peers::start() {
        Ok(peers) => peers,
        Err(why) => {
            angara_protocol::complain!("angara-sim-mpi: error: {why}");
            return ExitCode::from(FAILED);
        }
    };
    let together = Together::with(peers.clone());
    let first = together.is_first();
    let code = match Top::try_parse() {
        Ok(Top { what: What::Run(args) }) => run_among(args, together).map_or_else(|e| complain(&e, first), |()| 0),
        Err(e) => {
            // Standard output or error may be closed; nobody is there to be told.
            let _ = if first { e.print() } else { Ok(()) };
            if e.use_stderr() { MISUSED } else { 0 }
        }
    };
    let peers: Arc<dyn peers::Started> = peers;
    peers.finish();
    ExitCode::from(code)
}

/// Says, once for all processes, what failed; returns the exit code.
fn complain(error: &Error, first: bool) -> u8 {
    let (message, remedy, misused) = error.parts();
    if first {
        let remedy = if remedy.is_empty() { String::new() } else { format!(": {remedy}") };
        angara_protocol::complain!("angara-sim-mpi: error: {message}{remedy}");
    }
    if misused { MISUSED } else { FAILED }
}
