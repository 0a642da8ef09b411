//! `angara sim sweep`: many simulations and their curves.

use super::output::{Axes, Format, print, write, write_charts};
use super::{interrupt, progress};
use crate::Error;
use crate::partial::Partial;
use crate::run::Keys;
use crate::sweep::{self, Sweep};
use crate::toml_file::TomlFile;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct SweepArgs {
    /// TOML file with settings and a [sweep] table of lists
    file: PathBuf,
    /// Directory for sweep.csv, sweep.json and charts [default: the file's name without .toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
    /// Formats of the charts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS", default_value = "svg,gnuplot")]
    charts: Vec<Format>,
    #[command(flatten)]
    axes: Axes,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs a sweep. Finished points are appended to partial.jsonl at once, which is removed when all are there. A sweep that
/// was ended, however, goes on with what it had.
pub(super) fn sweep(args: SweepArgs) -> Result<(), Error> {
    let file = TomlFile::read(&args.file)?;
    let (sweep, threads) = Sweep::read(&file, &args.keys)?;
    let out = args.out.unwrap_or_else(|| args.file.with_extension(""));
    if out == args.file {
        return Err(Error::invalid("--out", out.display(), "the file has no extension to leave out; name a directory"));
    }
    std::fs::create_dir_all(&out).map_err(|source| Error::File { path: out.clone(), source })?;
    let (path, all) = (out.join("partial.jsonl"), sweep.points.len());
    let (mut partial, finished) = Partial::open(&path, &sweep)?;
    let before = finished.iter().flatten().count();
    if before > 0 {
        angara_protocol::complain!("{before} of {all} points were finished before, in {}", path.display());
    }
    interrupt::watch();
    let bar = progress::bar("simulating   [{bar:40}] {pos}/{len} points, {eta} left");
    bar.set_length(all as u64);
    bar.set_position(before as u64);
    bar.reset_eta();
    let rows = sweep.run(threads, finished, &interrupt::asked, &mut |point, row| {
        bar.inc(1);
        partial.keep(point, row)
    });
    let done = bar.position();
    bar.finish_and_clear();
    let Some(rows) = rows? else {
        angara_protocol::complain!(
            "{done} of {all} points are in {}; the same command goes on with them",
            path.display()
        );
        return Err(Error::Interrupted("finished points were saved, a line of JSON each"));
    };
    let json = sweep::json(&rows);
    write(&out.join("sweep.csv"), sweep::csv(&sweep.names, &rows))?;
    write(&out.join("sweep.json"), serde_json::to_string_pretty(&json).expect("rows hold only numbers and names"))?;
    let means = sweep::seeds::averaged(&rows);
    let mut names = sweep.names.clone();
    if let Some(means) = &means {
        names.retain(|name| name != "seed");
        write(&out.join("sweep-mean.csv"), sweep::csv(&names, means))?;
    }
    let shown = means.as_deref().unwrap_or(&rows);
    for (name, chart) in sweep::charts(&names, shown) {
        // With every point saturated there is no latency to draw.
        if chart.has_points() {
            write_charts(&out, &name, &args.axes.of(chart), &args.charts)?;
        }
    }
    partial.remove()?;
    print(args.json, &json, || {
        format!("{}\nsweep.csv, sweep.json and charts are in {}\n", sweep::summary(&names, shown), out.display())
    })
}
