//! What a queue did, without its ramps: the first jobs find an empty machine, the last ones leave it.
//!
//! The *window* is the time from the submission of the first job that counts to that of the last one.
//! Metrics of jobs are those of jobs submitted in it, metrics of nodes are those of all jobs in it.

use super::{Job, Outcome};
use angara_placement::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Run times below this do not make slow-downs large (D. Feitelson and others, JSSPP 1997), seconds.
pub const BOUND: u64 = 10;

/// One number of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Node-seconds that processes use, by those of working nodes.
    Utilisation,
    /// Node-seconds that sets hold, with transit nodes, by those of working nodes.
    Held,
    /// Mean wait, seconds.
    WaitS,
    /// Mean of (wait + run time) / run time.
    Slowdown,
    /// The same, with run times of [`BOUND`] seconds at least, and never below 1.
    BoundedSlowdown,
    /// Mean number of transit nodes of a job.
    TransitPerJob,
    /// Mean of nodes of the largest free box by free nodes; 1 is one piece.
    LargestFreeBox,
    /// Jobs for which a search found no set though enough nodes were free.
    BlockedJobs,
    /// Node-seconds of the first such job of each instant, by those of working nodes.
    BlockedNodes,
    /// Jobs that the empty machine has no set for.
    Rejected,
    /// Jobs that had a reservation before they started: their first one is a promise.
    Promised,
    /// Of them, jobs that started later than it said.
    Late,
    /// Mean of how much later those did, seconds; 0 if none did.
    LatenessS,
    /// The most of it, seconds.
    WorstLatenessS,
    /// Most jobs that waited at once, ramps included.
    LongestQueue,
    /// Node-seconds of all jobs by those of working nodes until the last submission.
    OfferedLoad,
}

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Those that there are: with no job in the window, there is no wait.
    pub figures: BTreeMap<Figure, f64>,
    /// Mean wait of jobs with at most N nodes, and more than the class before, and their number.
    pub wait_by_size: BTreeMap<usize, (f64, usize)>,
}

/// Largest number of nodes in the class of a size: 1, 8, 64, 512, and so on.
pub fn size_class(nodes: usize) -> usize {
    let mut class = 1;
    while class < nodes {
        class *= 8;
    }
    class
}

/// Name of a class: `1`, `2-8`, `9-64`.
pub fn class_name(class: usize) -> String {
    if class == 1 { "1".into() } else { format!("{}-{class}", class / 8 + 1) }
}

/// Jobs that count when the share `cut` of all is left out at either end.
pub fn counted(jobs: usize, cut: f64) -> Range<usize> {
    let out = (jobs as f64 * cut).ceil() as usize;
    if 2 * out >= jobs { 0..jobs } else { out..jobs - out }
}

/// Seconds that two spans have in common.
fn overlap(a: (u64, u64), b: (u64, u64)) -> f64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0)) as f64
}

/// Evaluates a run.
pub fn evaluate(machine: &Machine, jobs: &[Job], outcome: &Outcome, cut: f64) -> Metrics {
    let mut metrics = Metrics::default();
    let range = counted(jobs.len(), cut);
    if range.is_empty() {
        return metrics;
    }
    let window = (jobs[range.start].submit, jobs[range.end - 1].submit);
    of_jobs(&jobs[range.clone()], &outcome.ran[range.clone()], &mut metrics);
    of_promises(&outcome.ran[range], &mut metrics.figures);
    of_nodes(machine.working() as f64, jobs, outcome, window, &mut metrics.figures);
    metrics.figures.insert(Figure::LongestQueue, outcome.longest_queue as f64);
    metrics.figures.insert(Figure::Rejected, outcome.ran.iter().filter(|ran| ran.is_none()).count() as f64);
    metrics
}

fn of_jobs(jobs: &[Job], ran: &[Option<super::Ran>], metrics: &mut Metrics) {
    let mut sums = [0.0; 5];
    let mut started = 0;
    let mut classes: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for (job, ran) in jobs.iter().zip(ran) {
        let Some(ran) = ran else { continue };
        let (wait, run) = ((ran.start - job.submit) as f64, job.run as f64);
        let slowdown = (wait + run) / run;
        let bounded = ((wait + run) / run.max(BOUND as f64)).max(1.0);
        let values = [wait, slowdown, bounded, ran.transit as f64, f64::from(u8::from(ran.blocked))];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        let class = classes.entry(size_class(job.nodes)).or_default();
        *class = (class.0 + wait, class.1 + 1);
        started += 1;
    }
    metrics.figures.insert(Figure::BlockedJobs, sums[4]);
    if started == 0 {
        return;
    }
    let means = [Figure::WaitS, Figure::Slowdown, Figure::BoundedSlowdown, Figure::TransitPerJob];
    metrics.figures.extend(means.into_iter().zip(sums.map(|sum| sum / f64::from(started))));
    metrics.wait_by_size = classes.into_iter().map(|(class, (sum, n))| (class, (sum / n as f64, n))).collect();
}

/// A scheduler that reserves nothing has promised nothing, and has none of these figures.
fn of_promises(ran: &[Option<super::Ran>], figures: &mut BTreeMap<Figure, f64>) {
    let promised = ran.iter().flatten().filter_map(|ran| Some((ran.start, ran.promised?)));
    let late: Vec<u64> =
        promised.clone().map(|(start, by)| start.saturating_sub(by)).filter(|late| *late > 0).collect();
    let count = promised.count();
    if count == 0 {
        return;
    }
    figures.insert(Figure::Promised, count as f64);
    figures.insert(Figure::Late, late.len() as f64);
    figures.insert(Figure::LatenessS, late.iter().sum::<u64>() as f64 / late.len().max(1) as f64);
    figures.insert(Figure::WorstLatenessS, late.iter().copied().max().unwrap_or(0) as f64);
}

fn of_nodes(working: f64, jobs: &[Job], outcome: &Outcome, window: (u64, u64), figures: &mut BTreeMap<Figure, f64>) {
    let last = jobs.last().map_or(0, |job| job.submit);
    if last > 0 {
        let work: f64 = jobs.iter().map(|job| job.nodes as f64 * job.run as f64).sum();
        figures.insert(Figure::OfferedLoad, work / (working * last as f64));
    }
    let all = working * (window.1 - window.0) as f64;
    if all > 0.0 {
        let (mut used, mut held) = (0.0, 0.0);
        for (job, ran) in jobs.iter().zip(&outcome.ran) {
            let Some(ran) = ran else { continue };
            let seconds = overlap((ran.start, ran.start + job.run), window);
            used += job.nodes as f64 * seconds;
            held += (job.nodes + ran.transit) as f64 * seconds;
        }
        // A sum of no numbers would be -0.
        let blocked = outcome.blocked.iter().fold(0.0, |sum, b| sum + b.nodes as f64 * overlap(b.span, window));
        figures.insert(Figure::Utilisation, used / all);
        figures.insert(Figure::Held, held / all);
        figures.insert(Figure::BlockedNodes, blocked / all);
    }
    let inside = outcome.samples.iter().filter(|s| s.free > 0 && (window.0..=window.1).contains(&s.time));
    let shares: Vec<f64> = inside.map(|s| s.largest_box as f64 / s.free as f64).collect();
    if !shares.is_empty() {
        figures.insert(Figure::LargestFreeBox, shares.iter().sum::<f64>() / shares.len() as f64);
    }
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    pub mean: f64,
    /// Half-width of its 95 % confidence interval by Student's t; `None` with one seed.
    pub half_width: Option<f64>,
}

impl Mean {
    /// The mean of independent values, of which there is one at least.
    pub fn of(values: &[f64]) -> Mean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let half_width = (values.len() > 1).then(|| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            student_95(values.len() - 1) * (variance / n).sqrt()
        });
        Mean { mean, half_width }
    }
}

/// Two-sided 95 % quantile of Student's t distribution: a table, then the expansion of Cornish and Fisher.
fn student_95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let (z, n) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    TABLE.get(freedom - 1).copied().unwrap_or(z + first / n + second / (n * n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::engine::{Blocked, Ran, Sample};

    #[test]
    fn a_schedule_by_hand() {
        let machine = Machine::new("10".parse().unwrap(), &[]);
        let job = |submit, nodes, run| Job { number: 0, submit, nodes, run, estimate: run };
        let jobs = [job(0, 5, 100), job(10, 2, 5), job(10, 9, 20), job(50, 1, 40), job(110, 10, 10)];
        let ran = |start, transit, blocked, promised| Some(Ran { start, transit, blocked, promised });
        let outcome = Outcome {
            ran: vec![
                ran(0, 0, false, None),
                ran(20, 2, true, Some(14)),
                None,
                ran(50, 0, false, Some(60)),
                ran(110, 0, false, Some(1)),
            ],
            blocked: vec![Blocked { span: (5, 20), nodes: 2 }],
            samples: vec![
                Sample { time: 5, free: 5, largest_box: 1 },
                Sample { time: 20, free: 1, largest_box: 1 },
                Sample { time: 30, free: 4, largest_box: 2 },
                Sample { time: 40, free: 0, largest_box: 0 },
            ],
            longest_queue: 2,
            ..Outcome::default()
        };
        // The window is 10 to 50; the second to fourth job count, and the third was rejected.
        let metrics = evaluate(&machine, &jobs, &outcome, 0.1);
        let expected = [
            (Figure::Utilisation, (5.0 * 40.0 + 2.0 * 5.0) / 400.0),
            (Figure::Held, (5.0 * 40.0 + 4.0 * 5.0) / 400.0),
            (Figure::WaitS, 5.0),
            (Figure::Slowdown, (15.0 / 5.0 + 1.0) / 2.0),
            (Figure::BoundedSlowdown, (15.0 / 10.0 + 1.0) / 2.0),
            (Figure::TransitPerJob, 1.0),
            (Figure::LargestFreeBox, 0.75),
            (Figure::BlockedJobs, 1.0),
            (Figure::BlockedNodes, 2.0 * 10.0 / 400.0),
            (Figure::Rejected, 1.0),
            (Figure::Promised, 2.0),
            (Figure::Late, 1.0),
            (Figure::LatenessS, 6.0),
            (Figure::WorstLatenessS, 6.0),
            (Figure::LongestQueue, 2.0),
            (Figure::OfferedLoad, (500.0 + 10.0 + 180.0 + 40.0 + 100.0) / 1100.0),
        ];
        assert_eq!(metrics.figures, expected.into_iter().collect());
        assert_eq!(metrics.wait_by_size, BTreeMap::from([(1, (0.0, 1)), (8, (10.0, 1))]));
    }

    #[test]
    fn ramps_are_cut_at_both_ends() {
        assert_eq!(
            [counted(100, 0.05), counted(3, 0.05), counted(2, 0.4), counted(0, 0.05)],
            [5..95, 1..2, 0..2, 0..0]
        );
        assert_eq!([1, 2, 8, 9, 512, 513].map(size_class), [1, 8, 8, 64, 512, 4096]);
        assert_eq!([1, 8, 4096].map(class_name), ["1", "2-8", "513-4096"]);
    }

    #[test]
    fn intervals_are_those_of_student() {
        assert_eq!(Mean::of(&[3.0]), Mean { mean: 3.0, half_width: None });
        let five = Mean::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(five.mean == 3.0 && (five.half_width.unwrap() - 2.776 * 0.5f64.sqrt()).abs() < 1e-9, "{five:?}");
        for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.000)] {
            assert!((student_95(freedom) / expected - 1.0).abs() < 0.001, "{freedom}: {}", student_95(freedom));
        }
    }
}
