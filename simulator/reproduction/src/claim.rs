//! A statement that can be checked, the jobs that it needs, and how it is judged.

use angara_sim::Error;
use angara_sim::run::driver;
use angara_sim::settings::Keys;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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
            let simulation = keys.resolve().map_err(|(e, _)| e)?;
            let o = driver::run(&simulation.experiment, &mut |_| std::ops::ControlFlow::Continue(()))?;
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

    /// Does the work.
    pub(crate) fn run(&self) -> Result<Values, Error> {
        (self.work)()
    }
}

/// Numbers as [`Values`].
pub fn values(of: &[(&str, f64)]) -> Values {
    of.iter().map(|(name, v)| (name.to_string(), *v)).collect()
}

/// Values found by all jobs.
#[derive(Debug, Default)]
pub struct Results(pub(crate) BTreeMap<String, Values>);

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
    pub(crate) id: String,
    claim: String,
    demand: String,
    pub(crate) needs: Vec<Job>,
    judge: Judge,
    pub(crate) plot: Option<&'static str>,
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

    pub(crate) fn judged(&self, results: &Results) -> Row {
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
