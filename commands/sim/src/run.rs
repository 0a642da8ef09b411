//! `angara sim run`: one simulation and everything it can show.

use crate::shared::keys::KeyArgs;
use crate::shared::output::{Axes, Format, check_file, print, write, write_chart, write_charts};
use crate::shared::{packets, progress};
use angara_cli::shared::out_file;
use angara_cli::shared::{interrupt, word};
use angara_model::Profile;
use angara_net::torus::Shape;
use angara_net::units::whole;
use angara_sim::Error;
use angara_sim::booksim::Booksim;
use angara_sim::observe::{Capture, Every, heat, timeline};
use angara_sim::run::{Experiment, Together};
use angara_sim::settings::{Keys, presets};
use angara_sim::toml_file::TomlFile;
use angara_sim::workload::{Report, Shows};
use clap::Args;
use indicatif::ProgressDrawTarget;
use std::path::{Path, PathBuf};

/// `angara sim run …`
#[derive(Args, Debug)]
pub struct RunArgs {
    /// TOML file with settings, the same names as the options below without the dashes
    file: Option<PathBuf>,
    /// Start from a prepared network (see `angara sim presets`); file and options win over it
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Start from a configuration of BookSim 2; file and options win over it, and what is different here is said
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    booksim: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Files to write")]
    files: Files,
}

#[derive(Args, Debug)]
struct Files {
    /// Everything into a directory: result.json, charts, and links.svg and links.csv
    #[arg(long, value_name = "DIR", value_parser = out_file())]
    out: Option<PathBuf>,
    /// With --out: formats of the charts
    #[arg(
        long,
        value_parser = word::<Format>(),
        value_delimiter = ',',
        value_name = "FORMATS",
        requires = "out",
        default_value = "svg,gnuplot"
    )]
    charts: Vec<Format>,
    /// With --out: series.csv and series-links.csv, what the network and each link carried, held and kept waiting in every
    /// N cycles
    #[arg(long, value_name = "N", requires = "out", value_parser = whole::<u64>(1..=1_000_000_000))]
    series: Option<u64>,
    #[command(flatten)]
    axes: Axes,
    /// Distribution of latencies: SVG, PDF (FILE.pdf), a script of gnuplot (FILE.gp) or numbers (FILE.csv)
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    histogram: Option<PathBuf>,
    /// Load of every link: SVG, PDF (FILE.pdf) or numbers (FILE.csv)
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    heat_map: Option<PathBuf>,
    /// Ways of the packets followed with --trace, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    chrome_trace: Option<PathBuf>,
    /// Packets for Wireshark, as `angara capture` writes them: each wherever something happens to it, from the beginning on
    #[arg(long, value_name = "FILE.pcapng", value_parser = out_file())]
    capture: Option<PathBuf>,
    /// With --capture: number of packets to end after, 80 bytes of memory each
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "capture",
          value_parser = whole::<u64>(1..=100_000_000))]
    capture_count: u64,
}

/// Runs one simulation.
pub(crate) fn main(args: RunArgs) -> Result<(), Error> {
    run_as(args, Together::default())
}

/// Runs one simulation, this process its part of it. The first process prints and writes files.
///
/// # Errors
/// Settings that do not fit together or that several processes cannot simulate, or files that cannot be read or
/// written.
pub fn run_among(args: RunArgs, together: Together) -> Result<(), Error> {
    if let Some(path) = &args.files.capture {
        let why = "packets are captured by one process; use `angara sim run`";
        return Err(Error::invalid("--capture", path.display(), why));
    }
    run_as(args, together)
}

fn run_as(args: RunArgs, together: Together) -> Result<(), Error> {
    let file = args.file.as_deref().map(TomlFile::read).transpose()?;
    let from_file = file.as_ref().map(TomlFile::parse::<Keys>).transpose()?.unwrap_or_default();
    let flags = Keys::from(args.keys);
    let given = flags.clone().over(from_file);
    let (keys, booksim) = over(given.clone(), args.preset.as_deref(), args.booksim.as_deref())?;
    let mut simulation = keys.resolve().map_err(|(e, key)| match (&file, &booksim) {
        // The file is not to blame for the value of an option.
        (Some(file), _) if given.gives(key) && !flags.gives(key) => file.locate(e, Some(key)),
        (_, Some(booksim)) if !given.gives(key) => booksim.locate(e, key),
        _ => e,
    })?;
    let files = args.files;
    let experiment = &mut simulation.experiment;
    if files.chrome_trace.is_some() && experiment.observe.packets.is_none() {
        return Err(Error::invalid("--chrome-trace", "given", "name the packets to follow, such as --trace 0..10"));
    }
    check_files(&files, experiment, simulation.workload.workload.shows())?;
    experiment.observe.links = files.heat_map.is_some() || files.out.is_some();
    experiment.observe.capture = capture(&files, experiment)?;
    let series = files.series.zip(files.out.clone());
    experiment.observe.series = series.map(|(cycles, dir)| Every { cycles, dir });
    let first = together.is_first();
    if let Some(booksim) = booksim.filter(|_| first) {
        booksim.differences.iter().for_each(|difference| angara_protocol::complain!("note: {difference}"));
    }
    if together.count() > 1 {
        simulation.among(together)?;
    }
    if let Some(dir) = files.out.as_ref().filter(|_| first) {
        std::fs::create_dir_all(dir).map_err(|source| Error::File { path: dir.clone(), source })?;
    }
    let interrupt = interrupt::watch();
    let bar = progress::bar("{msg:12} [{bar:40}] {percent:>3} %, {eta} left");
    if !first {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let report = simulation.run(&mut |p| {
        progress::show(&bar, p);
        interrupt.asked()
    });
    bar.finish_and_clear();
    let mut report = report?;
    if !first {
        return ended(&report);
    }
    let experiment = &simulation.experiment;
    timeline::add_ways(experiment, &mut report);
    // A file that cannot be written must not cost the result of a long run.
    print(args.json, &report.json, || report.text.clone())?;
    save(&files, experiment, &report)?;
    if let (Some(path), Some(capture)) = (&files.capture, &experiment.observe.capture) {
        packets::save(path, &capture.captured()).map_err(|source| Error::File { path: path.clone(), source })?;
    }
    ended(&report)
}

/// The settings `given`, and where none is given those of a preset or a configuration of BookSim.
fn over(given: Keys, preset: Option<&str>, booksim: Option<&Path>) -> Result<(Keys, Option<Booksim>), Error> {
    match (preset, booksim) {
        (Some(name), _) => Ok((presets::under(given, name)?, None)),
        (None, Some(path)) => {
            let booksim = Booksim::read(path)?;
            Ok((presets::over(given, booksim.keys()?), Some(booksim)))
        }
        (None, None) => Ok((given, None)),
    }
}

/// An error if the user ended the run.
fn ended(report: &Report) -> Result<(), Error> {
    match report.json.get("interrupted") {
        Some(serde_json::Value::Bool(true)) => Err(Error::Interrupted("the results are those of the cycles simulated")),
        _ => Ok(()),
    }
}

/// Refuses, before the run, files that it could not write in the end.
fn check_files(files: &Files, experiment: &Experiment, shown: Shows) -> Result<(), Error> {
    let asked = [
        ("--histogram", &files.histogram, shown.histogram, "this workload has none; leave it out"),
        ("--heat-map", &files.heat_map, shown.links, "this workload does not count links; leave it out"),
        ("--chrome-trace", &files.chrome_trace, true, ""),
        ("--capture", &files.capture, shown.packets, "this workload simulates several networks; leave it out"),
    ];
    if let Some(cycles) = files.series.filter(|_| experiment.find_saturation.is_some() || !shown.links) {
        let why = "the links of one network are watched, and here there are several or none; leave it out";
        return Err(Error::invalid("--series", cycles, why));
    }
    for (option, path, can, why) in asked {
        let Some(path) = path else { continue };
        if experiment.find_saturation.is_some() {
            let why = "find-saturation simulates several networks; leave it out";
            return Err(Error::invalid(option, path.display(), why));
        }
        if !can {
            return Err(Error::invalid(option, path.display(), why));
        }
        check_file(option, path)?;
        if option == "--heat-map" && Format::of(path) == Format::Gnuplot {
            return Err(Error::invalid(option, path.display(), "give FILE.svg, FILE.pdf or FILE.csv"));
        }
    }
    Ok(())
}

/// The capture that is asked for, where packets can be captured.
fn capture(files: &Files, experiment: &Experiment) -> Result<Option<Capture>, Error> {
    let Some(path) = &files.capture else { return Ok(None) };
    let refuse = |why: &str| Err(Error::invalid("--capture", path.display(), why));
    if !matches!(experiment.network.profile, Profile::Angara(_)) {
        return refuse("packets of the generic router have no header; give --router angara");
    }
    if experiment.threads > 1 {
        return refuse("packets are captured by one thread; give --threads 1");
    }
    let topology = &experiment.settings.topology;
    match topology.strip_prefix("torus:").unwrap_or(topology).parse::<Shape>() {
        Ok(shape) => Ok(Some(Capture::new(shape, files.capture_count))),
        Err(e) => refuse(&format!("headers name nodes of the chip's shapes only: {e}")),
    }
}

fn save(files: &Files, experiment: &Experiment, report: &Report) -> Result<(), Error> {
    let is_csv = |path: &Path| path.extension().is_some_and(|e| e == "csv");
    if let Some(path) = &files.histogram {
        let chart = &report.charts.iter().find(|(name, _)| name == "histogram").expect("checked before the run").1;
        let chart = files.axes.of(chart.clone());
        if is_csv(path) { write(path, chart.csv())? } else { write_chart(path, &chart)? }
    }
    if let Some(path) = &files.heat_map {
        let links = report.observed.links.as_ref().expect("checked before the run");
        match Format::of(path) {
            _ if is_csv(path) => write(path, links.csv())?,
            Format::Pdf => write(path, heat::pdf(links))?,
            _ => write(path, heat::svg(links))?,
        }
    }
    if let Some(path) = &files.chrome_trace {
        let trace = timeline::chrome(&experiment.network.shape, &report.observed.ways);
        write(path, serde_json::to_string(&trace).expect("a trace holds only numbers and names"))?;
    }
    let Some(dir) = &files.out else { return Ok(()) };
    let json = serde_json::to_string_pretty(&report.json).expect("reports hold only numbers and names");
    write(&dir.join("result.json"), &json)?;
    for (name, chart) in &report.charts {
        // A run in which nothing arrived has nothing to draw.
        if chart.has_points() {
            write_charts(dir, name, &files.axes.of(chart.clone()), &files.charts)?;
            write(&dir.join(format!("{name}.csv")), chart.csv())?;
        }
    }
    for (name, text) in &report.files {
        write(&dir.join(name), text)?;
    }
    if let Some(links) = &report.observed.links {
        if files.charts.contains(&Format::Svg) {
            write(&dir.join("links.svg"), heat::svg(links))?;
        }
        if files.charts.contains(&Format::Pdf) {
            write(&dir.join("links.pdf"), heat::pdf(links))?;
        }
        write(&dir.join("links.csv"), links.csv())?;
    }
    Ok(())
}
