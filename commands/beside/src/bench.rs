//! `angara bench`: measurements beside floors and other libraries.

use angara_bench::{self as bench, BenchArgs};
use angara_control::beside::BENCH;
use clap::Parser;

#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) enum Commands {
    #[command(about = BENCH.about)]
    Bench(BenchArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    crate::enter(BENCH, |Commands::Bench(args)| bench::main(args))
}
