//! The loop of a simulation: create messages, let the network run, look at what arrives.
//!
//! Time is cut into batches. Until the mean latency of successive batches stops drifting the run
//! warms up; then it measures until the confidence interval is as narrow as asked. A network whose
//! backlog keeps growing is saturated; that is said as soon as it is clear, and the rest of the
//! run measures how much it accepts.

use super::Progress;
use super::experiment::Experiment;
use super::outcome::{Outcome, Percentiles, ProbeOutcome, peak_rss_bytes};
use super::stats::{Batch, Batches, Histogram};
use super::verdict::{BATCHES_MIN, growing, settled};
use crate::Error;
use crate::observe::{Follower, Links, Observed};
use crate::traffic::Source;
use crate::workload::Watch;
use angara_model::{Injection, Network, TrafficClass};
use std::time::Instant;

/// Cycles between two looks at the network; sources are served this far ahead.
const STEP: u64 = 16;
/// Cycles the calendar of sources covers; later ones are filed again.
const CALENDAR: u64 = 1024;
/// Cycles before saturation by growth is concluded.
const CYCLES_MIN: u64 = 2000;
/// Cycles a saturated network warms up and is measured at least: what it accepts falls for a while,
/// until its unfairness has spread.
const SATURATED_MIN: u64 = 5000;
/// Share of the created flits that a network which is not saturated accepts.
const CARRIED: f64 = 0.98;
/// Messages a source may have under way; a source with more is hopelessly behind, and creates no
/// more until some arrive, so that a saturated run does not eat all memory.
const OUTSTANDING_MAX: u32 = 2000;
/// The same for all sources together.
const OUTSTANDING_TOTAL: u64 = 16_000_000;
/// Bit in the tag of the probe's packets; the rest of a tag is the packet's number.
const PROBE: u64 = 1 << 63;
/// Cycles a run is continued, without new messages, for followed packets to arrive.
const FOLLOW_MAX: u64 = 100_000;

/// Runs `experiment` to its end.
///
/// # Errors
/// The network cannot be built.
pub fn run(experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Outcome, Error> {
    let started = Instant::now();
    let mut state = DriverState::new(experiment)?;
    let mut warmup = Batches::default();
    let mut saturated = false;
    // Settling by itself gets half of the time at most, a given warm-up all it needs.
    let limit = experiment.schedule.warmup.unwrap_or(experiment.schedule.cycles_max / 2);
    let done = |state: &DriverState, batches: &Batches, saturated: bool| match saturated {
        true => state.cycle >= experiment.schedule.warmup.unwrap_or(SATURATED_MIN),
        false => state.warm(batches),
    };
    while state.cycle < limit && !done(&state, &warmup, saturated) {
        warmup.push(state.batch(experiment.schedule.warmup.map(|end| end - state.cycle)));
        saturated |= state.saturated(&warmup);
        if watch(state.progress(true, saturated, None)).is_break() {
            return Err(Error::Interrupted("nothing was measured yet"));
        }
    }
    let warmup_cycles = state.cycle;
    state.steady = true;
    if experiment.observe.links {
        state.network.count_links();
        state.links_before = Some(Links::collect(&state.network, &experiment.network, state.cycle));
    }
    state.histogram = Histogram::default();
    let mut measured = Batches::default();
    let mut interrupted = false;
    while !state.measured_enough(&measured, warmup_cycles, saturated) {
        let left = experiment.schedule.measure.map(|cycles| warmup_cycles + cycles - state.cycle);
        measured.push(state.batch(left));
        saturated |= state.saturated(&measured);
        if watch(state.progress(false, saturated, Some((&measured, warmup_cycles)))).is_break() {
            interrupted = true;
            break;
        }
    }
    // A network may only have been slow to fill: what it accepted in the end decides.
    let total = measured.total();
    saturated &= state.held
        || total.flits as f64 + total.lost as f64 * experiment.lengths.mean() < CARRIED * total.created_flits as f64;
    let wall_s = started.elapsed().as_secs_f64();
    let mut outcome = state.outcome(&measured, warmup_cycles, wall_s);
    outcome.interrupted = interrupted;
    outcome.saturated = saturated;
    if saturated {
        outcome.saturated_because = Some(state.why_saturated(&outcome));
    }
    outcome.observed = state.observed(outcome.measured_cycles);
    outcome.links = outcome.observed.links.as_ref().map(Links::summary);
    Ok(outcome)
}

struct DriverState<'a> {
    experiment: &'a Experiment,
    network: Network,
    sources: Vec<Source>,
    /// Ranks by the cycle of their next message, modulo [`CALENDAR`].
    calendar: Vec<Vec<u32>>,
    /// Messages under way per endpoint.
    outstanding: Vec<u32>,
    backlog: u64,
    /// A source was held back.
    held: bool,
    /// Every cycle before this one has happened.
    cycle: u64,
    batch_cycles: u64,
    histogram: Histogram,
    probe: Probing,
    /// Packets created.
    created: u64,
    /// Warm-up is over.
    steady: bool,
    follower: Follower,
    /// Loads of the links when measuring began.
    links_before: Option<Links>,
}

#[derive(Default)]
struct Probing {
    messages: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl<'a> DriverState<'a> {
    fn new(experiment: &'a Experiment) -> Result<DriverState<'a>, Error> {
        let network = experiment.build()?;
        let ranks = experiment.placement.len() as u32;
        let source = |rank| Source::new(experiment.seed, rank, experiment.process, experiment.rate_of(rank));
        let mut state = DriverState {
            sources: (0..ranks).map(source).collect(),
            calendar: vec![Vec::new(); CALENDAR as usize],
            outstanding: vec![0; ranks as usize],
            backlog: 0,
            held: false,
            cycle: 0,
            batch_cycles: batch_cycles(experiment),
            histogram: Histogram::default(),
            probe: Probing { min: u64::MAX, ..Probing::default() },
            created: 0,
            steady: false,
            follower: Follower::new(experiment.observe.packets.as_ref()),
            links_before: None,
            network,
            experiment,
        };
        (0..ranks).for_each(|rank| state.file(rank));
        Ok(state)
    }

    /// Puts `rank` where its next message will be found, or as far ahead as the calendar goes.
    #[inline]
    fn file(&mut self, rank: u32) {
        let next = self.sources[rank as usize].next_cycle();
        if next != u64::MAX {
            let at = next.clamp(self.cycle, self.cycle + CALENDAR - 1);
            self.calendar[(at % CALENDAR) as usize].push(rank);
        }
    }

    /// Simulates one batch, or `limit` cycles if that is less.
    fn batch(&mut self, limit: Option<u64>) -> Batch {
        let end = self.cycle + limit.map_or(self.batch_cycles, |l| l.min(self.batch_cycles));
        let mut batch = Batch::default();
        while self.cycle < end {
            let until = (self.cycle + STEP).min(end);
            while self.cycle < until {
                self.create(&mut batch);
            }
            self.network.advance(until * self.network.cycle() - 1);
            self.collect(&mut batch);
        }
        batch.backlog = self.backlog;
        batch
    }

    /// Creates the messages of the next cycle.
    fn create(&mut self, batch: &mut Batch) {
        let now = self.cycle;
        let at = now * self.network.cycle();
        if let Some(probe) = self.experiment.probe
            && now.is_multiple_of(probe.period)
        {
            let flits = self.experiment.lengths.mean().round() as u16;
            self.inject(probe.from, probe.to, flits, at, PROBE);
        }
        let mut due = std::mem::take(&mut self.calendar[(now % CALENDAR) as usize]);
        self.cycle += 1;
        for rank in due.drain(..) {
            self.serve(rank, now, at, batch);
            self.file(rank);
        }
        // Give the list its memory back, unless somebody was filed a whole round ahead.
        let slot = &mut self.calendar[(now % CALENDAR) as usize];
        if slot.is_empty() {
            *slot = due;
        }
    }

    /// Creates the messages of `rank` that are due in cycle `now`, which begins at `at`.
    #[inline]
    fn serve(&mut self, rank: u32, now: u64, at: u64, batch: &mut Batch) {
        let experiment = self.experiment;
        let from = experiment.placement[rank as usize];
        while self.sources[rank as usize].next_cycle() <= now {
            if self.outstanding[from as usize] >= OUTSTANDING_MAX || self.backlog >= OUTSTANDING_TOTAL {
                self.held = true;
                return;
            }
            let source = &mut self.sources[rank as usize];
            let Some(message) = source.take(&experiment.destinations, &experiment.lengths) else { continue };
            batch.created += 1;
            batch.created_flits += u64::from(message.flits);
            self.outstanding[from as usize] += 1;
            self.backlog += 1;
            self.inject(from, experiment.placement[message.to as usize], message.flits, at, 0);
        }
    }

    #[inline]
    fn inject(&mut self, src: u32, dst: u32, flits: u16, at: u64, probe: u64) {
        let adaptive = self.experiment.adaptive;
        let traced = self.follower.wants(self.created, (src, dst, flits), self.steady);
        let tag = probe | self.created;
        self.created += 1;
        self.network.inject(Injection { src, dst, flits, class: TrafficClass::Request, adaptive, at, tag, traced });
    }

    fn collect(&mut self, batch: &mut Batch) {
        if self.follower.open() {
            self.follower.note(self.network.take_trace(), |tag| tag & !PROBE);
        }
        let cycle = self.network.cycle();
        self.collect_lost(batch);
        while let Some(d) = self.network.poll_delivery() {
            let latency = d.tail - d.at;
            if d.tag & PROBE != 0 {
                let p = &mut self.probe;
                p.messages += 1;
                p.sum += u128::from(latency);
                (p.min, p.max) = (p.min.min(latency), p.max.max(latency));
                continue;
            }
            self.outstanding[d.src as usize] -= 1;
            self.backlog -= 1;
            batch.arrived += 1;
            batch.flits += u64::from(d.flits);
            batch.latency += u128::from(latency);
            batch.routers += u64::from(d.routers);
            self.histogram.record(latency.div_ceil(cycle));
        }
    }

    /// Packets dropped for want of a route are nobody's backlog.
    fn collect_lost(&mut self, batch: &mut Batch) {
        while let Some(lost) = self.network.poll_lost() {
            if lost.tag & PROBE == 0 {
                self.outstanding[lost.src as usize] -= 1;
                self.backlog -= 1;
                batch.lost += 1;
            }
        }
    }

    /// Warm-up is over.
    fn warm(&self, batches: &Batches) -> bool {
        match self.experiment.schedule.warmup {
            Some(end) => self.cycle >= end,
            None => settled(&batches.complete().iter().filter_map(Batch::mean).collect::<Vec<_>>()),
        }
    }

    fn measured_enough(&self, batches: &Batches, from: u64, saturated: bool) -> bool {
        let schedule = &self.experiment.schedule;
        let measured = self.cycle - from;
        if let Some(cycles) = schedule.measure {
            return measured >= cycles;
        }
        if self.cycle >= schedule.cycles_max && measured > 0 {
            return true;
        }
        if saturated {
            return batches.len() >= BATCHES_MIN && measured >= SATURATED_MIN;
        }
        let Some(interval) = batches.latency() else { return false };
        // A window shorter than a few latencies would see the fast messages of its beginning only.
        let long = measured as f64 * self.network.cycle() as f64 > 5.0 * interval.mean;
        long && batches.len() >= BATCHES_MIN && interval.half_width <= schedule.precision * interval.mean
    }

    /// The backlog grows without end.
    fn saturated(&self, batches: &Batches) -> bool {
        self.held || self.cycle >= CYCLES_MIN && growing(batches.complete())
    }

    fn progress(&self, warming_up: bool, saturated: bool, measured: Option<(&Batches, u64)>) -> Progress {
        let schedule = &self.experiment.schedule;
        let expected = match (measured, schedule.warmup, schedule.measure) {
            (_, Some(warmup), Some(measure)) => warmup + measure,
            (Some((_, from)), _, Some(measure)) => from + measure,
            (Some((batches, from)), _, None) => {
                // The interval narrows with the square root of the time measured.
                let wider = batches.latency().map_or(2.0, |i| i.half_width / (schedule.precision * i.mean));
                let measured = (self.cycle - from) as f64;
                from + (measured * wider.powi(2).max(1.0)) as u64
            }
            (None, ..) => 3 * self.cycle,
        };
        let doing = match (saturated, warming_up) {
            (true, _) => "saturated",
            (_, true) => "warming up",
            _ => "measuring",
        };
        Progress { doing, done: self.cycle, of: expected.min(schedule.cycles_max).max(self.cycle) }
    }

    fn outcome(&self, batches: &Batches, warmup_cycles: u64, wall_s: f64) -> Outcome {
        let total = batches.total();
        let cycle = self.network.cycle();
        let cycles = |ps: f64| ps / cycle as f64;
        let measured_cycles = self.cycle - warmup_cycles;
        let per_node = |flits: u64| flits as f64 / (self.outstanding.len() as f64 * measured_cycles.max(1) as f64);
        let h = &self.histogram;
        let percentile = |q| h.quantile(q) as f64;
        let counters = self.network.counters();
        let p = &self.probe;
        Outcome {
            settings: self.experiment.settings.clone(),
            packet_latency_cycles: total.mean().map(cycles),
            confidence: batches.latency().map(|i| cycles(i.half_width)),
            packet_latency_ns: total.mean().map(|ps| ps / 1000.0),
            latency_percentiles_cycles: Percentiles {
                p50: percentile(0.5),
                p95: percentile(0.95),
                p99: percentile(0.99),
                max: h.max() as f64,
            },
            accepted_flits_per_node_cycle: per_node(total.flits),
            offered_flits_per_node_cycle: per_node(total.created_flits),
            mean_routers_visited: (total.arrived > 0).then(|| total.routers as f64 / total.arrived as f64),
            saturated: false,
            saturated_because: None,
            interrupted: false,
            packets: total.arrived,
            unreachable: total.lost,
            probe: (p.messages > 0).then(|| ProbeOutcome {
                messages: p.messages,
                mean_cycles: cycles(p.sum as f64 / p.messages as f64),
                min_cycles: cycles(p.min as f64),
                max_cycles: cycles(p.max as f64),
            }),
            warmup_cycles,
            measured_cycles,
            cycle_ps: cycle,
            packet_hops: counters.packet_hops,
            flit_hops: counters.flit_hops,
            threads: self.experiment.threads,
            wall_s,
            packet_hops_per_s: counters.packet_hops as f64 / wall_s,
            flit_hops_per_s: counters.flit_hops as f64 / wall_s,
            peak_rss_bytes: peak_rss_bytes(),
            model_bytes: self.network.memory_bytes() as u64,
            histogram: h.clone(),
            links: None,
            observed: Observed::default(),
        }
    }

    /// Returns what showed that the load is too high, and what could be done.
    fn why_saturated(&self, outcome: &Outcome) -> String {
        let accepted = outcome.accepted_flits_per_node_cycle;
        let seen = match self.held {
            true => format!("a source had {OUTSTANDING_MAX} messages waiting, so none were created for a while"),
            false => format!("messages pile up, {} at the end", self.backlog),
        };
        format!(
            "{seen}; {accepted:.4} flits per node and cycle of the {:.4} asked for arrive; a lower load may carry more \
             (angara sim sweep tries several), or change routing, buffers or pattern",
            self.experiment.settings.load
        )
    }

    /// Lets followed packets arrive and gathers what was watched.
    fn observed(mut self, measured_cycles: u64) -> Observed {
        let setup = &self.experiment.network;
        let count = |before: &Links| Links::collect(&self.network, setup, measured_cycles).since(before);
        let links = self.links_before.as_ref().map(count);
        let end = self.cycle + FOLLOW_MAX;
        while self.follower.open() && self.cycle < end && self.network.next_event().is_some() {
            self.cycle += STEP;
            self.network.advance(self.cycle * self.network.cycle());
            while self.network.poll_delivery().is_some() {}
            self.follower.note(self.network.take_trace(), |tag| tag & !PROBE);
        }
        let (ways, missing) = self.follower.finish();
        Observed { ways, missing, links }
    }
}

/// Long enough for about a thousand messages, and not so short that every batch is special.
fn batch_cycles(experiment: &Experiment) -> u64 {
    let per_cycle = experiment.rate.per_cycle() * experiment.placement.len() as f64;
    let cycles = if per_cycle > 0.0 { (1000.0 / per_cycle) as u64 } else { u64::MAX };
    cycles.clamp(100, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Keys;
    use std::ops::ControlFlow;

    fn simulate(text: &str) -> Outcome {
        let keys: Keys = toml::from_str(text).unwrap();
        run(&keys.resolve().map_err(|e| e.0).unwrap(), &mut |_| ControlFlow::Continue(())).unwrap()
    }

    const SMALL: &str = "topology = \"torus:4x4\"\nrouter = \"generic\"\n";

    #[test]
    fn a_light_load_has_the_latency_of_an_empty_network() {
        let o = simulate(&format!("{SMALL}load = 0.02\n"));
        // T0 = 4 R + 2 cycles for single flits; the mean of R on a 4x4 torus is 3.
        let (latency, routers) = (o.packet_latency_cycles.unwrap(), o.mean_routers_visited.unwrap());
        assert!((routers - 3.0).abs() < 0.05, "{routers}");
        assert!((latency - (4.0 * routers + 2.0)).abs() < 0.3, "{latency}");
        assert!(!o.saturated && o.confidence.unwrap() <= 0.01 * latency);
        assert!((o.accepted_flits_per_node_cycle - 0.02).abs() < 0.002);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
        let numbers = |seed| {
            let o = simulate(&format!("{SMALL}load = 0.2\nseed = {seed}\nwarmup = 500\ncycles = 2000\n"));
            (o.packet_latency_cycles, o.packets, o.packet_hops)
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn fixed_lengths_of_time_are_kept() {
        let o = simulate(&format!("{SMALL}load = 0.1\nwarmup = 333\ncycles = 1234\n"));
        assert_eq!((o.warmup_cycles, o.measured_cycles), (333, 1234));
        let o = simulate(&format!("{SMALL}load = 1.0\nwarmup = 7000\ncycles = 1000\n"));
        assert_eq!((o.warmup_cycles, o.measured_cycles, o.saturated), (7000, 1000, true));
        let o = simulate(&format!("{SMALL}load = 0.1\nwarmup = 0\ncycles = 50\n"));
        assert_eq!((o.warmup_cycles, o.measured_cycles), (0, 50));
    }

    #[test]
    fn too_much_load_is_called_saturated_and_measured() {
        let o = simulate(&format!("{SMALL}pattern = \"hotspot:5,0.5\"\nload = 0.5\n"));
        assert!(o.saturated);
        // The hot node takes one flit per cycle and gets (0.5 + 0.5/16) of all.
        let bound = 1.0 / (16.0 * (0.5 + 0.5 / 16.0));
        assert!((o.accepted_flits_per_node_cycle / bound - 1.0).abs() < 0.1, "{}", o.accepted_flits_per_node_cycle);
        assert!(o.warmup_cycles + o.measured_cycles < 100_000, "said early");
    }

    #[test]
    fn no_load_is_no_trouble() {
        let o = simulate(&format!("{SMALL}load = 0.0\ncycles-max = 1000\n"));
        assert_eq!((o.packets, o.packet_latency_cycles, o.saturated), (0, None, false));
        assert!(o.text().contains("nothing arrived"));
    }

    #[test]
    fn a_probe_is_measured_alone() {
        let o = simulate(&format!("{SMALL}load = 0.0\nprobe = \"0,5,100\"\ncycles-max = 1000\n"));
        let p = o.probe.unwrap();
        // Two hops pass three routers: 14 cycles.
        assert_eq!((p.mean_cycles, p.min_cycles, p.max_cycles, o.packets), (14.0, 14.0, 14.0, 0));
    }

    #[test]
    fn a_mapping_changes_who_talks_to_whom() {
        let run = |map| simulate(&format!("{SMALL}pattern = \"fftrow:4\"\nload = 0.05\nmap = \"{map}\"\n"));
        let (linear, random) = (run("linear"), run("random"));
        assert!(linear.mean_routers_visited < random.mean_routers_visited);
    }

    #[test]
    fn link_errors_are_repaired_and_counted() {
        let settings = "topology = \"torus:4x4\"\nrouter = \"angara\"\nload = 0.1\nerror-rate = \"2%\"\nwarmup = 1000\ncycles = 5000\n";
        let keys: Keys = toml::from_str(settings).unwrap();
        let mut experiment = keys.resolve().map_err(|e| e.0).unwrap();
        experiment.observe.links = true;
        let o = run(&experiment, &mut |_| ControlFlow::Continue(())).unwrap();
        let links = o.links.unwrap();
        assert!(links.crc_errors > 0 && links.replays >= links.crc_errors, "{links:?}");
        let clean = simulate(&settings.replace("2%", "0%"));
        assert!(o.packet_latency_cycles > clean.packet_latency_cycles);
        assert_eq!((o.unreachable, o.saturated), (0, false));
    }

    #[test]
    fn what_goes_to_a_dead_node_is_dropped_and_said() {
        let o = simulate(
            "topology = \"torus:4x4\"\nrouter = \"angara\"\nload = 0.1\nfault = \"node 1,1 down\"\nwarmup = 1000\ncycles = 5000\n",
        );
        // The dead node's own messages and one in 16 of everybody else's.
        let share = o.unreachable as f64 / (o.packets + o.unreachable) as f64;
        assert!((0.08..0.16).contains(&share) && !o.saturated, "{share}");
        assert!(o.text().contains("messages dropped: no route was left"));
    }
}
