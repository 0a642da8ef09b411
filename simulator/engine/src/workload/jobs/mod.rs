//! Several jobs at once, each on nodes and with traffic of its own, and how much they disturb each
//! other: every job also runs alone in the same network, with the same messages.

mod file;
mod stage;
#[cfg(test)]
mod tests;

use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::plot::Chart;
use crate::run::Experiment;
use crate::run::outcome::{Percentiles, peak_rss_bytes};
use crate::table::{Table, number};
use crate::traffic::Mapping;
use file::{Job, JobsFile};
use serde_json::{Map, Value, json};
use stage::{Counts, Measured, Stage, Window};
use std::sync::Arc;
use std::time::Instant;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "jobs",
    form: "jobs:FILE.toml",
    about: "open-loop traffic of several jobs on nodes of their own; slowdown of each against its run alone",
    parse: |arguments| Ok(Arc::new(Jobs { file: JobsFile::read(arguments)? })),
};

/// Cycles before measuring unless `warmup` says otherwise.
const WARMUP: u64 = 5000;
/// Cycles measured unless `cycles` says otherwise.
const CYCLES: u64 = 20_000;

#[derive(Debug)]
struct Jobs {
    file: JobsFile,
}

impl Workload for Jobs {
    fn keys(&self) -> &'static [&'static str] {
        &["warmup", "cycles"]
    }

    fn shows(&self) -> Shows {
        Shows { histogram: true, ..Shows::default() }
    }

    fn packet_flits_max(&self) -> Option<u16> {
        Some(self.file.flits_max())
    }

    fn check_length(&self, flits_max: u16) -> Result<(), Error> {
        self.file.check_length(flits_max)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        if let Some(packets) = &experiment.observe.packets {
            return Err(Error::invalid("trace", packets, "jobs run in several networks; leave it out"));
        }
        if experiment.settings.map != Mapping::Linear {
            let map = format!("{:?}", experiment.settings.map).to_lowercase();
            return Err(Error::invalid("map", map, "each job has a map of its own in the file; leave it out"));
        }
        self.file.prepare(experiment).map(drop)
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let jobs = self.file.prepare(experiment)?;
        let schedule = experiment.schedule;
        let window = Window { warmup: schedule.warmup.unwrap_or(WARMUP), cycles: schedule.measure.unwrap_or(CYCLES) };
        let each = window.warmup + window.cycles;
        let all = each * (jobs.len() as u64 + 1);
        let (together, counts) =
            Stage::new(experiment, &jobs.iter().collect::<Vec<_>>())?.run(window, watch, ("together", 0, all))?;
        let mut alone = Vec::new();
        for (done, job) in (1..).zip(&jobs) {
            let (mut measured, _) = Stage::new(experiment, &[job])?.run(window, watch, ("alone", done * each, all))?;
            alone.append(&mut measured);
        }
        let cycle = experiment.build()?.cycle();
        let results = jobs.iter().zip(together).zip(alone);
        let results = results.map(|((job, together), alone)| Compared { job, together, alone, cycle, window });
        let mut report = Report::new(&format!("{} · {} jobs", experiment.title(), jobs.len()));
        tell(&results.collect::<Vec<_>>(), &mut report);
        finish(experiment, window, counts, &mut report);
        report.set("wall_s", started.elapsed().as_secs_f64());
        report.set("peak_rss_bytes", peak_rss_bytes());
        report.line("simulated in", format!("{:.2} s", started.elapsed().as_secs_f64()));
        Ok(report)
    }
}

/// A job among the others, and alone.
struct Compared<'a> {
    job: &'a Job,
    together: Measured,
    alone: Measured,
    cycle: u64,
    window: Window,
}

impl Compared<'_> {
    /// Mean latency, cycles.
    fn latency(&self, measured: &Measured) -> Option<f64> {
        measured.total().mean().map(|ps| ps / self.cycle as f64)
    }

    /// Flits per node of the job and cycle.
    fn per_node(&self, flits: u64) -> f64 {
        flits as f64 / (self.job.nodes.len() as f64 * self.window.cycles as f64)
    }

    /// Mean latency among the others over that alone; `None` where it depends on the length of the run.
    fn slowdown(&self) -> Option<f64> {
        if self.together.saturated() || self.alone.saturated() {
            return None;
        }
        Some(self.latency(&self.together)? / self.latency(&self.alone)?)
    }

    fn json(&self, measured: &Measured) -> Map<String, Value> {
        let (total, h) = (measured.total(), &measured.latencies.all);
        let quantile = |q| h.quantile(q) as f64;
        let percentiles =
            Percentiles { p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99), max: h.max() as f64 };
        let fields = json!({
            "packet_latency_cycles": self.latency(measured),
            "confidence": measured.confidence().map(|ps| ps / self.cycle as f64),
            "packet_latency_ns": total.mean().map(|ps| ps / 1000.0),
            "latency_percentiles_cycles": percentiles,
            "latency_by_routers": measured.latencies.of_routers(self.cycle),
            "latency_by_flits": measured.latencies.of_flits(self.cycle),
            "accepted_flits_per_node_cycle": self.per_node(total.flits),
            "offered_flits_per_node_cycle": self.per_node(total.created_flits),
            "mean_routers_visited": (total.arrived > 0).then(|| total.routers as f64 / total.arrived as f64),
            "backlog_growth": measured.growth.map(|growth| growth.share),
            "backlog_growth_confidence": measured.growth.map(|growth| growth.half_width),
            "saturated": measured.saturated(),
            "undecided": measured.undecided(),
            "packets": total.arrived,
            "unreachable": total.lost,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => unreachable!("an object was written"),
        }
    }
}

fn tell(results: &[Compared<'_>], report: &mut Report) {
    let titles = ["job", ">nodes", ">latency, cycles", ">alone", ">slowdown", ">accepted", ">alone", ">of", ""];
    let mut table = Table::new(&titles);
    let mut jobs = Map::new();
    for one in results {
        let show = |value: Option<f64>, digits| value.map_or("-".into(), |value| number(value, digits));
        let accepted = |measured: &Measured| show(Some(one.per_node(measured.total().flits)), 4);
        let note = match (one.together.saturated(), one.alone.saturated()) {
            (_, true) => "saturated, also alone",
            (true, false) => "saturated",
            _ if one.together.undecided() => "may be saturated: give more --cycles",
            _ => "",
        };
        table.row(&[
            one.job.name.clone(),
            one.job.nodes.len().to_string(),
            show(one.latency(&one.together), 5),
            show(one.latency(&one.alone), 5),
            one.slowdown().map_or("-".into(), |slowdown| format!("{slowdown:.3}")),
            accepted(&one.together),
            accepted(&one.alone),
            show(Some(one.per_node(one.together.total().created_flits)), 4),
            note.into(),
        ]);
        let mut fields = one.json(&one.together);
        fields.insert("nodes".into(), one.job.nodes.len().into());
        fields.insert("slowdown".into(), json!(one.slowdown()));
        fields.insert("alone".into(), one.json(&one.alone).into());
        jobs.insert(one.job.name.clone(), fields.into());
    }
    report.table(&table);
    report.set("jobs", jobs);
    let largest = results.iter().filter_map(Compared::slowdown).reduce(f64::max);
    report.set("largest_slowdown", largest);
    report.set("saturated", results.iter().any(|one| one.together.saturated()));
    report.plot("slowdown", "largest_slowdown", "largest slowdown of a job");
    report.histograms = results.iter().map(|r| (r.job.name.clone(), r.together.latencies.all.clone())).collect();
    report.chart("histogram", histogram(results));
}

/// Share of messages over their latency, a curve for each job.
fn histogram(results: &[Compared<'_>]) -> Chart {
    let curve = |one: &Compared<'_>| (one.job.name.clone(), one.together.latencies.all.shares());
    Chart::of_latencies("Latency of each job among the others".into(), results.iter().map(curve).collect())
}

/// Adds what every workload reports.
fn finish(experiment: &Experiment, window: Window, counts: Counts, report: &mut Report) {
    let mut settings = serde_json::to_value(&experiment.settings).expect("settings are numbers and names");
    if let Some(fields) = settings.as_object_mut() {
        // Defaults of what the workload does not read would only mislead.
        fields.retain(|name, _| !super::TRAFFIC_KEYS.contains(&name.as_str()) && name != "map");
    }
    report.set("settings", settings);
    report.set("warmup_cycles", window.warmup);
    report.set("measured_cycles", window.cycles);
    report.set("packet_hops", counts.packet_hops);
    report.set("flit_hops", counts.flit_hops);
    report.line("measured", format!("{} cycles after {}, together and alone", window.cycles, window.warmup));
}
