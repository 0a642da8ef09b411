//! Jobs of the Lublin-Feitelson model, its batch jobs (U. Lublin, D. Feitelson, "The workload on
//! parallel supercomputers: modeling the characteristics of rigid jobs", JPDC 63(11), 2003).
//!
//! Its constants come from machines of up to some hundred nodes; sizes grow with the machine here
//! (`uhi`, `umed`), run times do not. On a machine of thousands of nodes nearly all jobs of more than
//! 232 nodes are long ones, about 6 hours.

use super::Job;
use super::random::Draws;

/// Probability of a job of one node, and of one whose size is a power of two.
const SERIAL: f64 = 0.2927;
const POWER_OF_2: f64 = 0.6686;
/// Sizes: log2 is uniform from ULOW to umed with probability UPROB, else from umed to uhi.
const ULOW: f64 = 1.2;
const UPROB: f64 = 0.875;
/// Log2 of the machine's size above the middle of sizes; the paper has 1.5 to 3.5.
const UMED_BELOW: f64 = 2.5;
/// The logarithm of run times is Gamma(A1, B1) with probability PA × nodes + PB, else Gamma(A2, B2).
const A1: f64 = 6.57;
const B1: f64 = 0.823;
const A2: f64 = 639.1;
const B2: f64 = 0.0156;
const PA: f64 = -0.003;
const PB: f64 = 0.6986;
/// Largest logarithm of a run time, about two days.
const RUN_LOG_MAX: f64 = 12.0;
/// The logarithm of times between submissions at rush hours is Gamma(AARR × ARAR, BARR).
const AARR: f64 = 6.0415;
const BARR: f64 = 0.8531;
const ARAR: f64 = 1.0519;
/// Largest logarithm of a time between submissions, about five days.
const GAP_LOG_MAX: f64 = 13.0;
/// Submissions by time of day: Gamma(ANUM, BNUM) over half hours, of which the first is DAY_BEGIN.
const ANUM: f64 = 6.1271;
const BNUM: f64 = 5.2740;
const DAY_BEGIN: usize = 11;
const SLOTS: usize = 48;
const SLOT_SECONDS: f64 = 1800.0;

/// What jobs to make.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Number of jobs.
    pub jobs: usize,
    /// Nodes of the machine.
    pub nodes: usize,
    /// Node-seconds of all jobs by those of the machine until the last submission. Times between
    /// submissions are scaled to it, the cycle of the day is not. `None`: as the model has it.
    pub load: Option<f64>,
    /// Estimates are uniform from the run time to 1 + this many times the run time: the *f-model*.
    pub overestimate: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Returns jobs in order of submission.
pub fn jobs(wanted: &Wanted) -> Vec<Job> {
    let [mut gaps, mut sizes, mut runs, mut estimates] = [1, 2, 3, 4].map(|purpose| Draws::new(wanted.seed, purpose));
    let mut made: Vec<Job> = (1..=wanted.jobs as u64)
        .map(|number| {
            let nodes = size(&mut sizes, wanted.nodes);
            let run = run_time(&mut runs, nodes);
            let factor = estimates.between(1.0, 1.0 + wanted.overestimate);
            Job { number, submit: 0, nodes, run, estimate: (run as f64 * factor) as u64 }
        })
        .collect();
    let gaps: Vec<f64> = made.iter().map(|_| gap(&mut gaps)).collect();
    let day = Day::new();
    let scale = wanted.load.map_or(1.0, |load| {
        let work: f64 = made.iter().map(|job| job.nodes as f64 * job.run as f64).sum();
        day.rush_until(work / (load * wanted.nodes as f64)) / gaps.iter().sum::<f64>()
    });
    let mut rush = 0.0;
    for (job, gap) in made.iter_mut().zip(gaps) {
        rush += gap * scale;
        job.submit = day.time_of(rush).round() as u64;
    }
    made
}

/// Nodes of a job.
fn size(draws: &mut Draws, nodes: usize) -> usize {
    let kind = draws.uniform();
    if kind < SERIAL {
        return 1;
    }
    let high = (nodes as f64).log2();
    let low = ULOW.min(high);
    let middle = (high - UMED_BELOW).max(low);
    let mut log = if draws.uniform() < UPROB { draws.between(low, middle) } else { draws.between(middle, high) };
    if kind < SERIAL + POWER_OF_2 {
        // A machine whose size is no power of two has no room for the next one.
        log = log.round().min(high.floor());
    }
    (log.exp2().round() as usize).clamp(1, nodes)
}

/// Seconds that a job of N nodes runs.
fn run_time(draws: &mut Draws, nodes: usize) -> u64 {
    let short = (PA * nodes as f64 + PB).clamp(0.0, 1.0);
    loop {
        let (shape, scale) = if draws.uniform() < short { (A1, B1) } else { (A2, B2) };
        let log = draws.gamma(shape, scale);
        if log <= RUN_LOG_MAX {
            return (log.exp() as u64).max(1);
        }
    }
}

/// Seconds to the next submission at the mean rate of a day.
fn gap(draws: &mut Draws) -> f64 {
    loop {
        let log = draws.gamma(AARR * ARAR, BARR);
        if log <= GAP_LOG_MAX {
            return log.exp();
        }
    }
}

/// The cycle of the day: shares of submissions in each half hour from midnight on, 1 on average.
struct Day([f64; SLOTS]);

impl Day {
    fn new() -> Day {
        let mut shares = [0.0; SLOTS];
        for slot in DAY_BEGIN..DAY_BEGIN + SLOTS {
            shares[(slot - 1) % SLOTS] = gamma_mass(slot as f64 - 0.5, slot as f64 + 0.5);
        }
        let mean = shares.iter().sum::<f64>() / SLOTS as f64;
        Day(shares.map(|share| share / mean))
    }

    /// Seconds of the mean rate that pass until `time`.
    fn rush_until(&self, time: f64) -> f64 {
        let days = (time / (SLOT_SECONDS * SLOTS as f64)).floor();
        let mut left = time / SLOT_SECONDS - days * SLOTS as f64;
        let mut rush = days * SLOTS as f64;
        for share in self.0 {
            rush += share * left.min(1.0);
            left -= left.min(1.0);
        }
        rush * SLOT_SECONDS
    }

    /// The time until which N seconds of the mean rate pass.
    fn time_of(&self, rush: f64) -> f64 {
        let days = (rush / (SLOT_SECONDS * SLOTS as f64)).floor();
        let mut left = rush / SLOT_SECONDS - days * SLOTS as f64;
        let mut slots = days * SLOTS as f64;
        for share in self.0 {
            if left < share {
                return (slots + left / share) * SLOT_SECONDS;
            }
            left -= share;
            slots += 1.0;
        }
        slots * SLOT_SECONDS
    }
}

/// Mass of Gamma(ANUM, BNUM) between two points, but for a factor: Simpson's rule.
fn gamma_mass(from: f64, to: f64) -> f64 {
    let density = |x: f64| x.powf(ANUM - 1.0) * (-x / BNUM).exp();
    let parts = 16;
    let step = (to - from) / f64::from(parts);
    let weight = |k: i32| if k == 0 || k == parts { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
    (0..=parts).map(|k| weight(k) * density(from + f64::from(k) * step)).sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 11;

    fn many(nodes: usize, load: Option<f64>) -> Vec<Job> {
        jobs(&Wanted { jobs: 50_000, nodes, load, overestimate: 2.0, seed: SEED })
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let all: Vec<f64> = values.collect();
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn sizes_have_the_moments_of_the_model() {
        let all = many(32_768, None);
        let share = |f: &dyn Fn(&Job) -> bool| all.iter().filter(|job| f(job)).count() as f64 / all.len() as f64;
        assert!((share(&|j| j.nodes == 1) - SERIAL).abs() < 0.01, "seed {SEED}");
        // Other sizes hit a power of two by chance only, mostly small ones.
        let powers = share(&|j| j.nodes > 1 && j.nodes.is_power_of_two());
        assert!((POWER_OF_2 - 0.01..POWER_OF_2 + 0.02).contains(&powers), "seed {SEED}: {powers}");
        // 0.875 × (1.2 + 12.5) / 2 + 0.125 × (12.5 + 15) / 2
        let log = mean(all.iter().filter(|j| j.nodes > 1).map(|j| (j.nodes as f64).log2()));
        assert!((log - 7.7125).abs() < 0.1, "seed {SEED}: {log}");
        assert!(all.iter().any(|j| j.nodes == 32_768) && all.iter().all(|j| j.nodes <= 32_768));
        assert!(many(1000, None).iter().all(|j| j.nodes <= 1000), "no power of two above the machine");
    }

    #[test]
    fn run_times_grow_with_size() {
        let all = many(32_768, None);
        let logs = |f: &dyn Fn(&Job) -> bool| mean(all.iter().filter(|j| f(j)).map(|j| (j.run as f64).ln()));
        // Beyond (0.6986 / 0.003) = 232 nodes the second gamma alone: 639.1 × 0.0156, little cut off.
        assert!((logs(&|j| j.nodes > 232) - 9.97).abs() < 0.03, "seed {SEED}: {}", logs(&|j| j.nodes > 232));
        // One node: 0.6956 of the first, mean 5.41, less what is cut off above 12; 0.3044 of the second.
        let serial = logs(&|j| j.nodes == 1);
        assert!((6.6..6.85).contains(&serial), "seed {SEED}: {serial}");
        assert!(all.iter().all(|j| j.run >= 1 && j.run <= 162_755));
    }

    #[test]
    fn the_load_is_met_and_the_day_keeps_its_cycle() {
        for load in [0.5, 0.9] {
            let all = many(4096, Some(load));
            let work: f64 = all.iter().map(|j| j.nodes as f64 * j.run as f64).sum();
            let real = work / (4096.0 * all[all.len() - 1].submit as f64);
            assert!((real / load - 1.0).abs() < 1e-6, "seed {SEED}: {real}");
            assert!(all.is_sorted_by_key(|j| j.submit));
            // The mode of Gamma(6.1271, 5.274) is at half hour 27 of 1 to 48: 13:00 to 13:30.
            let mut hours = [0; 24];
            all.iter().for_each(|j| hours[(j.submit / 3600 % 24) as usize] += 1);
            let noon: usize = hours[11..16].iter().sum();
            let night: usize = hours[1..6].iter().sum();
            assert!(noon > 3 * night, "seed {SEED}: {hours:?}");
        }
    }

    #[test]
    fn the_day_is_its_own_inverse() {
        let day = Day::new();
        assert!((day.0.iter().sum::<f64>() - 48.0).abs() < 1e-9);
        for time in [0.0, 1.0, 5000.0, 43_200.0, 86_399.0, 86_400.0, 1e6] {
            assert!((day.time_of(day.rush_until(time)) - time).abs() < 1e-6 * time.max(1.0), "{time}");
        }
    }

    #[test]
    fn estimates_are_never_too_short() {
        let all = many(512, None);
        assert!(all.iter().all(|j| j.estimate >= j.run && j.estimate <= 3 * j.run));
        let factor = mean(all.iter().filter(|j| j.run > 1000).map(|j| j.estimate as f64 / j.run as f64));
        assert!((factor - 2.0).abs() < 0.02, "seed {SEED}: {factor}");
        let exact = jobs(&Wanted { jobs: 100, nodes: 64, load: None, overestimate: 0.0, seed: 1 });
        assert!(exact.iter().all(|j| j.estimate == j.run));
    }
}
