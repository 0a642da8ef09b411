//! `angara sim sweep`: many simulations and their curves.

use crate::shared::keys::KeyArgs;
use crate::shared::output::{Axes, Format, print, say, write, write_charts};
use crate::shared::progress;
use angara_cli::shared::interrupt::{self, Interrupt};
use angara_cli::shared::out_file;
use angara_cli::shared::word;
use angara_sim::Error;
use angara_sim::parts::{self, About, Merged, Opened, Parts, Patience};
use angara_sim::settings::Keys;
use angara_sim::sweep::seeds::Means;
use angara_sim::sweep::{self, Row, Sweep};
use angara_sim::toml_file::TomlFile;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// TOML file with settings and a [sweep] table of lists
    file: PathBuf,
    /// Directory for sweep.csv, sweep.json and charts; processes that run the same sweep in it share the points [default:
    /// the file's name without .toml]
    #[arg(long, value_name = "DIR", value_parser = out_file())]
    out: Option<PathBuf>,
    /// Exit with status 0 as soon as no point is left for this process, and leave those that others simulate to them
    /// [default: wait for them, and take over those of processes that end]
    #[arg(long)]
    no_wait: bool,
    /// A process that has not been heard of for so long counts as ended, and its points are simulated by others
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    claim_timeout: Duration,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    shown: Shown,
}

/// How results are shown.
#[derive(Args, Debug)]
pub(crate) struct Shown {
    /// Formats of the charts
    #[arg(long, value_parser = word::<Format>(), value_delimiter = ',', value_name = "FORMATS", default_value = "svg,gnuplot")]
    charts: Vec<Format>,
    #[command(flatten)]
    axes: Axes,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads how long others may be silent.
fn timeout(text: &str) -> Result<Duration, String> {
    let ps = match text.parse::<u32>() {
        Ok(seconds) => Some(u64::from(seconds).saturating_mul(1_000_000_000_000)),
        Err(_) => angara_net::units::time(text),
    };
    let time = ps.map(|ps| Duration::from_nanos(ps / 1000));
    let bounds = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    time.filter(|time| bounds.contains(time)).ok_or_else(|| "give 1 second to 24 hours, such as 60s or 5m".into())
}

/// Runs a sweep, or what others have left of it.
pub(crate) fn main(args: SweepArgs) -> Result<(), Error> {
    let file = TomlFile::read(&args.file)?;
    let keys = Keys::from(args.keys);
    let (sweep, threads) = Sweep::read(&file, &keys)?;
    let out = args.out.unwrap_or_else(|| args.file.with_extension(""));
    if out == args.file {
        return Err(Error::invalid("--out", out.display(), "the file has no extension to leave out; name a directory"));
    }
    let about = About::of(&sweep, &file, &keys);
    let all = sweep.points.len();
    let interrupt = interrupt::watch();
    let bar = progress::bar("simulating   [{bar:40}] {pos}/{len} points, {eta} left");
    bar.set_length(all as u64);
    let shown = bar.clone();
    let patience = Patience { timeout: args.claim_timeout, waits: !args.no_wait };
    let show = move |done: usize| shown.set_position(done as u64);
    let asked = interrupt.clone();
    let parts = match Parts::open(&out, &about, patience, move || asked.asked(), show)? {
        Opened::Begun(parts) => parts,
        Opened::Complete(_) if parts::is_one_of_many() => {
            return args
                .shown
                .tell(&format!("all {all} points were finished before; results are in {}", out.display()));
        }
        Opened::Complete(rows) => {
            args.shown.write(&out, &sweep, &rows)?;
            args.shown.print(&out, &sweep, &rows)?;
            let points = out.join(parts::FINISHED);
            return args
                .shown
                .tell(&format!("all points were finished before; remove {} to repeat them", points.display()));
        }
    };
    let before = parts.progress().0;
    if before > 0 {
        angara_protocol::complain!("{before} of {all} points were finished before, in {}", parts.dir().display());
    }
    bar.reset_eta();
    let ended = work(&sweep, threads, &parts, &interrupt, &|rows| args.shown.write(&out, &sweep, rows));
    let (done, dir) = (parts.progress().0, parts.dir().to_path_buf());
    bar.finish_and_clear();
    // Claims are released before a word is said of them.
    drop(parts);
    match ended? {
        Merged::Here(rows) => args.shown.print(&out, &sweep, &rows),
        Merged::Elsewhere => args
            .shown
            .tell(&format!("all {all} points are finished; another process wrote the results in {}", out.display())),
        Merged::Soon | Merged::Damaged => {
            let left = all - done;
            let text =
                format!("{left} of {all} points are still with other processes; the last one writes the results");
            args.shown.tell(&text)
        }
        Merged::Stopped => {
            angara_protocol::complain!(
                "{done} of {all} points are in {}; the same command goes on with them",
                dir.display()
            );
            Err(Error::Interrupted("finished points were saved, a file each"))
        }
    }
}

/// Simulates what is left of a sweep; if that was all, has one process `write` the results.
fn work(
    sweep: &Sweep,
    threads: usize,
    parts: &Parts,
    interrupt: &Interrupt,
    write: &dyn Fn(&[Row]) -> Result<(), Error>,
) -> Result<Merged, Error> {
    loop {
        sweep.run(threads, parts, &|| interrupt.asked())?;
        let is_over = parts.progress().1;
        if is_over {
            return Ok(Merged::Elsewhere);
        }
        if !parts.missing().is_empty() {
            return Ok(if interrupt.asked().is_break() { Merged::Stopped } else { Merged::Soon });
        }
        match parts.merge(write)? {
            Merged::Damaged => {}
            merged => return Ok(merged),
        }
    }
}

impl Shown {
    /// Writes the files of a sweep.
    pub(crate) fn write<E>(&self, out: &Path, sweep: &Sweep<E>, rows: &[Row]) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(&sweep::json(rows)).expect("rows hold only numbers and names");
        write(&out.join("sweep.csv"), sweep::csv(&sweep.names, rows))?;
        write(&out.join("sweep.json"), json)?;
        let means = Means::of(&sweep.names, rows);
        if means.several {
            write(&out.join("sweep-mean.csv"), sweep::csv(&means.names, &means.rows))?;
        }
        for (name, chart) in sweep::charts(&means.names, &means.rows) {
            // With every point saturated there is no latency to draw.
            if chart.has_points() {
                write_charts(out, &name, &self.axes.of(chart), &self.charts)?;
            }
        }
        Ok(())
    }

    pub(crate) fn print<E>(&self, out: &Path, sweep: &Sweep<E>, rows: &[Row]) -> Result<(), Error> {
        print(self.json, &sweep::json(rows), || {
            let means = Means::of(&sweep.names, rows);
            let summary = sweep::summary(&means.names, &means.rows);
            format!("{summary}\nsweep.csv, sweep.json and charts are in {}\n", out.display())
        })
    }

    /// Says something that is no result.
    pub(crate) fn tell(&self, text: &str) -> Result<(), Error> {
        if self.json {
            angara_protocol::complain!("{text}");
            return Ok(());
        }
        say(&format!("{text}\n"))
    }
}
