//! `angara sim reproduce`: what others say, checked.

use crate::shared::output::{Format, print, write, write_charts};
use crate::shared::progress::bar;
use angara_cli::shared::out_file;
use angara_cli::shared::word;
use angara_reproduction::{self as reproduction, QUICK_S, Reproduction, report};
use angara_sim::Error;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct ReproduceArgs {
    /// Only these: a section's number, or part of a row's name such as t8x3_L1 or hot
    row: Vec<String>,
    /// Only rows that take a fraction of a second each
    #[arg(long)]
    quick: bool,
    /// Write reproduction.md and its plots into DIR
    #[arg(long, value_name = "DIR", value_parser = out_file())]
    out: Option<PathBuf>,
    /// With --out: formats of the plots; the document shows those in SVG
    #[arg(long, value_parser = word::<Format>(), value_delimiter = ',', value_name = "FORMATS", requires = "out", default_value = "svg")]
    charts: Vec<Format>,
    /// Threads; results do not depend on them [default: 1]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: ReproduceArgs) -> Result<(), Error> {
    let threads = args.threads.unwrap_or(1);
    if threads == 0 {
        return Err(Error::invalid("threads", 0, "give at least 1"));
    }
    let mut claims = reproduction::select(&args.row)?;
    claims.retain(|c| !args.quick || c.seconds() <= QUICK_S);
    let bar = bar("{msg:28} [{bar:40}] {percent} %, {eta} left");
    bar.set_length(1000);
    let result = reproduction::run(&claims, threads, |share, job| {
        bar.set_position((1000.0 * share) as u64);
        bar.set_message(job.to_string());
    });
    bar.finish_and_clear();
    let result = result?;
    if let Some(dir) = &args.out {
        save(dir, &result, &args.charts)?;
    }
    print(args.json, &result.rows, || report::text(&result.rows))
}

fn save(dir: &Path, result: &Reproduction, formats: &[Format]) -> Result<(), Error> {
    let plots = dir.join("plots");
    std::fs::create_dir_all(&plots).map_err(|source| Error::File { path: plots.clone(), source })?;
    write(&dir.join("reproduction.md"), report::markdown(result))?;
    let name = |file: &'static str| file.trim_end_matches(".svg");
    result.plots.iter().try_for_each(|(file, chart)| write_charts(&plots, name(file), chart, formats))
}
