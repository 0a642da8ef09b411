//! `angara sim plot`: results of several sweeps in one figure.

use crate::shared::output::{Axes, Format, check_file, say, write_chart};
use angara_cli::shared::out_file;
use angara_sim::Error;
use angara_sim::sweep::{Finished, Wanted, together};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct PlotArgs {
    /// Finished sweeps: their directories, or the sweep.json in them
    #[arg(required = true, value_name = "SWEEP")]
    sweeps: Vec<PathBuf>,
    /// The figure: FILE.svg or FILE.pdf, with FILE.gp and FILE.dat for gnuplot beside it
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    out: PathBuf,
    /// What to draw: latency, throughput, or a number of sweep.json such as latency_percentiles_cycles.p99
    #[arg(long, value_name = "FIELD", default_value = "latency")]
    y: String,
    /// Swept setting of the horizontal axis [default: that of the sweeps' own charts]
    #[arg(long, value_name = "SETTING")]
    x: Option<String>,
    /// Heading [default: what is drawn]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    axes: Axes,
}

pub(crate) fn main(args: PlotArgs) -> Result<(), Error> {
    let out = &args.out;
    let known = out.extension().is_some_and(|e| ["svg", "pdf", "gp"].iter().any(|known| e == *known));
    if !known {
        return Err(Error::invalid("--out", out.display(), "give FILE.svg, FILE.pdf or FILE.gp"));
    }
    check_file("--out", out)?;
    let sweeps: Vec<Finished> = args.sweeps.iter().map(|path| Finished::read(path)).collect::<Result<_, _>>()?;
    let chart = together(&sweeps, &Wanted { y: args.y, x: args.x, title: args.title })?;
    let chart = args.axes.of(chart);
    let script = out.with_extension("gp");
    write_chart(&script, &chart)?;
    if Format::of(out) != Format::Gnuplot {
        write_chart(out, &chart)?;
    }
    let curves = chart.curves.len();
    let curves = if curves == 1 { "1 curve is".to_string() } else { format!("{curves} curves are") };
    say(&format!("{curves} in {}; gnuplot draws the same from {}\n", out.display(), script.display()))
}
