//! `angara alloc simulate`: arguments, and what is printed and written.

mod runs;

use super::machine::{MachineArgs, Policy};
use angara_batch::queue::lublin::{self, Wanted};
use angara_batch::queue::metrics::{self, Figure, class_name};
use angara_batch::queue::picture::Picture;
use angara_batch::queue::swf::{self, Line, Notes, Oversized, Reading, Record};
use angara_batch::queue::{Job, Outcome};
use angara_cli::shared::interrupt;
use angara_cli::shared::out_file;
use angara_cli::shared::word;
use angara_control::error::{Failed, print, print_json};
use angara_control::report::table::Table;
use angara_net::units;
use angara_placement::Machine;
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use runs::{Finished, Row, Scheduling, Work};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// In which order waiting jobs start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Order {
    /// First come, first served: nobody overtakes
    Fcfs,
    /// EASY backfilling: later jobs overtake where they do not delay the first one, for which a set of nodes is reserved
    Easy,
    /// Conservative backfilling: later jobs overtake where they delay none of the earlier ones, for each of which a set of
    /// nodes is reserved
    Conservative,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("jobs").required(true).args(["log", "lublin"]))]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Jobs of a log in the Standard Workload Format, plain or compressed (.gz)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// That many jobs of the Lublin-Feitelson model for a machine of this size
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    lublin: Option<u32>,
    /// Load of the model: node-seconds of all jobs by those of the machine until the last submission; times between
    /// submissions are scaled to it [default: as the model has it, whatever the machine]
    #[arg(long, value_name = "LOAD", conflicts_with = "log", value_parser = load)]
    load: Option<f64>,
    /// Users of the model estimate run times uniformly from 1 to 1 + FACTOR times the true one
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor, conflicts_with = "log")]
    overestimate: f64,
    /// Seeds of the model, `FIRST..LAST` or a list: one run each, and means with 95 % confidence intervals
    #[arg(long, value_name = "SEEDS", default_value = "1", value_parser = seeds, conflicts_with = "log")]
    seeds: Seeds,
    /// Processors of a node: logs count processors
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "lublin",
          value_parser = clap::value_parser!(u16).range(1..))]
    processors_per_node: u16,
    /// Jobs of the log that are larger than the machine
    #[arg(long, value_parser = word::<Oversized>(), default_value = "refuse", conflicts_with = "lublin")]
    oversized: Oversized,
    /// In which order waiting jobs start; a list gives one row each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "easy")]
    scheduler: Vec<Order>,
    /// How sets are searched for; a list gives one row each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "first-fit-box")]
    policy: Vec<Policy>,
    /// Jobs of the queue that conservative backfilling plans for; later ones wait without a reservation
    #[arg(long, value_name = "JOBS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    reservations: u32,
    /// Share of the jobs at either end that metrics leave out, while the machine fills and empties
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = cut)]
    cut: f64,
    /// At most about N instants of a run at which the largest free box is looked for
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    samples: u32,
    /// Threads, for runs side by side [default: cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the machine over time into this file; one scheduler, policy and seed
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    svg: Option<PathBuf>,
    /// Jobs during whose submission the machine is drawn, from the middle of the log
    #[arg(long, value_name = "JOBS", default_value_t = 500, requires = "svg",
          value_parser = clap::value_parser!(u32).range(2..=5000))]
    svg_jobs: u32,
    /// Write the jobs with their simulated waits as a log into this file (.gz: compressed), or with - to standard output,
    /// and what else is printed to standard error; one scheduler, policy and seed
    #[arg(long, value_name = "FILE|-")]
    write_swf: Option<PathBuf>,
}

/// The file name that means standard output.
const STDOUT: &str = "-";

/// Standard output, of which a reader may have seen enough.
struct Piped<W>(W);

impl<W: Write> Write for Piped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.write(bytes) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self.0.flush() {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Seeds in the order in which they were given.
#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

fn seeds(text: &str) -> Result<Seeds, String> {
    let bad = || "give numbers, such as 1,2,9, or 1..5 for at most 1000".to_string();
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| bad());
    let Some((first, last)) = text.split_once("..") else {
        return text.split(',').map(number).collect::<Result<_, _>>().map(Seeds);
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last - first >= 1000 {
        return Err(bad());
    }
    Ok(Seeds((first..=last).collect()))
}

/// A number between two bounds.
fn bounded(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let number = units::fraction(text).filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("give a number from {low} to {high}, or per cent"))
}

fn load(text: &str) -> Result<f64, String> {
    bounded(text, 0.01, 10.0)
}

fn factor(text: &str) -> Result<f64, String> {
    bounded(text, 0.0, 1000.0)
}

fn cut(text: &str) -> Result<f64, String> {
    let value = units::fraction(text).filter(|share| (0.0..=0.45).contains(share));
    value.ok_or_else(|| "give a share from 0 to 0.45, such as 0.05 or 5%".into())
}

#[derive(Serialize)]
struct Printed<'a> {
    torus: String,
    working_nodes: usize,
    jobs: usize,
    /// What was left out of a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<Notes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seeds: Option<&'a [u64]>,
    cut: f64,
    rows: &'a [Row],
}

/// Does what the arguments say.
pub(crate) fn main(args: &SimulateArgs) -> Result<u8, Failed> {
    let machine = args.machine.machine()?;
    if machine.working() == 0 {
        return Err(Failed::usage(format!("no node of {} works", machine.shape()), "leave out some --fault"));
    }
    args.one_if_written()?;
    let (logs, notes) = args.jobs(&machine)?;
    let work = args.work(&machine, &logs);
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let interrupt = interrupt::watch();
    let done = work.run(args.threads.map_or_else(cores, usize::from), &interrupt)?;
    let Some(Finished { rows, kept }) = done else {
        angara_protocol::complain!("interrupted; no result was written");
        return Ok(interrupt.status().unwrap_or(130));
    };
    if let Some(outcome) = &kept {
        args.write(&machine, &logs[0], outcome, work.span)?;
    }
    args.print(&machine, &logs, notes, &rows)?;
    Ok(0)
}

/// The time in which N jobs in the middle are submitted.
fn middle(jobs: &[Job], count: usize) -> (u64, u64) {
    if jobs.len() <= count {
        let last = jobs.iter().map(|job| job.submit + job.run).max().unwrap_or(0);
        return (0, last);
    }
    let first = (jobs.len() - count) / 2;
    (jobs[first].submit, jobs[first + count - 1].submit.max(jobs[first].submit + 1))
}

impl SimulateArgs {
    /// Drawings and logs show one run.
    fn one_if_written(&self) -> Result<(), Failed> {
        let runs = self.scheduler.len() * self.policy.len() * self.seeds.0.len();
        let option = [(&self.svg, "--svg"), (&self.write_swf, "--write-swf")].into_iter().find(|o| o.0.is_some());
        match option {
            Some((_, name)) if runs > 1 => Err(Failed::usage(
                format!("{name} shows one run, and these are {runs}"),
                "give one --scheduler, one --policy and one seed (--seeds)",
            )),
            _ => Ok(()),
        }
    }

    fn work<'a>(&'a self, machine: &'a Machine, logs: &'a [Vec<Job>]) -> Work<'a> {
        Work {
            machine,
            logs,
            orders: &self.scheduler,
            policies: &self.policy,
            scheduling: Scheduling {
                reservations: self.reservations as usize,
                samples: self.samples as usize,
                cut: self.cut,
            },
            span: self.svg.as_ref().map(|_| middle(&logs[0], self.svg_jobs as usize)),
            keeps: self.svg.is_some() || self.write_swf.is_some(),
        }
    }

    fn reading(&self, machine: &Machine) -> Reading {
        let processors = usize::from(self.processors_per_node);
        Reading { nodes: machine.working(), processors, oversized: self.oversized }
    }

    /// The jobs of each seed, or those of the log.
    fn jobs(&self, machine: &Machine) -> Result<(Vec<Vec<Job>>, Option<Notes>), Failed> {
        if let Some(path) = &self.log {
            let (jobs, notes) = swf::jobs(path, &self.reading(machine))?;
            return Ok((vec![jobs], Some(notes)));
        }
        let jobs = self.lublin.expect("clap wants one of both") as usize;
        let wanted =
            |seed| Wanted { jobs, nodes: machine.working(), load: self.load, overestimate: self.overestimate, seed };
        Ok((self.seeds.0.iter().map(|&seed| lublin::jobs(&wanted(seed))).collect(), None))
    }

    /// One line about the run that is drawn or written.
    fn title(&self) -> String {
        let source = match (&self.log, self.lublin) {
            (Some(path), _) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            (None, jobs) => format!("{} Lublin jobs, seed {}", jobs.unwrap_or(0), self.seeds.0[0]),
        };
        let load = self.load.map_or(String::new(), |load| format!(", load {load}"));
        format!("{source}{load}: {}, {}", runs::order_name(self.scheduler[0]), self.policy[0].search().name())
    }

    fn write(
        &self,
        machine: &Machine,
        jobs: &[Job],
        outcome: &Outcome,
        span: Option<(u64, u64)>,
    ) -> Result<(), Failed> {
        if let (Some(path), Some(span)) = (&self.svg, span) {
            let title = self.title();
            let svg = Picture { machine, jobs, outcome, span, title: &title }.svg();
            std::fs::write(path, svg).map_err(|e| Failed::unwritten(path.display(), &e))?;
        }
        match &self.write_swf {
            Some(path) => self.write_log(path, machine, jobs, outcome),
            None => Ok(()),
        }
    }

    fn write_log(&self, path: &Path, machine: &Machine, jobs: &[Job], outcome: &Outcome) -> Result<(), Failed> {
        let piped = path.as_os_str() == STDOUT;
        let unwritten =
            |e: std::io::Error| if piped { Failed::output(&e) } else { Failed::unwritten(path.display(), &e) };
        let waits: Vec<_> = jobs.iter().zip(&outcome.ran).map(|(job, ran)| ran.map(|r| r.start - job.submit)).collect();
        let to = |out: &mut dyn Write| {
            self.write_lines(machine, jobs, &waits, &mut |line| swf::write(out, line).map_err(unwritten))
        };
        if piped {
            let mut out = BufWriter::new(Piped(std::io::stdout().lock()));
            to(&mut out)?;
            return out.flush().map_err(unwritten);
        }
        let mut file = BufWriter::new(File::create(path).map_err(unwritten)?);
        if path.extension().is_some_and(|extension| extension == "gz") {
            let mut encoder = GzEncoder::new(file, Compression::default());
            to(&mut encoder)?;
            file = encoder.finish().map_err(unwritten)?;
        } else {
            to(&mut file)?;
        }
        file.flush().map_err(unwritten)
    }

    fn write_lines(
        &self,
        machine: &Machine,
        jobs: &[Job],
        waits: &[Option<u64>],
        out: &mut dyn FnMut(&Line) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let note = Line::Comment(format!(" Note: waits simulated on {}: {}", machine.shape(), self.title()));
        if let Some(log) = &self.log {
            return self.copy_log(log, machine, &mut waits.iter().copied(), &note, out);
        }
        let nodes = machine.working();
        for text in [" Version: 2.2".into(), format!(" MaxNodes: {nodes}"), format!(" MaxProcs: {nodes}")] {
            out(&Line::Comment(text))?;
        }
        out(&note)?;
        for (job, wait) in jobs.iter().zip(waits) {
            let mut record = Record::of(job);
            wait.iter().for_each(|&wait| record.set_wait(wait));
            out(&Line::Record(record))?;
        }
        Ok(())
    }

    /// Copies a log line by line; those that were simulated get their waits.
    fn copy_log(
        &self,
        log: &Path,
        machine: &Machine,
        waits: &mut dyn Iterator<Item = Option<u64>>,
        note: &Line,
        lines: &mut dyn FnMut(&Line) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let (mut reader, reading) = (swf::Reader::open(log)?, self.reading(machine));
        let mut noted = false;
        while let Some(mut line) = reader.line()? {
            if let Line::Record(record) = &mut line {
                if !std::mem::replace(&mut noted, true) {
                    lines(note)?;
                }
                if reader.job(record, &reading, &mut Notes::default())?.is_some() {
                    waits.next().flatten().into_iter().for_each(|wait| record.set_wait(wait));
                }
            }
            lines(&line)?;
        }
        Ok(())
    }

    fn print(&self, machine: &Machine, logs: &[Vec<Job>], notes: Option<Notes>, rows: &[Row]) -> Result<(), Failed> {
        let seeds = self.lublin.map(|_| &self.seeds.0[..]);
        if self.json {
            let printed = Printed {
                torus: machine.shape().to_string(),
                working_nodes: machine.working(),
                jobs: logs[0].len(),
                left_out: notes,
                seeds,
                cut: self.cut,
                rows,
            };
            if !self.pipes() {
                return print_json(&printed);
            }
            return aside(&serde_json::to_string_pretty(&printed).expect("results are plain data"));
        }
        let counted = metrics::counted(logs[0].len(), self.cut).len();
        let mut text = format!(
            "{} jobs on {}, {} nodes work; the {counted} in the middle count",
            logs[0].len(),
            machine.shape(),
            machine.working()
        );
        if let Some(seeds) = seeds {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            text += &format!("; seeds {}", seeds.join(", "));
        }
        text += "\n";
        text += &notes.map_or(String::new(), |notes| told(&notes));
        text += &format!("\n{}", table(rows));
        if self.pipes() { aside(&text) } else { print(text) }
    }

    /// Standard output is the log's.
    fn pipes(&self) -> bool {
        self.write_swf.as_ref().is_some_and(|path| path.as_os_str() == STDOUT)
    }
}

/// Prints a result on standard error.
fn aside(text: &str) -> Result<(), Failed> {
    angara_protocol::complain!("{}", text.trim_end());
    Ok(())
}

/// What was left out of a log, a line each.
fn told(notes: &Notes) -> String {
    let lines = [
        (notes.unknown, "jobs left out: their run time or size is not known"),
        (notes.instant, "jobs left out: their run time is 0"),
        (notes.parts, "lines left out: parts of jobs that were restarted"),
        (notes.oversized, "jobs left out: larger than the machine"),
        (notes.raised, "estimates raised: shorter than the run time"),
    ];
    lines.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}\n")).collect()
}

/// Figures of the table, their titles, and factor and digits.
const COLUMNS: [(Figure, &str, f64, usize); 10] = [
    (Figure::OfferedLoad, ">load %", 100.0, 1),
    (Figure::Utilisation, ">used %", 100.0, 1),
    (Figure::Held, ">held %", 100.0, 1),
    (Figure::WaitS, ">wait h", 1.0 / 3600.0, 2),
    (Figure::BoundedSlowdown, ">slow-down", 1.0, 1),
    (Figure::TransitPerJob, ">transit/job", 1.0, 1),
    (Figure::LargestFreeBox, ">free in one box %", 100.0, 0),
    (Figure::BlockedJobs, ">blocked jobs", 1.0, 0),
    (Figure::BlockedNodes, ">blocked %", 100.0, 1),
    (Figure::Rejected, ">rejected", 1.0, 0),
];

/// The same of promised starts.
const PROMISES: [(Figure, &str, f64, usize); 4] = [
    (Figure::Promised, ">promised jobs", 1.0, 0),
    (Figure::Late, ">late jobs", 1.0, 0),
    (Figure::LatenessS, ">mean of those h", 1.0 / 3600.0, 2),
    (Figure::WorstLatenessS, ">worst h", 1.0 / 3600.0, 2),
];

/// A number, or `-` where there is none.
fn cell(mean: Option<&metrics::Mean>, factor: f64, digits: usize) -> Cow<'static, str> {
    let Some(mean) = mean else { return Cow::Borrowed("-") };
    let number = format!("{:.digits$}", mean.mean * factor);
    mean.half_width.map_or_else(|| number.clone(), |half| format!("{number} ±{:.digits$}", half * factor)).into()
}

/// A row of figures for each row.
fn figures<'a>(rows: impl Iterator<Item = &'a Row>, columns: &[(Figure, &str, f64, usize)]) -> String {
    let titles: Vec<&str> = ["scheduler", "policy"].into_iter().chain(columns.iter().map(|column| column.1)).collect();
    let mut all = Table::new(&titles).keys(2);
    for row in rows {
        let keys = [Cow::Borrowed(row.scheduler), Cow::Borrowed(row.policy)];
        let figures = columns.iter().map(|&(figure, _, factor, digits)| cell(row.figures.get(&figure), factor, digits));
        all.row(&keys.into_iter().chain(figures).collect::<Vec<_>>());
    }
    all.render()
}

fn table(rows: &[Row]) -> String {
    let mut classes: Vec<usize> = rows.iter().flat_map(|row| row.waits.keys().copied()).collect();
    classes.sort_unstable();
    classes.dedup();
    let names: Vec<String> = classes.iter().map(|&class| format!(">{}", class_name(class))).collect();
    let titles: Vec<&str> = ["scheduler", "policy"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut waits = Table::new(&titles).keys(2);
    for row in rows {
        let keys = [Cow::Borrowed(row.scheduler), Cow::Borrowed(row.policy)];
        let by_size = classes.iter().map(|class| cell(row.waits.get(class), 1.0 / 3600.0, 2));
        waits.row(&keys.into_iter().chain(by_size).collect::<Vec<_>>());
    }
    let mut text =
        format!("{}\nMean wait in hours by number of nodes:\n{}", figures(rows.iter(), &COLUMNS), waits.render());
    let mut promising = rows.iter().filter(|row| row.figures.contains_key(&Figure::Promised)).peekable();
    if promising.peek().is_some() {
        text += "\nStarts later than the first reservation of a job said:\n";
        text += &figures(promising, &PROMISES);
    }
    text
}

#[cfg(test)]
mod tests;
