//! `angara sim goal`: recorded programs and GOAL schedules as one schedule, text or binary.

use angara_cli::shared::out_file;
use angara_sim::Error;
use angara_sim::workload::goal;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct GoalArgs {
    /// Recordings of `angara run --record`, or GOAL schedules, text or binary; of several, each begins on a rank when the
    /// one before has ended there
    #[arg(required = true, value_name = "FILE")]
    schedules: Vec<PathBuf>,
    /// The schedule, as text
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    out: PathBuf,
    /// Write the binary form instead, as LogGOPSim's txt2bin does
    #[arg(long)]
    binary: bool,
}

pub(crate) fn main(args: GoalArgs) -> Result<(), Error> {
    goal::convert(&args.schedules, &args.out, args.binary)
}
