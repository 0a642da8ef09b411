//! `angara alloc`: which nodes of a torus a job gets. A file here has a subcommand; searches are in `placement`, queues and
//! Slurm in `batch`.
#![forbid(unsafe_code)]

mod machine;
mod map;
mod set;
mod simulate;
mod slurm;

use angara_cli::shared::beside::ALLOC;
use angara_control::error::Failed;
use clap::{Args, Parser, Subcommand};

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara alloc`.
    #[command(about = ALLOC.about)]
    Alloc(AllocArgs),
}

/// Entry of the program `angara-alloc`. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(ALLOC, |Commands::Alloc(args)| alloc(args))
}

/// `angara alloc …`
#[derive(Args, Debug)]
pub struct AllocArgs {
    #[command(subcommand)]
    what: AllocCommand,
}

#[derive(Subcommand, Debug)]
enum AllocCommand {
    /// Find a set of free nodes in a torus with dead and busy parts
    Set(set::SetArgs),
    /// Tell whether all pairs of given nodes have routes among them, and how evenly these load links
    Check(set::CheckArgs),
    /// Simulate a batch queue: use of a torus by schedulers and searches for sets, and waits of jobs
    Simulate(Box<simulate::SimulateArgs>),
    /// Place processes on nodes, near those they send most to
    Map(map::MapArgs),
    /// Choose the nodes of Slurm jobs that were submitted on hold, and release them
    Slurm(slurm::SlurmArgs),
}

/// Does what the arguments say; the result is the exit code.
fn alloc(args: AllocArgs) -> Result<u8, Failed> {
    match args.what {
        AllocCommand::Set(args) => set::set(&args),
        AllocCommand::Check(args) => set::check(&args),
        AllocCommand::Simulate(args) => simulate::main(&args),
        AllocCommand::Map(args) => map::main(&args),
        AllocCommand::Slurm(args) => slurm::main(&args),
    }
}
