//! Latency statistics: batch means with a confidence interval, and a histogram for percentiles.

use super::together::{Together, limbs, whole};
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

    /// Counts everything `other` has counted.
    pub fn add(&mut self, other: &Histogram) {
        let buckets = self.counts.len().max(other.counts.len());
        self.counts.resize(buckets, 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Counts what the others of `together` have counted, too; they do the same.
    pub(super) fn gather(&mut self, together: &Together) {
        self.counts.resize(together.most(self.counts.len() as u64) as usize, 0);
        together.sum(&mut self.counts);
        self.total = self.counts.iter().sum();
        self.max = together.most(self.max);
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

    /// Points of the distribution: the largest value of every bucket, and its share of all values by its width, as wider
    /// buckets hold more.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let total = self.total.max(1) as f64;
        let point = |(values, count): (RangeInclusive<u64>, u64)| {
            let width = values.end() - values.start() + 1;
            (*values.end() as f64, count as f64 / total / width as f64)
        };
        self.buckets().map(point).collect()
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
    /// Cycles of the batch.
    pub cycles: u64,
    /// Sum over its cycles of the messages that wait: under way, or due at a source that is held back.
    pub waiting: u128,
}

impl Batch {
    /// Mean latency, ps; `None` if nothing arrived.
    pub fn mean(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.latency as f64 / self.arrived as f64)
    }
    /// What arrived and was created, as numbers to be summed over processes.
    pub(super) fn numbers(&self) -> [u64; 10] {
        let [a, b, c, d] = limbs(self.latency);
        [self.arrived, self.flits, a, b, c, d, self.routers, self.lost, self.created, self.created_flits]
    }
    /// The batch of these numbers.
    pub(super) fn of(numbers: [u64; 10]) -> Batch {
        let [arrived, flits, a, b, c, d, routers, lost, created, created_flits] = numbers;
        let latency = whole([a, b, c, d]);
        Batch { arrived, flits, latency, routers, lost, created, created_flits, ..Batch::default() }
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
            cycles: self.cycles + next.cycles,
            waiting: self.waiting + next.waiting,
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
    /// Correlation of neighbours when the time measured is cut into [`FINE`] parts, -1 to 1. A value
    /// near 1 means that the time measured is short against the fluctuations, and that the
    /// half-width is too small.
    pub correlation: f64,
}

impl Interval {
    /// True if the time measured is long against the fluctuations, so that the half-width can be
    /// relied on.
    pub fn reliable(&self) -> bool {
        self.correlation <= CORRELATION_MAX
    }
}

/// Most batches that are kept apart; with more, neighbours are merged.
const BATCHES_MAX: usize = 512;
/// Parts whose neighbours are compared, to find out how long fluctuations last.
pub const FINE: usize = 64;
/// Parts whose differences say how well the mean is known. Few, as rare congestion shows in long ones only.
const COARSE: usize = 8;
/// Largest correlation of neighbouring parts with which an interval counts as reliable. Of a process whose
/// correlation falls exponentially, parts of three correlation times have 0.16.
pub(super) const CORRELATION_MAX: f64 = 0.15;

/// Consecutive batches of equal length.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    merged: Vec<Batch>,
    /// Pushed batches per merged one, a power of two.
    factor: usize,
    /// Pushed batches that do not make a merged one yet, as a sum, and their number.
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

    /// Batches pushed.
    pub fn pushed(&self) -> usize {
        self.merged.len() * self.factor + self.partial.map_or(0, |(_, count)| count)
    }

    /// These batches without the first `count` of those pushed, rounded down to merged ones.
    pub fn after(&self, count: usize) -> Batches {
        let first = (count / self.factor.max(1)).min(self.merged.len());
        Batches { merged: self.merged[first..].to_vec(), ..*self }
    }

    /// At most `parts` batches of equal length, the latest ones.
    pub fn coarse(&self, parts: usize) -> Vec<Batch> {
        let each = (self.merged.len() / parts).max(1);
        let rest = self.merged.len() % each;
        let spare = rest + (self.merged.len() / each).saturating_sub(parts) * each;
        let sum = |group: &[Batch]| group[1..].iter().fold(group[0], |sum, b| sum.then(b));
        self.merged[spare..].chunks(each).map(sum).collect()
    }

    /// Batches of equal length, the latest ones: at least `parts` where there are as many, and fewer than twice that, so
    /// that less than one of them is left out.
    pub fn parts(&self, parts: usize) -> Vec<Batch> {
        let each = (self.merged.len() / parts).max(1);
        self.coarse((self.merged.len() / each).max(1))
    }

    /// Everything pushed.
    pub fn total(&self) -> Batch {
        let all = self.merged.iter().chain(self.partial.as_ref().map(|(b, _)| b));
        all.fold(Batch::default(), |sum, b| sum.then(b))
    }

    /// Mean latency in ps with its confidence interval; `None` with fewer than two batches, or if nothing arrived.
    ///
    /// The mean is a quotient, sum of latencies by number of messages; its error is that of the sums
    /// of latency − mean over [`COARSE`] consecutive parts.
    pub fn latency(&self) -> Option<Interval> {
        let mean = self.total().mean()?;
        let deviations = |parts: &[Batch]| -> Vec<f64> {
            parts.iter().map(|b| b.latency as f64 - mean * b.arrived as f64).collect()
        };
        let coarse = self.coarse(COARSE);
        let parts = deviations(&coarse);
        if parts.len() < 2 {
            return None;
        }
        let arrived: u64 = coarse.iter().map(|b| b.arrived).sum();
        let (_, error) = mean_and_error(&parts);
        // Neighbours that still go together make the sum less certain. That few of them are seen to go together less
        // than they do, as the mean is theirs: by one in N on average.
        let together = (correlation(&parts) + 1.0 / parts.len() as f64).clamp(0.0, 0.9);
        let wider = ((1.0 + together) / (1.0 - together)).sqrt();
        let t = student_95(parts.len() - 1) * asymmetry(&parts);
        let half_width = t * error * parts.len() as f64 * wider / arrived as f64;
        Some(Interval { mean, half_width, correlation: correlation(&deviations(&self.coarse(FINE))) })
    }
}

/// By how much an interval by Student's t is too narrow on one of its sides where few values are far above the others, or below:
/// near its knee a network is congested now and then. At least 1. R. Willink, "A confidence interval and test for the mean of an
/// asymmetric distribution", Communications in Statistics 34 (2005).
fn asymmetry(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let moment = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>();
    let deviation = (moment(2) / (n - 1.0)).sqrt();
    if deviation == 0.0 {
        return 1.0;
    }
    let beta = moment(3) / n / deviation.powi(3) / (6.0 * n.sqrt());
    if beta.abs() < 1e-6 {
        return 1.0;
    }
    let t = student_95(values.len() - 1);
    let side = |r: f64| (((1.0 + 6.0 * beta * (r - beta)).cbrt() - 1.0) / (2.0 * beta)).abs();
    (side(t).max(side(-t)) / t).max(1.0)
}

/// Correlation of neighbours in `values`; 0 if all are equal.
fn correlation(values: &[f64]) -> f64 {
    let centre = values.iter().sum::<f64>() / values.len() as f64;
    let all: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    let pairs: f64 = values.windows(2).map(|w| (w[0] - centre) * (w[1] - centre)).sum();
    if all > 0.0 { pairs / all } else { 0.0 }
}

/// Mean of independent `values` and its standard error.
pub(super) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Mean of `values` by its standard error; infinite if all are the same and not 0.
pub(super) fn student_t(values: &[f64]) -> f64 {
    let (mean, error) = mean_and_error(values);
    if mean == 0.0 { 0.0 } else { mean / error }
}

/// Mean of independent `values`, and half-width of its 95 % confidence interval if there are at least two.
pub(crate) fn between(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, error) = mean_and_error(values);
    (mean, (values.len() > 1).then(|| student_95(values.len() - 1) * error))
}

/// Two-sided 95 % quantile of Student's t distribution with `freedom` degrees of freedom.
pub(super) fn student_95(freedom: usize) -> f64 {
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
        assert!(batches.merged.len() < BATCHES_MAX && batches.merged.len() >= BATCHES_MAX / 2 - 1);
        let total = batches.total();
        assert_eq!((total.arrived, total.latency, total.created, total.backlog), (1003, 1003 * 501, 2006, 1002));
    }

    #[test]
    fn correlated_batches_are_seen_and_widen_the_interval() {
        // An autoregression: each batch is 0.97 of the one before and a new part.
        let run = |batches: usize, seed| {
            let mut stream = Stream::new(23, seed, Purpose::Length);
            let (mut all, mut level) = (Batches::default(), 0.0);
            for _ in 0..batches {
                level = 0.97 * level + stream.exponential(100.0) - 100.0;
                all.push(Batch { arrived: 1, latency: (100_000.0 + 100.0 * level) as u128, ..Batch::default() });
            }
            all.latency().unwrap()
        };
        assert!(run(64, 1).correlation > 0.3, "{:?}", run(64, 1));
        let long: Vec<Interval> = (0..200).map(|seed| run(16_000, seed)).filter(Interval::reliable).collect();
        let covered = long.iter().filter(|i| (i.mean - 100_000.0).abs() <= i.half_width).count();
        assert!(long.len() > 120, "{}", long.len());
        let share = covered as f64 / long.len() as f64;
        assert!((0.91..=0.99).contains(&share), "{covered} of {}", long.len());
    }

    #[test]
    fn what_is_left_out_is_the_beginning() {
        for pushed in [40, 511, 512, 5000usize] {
            let mut batches = Batches::default();
            (0..pushed).for_each(|i| batches.push(Batch { arrived: 1, latency: i as u128, ..Batch::default() }));
            assert_eq!(batches.pushed(), pushed);
            let first = (pushed / 16).next_power_of_two();
            let rest = batches.after(first).total();
            let sum: usize = (first..pushed).sum();
            assert_eq!((rest.arrived, rest.latency), ((pushed - first) as u64, sum as u128), "{pushed}");
        }
    }

    #[test]
    fn coarse_parts_are_the_latest_and_equally_long() {
        for n in [1, 7, 8, 9, 33, 100, 511] {
            let mut batches = Batches::default();
            (0..n).for_each(|i| batches.push(Batch { arrived: 1, backlog: i, ..Batch::default() }));
            let parts = batches.coarse(8);
            assert!(parts.len() == 8.min(n as usize) && parts.iter().all(|p| p.arrived == parts[0].arrived), "{n}");
            assert_eq!(parts.last().unwrap().backlog, n - 1);
        }
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
