//! Results that others measured, claimed or derived, compared with those of this program.
//!
//! Every statement that can be checked is a [`Claim`]: its source, the result it demands, and
//! a judge. Claims need [`Job`]s, mostly simulations; a job that several claims need runs once. [`run`]
//! does the jobs on some threads and lets the judges speak; each claim becomes a [`Row`]. The
//! sections are those of `docs/results/reproduction.md`, which [`report`] writes: [`booksim`] another simulator's
//! numbers, [`complex`] paper 004, [`collective`], [`spmv`] and [`allgather`] paper 000, [`barriers`] paper 001, [`published`] paper 002,
//! [`matmul`] paper 003, [`published_networks`] what papers say about other networks.
//!
//! A deviation is a finding: it stands beside the demand with what is known about it. Nothing that
//! depends on the machine or the moment gets into a row, so that the same program writes the same
//! document everywhere.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod allgather;
mod barriers;
pub mod booksim;
mod booksim_claims;
mod booksim_networks;
mod claim;
mod collective;
mod complex;
mod matmul;
mod plots;
mod published;
mod published_networks;
pub mod report;
mod spmv;

use angara_sim::Error;
use angara_sim::plot::Chart;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use claim::{Claim, Job, Judgement, Results, Row, Values, Verdict, values};
pub use plots::PLOTS;

/// Rows whose jobs are expected to take at most this long, in seconds, are quick ones.
pub const QUICK_S: f64 = 0.7;

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
    all.extend(published_networks::claims());
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
            let outcome = job.run();
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
    angara_sim::threads::share(threads.min(jobs.len()), work);
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
