//! `angara bench`: what this machine makes of the library, next to floors and to other libraries.

mod compare;
mod shmem;

use crate::error::Failed;
use clap::{Args, Subcommand};

/// Arguments of `angara bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    which: Option<Which>,
    #[command(flatten)]
    shmem: shmem::ShmemArgs,
}

#[derive(Subcommand)]
enum Which {
    /// OpenSHMEM: latency, message rate, bandwidth, collectives and start-up (what `angara bench` alone does)
    Shmem(shmem::ShmemArgs),
}

/// Measures and shows.
pub(crate) fn main(args: BenchArgs) -> Result<u8, Failed> {
    match args.which {
        None => shmem::main(args.shmem),
        Some(Which::Shmem(args)) => shmem::main(args),
    }
}
