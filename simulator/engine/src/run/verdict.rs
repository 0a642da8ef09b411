//! When a network has settled, and when it never will.

use super::stats::{Batch, mean_and_error, student_95};
use std::fmt;

/// Batches before the latency counts as settled.
pub(super) const BATCHES_MIN: usize = 20;
/// Parts into which a run is cut to see whether it has, at most.
pub(super) const PARTS: usize = 40;
/// Parts into which the time measured is cut to see what piles up, at least.
pub(crate) const GROWTH_PARTS: usize = 16;
/// Half-widths of the 95 % interval by which a growth is above 0 before it is concluded: 4.3 standard errors. A run that
/// is looked at thirty times sees as much by chance once in a hundred runs at most.
const SURE: f64 = 2.0;
/// Growth, as a share of what is created, below which a network counts as carrying its load.
pub(crate) const NONE: f64 = 0.002;
/// Steps between the means of a random walk's parts have a correlation of 1/4 with their neighbours, so that the
/// variance of their mean is larger by this than if they had none.
const WANDERS: f64 = 1.5;

/// The mean latency of the latter half of `batches` shows no trend: its two halves differ by no more than chance allows,
/// or by less than 1 %.
pub(super) fn settled(batches: &[Batch]) -> bool {
    let means: Vec<f64> = batches.iter().filter_map(Batch::mean).collect();
    if means.len() < BATCHES_MIN {
        return false;
    }
    let late = &means[means.len() / 2..];
    let (a, b) = late.split_at(late.len() / 2);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let variance =
        |v: &[f64]| v.iter().map(|x| (x - mean(v)).powi(2)).sum::<f64>() / (v.len() - 1) as f64 / v.len() as f64;
    let apart = (mean(b) - mean(a)).abs();
    apart <= 0.01 * mean(late) || apart <= (variance(a) + variance(b)).sqrt()
}

/// How fast the messages that wait become more, as a share of those created.
///
/// Above the knee of a network they do so in proportion to time; below it they go up and down about a
/// mean, far and slowly near the knee. The time is cut into parts. The rate is the mean of the steps
/// from each part's mean to the next one's, and its error follows from how much these steps differ.
/// Where waiting messages come back to a mean, a step up is followed by one down, so that the mean of
/// all is smaller than this error says; only too small a growth is missed then, never one seen where
/// there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Messages by which those that wait become more, by those created.
    pub(crate) share: f64,
    /// Half-width of its 95 % confidence interval.
    pub(crate) half_width: f64,
}

impl Growth {
    /// That of consecutive parts of equal length; `None` with too few to tell.
    pub(crate) fn of(parts: &[Batch]) -> Option<Growth> {
        let created = parts.iter().map(|part| part.created).sum::<u64>() as f64 / parts.len() as f64;
        if parts.len() < GROWTH_PARTS || created == 0.0 {
            return None;
        }
        let levels: Vec<f64> = parts.iter().map(|part| part.waiting as f64 / part.cycles as f64).collect();
        let steps: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (mean, error) = mean_and_error(&steps);
        let half_width = student_95(steps.len() - 1) * error * WANDERS.sqrt();
        Some(Growth { share: mean / created, half_width: half_width / created })
    }

    /// The network does not carry its load.
    pub(crate) fn saturates(&self) -> bool {
        self.share > SURE * self.half_width
    }

    /// Whatever it is, it is too small to matter.
    pub(crate) fn is_none(&self) -> bool {
        !self.saturates() && self.share + self.half_width <= NONE
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (share, half_width) = (100.0 * self.share, 100.0 * self.half_width);
        write!(f, "by {share:.2} ± {half_width:.2} % of those created")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn verdicts() {
        let means = |means: &[u64]| -> Vec<Batch> {
            means.iter().map(|&m| Batch { arrived: 1, latency: m.into(), ..Batch::default() }).collect()
        };
        assert!(!settled(&means(&[1; 5])), "too few");
        assert!(settled(&means(&[1; 40])));
        assert!(!settled(&means(&(0..40).collect::<Vec<_>>())), "drifting");
    }

    /// Growth of `parts` parts of 100 cycles, in each of which 1000 messages are created, `waiting(part)` wait.
    fn growth(parts: usize, mut waiting: impl FnMut(usize) -> f64) -> Option<Growth> {
        let part = |i| Batch { created: 1000, cycles: 100, waiting: (100.0 * waiting(i)) as u128, ..Batch::default() };
        Growth::of(&(0..parts).map(part).collect::<Vec<_>>())
    }

    #[test]
    fn growth_is_told_from_fluctuation() {
        let steady = growth(16, |i| 10.0 * i as f64).unwrap();
        assert!(steady.saturates() && !steady.is_none(), "1 %, without any doubt: {steady:?}");
        assert!((steady.share - 0.01).abs() < 1e-9, "{steady:?}");
        let still = growth(16, |i| 100.0 + (i % 3) as f64).unwrap();
        assert!(still.is_none() && !still.saturates(), "{still:?}");
        let wild = growth(16, |i| 1000.0 + 10.0 * i as f64 + 200.0 * (i % 2) as f64).unwrap();
        assert!(!wild.is_none() && !wild.saturates(), "may be either: {wild:?}");
        assert_eq!((growth(15, |i| i as f64), growth(16, |_| 0.0).map(|g| g.is_none())), (None, Some(true)));
    }

    #[test]
    fn a_random_walk_without_drift_rarely_seems_to_grow() {
        // At exactly the knee what waits is a random walk; parts are means of ten of its steps.
        let seems = |drift: f64| {
            let saturates = (0..400).filter(|&seed| {
                let mut stream = Stream::new(29, seed, Purpose::Length);
                let mut level = 1e6;
                growth(16, |_| {
                    let mut step = || {
                        level += drift + stream.exponential(10.0) - 10.0;
                        level
                    };
                    (0..10).map(|_| step()).sum::<f64>() / 10.0
                })
                .unwrap()
                .saturates()
            });
            saturates.count()
        };
        assert!(seems(0.0) <= 2, "{} of 400", seems(0.0));
        assert!(seems(10.0) >= 390, "{} of 400", seems(10.0));
    }
}
