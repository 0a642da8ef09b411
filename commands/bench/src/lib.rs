//! `angara bench`: what this machine makes of the library, next to floors and to other libraries.
#![forbid(unsafe_code)]

mod beside;
mod compare;
mod machine;
mod mpi;
mod pair;
mod run;
mod shmem;
mod sim;
mod tune;

use angara_cli::shared::beside::BENCH;
use angara_control::error::Failed;
use angara_protocol::whole_file::write_whole;
use clap::{Args, Parser, Subcommand};
use std::path::Path;

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara bench`.
    #[command(about = BENCH.about)]
    Bench(BenchArgs),
}

/// Entry of the program `angara-bench`. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(BENCH, |Commands::Bench(args)| measure(args))
}

/// Arguments of `angara bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    which: Option<Which>,
    #[command(flatten)]
    shmem: shmem::ShmemArgs,
}

#[derive(Subcommand)]
enum Which {
    /// Measure OpenSHMEM: latency, rate, bandwidth, collectives, start-up (as `angara bench` alone does)
    Shmem(shmem::ShmemArgs),
    /// Measure an MPI library on this network beside the same library on others
    Mpi(mpi::MpiArgs),
    /// Measure the network model: speed, memory and threads of simulations, with their accuracy
    Sim(sim::SimArgs),
    /// Measure emulated machines by real programs in virtual time, beside what is published
    Machine(machine::MachineArgs),
}

/// Measures and shows.
fn measure(args: BenchArgs) -> Result<u8, Failed> {
    match args.which {
        None => shmem::main(args.shmem),
        Some(Which::Shmem(args)) => shmem::main(args),
        Some(Which::Mpi(args)) => mpi::main(args),
        Some(Which::Sim(args)) => sim::main(args),
        Some(Which::Machine(args)) => machine::main(args),
    }
}

/// Writes what an option asked for.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    write_whole(file, text).map_err(|e| Failed::unwritten(file.display(), &e))
}
