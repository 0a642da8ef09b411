//! Many simulations: every combination of the values given for some settings.
//!
//! A sweep file is a run file with a `[sweep]` table that lists values:
//!
//! ```toml
//! topology = "torus:8x8x8"
//! router = "generic"
//! [sweep]
//! load = [0.1, 0.2, 0.3]
//! pattern = ["uniform", "tornado"]
//! ```
//!
//! Points are independent, so threads take whole points and the results do not depend on how many
//! threads there are.

use crate::Error;
use crate::plot::Chart;
use crate::run::outcome::Outcome;
use crate::run::{Experiment, Keys, driver};
use crate::toml_file::TomlFile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most points of a sweep; more are a mistake.
const POINTS_MAX: usize = 10_000;

/// The points of a sweep, in order.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Swept settings in order; the last one varies fastest.
    pub names: Vec<String>,
    /// Points: the values of the swept settings, and the experiment.
    pub points: Vec<(Vec<String>, Experiment)>,
}

impl Sweep {
    /// Reads a sweep file; `flags` win over its settings.
    ///
    /// # Errors
    /// What is wrong with the file or with a point, with the line where it can be told.
    pub fn read(file: &TomlFile, flags: &Keys) -> Result<Sweep, Error> {
        let mut base: toml::Table = file.parse()?;
        let axes = match base.remove("sweep") {
            Some(toml::Value::Table(axes)) => axes,
            Some(_) => return Err(file.locate(Error::invalid("sweep", "no table", "write [sweep]"), Some("sweep"))),
            None => toml::Table::new(),
        };
        // Names and values of the plain settings are checked where they stand.
        file.without_table("sweep").parse::<Keys>()?;
        let axes = ordered(file, axes)?;
        let total = axes.iter().map(|(_, values)| values.len()).product();
        if total == 0 || total > POINTS_MAX {
            let e = Error::invalid("number of points", total, format!("a sweep has 1 to {POINTS_MAX}"));
            return Err(file.locate(e, Some("sweep")));
        }
        let points = (0..total).map(|index| point(file, &base, &axes, flags, index)).collect::<Result<_, _>>()?;
        Ok(Sweep { names: axes.into_iter().map(|(name, _)| name).collect(), points })
    }

    /// Runs all points on `threads` threads; `done` is called after each one.
    ///
    /// # Errors
    /// A network that cannot be built.
    pub fn run(&self, threads: usize, done: impl Fn() + Sync) -> Result<Vec<Outcome>, Error> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<Outcome, Error>>>> =
            Mutex::new(self.points.iter().map(|_| None).collect());
        let work = || {
            while let Some((_, experiment)) = self.points.get(next.fetch_add(1, Ordering::Relaxed)) {
                let index = self.index_of(experiment);
                let outcome = driver::run(experiment, &mut |_| std::ops::ControlFlow::Continue(()));
                results.lock().expect("no thread panics while it holds the lock")[index] = Some(outcome);
                done();
            }
        };
        std::thread::scope(|scope| (0..threads.clamp(1, self.points.len())).for_each(|_| drop(scope.spawn(work))));
        let results = results.into_inner().expect("all threads have ended");
        results.into_iter().map(|r| r.expect("every point was run")).collect()
    }

    fn index_of(&self, experiment: &Experiment) -> usize {
        let at = |(_, e): &(Vec<String>, Experiment)| std::ptr::eq(e, experiment);
        self.points.iter().position(at).expect("the experiment is one of the points")
    }
}

type Axis = (String, Vec<toml::Value>);

/// The axes with load last, so that the points of one curve follow each other.
fn ordered(file: &TomlFile, axes: toml::Table) -> Result<Vec<Axis>, Error> {
    let names = Keys::names();
    let mut found = Vec::new();
    for (name, values) in axes {
        let Some(place) = names.iter().position(|n| *n == name) else {
            let e = Error::invalid("swept setting", &name, format!("there are {}", names.join(", ")));
            return Err(file.locate(e, Some(&name)));
        };
        let values = match values {
            toml::Value::Array(values) => values,
            single => vec![single],
        };
        for value in &values {
            let alone = toml::Table::from_iter([(name.clone(), value.clone())]);
            if let Err(e) = alone.try_into::<Keys>() {
                return Err(file.locate(Error::Network(e.message().trim_end().into()), Some(&name)));
            }
        }
        found.push((name == "load", place, (name, values)));
    }
    found.sort_by_key(|(load, place, _)| (*load, *place));
    Ok(found.into_iter().map(|(_, _, axis)| axis).collect())
}

fn point(
    file: &TomlFile,
    base: &toml::Table,
    axes: &[Axis],
    flags: &Keys,
    index: usize,
) -> Result<(Vec<String>, Experiment), Error> {
    let mut rest = index;
    let mut table = base.clone();
    let mut values = vec![String::new(); axes.len()];
    for (slot, (name, choices)) in values.iter_mut().zip(axes).rev() {
        let value = &choices[rest % choices.len()];
        rest /= choices.len();
        *slot = value.as_str().map_or_else(|| value.to_string(), String::from);
        table.insert(name.clone(), value.clone());
    }
    let keys: Keys = table.try_into().expect("every setting was checked alone");
    let keys = flags.clone().over(keys);
    let experiment = keys.resolve().map_err(|(e, key)| file.locate(e, Some(key)))?;
    Ok((values, experiment))
}

/// The results of a sweep, without what differs from run to run.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    /// The swept settings.
    pub swept: BTreeMap<&'a str, &'a str>,
    /// The result.
    #[serde(flatten)]
    pub result: serde_json::Value,
}

/// Fields of an outcome that depend on the machine and the moment.
const VOLATILE: [&str; 6] =
    ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes", "threads"];

/// The results as rows.
pub fn rows<'a>(sweep: &'a Sweep, outcomes: &[Outcome]) -> Vec<Row<'a>> {
    let row = |((values, _), outcome): (&'a (Vec<String>, Experiment), &Outcome)| {
        let mut result = serde_json::to_value(outcome).expect("outcomes hold only numbers and names");
        if let Some(fields) = result.as_object_mut() {
            fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        }
        let swept = sweep.names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
        Row { swept, result }
    };
    sweep.points.iter().zip(outcomes).map(row).collect()
}

/// The results as CSV.
pub fn csv(sweep: &Sweep, outcomes: &[Outcome]) -> String {
    let quoted =
        |text: &str| if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() };
    let columns = "offered_flits_per_node_cycle,accepted_flits_per_node_cycle,packet_latency_cycles,confidence,p50,p95,p99,\
                   max,mean_routers_visited,saturated,packets,warmup_cycles,measured_cycles";
    let mut out: String = sweep.names.iter().map(|n| format!("{n},")).collect();
    out.push_str(columns);
    out.push('\n');
    let number = |v: Option<f64>| v.map_or(String::new(), |v| format!("{v:.4}"));
    for ((values, _), o) in sweep.points.iter().zip(outcomes) {
        let p = &o.latency_percentiles_cycles;
        out.extend(values.iter().map(|v| quoted(v) + ","));
        out.push_str(&format!(
            "{:.5},{:.5},{},{},{},{},{},{},{},{},{},{},{}\n",
            o.offered_flits_per_node_cycle,
            o.accepted_flits_per_node_cycle,
            number(o.packet_latency_cycles),
            number(o.confidence),
            p.p50,
            p.p95,
            p.p99,
            p.max,
            number(o.mean_routers_visited),
            o.saturated,
            o.packets,
            o.warmup_cycles,
            o.measured_cycles
        ));
    }
    out
}

/// Latency (unsaturated points) and accepted load over the last swept setting, one curve for every
/// combination of the others; `None` if that setting is not a number.
pub fn charts(sweep: &Sweep, outcomes: &[Outcome]) -> Option<[Chart; 2]> {
    let (x_name, others) = sweep.names.split_last()?;
    let mut latency: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut accepted = latency.clone();
    for ((values, _), o) in sweep.points.iter().zip(outcomes) {
        let (x, rest) = values.split_last()?;
        let x: f64 = x.parse().ok()?;
        let label = rest
            .iter()
            .zip(others)
            .map(|(v, n)| if v.contains(|c: char| c.is_alphabetic()) { v.clone() } else { format!("{n} {v}") });
        let label = label.collect::<Vec<_>>().join(", ");
        if latency.last().is_none_or(|(last, _)| *last != label) {
            latency.push((label.clone(), Vec::new()));
            accepted.push((label, Vec::new()));
        }
        if let (Some(cycles), false) = (o.packet_latency_cycles, o.saturated)
            && let Some((_, points)) = latency.last_mut()
        {
            points.push((x, cycles));
        }
        if let Some((_, points)) = accepted.last_mut() {
            points.push((x, o.accepted_flits_per_node_cycle));
        }
    }
    let x = if x_name == "load" { "offered load, flits per node and cycle".to_string() } else { x_name.clone() };
    let chart = |title: &str, y: &str, curves| Chart {
        title: title.into(),
        x: x.clone(),
        y: y.into(),
        curves,
        ..Chart::default()
    };
    Some([
        chart("Latency", "mean latency, cycles", latency),
        chart("Throughput", "accepted load, flits per node and cycle", accepted),
    ])
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
