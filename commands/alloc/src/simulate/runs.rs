//! Every run of every combination, on as many threads as there may be, and its row.

use super::Order;
use crate::machine::Policy;
use angara_batch::queue::engine::Record;
use angara_batch::queue::metrics::{Figure, Mean, Metrics, class_name, evaluate};
use angara_batch::queue::schedule::{Conservative, Easy, Fcfs, Scheduler};
use angara_batch::queue::{Job, Outcome, simulate};
use angara_cli::shared::interrupt::Interrupt;
use angara_control::error::{Failed, no_thread};
use angara_placement::Machine;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// Settings of all runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduling {
    /// Jobs that conservative backfilling plans for.
    pub(super) reservations: usize,
    /// Instants at which free boxes are looked at.
    pub(super) samples: usize,
    /// Share of jobs left out at either end.
    pub(super) cut: f64,
}

/// All runs that were asked for.
pub(super) struct Work<'a> {
    pub(super) machine: &'a Machine,
    /// Jobs of each seed.
    pub(super) logs: &'a [Vec<Job>],
    pub(super) orders: &'a [Order],
    pub(super) policies: &'a [Policy],
    pub(super) scheduling: Scheduling,
    /// Sets of jobs that run in this span are kept.
    pub(super) span: Option<(u64, u64)>,
    /// There is one run, and its outcome is kept.
    pub(super) keeps: bool,
}

/// Results of one scheduler with one policy.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) scheduler: &'static str,
    pub(super) policy: &'static str,
    pub(super) figures: BTreeMap<Figure, Mean>,
    /// Mean waits by the largest number of nodes of a class.
    #[serde(rename = "wait_s_by_nodes", serialize_with = "by_name")]
    pub(super) waits: BTreeMap<usize, Mean>,
}

fn by_name<S: Serializer>(waits: &BTreeMap<usize, Mean>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(waits.iter().map(|(&class, mean)| (class_name(class), mean)))
}

/// One scheduler's name.
pub(super) fn order_name(order: Order) -> &'static str {
    order.scheduler(1).name()
}

impl Order {
    fn scheduler(self, reservations: usize) -> Box<dyn Scheduler> {
        match self {
            Order::Fcfs => Box::new(Fcfs),
            Order::Easy => Box::new(Easy::default()),
            Order::Conservative => Box::new(Conservative::new(reservations)),
        }
    }
}

/// What all runs came to.
pub(super) struct Finished {
    pub(super) rows: Vec<Row>,
    /// Outcome of the only run, where it is written.
    pub(super) kept: Option<Outcome>,
}

/// Metrics of runs by their number, and the outcome of one that is kept.
#[derive(Default)]
struct Results {
    metrics: BTreeMap<usize, Metrics>,
    kept: Option<Outcome>,
}

impl Work<'_> {
    /// Does all runs; `None` if a signal ended them.
    ///
    /// # Errors
    /// The system starts no thread at all.
    pub(super) fn run(&self, threads: usize, interrupt: &Interrupt) -> Result<Option<Finished>, Failed> {
        let runs = self.orders.len() * self.policies.len() * self.logs.len();
        // Each job comes and ends.
        let events = 2 * self.logs.iter().map(Vec::len).sum::<usize>() * self.orders.len() * self.policies.len();
        let template = "simulating   [{bar:40}] {percent} % of {msg}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        let bar = ProgressBar::new(events as u64).with_style(style);
        bar.set_message(if runs == 1 { "1 run".to_string() } else { format!("{runs} runs") });
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Results::default()));
        let work = || {
            while interrupt.asked().is_continue() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= runs {
                    break;
                }
                let Some((metrics, outcome)) = self.one(index, interrupt, &bar) else { break };
                let mut results = results.lock().expect("no run panics while it holds the results");
                results.metrics.insert(index, metrics);
                if self.keeps {
                    results.kept = Some(outcome);
                }
            }
        };
        scope(|scope| {
            let begin = |k: usize| Builder::new().name(format!("queue {k}")).spawn_scoped(scope, work);
            // Where the system starts fewer threads, those do it all.
            let started: Vec<_> = (0..threads.min(runs)).map(begin).collect();
            match started.into_iter().next() {
                Some(Err(error)) => Err(no_thread(error)),
                _ => Ok(()),
            }
        })?;
        bar.finish_and_clear();
        let results = results.into_inner().expect("no run panics while it holds the results");
        if results.metrics.len() < runs {
            return Ok(None);
        }
        Ok(Some(Finished { rows: self.rows(&results.metrics), kept: results.kept }))
    }

    /// What run `index` simulates: its row, and its jobs.
    fn what(&self, index: usize) -> (Order, Policy, &[Job]) {
        let (row, seed) = (index / self.logs.len(), index % self.logs.len());
        (self.orders[row / self.policies.len()], self.policies[row % self.policies.len()], &self.logs[seed])
    }

    fn one(&self, index: usize, interrupt: &Interrupt, bar: &ProgressBar) -> Option<(Metrics, Outcome)> {
        let (order, policy, jobs) = self.what(index);
        let sets = self.span.map_or(0..0, |(from, to)| from..to);
        let record = Record { samples: self.scheduling.samples, sets };
        let mut shown = 0;
        let mut asked = |events: usize| {
            bar.inc((events - shown) as u64);
            shown = events;
            interrupt.asked()
        };
        let mut scheduler = order.scheduler(self.scheduling.reservations);
        let search = policy.search();
        let outcome = simulate(self.machine, jobs, &mut *scheduler, search, &record, &mut asked)?;
        Some((evaluate(self.machine, jobs, &outcome, self.scheduling.cut), outcome))
    }

    fn rows(&self, metrics: &BTreeMap<usize, Metrics>) -> Vec<Row> {
        let rows = self.orders.len() * self.policies.len();
        let row = |row: usize| {
            let first = row * self.logs.len();
            let (order, policy, _) = self.what(first);
            let (mut figures, mut waits) = (BTreeMap::<_, Vec<f64>>::new(), BTreeMap::<_, Vec<f64>>::new());
            for run in (first..first + self.logs.len()).map(|index| &metrics[&index]) {
                run.figures.iter().for_each(|(&figure, &value)| figures.entry(figure).or_default().push(value));
                run.wait_by_size.iter().for_each(|(&class, &(wait, _))| waits.entry(class).or_default().push(wait));
            }
            Row {
                scheduler: order_name(order),
                policy: policy.search().name(),
                figures: figures.into_iter().map(|(figure, values)| (figure, Mean::of(&values))).collect(),
                waits: waits.into_iter().map(|(class, values)| (class, Mean::of(&values))).collect(),
            }
        };
        (0..rows).map(row).collect()
    }
}
