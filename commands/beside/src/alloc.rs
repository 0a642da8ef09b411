//! `angara alloc`: which nodes of a torus a job gets.

use angara_batch::cli::{self, AllocArgs};
use angara_control::beside::ALLOC;
use clap::Parser;

#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) enum Commands {
    #[command(about = ALLOC.about)]
    Alloc(AllocArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    crate::enter(ALLOC, |Commands::Alloc(args)| cli::main(args))
}
