//! `angara report`: a report file as tables, heat maps, CSV or a page.

use crate::shared::word;
use angara_control::error::{Failed, print};
use angara_control::report::times::{self, Csv};
use angara_control::report::{heat, heatmap, html, read, show};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `angara report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Report written by `angara run --report`, compressed or not
    #[arg(value_name = "FILE.json[.gz]")]
    file: PathBuf,
    /// Also list every pair of PEs, and every link of a large network
    #[arg(long)]
    all: bool,
    /// Only the heat maps
    #[arg(long)]
    heat: bool,
    /// Only a table of a run in virtual time, as CSV
    #[arg(long, value_name = "WHAT", value_parser = word::<Csv>(), conflicts_with_all = ["all", "heat"])]
    csv: Option<Csv>,
    /// Write a page with the torus and its links to this file, for any browser; it needs no other file and no network
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["all", "heat", "csv"])]
    html: Option<PathBuf>,
}

/// Shows a report file.
pub(crate) fn main(args: ReportArgs) -> Result<u8, Failed> {
    let report = read(&args.file)?;
    if let Some(file) = &args.html {
        return html::write(&report, file).map(|()| 0);
    }
    let colour = heatmap::colour();
    if let Some(what) = args.csv {
        let times = report.traffic.virtual_time.as_ref();
        let none =
            || Failed::usage("the report is of a run in real time", "run it with `--clock virtual --report FILE`");
        return print(times::csv(&report, times.ok_or_else(none)?, what)).map(|()| 0);
    }
    let text = if args.heat { heat(&report.traffic, colour) } else { show(&report, args.all, colour) };
    print(text).map(|()| 0)
}
