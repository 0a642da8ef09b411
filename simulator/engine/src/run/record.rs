//! What a run has measured, so kept that the warm-up can be cut off when it is known.

use super::balance::Mark;
use super::latencies::Latencies;
use super::stats::Batches;
use crate::observe::Links;

/// The warm-up is at least this part of the whole run.
const WARMUP_PART: usize = 16;

/// What happened from some cycle on, so kept that its beginning can be left out later.
pub(super) struct Record {
    /// Cycle in which it begins.
    pub(super) begin: u64,
    pub(super) batches: Batches,
    /// Latencies by the number of bits of their batch's number: entry 0 those of batch 0, entry b > 0
    /// those of batches 2^(b−1) to 2^b − 1.
    pub(super) latencies: Vec<Latencies>,
    /// Other state at the beginning of those entries that may still become the end of the warm-up.
    pub(super) marks: Vec<Start>,
}

/// State at the beginning of a batch.
pub(super) struct Start {
    pub(super) batch: usize,
    pub(super) accounts: Mark,
    pub(super) links: Option<Links>,
    /// Sum over time of the messages under way.
    pub(super) under_way: u128,
}

impl Record {
    pub(super) fn new(begin: u64) -> Record {
        Record { begin, batches: Batches::default(), latencies: vec![Latencies::default()], marks: Vec::new() }
    }
    /// Keeps `start`, and of earlier ones those that may still become the end of the warm-up.
    pub(super) fn mark(&mut self, start: Start) {
        self.marks.retain(|earlier| earlier.batch * WARMUP_PART >= start.batch);
        self.marks.push(start);
    }
    /// Latencies of the present batch belong here.
    pub(super) fn current(&mut self) -> &mut Latencies {
        self.latencies.last_mut().expect("there is one from the beginning")
    }
    /// Batches that are left out if the latency had settled after `settled` of them: as many, rounded up to a power of
    /// two, and not less than a 16th of the whole.
    pub(super) fn warmup(&self, settled: usize) -> usize {
        settled.max(self.batches.pushed() / WARMUP_PART).next_power_of_two()
    }
    /// Latencies from batch `first` on, 0 or a power of two.
    pub(super) fn latencies(&self, first: usize) -> Latencies {
        let from = (usize::BITS - first.leading_zeros()) as usize;
        let mut all = Latencies::default();
        self.latencies.iter().skip(from).for_each(|h| all.add(h));
        all
    }
}
