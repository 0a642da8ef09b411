//! `angara trace`: what timelines say.

use angara_control::error::{Failed, print};
use angara_recordings::trace::summary;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Arguments of `angara trace`.
#[derive(Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Not a command of its own: says which one takes the file
    #[arg(value_name = "FILE.json[.gz]", hide = true)]
    file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Say where the time of a timeline went: routines, PEs, who came late, what the end waited for
    Summary(SummaryArgs),
}

/// Arguments of `angara trace summary`.
#[derive(Args)]
struct SummaryArgs {
    /// Timeline written by `angara run --trace`, compressed or not
    #[arg(value_name = "FILE.json[.gz]", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Also list what was left out of long tables
    #[arg(long)]
    all: bool,
    /// Only the time of each routine on each PE, as CSV
    #[arg(long)]
    csv: bool,
}

/// Runs `angara trace`.
pub(crate) fn main(args: TraceArgs) -> Result<u8, Failed> {
    let Some(What::Summary(args)) = args.what else {
        let file = args.file.unwrap_or_default();
        let what = format!("`angara trace` has commands, and {} is none of them", file.display());
        return Err(Failed::usage(what, format!("angara trace summary {}", file.display())));
    };
    print(summary::of_file(&args.file, args.all, args.csv)?)?;
    Ok(0)
}
