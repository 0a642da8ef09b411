//! Jobs as a file: a table for each.

use crate::Error;
use crate::rng::{Purpose, Stream};
use crate::run::Experiment;
use crate::toml_file::TomlFile;
use crate::traffic::{Destinations, Lengths, Mapping, Pattern, Process, Rate};
use angara_fabric::rng::splitmix;
use angara_model::AnyTopology;
use angara_model::topology::Layout;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// Most jobs of a file.
const JOBS_MAX: usize = 1000;

/// A file of jobs.
#[derive(Debug)]
pub(super) struct JobsFile {
    file: TomlFile,
    written: Written,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    job: Vec<WrittenJob>,
}

/// A table of the file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct WrittenJob {
    name: Spanned<String>,
    nodes: Spanned<String>,
    load: Spanned<f64>,
    length: Spanned<Lengths>,
    pattern: Option<Spanned<Pattern>>,
    process: Option<Process>,
    shape: Option<Spanned<String>>,
    map: Option<Spanned<Mapping>>,
}

/// A job made ready for one network.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// Node of each rank.
    pub(super) nodes: Vec<u32>,
    pub(super) destinations: Destinations,
    pub(super) lengths: Lengths,
    pub(super) process: Process,
    /// Messages per cycle of each rank.
    pub(super) rates: Vec<Rate>,
    pub(super) seed: u64,
}

impl JobsFile {
    pub(super) fn read(path: &str) -> Result<JobsFile, Error> {
        let cannot = |e| Error::invalid("workload", path, format!("{path} cannot be read ({e}); give a file that can"));
        let file = TomlFile::read(Path::new(path)).map_err(|e| match e {
            Error::File { source, .. } => cannot(source),
            other => other,
        })?;
        JobsFile::parse(file)
    }

    fn parse(file: TomlFile) -> Result<JobsFile, Error> {
        let written: Written = file.parse()?;
        if written.job.is_empty() || written.job.len() > JOBS_MAX {
            let why = format!("{} jobs; write 1 to {JOBS_MAX} tables [[job]]", written.job.len());
            return Err(file.error_at(0, &why));
        }
        let mut names = HashSet::new();
        for job in &written.job {
            let name = job.name.as_ref();
            if !names.insert(name.clone()) || name.is_empty() {
                let why = format!("name `{name}` is empty or that of another job; give each job its own");
                return Err(file.error_at(job.name.span().start, &why));
            }
        }
        Ok(JobsFile { file, written })
    }

    /// Longest packet of all jobs.
    pub(super) fn flits_max(&self) -> u16 {
        self.written.job.iter().map(|job| job.length.as_ref().max()).max().unwrap_or(1)
    }

    /// Refuses a packet that the router does not take.
    pub(super) fn check_length(&self, flits_max: u16) -> Result<(), Error> {
        match self.written.job.iter().find(|job| job.length.as_ref().max() > flits_max) {
            Some(job) => {
                let length = job.length.as_ref();
                let why = format!("length {length} is more than the {flits_max} flits of a packet of router angara");
                Err(self.wrong(&job.length.span(), &format!("{why}; use router generic, or shorter ones")))
            }
            None => Ok(()),
        }
    }

    /// The jobs on the network of `experiment`.
    pub(super) fn prepare(&self, experiment: &Experiment) -> Result<Vec<Job>, Error> {
        let count = experiment.layout.endpoints();
        let mut owners: HashMap<u32, &str> = HashMap::new();
        let mut jobs = Vec::new();
        for (index, written) in (1..).zip(&self.written.job) {
            let span = written.nodes.span();
            let nodes = nodes(written.nodes.as_ref(), count).map_err(|why| self.wrong(&span, &why))?;
            for node in &nodes {
                if let Some(other) = owners.insert(*node, written.name.as_ref()) {
                    let why = format!("node {node} belongs to job {other} already; give each node to one job");
                    return Err(self.wrong(&span, &why));
                }
            }
            jobs.push(self.job(written, nodes, experiment, splitmix(experiment.seed, index))?);
        }
        Ok(jobs)
    }

    fn job(&self, job: &WrittenJob, nodes: Vec<u32>, experiment: &Experiment, seed: u64) -> Result<Job, Error> {
        let layout = self.layout(job, nodes.len() as u32)?;
        let (lengths, load) = (job.length.as_ref().clone(), *job.load.as_ref());
        let process = job.process.unwrap_or(Process::Bernoulli);
        let most = process.rate_max() * lengths.mean();
        let rate = Rate::messages(load / lengths.mean()).ok().filter(|_| load <= most * (1.0 + 1e-12));
        let Some(rate) = rate else {
            let why = format!("load {load}: {process} creates messages of {} flits; give 0 to {most}", lengths.mean());
            return Err(self.wrong(&job.load.span(), &why));
        };
        let pattern_span = job.pattern.as_ref().map_or(job.name.span(), Spanned::span);
        let pattern = job.pattern.as_ref().map_or(&Pattern::Uniform, |pattern| pattern.as_ref());
        let destinations = pattern.prepare(&layout, seed).map_err(|e| self.located(&pattern_span, &e))?;
        let rates = match destinations.weights() {
            Some(weights) => weights.rates(rate, process, load).map_err(|e| self.located(&pattern_span, &e))?,
            None => vec![rate; nodes.len()],
        };
        let nodes = self.placed(job, nodes, experiment, seed)?;
        Ok(Job { name: job.name.as_ref().clone(), nodes, destinations, lengths, process, rates, seed })
    }

    /// How the ranks of a job see each other: a ring, unless the file says otherwise.
    fn layout(&self, job: &WrittenJob, ranks: u32) -> Result<Layout, Error> {
        let Some(shape) = &job.shape else { return Ok(Layout::torus(&[ranks])) };
        let topology = shape.as_ref().parse::<AnyTopology>();
        let layout = topology.map_err(|e| self.wrong(&shape.span(), &e.to_string()))?.layout();
        if layout.endpoints() == ranks {
            return Ok(layout);
        }
        let why = format!("shape {} has {} ranks, nodes names {ranks}", shape.as_ref(), layout.endpoints());
        Err(self.wrong(&shape.span(), &format!("{why}; give as many")))
    }

    /// The nodes in the order of the ranks.
    fn placed(&self, job: &WrittenJob, mut nodes: Vec<u32>, on: &Experiment, seed: u64) -> Result<Vec<u32>, Error> {
        let Some(map) = &job.map else { return Ok(nodes) };
        match map.as_ref() {
            Mapping::Linear => {}
            Mapping::Random => Stream::new(seed, 1, Purpose::Placement).shuffle(&mut nodes),
            curve @ (Mapping::Morton | Mapping::Hilbert) => {
                // Along the curve through the whole network.
                let order = curve.endpoints(&on.layout, seed).map_err(|e| self.located(&map.span(), &e))?;
                let place: HashMap<u32, usize> = order.into_iter().zip(0..).collect();
                nodes.sort_by_key(|node| place[node]);
            }
        }
        Ok(nodes)
    }

    fn wrong(&self, span: &Range<usize>, message: &str) -> Error {
        self.file.error_at(span.start, message)
    }

    fn located(&self, span: &Range<usize>, error: &Error) -> Error {
        self.wrong(span, &error.to_string())
    }
}

/// Numbers and ranges FIRST..END, as in `0..32,40`; END is no part of the range.
fn nodes(text: &str, count: u32) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let range = match part.split_once("..") {
            Some((first, end)) => number(first).zip(number(end)),
            None => number(part).and_then(|node| Some((node, node.checked_add(1)?))),
        };
        let Some((first, end)) = range.filter(|(first, end)| first < end) else {
            return Err(format!("nodes `{part}`: write numbers and ranges FIRST..END, such as 0..32,40"));
        };
        if end > count {
            return Err(format!("nodes `{part}`: the network has nodes 0 to {}; a range ends before END", count - 1));
        }
        all.extend(first..end);
    }
    Ok(all)
}
