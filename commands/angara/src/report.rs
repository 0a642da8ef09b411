//! `angara report`: a report file as tables, heat maps, CSV or a page.

use crate::shared::out_file;
use crate::shared::word;
use angara_control::error::{Failed, print};
use angara_control::report::times::{self, Csv};
use angara_control::report::{RunReport, compare, heat, heatmap, html, read, show};
use clap::Args;
use std::path::{Path, PathBuf};

/// Arguments of `angara report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Report written by `angara run --report`, compressed or not
    #[arg(value_name = "FILE.json[.gz]")]
    file: PathBuf,
    /// Another one: say what it has more or less than the first, of a run on the same network with as many PEs
    #[arg(value_name = "OTHER.json[.gz]")]
    other: Option<PathBuf>,
    /// Also list every pair of PEs, and every link of a large network
    #[arg(long)]
    all: bool,
    /// Only the heat maps, of one report
    #[arg(long, conflicts_with = "other")]
    heat: bool,
    /// Only a table of a run in virtual time, as CSV; of two reports with both figures and their difference
    #[arg(long, value_name = "WHAT", value_parser = word::<Csv>(), conflicts_with_all = ["all", "heat"])]
    csv: Option<Csv>,
    /// Write a page with the torus, its links and all tables to this file, for any browser; of two reports the comparison.
    /// It needs no other file and no network
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["all", "heat", "csv"], value_parser = out_file())]
    html: Option<PathBuf>,
}

/// Shows a report file.
pub(crate) fn main(args: ReportArgs) -> Result<u8, Failed> {
    let report = read(&args.file)?;
    if let Some(other) = &args.other {
        return both(&args, &report, other);
    }
    if let Some(file) = &args.html {
        return html::write(&report, &args.file, file).map(|()| 0);
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

/// Shows what another report has more or less.
fn both(args: &ReportArgs, report: &RunReport, other: &Path) -> Result<u8, Failed> {
    let names = [args.file.to_string_lossy(), other.to_string_lossy()];
    let comparison = compare((&names[0], report), (&names[1], &read(other)?))?;
    if let Some(file) = &args.html {
        return html::write_both(&comparison, [&args.file, other], file).map(|()| 0);
    }
    match args.csv {
        Some(what) => print(comparison.csv(what)?),
        None => print(comparison.document(args.all).text()),
    }
    .map(|()| 0)
}
