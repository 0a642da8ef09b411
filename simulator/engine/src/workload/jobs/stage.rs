//! Open-loop traffic of several jobs on one network, each measured for itself.

use super::file::Job;
use crate::Error;
use crate::run::latencies::Latencies;
use crate::run::stats::{Batch, Batches};
use crate::run::verdict::{GROWTH_PARTS, Growth};
use crate::run::{Experiment, Progress};
use crate::traffic::{Rate, Source};
use crate::workload::Watch;
use angara_model::{Injection, Network, TrafficClass};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles between two looks at the network; sources are served this far ahead.
const STEP: u64 = 16;
/// Batches of the measured time, for the confidence interval and to see what piles up.
const BATCHES: u64 = 2 * GROWTH_PARTS as u64;
/// Messages a source may have under way; more are created when some have arrived.
const OUTSTANDING_MAX: u32 = 2000;

/// Cycles before measuring, and measured.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) warmup: u64,
    pub(super) cycles: u64,
}

/// Measurements of one job.
#[derive(Default)]
pub(super) struct Measured {
    batches: Batches,
    current: Batch,
    pub(super) latencies: Latencies,
    /// How fast the messages of the job that wait become more.
    pub(super) growth: Option<Growth>,
}

impl Measured {
    pub(super) fn total(&self) -> Batch {
        self.batches.total()
    }
    /// Half-width of the 95 % confidence interval of the mean latency, ps.
    pub(super) fn confidence(&self) -> Option<f64> {
        self.batches.latency().map(|interval| interval.half_width)
    }
    /// The network does not carry the job.
    pub(super) fn saturated(&self) -> bool {
        self.growth.is_some_and(|growth| growth.saturates())
    }
    /// The network may not carry the job, but it was not measured for long enough to tell.
    pub(super) fn undecided(&self) -> bool {
        self.growth.is_some_and(|growth| !growth.saturates() && !growth.is_none())
    }
}

/// A rank that sends.
struct Rank<'a> {
    job: usize,
    of: &'a Job,
    node: u32,
    source: Source,
    rate: Rate,
    outstanding: u32,
}

impl Rank<'_> {
    /// Its messages that wait before cycle `now`: under way, or due but held back.
    fn waiting(&self, now: u64) -> u64 {
        let late = if self.outstanding >= OUTSTANDING_MAX { now.saturating_sub(self.source.next_cycle()) } else { 0 };
        u64::from(self.outstanding) + (late as f64 * self.rate.per_cycle()) as u64
    }
}

pub(super) struct Stage<'a> {
    experiment: &'a Experiment,
    network: Network,
    ranks: Vec<Rank<'a>>,
    /// Ranks by the cycle of their next message.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    measured: Vec<Measured>,
    /// Measuring has begun.
    steady: bool,
}

impl<'a> Stage<'a> {
    /// An idle network, and `jobs` about to begin.
    pub(super) fn new(experiment: &'a Experiment, jobs: &[&'a Job]) -> Result<Stage<'a>, Error> {
        let mut ranks = Vec::new();
        for (job, &of) in jobs.iter().enumerate() {
            for (rank, (&node, &rate)) in (0..).zip(of.nodes.iter().zip(&of.rates)) {
                let source = Source::new(of.seed, rank, of.process, rate);
                ranks.push(Rank { job, of, node, source, rate, outstanding: 0 });
            }
        }
        let due = ranks.iter().enumerate().map(|(i, rank)| Reverse((rank.source.next_cycle(), i)));
        Ok(Stage {
            experiment,
            network: experiment.build()?,
            due: due.collect(),
            measured: jobs.iter().map(|_| Measured::default()).collect(),
            ranks,
            steady: false,
        })
    }

    /// Runs through `window`; `watch` is told that `done` of `of` cycles were simulated before.
    pub(super) fn run(
        mut self,
        window: Window,
        watch: &mut Watch<'_>,
        (doing, done, of): (&'static str, u64, u64),
    ) -> Result<(Vec<Measured>, Counts), Error> {
        let end = window.warmup + window.cycles;
        let batch = window.cycles.div_ceil(BATCHES).max(1);
        let mut now = 0;
        while now < end {
            self.steady = now >= window.warmup;
            let phase_end = if self.steady { end } else { window.warmup };
            let batch_end = if self.steady { now + batch - (now - window.warmup) % batch } else { phase_end };
            let until = (now + STEP).min(phase_end).min(batch_end);
            self.create(now, until);
            self.network.advance(until * self.network.cycle() - 1);
            self.collect();
            if self.steady {
                self.count_waiting(now, until);
            }
            now = until;
            if self.steady && (now == batch_end || now == end) {
                self.end_batch();
            }
            if watch(Progress { doing, done: done + now, of }).is_break() {
                return Err(Error::Interrupted("jobs are compared only when all have run"));
            }
        }
        self.judge();
        let counters = self.network.counters();
        let counts = Counts { packet_hops: counters.packet_hops, flit_hops: counters.flit_hops };
        Ok((self.measured, counts))
    }

    /// Creates the messages of the cycles `now..until`, in their order.
    fn create(&mut self, now: u64, until: u64) {
        let cycle = self.network.cycle();
        while let Some(&Reverse((at, index))) = self.due.peek()
            && at < until
        {
            self.due.pop();
            let rank = &mut self.ranks[index];
            if rank.outstanding >= OUTSTANDING_MAX {
                self.due.push(Reverse((until, index)));
                continue;
            }
            if let Some(message) = rank.source.take(&rank.of.destinations, &rank.of.lengths) {
                rank.outstanding += 1;
                let batch = &mut self.measured[rank.job].current;
                batch.created += 1;
                batch.created_flits += u64::from(message.flits);
                self.network.inject(Injection {
                    src: rank.node,
                    dst: rank.of.nodes[message.to as usize],
                    flits: message.flits,
                    class: TrafficClass::Request,
                    adaptive: self.experiment.adaptive,
                    at: at * cycle,
                    tag: index as u64,
                    traced: false,
                });
            }
            let next = self.ranks[index].source.next_cycle();
            if next != u64::MAX {
                self.due.push(Reverse((next.max(at).max(now), index)));
            }
        }
    }

    fn collect(&mut self) {
        let cycle = self.network.cycle();
        while let Some(lost) = self.network.poll_lost() {
            let rank = &mut self.ranks[lost.tag as usize];
            rank.outstanding -= 1;
            self.measured[rank.job].current.lost += 1;
        }
        while let Some(d) = self.network.poll_delivery() {
            let rank = &mut self.ranks[d.tag as usize];
            rank.outstanding -= 1;
            let (measured, latency) = (&mut self.measured[rank.job], d.tail - d.at);
            measured.current.arrived += 1;
            measured.current.flits += u64::from(d.flits);
            measured.current.latency += u128::from(latency);
            measured.current.routers += u64::from(d.routers);
            if self.steady {
                measured.latencies.record(latency, cycle, usize::from(d.routers), d.flits);
            }
        }
        if !self.steady {
            self.measured.iter_mut().for_each(|measured| measured.current = Batch::default());
        }
    }

    /// Adds what waited in the cycles `from..until`.
    fn count_waiting(&mut self, from: u64, until: u64) {
        for rank in &self.ranks {
            self.measured[rank.job].current.waiting += u128::from(rank.waiting(until) * (until - from));
        }
        self.measured.iter_mut().for_each(|measured| measured.current.cycles += until - from);
    }

    fn end_batch(&mut self) {
        for rank in &self.ranks {
            self.measured[rank.job].current.backlog += u64::from(rank.outstanding);
        }
        for measured in &mut self.measured {
            measured.batches.push(std::mem::take(&mut measured.current));
        }
    }

    /// Says which jobs the network does not carry.
    fn judge(&mut self) {
        for measured in &mut self.measured {
            measured.growth = Growth::of(&measured.batches.parts(GROWTH_PARTS));
        }
    }
}

/// Work done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) packet_hops: u64,
    pub(super) flit_hops: u64,
}
