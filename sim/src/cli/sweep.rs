//! `angara sim sweep`: many simulations and their curves.

use super::output::{print, write, write_chart};
use super::{interrupt, progress};
use crate::Error;
use crate::run::Keys;
use crate::sweep::{self, Sweep};
use crate::toml_file::TomlFile;
use clap::Args;
use std::fs::File;
use std::io::Write;
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
    /// Print the results as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs a sweep. Finished points are appended to partial.jsonl at once, which is removed when all are
/// there: a sweep that was ended, however, leaves what it had.
pub(super) fn sweep(args: SweepArgs) -> Result<(), Error> {
    let file = TomlFile::read(&args.file)?;
    let (sweep, threads) = Sweep::read(&file, &args.keys)?;
    let out = args.out.unwrap_or_else(|| args.file.with_extension(""));
    if out == args.file {
        return Err(Error::invalid("--out", out.display(), "the file has no extension to leave out; name a directory"));
    }
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| Error::File { path, source }
    };
    std::fs::create_dir_all(&out).map_err(failed(&out))?;
    let partial = out.join("partial.jsonl");
    let mut log = File::create(&partial).map_err(failed(&partial))?;
    interrupt::watch();
    let bar = progress::bar("simulating   [{bar:40}] {pos}/{len} points, {eta} left");
    bar.set_length(sweep.points.len() as u64);
    let reports = sweep.run(threads, &interrupt::asked, &mut |row| {
        bar.inc(1);
        let line = serde_json::to_string(&row).expect("rows hold only numbers and names");
        writeln!(log, "{line}").map_err(failed(&partial))
    });
    bar.finish_and_clear();
    let Some(reports) = reports? else {
        angara_abi::complain!("finished points are in {}", partial.display());
        return Err(Error::Interrupted("finished points were saved, a line of JSON each"));
    };
    let rows = sweep::rows(&sweep, &reports);
    write(&out.join("sweep.csv"), &sweep::csv(&sweep, &rows))?;
    write(&out.join("sweep.json"), &serde_json::to_string_pretty(&rows).expect("rows hold only numbers and names"))?;
    for (name, chart) in sweep::charts(&sweep, &reports) {
        // With every point saturated there is no latency to draw.
        if chart.curves.iter().any(|(_, points)| !points.is_empty()) {
            write_chart(&out.join(format!("{name}.svg")), &chart)?;
        }
    }
    std::fs::remove_file(&partial).map_err(failed(&partial))?;
    print(args.json, &rows, || {
        format!("{}\nsweep.csv, sweep.json and charts are in {}\n", sweep::summary(&sweep, &reports), out.display())
    })
}
