//! The workload `goal:FILE`: a schedule of GOAL, as LogGOPSim and ATLAHS take it, on any network.

mod binary;
mod player;
mod recorded;
mod schedule;
#[cfg(test)]
mod tests;
mod text;

use super::closed::Closed;
use super::{Plot, Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::table::{Table, number};
use angara_fabric::Tick;
use angara_protocol::recording::Recording;
use player::Player;
use recorded::Converter;
use schedule::Schedule;
use serde_json::json;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
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

/// Writes a recording as a schedule, text or binary.
///
/// # Errors
/// It has collectives by trees, or the file cannot be written.
pub fn convert(recording: &Recording, out: &Path, binary: bool) -> Result<(), Error> {
    let converter = Converter::new(recording)?;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(out);
    let file = file.map_err(|source| Error::File { path: out.into(), source })?;
    if binary { converter.write_binary(file).map(drop) } else { converter.write_text(&mut BufWriter::new(file)) }
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
        Ok(Goal { schedule: Schedule::binary(path, Converter::new(recording)?.write_binary(file)?)? })
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
