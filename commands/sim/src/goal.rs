//! `angara sim goal`: a recorded program as a GOAL schedule.

use angara_protocol::recording::Recording;
use angara_sim::Error;
use angara_sim::workload::goal;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct GoalArgs {
    /// A recording of `angara run --record`
    recording: PathBuf,
    /// The schedule
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write the binary form, as LogGOPSim's txt2bin does
    #[arg(long)]
    binary: bool,
}

pub(crate) fn main(args: GoalArgs) -> Result<(), Error> {
    goal::convert(&Recording::open(&args.recording)?, &args.out, args.binary)
}
