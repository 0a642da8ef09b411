//! Arguments of `angara alloc`.

mod map;
mod set;

use angara_client::error::Failed;
use clap::{Args, Subcommand};

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
    /// Place processes on nodes, near those they send most to
    Map(map::MapArgs),
}

/// Does what the arguments say; the result is the exit code.
pub fn main(args: AllocArgs) -> Result<u8, Failed> {
    match args.what {
        AllocCommand::Set(args) => set::main(&args),
        AllocCommand::Map(args) => map::main(&args),
    }
}
