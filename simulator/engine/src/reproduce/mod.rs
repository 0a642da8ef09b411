//! Results that others measured, claimed or derived, compared with those of this program.
//!
//! Every statement that can be checked is a [`Claim`]: its source, the result it demands, and
//! a judge. Claims need [`Job`]s, mostly simulations; a job that several claims need runs once. [`run`]
//! does the jobs on some threads and lets the judges speak; each claim becomes a [`Row`]. The
//! sections are those of `docs/results/reproduction.md`, which [`report`] writes: [`booksim`] another simulator's
//! numbers, [`complex`] paper 004, [`collective`], [`spmv`] and [`allgather`] paper 000, [`barriers`] paper 001, [`published`] paper 002,
//! [`matmul`] paper 003.
//!
//! A deviation is a finding: it stands beside the demand with what is known about it. Nothing that
//! depends on the machine or the moment gets into a row, so that the same program writes the same
//! document everywhere.

pub mod allgather;
mod barriers;
pub mod booksim;
mod booksim_claims;
mod booksim_networks;
mod collective;
mod complex;
mod matmul;
mod plots;
mod published;
pub mod report;
mod spmv;

use crate::Error;
use crate::plot::Chart;
use crate::run::{Keys, driver};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub use plots::PLOTS;

/// Rows whose jobs are expected to take at most this long, in seconds, are quick ones.
pub const QUICK_S: f64 = 0.7;

/// Outcome of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The demand is met.
    Met,
    /// It is not met; the evidence says what is known.
    Deviates,
    /// Only real programs can tell.
    Programs,
}

impl Verdict {
    /// `Met` if `met`, else `Deviates`.
    pub fn of(met: bool) -> Verdict {
        if met { Verdict::Met } else { Verdict::Deviates }
    }

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Deviates => "deviates",
            Verdict::Programs => "programs",
        }
    }
}

/// A claim and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name, unique; begins with the section's number.
    pub id: String,
    /// Section of the document.
    pub section: u8,
    /// The claim.
    pub claim: String,
    /// The result it demands.
    pub demand: String,
    /// The result measured here.
    pub measured: String,
    /// Comparison of the result with the demand.
    pub verdict: Verdict,
    /// Why it is not, or what else is worth knowing; may be empty.
    pub evidence: String,
    /// File of the plot that shows it.
    pub plot: Option<&'static str>,
}

/// A judge's decision on a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The result measured here.
    pub measured: String,
    /// Comparison of the result with the demand.
    pub verdict: Verdict,
    /// Other facts worth knowing; may be empty.
    pub evidence: String,
}

impl Judgement {
    /// `measured` meets the demand or does not.
    pub fn new(met: bool, measured: impl Into<String>) -> Judgement {
        Judgement { measured: measured.into(), verdict: Verdict::of(met), evidence: String::new() }
    }

    /// With `evidence`.
    pub fn because(mut self, evidence: impl Into<String>) -> Judgement {
        self.evidence = evidence.into();
        self
    }
}

/// Numbers by name that a job found.
pub type Values = BTreeMap<String, f64>;

type Work = Arc<dyn Fn() -> Result<Values, Error> + Send + Sync>;
type Judge = Box<dyn Fn(&Results) -> Judgement + Send + Sync>;

/// Work whose results claims are judged by.
#[derive(Clone)]
pub struct Job {
    /// Jobs of one name are the same job.
    pub name: String,
    /// Expected seconds of processor time, roughly; long ones are started first.
    pub seconds: f64,
    work: Work,
}

impl Job {
    /// A job that calls `work`.
    pub fn call(
        name: impl Into<String>,
        seconds: f64,
        work: impl Fn() -> Result<Values, Error> + Send + Sync + 'static,
    ) -> Job {
        Job { name: name.into(), seconds, work: Arc::new(work) }
    }

    /// A simulation; its values are `latency` in cycles (absent if nothing arrived), `accepted` and
    /// `offered` in flits per node and cycle, `routers`, `saturated` (0 or 1) and `p99`.
    pub fn simulate(name: impl Into<String>, seconds: f64, keys: Keys) -> Job {
        Job::call(name, seconds, move || {
            let experiment = keys.resolve().map_err(|(e, _)| e)?;
            let o = driver::run(&experiment, &mut |_| std::ops::ControlFlow::Continue(()))?;
            let known = [
                ("latency", o.packet_latency_cycles),
                ("confidence", o.confidence),
                ("accepted", Some(o.accepted_flits_per_node_cycle)),
                ("offered", Some(o.offered_flits_per_node_cycle)),
                ("routers", o.mean_routers_visited),
                ("saturated", Some(f64::from(u8::from(o.saturated)))),
                ("p99", Some(o.latency_percentiles_cycles.p99)),
            ];
            Ok(known.into_iter().filter_map(|(name, v)| v.map(|v| (name.to_string(), v))).collect())
        })
    }
}

/// Numbers as [`Values`].
pub fn values(of: &[(&str, f64)]) -> Values {
    of.iter().map(|(name, v)| (name.to_string(), *v)).collect()
}

/// Values found by all jobs.
#[derive(Debug, Default)]
pub struct Results(BTreeMap<String, Values>);

impl Results {
    /// A value, if that job ran and found it.
    pub fn find(&self, job: &str, value: &str) -> Option<f64> {
        self.0.get(job)?.get(value).copied()
    }

    /// A value that a judge needs; not a number if the job did not find it.
    pub fn get(&self, job: &str, value: &str) -> f64 {
        assert!(self.0.contains_key(job), "a claim uses the job `{job}` without saying that it needs it");
        self.find(job, value).unwrap_or(f64::NAN)
    }
}

/// A statement that can be checked.
pub struct Claim {
    id: String,
    claim: String,
    demand: String,
    needs: Vec<Job>,
    judge: Judge,
    plot: Option<&'static str>,
}

impl Claim {
    /// A claim; `id` begins with the number of its section and a dot.
    pub fn new(
        id: impl Into<String>,
        claim: impl Into<String>,
        demand: impl Into<String>,
        needs: Vec<Job>,
        judge: impl Fn(&Results) -> Judgement + Send + Sync + 'static,
    ) -> Claim {
        let (id, claim, demand) = (id.into(), claim.into(), demand.into());
        Claim { id, claim, demand, needs, judge: Box::new(judge), plot: None }
    }

    /// Shown in the plot `file`.
    pub fn plotted(mut self, file: &'static str) -> Claim {
        self.plot = Some(file);
        self
    }

    /// Name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Section of the document.
    pub fn section(&self) -> u8 {
        self.id.split('.').next().and_then(|s| s.parse().ok()).expect("a claim's name begins with its section")
    }

    /// Expected seconds of processor time if nothing is shared.
    pub fn seconds(&self) -> f64 {
        self.needs.iter().map(|j| j.seconds).sum()
    }

    fn judged(&self, results: &Results) -> Row {
        let Judgement { measured, verdict, evidence } = (self.judge)(results);
        Row {
            id: self.id.clone(),
            section: self.section(),
            claim: self.claim.clone(),
            demand: self.demand.clone(),
            measured,
            verdict,
            evidence,
            plot: self.plot,
        }
    }
}

/// Every claim, in the document's order.
pub fn claims() -> Vec<Claim> {
    let mut all = booksim_claims::claims();
    all.extend(booksim_networks::claims());
    all.extend(complex::claims());
    all.extend(collective::claims());
    all.extend(spmv::claims());
    all.extend(allgather::claims());
    all.extend(barriers::claims());
    all.extend(published::claims());
    all.extend(matmul::claims());
    all
}

/// The claims that `wanted` names: each a section's number, or part of a claim's name. All if it
/// names none.
///
/// # Errors
/// A name without a claim.
pub fn select(wanted: &[String]) -> Result<Vec<Claim>, Error> {
    let all = claims();
    let is = |claim: &Claim, text: &str| match text.parse::<u8>() {
        Ok(section) => claim.section() == section,
        Err(_) => claim.id.contains(text),
    };
    if let Some(none) = wanted.iter().find(|text| !all.iter().any(|c| is(c, text))) {
        let why = "no row has this in its name and no section this number; without any, all are checked";
        return Err(Error::invalid("row", none, why));
    }
    Ok(all.into_iter().filter(|c| wanted.is_empty() || wanted.iter().any(|text| is(c, text))).collect())
}

/// Outcome of several claims.
#[derive(Debug)]
pub struct Reproduction {
    /// One per claim.
    pub rows: Vec<Row>,
    /// The plots the claims name, of the data that were computed: file and chart.
    pub plots: Vec<(&'static str, Chart)>,
}

/// Does what `claims` need on `threads` threads; `done` is told the share of the expected time that
/// is behind and what was finished last.
///
/// # Errors
/// A job that fails.
pub fn run(claims: &[Claim], threads: usize, done: impl Fn(f64, &str) + Sync) -> Result<Reproduction, Error> {
    let mut jobs: BTreeMap<&str, &Job> = BTreeMap::new();
    jobs.extend(claims.iter().flat_map(|c| &c.needs).map(|j| (j.name.as_str(), j)));
    let mut jobs: Vec<&Job> = jobs.into_values().collect();
    jobs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let total: f64 = jobs.iter().map(|j| j.seconds).sum();
    let next = AtomicUsize::new(0);
    let found: Mutex<(f64, Results, Option<Error>)> = Mutex::new((0.0, Results::default(), None));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = (job.work)();
            let mut found = found.lock().expect("no thread panics while it holds the lock");
            match outcome {
                Ok(values) => drop(found.1.0.insert(job.name.clone(), values)),
                Err(e) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    found.2.get_or_insert(e);
                }
            }
            found.0 += job.seconds;
            done(found.0 / total, &job.name);
        }
    };
    crate::threads::share(threads.min(jobs.len()), work);
    let (_, results, failed) = found.into_inner().expect("all threads have ended");
    if let Some(e) = failed {
        return Err(e);
    }
    let rows: Vec<Row> = claims.iter().map(|c| c.judged(&results)).collect();
    let shown = PLOTS.iter().filter(|p| claims.iter().any(|c| c.plot == Some(p.file)));
    let plots = shown.map(|p| (p.file, p.chart(&results))).filter(|(_, chart)| chart.has_points()).collect();
    Ok(Reproduction { rows, plots })
}

#[cfg(test)]
mod tests;
