//! Latency statistics: batch means with a confidence interval, and a histogram for percentiles.

use serde::Serialize;
use std::ops::RangeInclusive;

/// Sub-buckets per power of two of a [`Histogram`]: percentiles are exact to 1/64.
const SUB_BITS: u32 = 6;

/// Counts of non-negative whole values in buckets of about 1.6 % width.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Smallest value that at least the share `q` of all values does not exceed.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(i).min(self.max);
            }
        }
        self.max
    }

    /// Non-empty buckets: their values and count.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> + '_ {
        let lowest = |i: usize| i.checked_sub(1).map_or(0, |before| upper(before) + 1);
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(i, &count)| (lowest(i)..=upper(i), count))
    }
}

/// Values below 2^SUB_BITS have a bucket of their own, larger ones share with those that agree in
/// their leading SUB_BITS + 1 bits.
fn bucket(value: u64) -> usize {
    let log = (value | 1).ilog2();
    if log < SUB_BITS {
        return value as usize;
    }
    let shift = log - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Largest value of bucket `index`.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 << SUB_BITS {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    (((index & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS) + 1) << shift) - 1
}

/// Arrivals during a number of cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Messages that arrived.
    pub arrived: u64,
    /// Their flits.
    pub flits: u64,
    /// Sum of their latencies, ps.
    pub latency: u128,
    /// Sum of the routers they passed.
    pub routers: u64,
    /// Messages dropped because no route to their destination was left.
    pub lost: u64,
    /// Messages created.
    pub created: u64,
    /// Their flits.
    pub created_flits: u64,
    /// Messages created but not arrived at the end of the batch.
    pub backlog: u64,
}

impl Batch {
    /// Mean latency, ps; `None` if nothing arrived.
    pub fn mean(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.latency as f64 / self.arrived as f64)
    }
    /// This batch followed by `next`.
    pub fn then(&self, next: &Batch) -> Batch {
        Batch {
            arrived: self.arrived + next.arrived,
            flits: self.flits + next.flits,
            latency: self.latency + next.latency,
            routers: self.routers + next.routers,
            lost: self.lost + next.lost,
            created: self.created + next.created,
            created_flits: self.created_flits + next.created_flits,
            backlog: next.backlog,
        }
    }
}

/// A mean and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Estimate.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval.
    pub half_width: f64,
}

/// Most batches that are kept apart; with more, neighbours are merged so that a batch becomes long
/// against the time over which latencies are correlated.
const BATCHES_MAX: usize = 40;

/// Consecutive batches of equal length.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    merged: Vec<Batch>,
    /// Pushed batches per merged one.
    factor: usize,
    partial: Option<(Batch, usize)>,
}

impl Batches {
    /// Appends the next batch.
    pub fn push(&mut self, batch: Batch) {
        self.factor = self.factor.max(1);
        let (sum, count) = match self.partial.take() {
            Some((sum, count)) => (sum.then(&batch), count + 1),
            None => (batch, 1),
        };
        if count < self.factor {
            self.partial = Some((sum, count));
            return;
        }
        self.merged.push(sum);
        if self.merged.len() == BATCHES_MAX {
            self.merged = self.merged.chunks(2).map(|pair| pair[0].then(&pair[1])).collect();
            self.factor *= 2;
        }
    }

    /// Complete batches, merged ones counted once.
    pub fn len(&self) -> usize {
        self.merged.len()
    }

    /// No complete batch yet.
    pub fn is_empty(&self) -> bool {
        self.merged.is_empty()
    }

    /// The complete batches.
    pub fn complete(&self) -> &[Batch] {
        &self.merged
    }

    /// Everything pushed.
    pub fn total(&self) -> Batch {
        let all = self.merged.iter().chain(self.partial.as_ref().map(|(b, _)| b));
        all.fold(Batch::default(), |sum, b| sum.then(b))
    }

    /// Mean latency in ps with its confidence interval; `None` with fewer than two batches that
    /// received something.
    pub fn latency(&self) -> Option<Interval> {
        let means: Vec<f64> = self.merged.iter().filter_map(Batch::mean).collect();
        let n = means.len();
        if n < 2 {
            return None;
        }
        let centre = means.iter().sum::<f64>() / n as f64;
        let variance = means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half_width = student_95(n - 1) * (variance / n as f64).sqrt();
        self.total().mean().map(|mean| Interval { mean, half_width })
    }
}

/// Two-sided 95 % quantile of Student's t distribution with `freedom` degrees of freedom.
fn student_95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => TABLE[freedom - 1],
        // Within 0.1 % of the table from 10 on.
        _ => 1.96 + 2.4 / freedom as f64 + 2.8 / (freedom * freedom) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut last = None;
        for value in 0..100_000u64 {
            let b = bucket(value);
            assert!(last.is_none_or(|l| b == l || b == l + 1), "{value}");
            assert!(upper(b) >= value && upper(b) - value <= value >> SUB_BITS, "{value}: {}", upper(b));
            last = Some(b);
        }
    }

    #[test]
    fn quantiles() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|v| h.record(v));
        assert_eq!((h.quantile(0.0), h.max(), h.quantile(1.0)), (1, 1000, 1000));
        assert!(h.quantile(0.5).abs_diff(500) <= 8 && h.quantile(0.99).abs_diff(990) <= 16);
        assert_eq!(h.buckets().map(|(_, c)| c).sum::<u64>(), 1000);
    }

    #[test]
    fn student_quantiles() {
        for (freedom, expected) in [(1, 12.706), (10, 2.228), (15, 2.131), (20, 2.086), (30, 2.042), (60, 2.000)] {
            assert!((student_95(freedom) / expected - 1.0).abs() < 0.002, "{freedom}: {}", student_95(freedom));
        }
    }

    #[test]
    fn merging_batches_loses_nothing() {
        let mut batches = Batches::default();
        for i in 0..1003u64 {
            batches.push(Batch { arrived: 1, latency: u128::from(i), created: 2, backlog: i, ..Batch::default() });
        }
        assert!(batches.len() < BATCHES_MAX && batches.len() >= BATCHES_MAX / 2 - 1);
        let total = batches.total();
        assert_eq!((total.arrived, total.latency, total.created, total.backlog), (1003, 1003 * 501, 2006, 1002));
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let covered = (0..400u32).filter(|&run| {
            let mut stream = Stream::new(17, run, Purpose::Length);
            let mut batches = Batches::default();
            for _ in 0..30 {
                let latency = (0..20).map(|_| stream.exponential(1000.0) as u128).sum();
                batches.push(Batch { arrived: 20, latency, ..Batch::default() });
            }
            let interval = batches.latency().unwrap();
            (interval.mean - 999.5).abs() <= interval.half_width
        });
        let covered = covered.count();
        assert!((365..=395).contains(&covered), "{covered} of 400, expected about 380");
    }
}
