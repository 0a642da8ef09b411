//! Open-loop traffic of several jobs on one network, each measured for itself.

use super::file::Job;
use crate::Error;
use crate::run::latencies::Latencies;
use crate::run::stats::{Batch, Batches};
use crate::run::verdict::{PARTS, growing};
use crate::run::{Experiment, Progress};
use crate::traffic::Source;
use crate::workload::Watch;
use angara_model::{Injection, Network, TrafficClass};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles between two looks at the network; sources are served this far ahead.
const STEP: u64 = 16;
/// Batches of the measured time, for the confidence interval.
const BATCHES: u64 = 20;
/// Messages a source may have under way; more are created when some have arrived.
const OUTSTANDING_MAX: u32 = 2000;
/// Share of its flits that a job which is not saturated delivers.
const CARRIED: f64 = 0.98;

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
    pub(super) saturated: bool,
}

impl Measured {
    pub(super) fn total(&self) -> Batch {
        self.batches.total()
    }
    /// Half-width of the 95 % confidence interval of the mean latency, ps.
    pub(super) fn confidence(&self) -> Option<f64> {
        self.batches.latency().map(|interval| interval.half_width)
    }
}

/// A rank that sends.
struct Rank<'a> {
    job: usize,
    of: &'a Job,
    node: u32,
    source: Source,
    outstanding: u32,
    /// Had to wait with a message.
    held: bool,
}

pub(super) struct Stage<'a> {
    experiment: &'a Experiment,
    network: Network,
    ranks: Vec<Rank<'a>>,
    /// Ranks by the cycle of their next message.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    measured: Vec<Measured>,
    /// Mean length of each job's messages, flits.
    lengths: Vec<f64>,
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
                ranks.push(Rank { job, of, node, source, outstanding: 0, held: false });
            }
        }
        let due = ranks.iter().enumerate().map(|(i, rank)| Reverse((rank.source.next_cycle(), i)));
        Ok(Stage {
            experiment,
            network: experiment.build()?,
            due: due.collect(),
            measured: jobs.iter().map(|_| Measured::default()).collect(),
            lengths: jobs.iter().map(|job| job.lengths.mean()).collect(),
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
                rank.held = true;
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
        for (job, measured) in self.measured.iter_mut().enumerate() {
            let held = self.ranks.iter().any(|rank| rank.job == job && rank.held);
            let total = measured.batches.total();
            let mean = self.lengths[job];
            let delivered = total.flits as f64 + total.lost as f64 * mean;
            let carried = delivered >= CARRIED * total.created_flits as f64;
            measured.saturated = held || growing(&measured.batches.coarse(PARTS)) && !carried;
        }
    }
}

/// Work done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) packet_hops: u64,
    pub(super) flit_hops: u64,
}
