//! The workload `goal:FILE`: a schedule of GOAL, as LogGOPSim and ATLAHS take it, on any network.

mod binary;
mod player;
mod recorded;
mod schedule;
#[cfg(test)]
mod tests;
mod text;
mod write;
#[cfg(test)]
mod written;

use super::closed::Closed;
use super::{Plot, Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::table::{Table, number};
use angara_fabric::Tick;
use angara_protocol::recording::{MAGIC, Recording};
use player::Player;
use recorded::Converter;
use schedule::Schedule;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ranks that people are shown.
const SHOWN: usize = 16;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "goal",
    form: "goal:FILE",
    about: "a GOAL schedule of LogGOPSim or ATLAHS, text or binary: when each rank ends",
    parse: |arguments| Ok(Arc::new(Goal { schedule: Schedule::open(Path::new(arguments))? })),
};

/// A schedule.
#[derive(Debug)]
pub(super) struct Goal {
    schedule: Schedule,
}

/// Writes recordings and schedules as one schedule, text or binary: on each rank, one begins when that before it has
/// ended there.
///
/// # Errors
/// They differ in their number of ranks, a recording has collectives by trees, or a file cannot be read or written.
pub fn convert(inputs: &[PathBuf], out: &Path, binary: bool) -> Result<(), Error> {
    let schedules = inputs.iter().map(|path| opened(path)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = schedules.first() else {
        return Err(Error::invalid("number of schedules", 0, "give one at least"));
    };
    let ranks = first.ranks.len();
    if let Some((path, other)) = inputs.iter().zip(&schedules).find(|(_, other)| other.ranks.len() != ranks) {
        let what = format!("{} has {} ranks, {} has {ranks}", path.display(), other.ranks.len(), inputs[0].display());
        return Err(Error::Network(format!("{what}; append schedules of as many ranks")));
    }
    let mut rank = |number: u32| {
        let mut whole = first.rank(number)?;
        for (path, next) in inputs.iter().zip(&schedules).skip(1) {
            let wrong = |why| Error::Network(format!("rank {number} with that of {}: {why}", path.display()));
            write::append(&mut whole, next.rank(number)?).map_err(wrong)?;
        }
        Ok(whole)
    };
    let same =
        |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(out).is_ok_and(|out| out == path));
    if inputs.iter().any(same) {
        return Err(Error::invalid("--out", out.display(), "it is read, too; name another file"));
    }
    let file = File::options().read(true).write(true).create(true).truncate(true).open(out);
    let file = file.map_err(|source| Error::File { path: out.into(), source })?;
    if binary {
        write::binary(ranks as u32, &mut rank, file).map(drop)
    } else {
        write::text(ranks as u32, &mut rank, &mut BufWriter::new(file))
    }
}

/// A schedule, or a recording as one.
fn opened(path: &Path) -> Result<Schedule, Error> {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    read.map_err(|source| Error::File { path: path.into(), source })?;
    if first == MAGIC { Ok(Goal::recorded(&Recording::open(path)?, path)?.schedule) } else { Schedule::open(path) }
}

/// Refuses a recording that is no schedule, or has more ranks than the network has nodes.
pub(super) fn check_recorded(recording: &Recording, experiment: &Experiment) -> Result<(), Error> {
    Converter::new(recording)?;
    check_ranks(recording.header.places.len(), experiment)
}

fn check_ranks(ranks: usize, experiment: &Experiment) -> Result<(), Error> {
    let nodes = experiment.placement.len();
    if ranks <= nodes {
        return Ok(());
    }
    let why = format!("the schedule has {ranks} ranks; give a network of as many nodes");
    Err(Error::invalid("topology", format!("a network of {nodes} nodes"), why))
}

impl Goal {
    /// A recording as a schedule.
    pub(super) fn recorded(recording: &Recording, path: &Path) -> Result<Goal, Error> {
        let file = text::unnamed_file().map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let converter = Converter::new(recording)?;
        let file = write::binary(converter.ranks(), &mut |number| converter.rank(number), file)?;
        Ok(Goal { schedule: Schedule::binary(path, file)? })
    }
}

impl Workload for Goal {
    fn keys(&self) -> &'static [&'static str] {
        &["length"]
    }

    fn shows(&self) -> Shows {
        Shows { links: true, packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        check_ranks(self.schedule.ranks.len(), experiment)
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut player = Player::new(&self.schedule, experiment, Closed::new(experiment)?);
        player.play(watch)?;
        let (ends, messages, closed) = player.ended()?;
        let (ranks, operations) = (ends.len(), self.schedule.operations());
        let title = format!("{} · GOAL schedule of {ranks} ranks, {operations} operations", experiment.title());
        let mut report = Report::new(&title);
        show_ends(&mut report, &ends);
        report.set("operations", operations);
        report.set("messages", messages);
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}

/// When each rank has ended, ps.
fn show_ends(report: &mut Report, ends: &[Tick]) {
    let ns = |ps: Tick| number(ps as f64 / 1000.0, 9);
    let last = ends.iter().copied().max().unwrap_or(0);
    report.line("time", format!("{} ns", ns(last)));
    report.set("time_ns", last as f64 / 1000.0);
    report.plots.push(Plot::new("time", "time_ns", "time, ns"));
    let mut table = Table::new(&["rank", "ends, ns"]);
    let mut csv = String::from("rank,end_ps\n");
    for (rank, &end) in ends.iter().enumerate() {
        if rank < SHOWN {
            table.row(&[rank.to_string(), ns(end)]);
        }
        csv.push_str(&format!("{rank},{end}\n"));
    }
    report.table(&table);
    if ends.len() > SHOWN {
        report.line("not shown", format!("{} more ranks; --json and --out have all", ends.len() - SHOWN));
    }
    report.set(
        "ranks",
        ends.iter().enumerate().map(|(rank, end)| json!({"rank": rank, "end_ps": end})).collect::<Vec<_>>(),
    );
    report.file("ranks.csv", csv);
}
