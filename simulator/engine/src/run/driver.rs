//! The loop of a simulation: create messages, let the network run, look at what arrives.
//!
//! Time is cut into batches. A network that starts empty needs a while until its latency has settled,
//! and how long is known only when it has: unless the user gives the times, one record is kept from
//! the first cycle on, and its beginning is left out afterwards ([`Record::warmup`]). A run ends when
//! the time measured is long against the fluctuations seen and the interval is as narrow as asked.
//! A network whose backlog keeps growing is saturated. That is concluded as soon as it is clear, and the
//! rest of the run measures how much it accepts; a run goes on while neither that nor the contrary is.

use super::balance::{Balance, Overload, Ports};
use super::experiment::Experiment;
use super::latencies::Latencies;
use super::outcome::{Outcome, Percentiles, ProbeOutcome, peak_rss_bytes};
use super::record::{Record, Start};
use super::stats::{Batch, Interval};
use super::together::{limbs, whole};
use super::verdict::{PARTS, settled};
use super::{Progress, Watch};
use crate::Error;
use crate::observe::{Follower, Links, Observed, Series};
use crate::traffic::Source;
use angara_model::{Injection, Network, Profile, TrafficClass};
use looks::SATURATED_MIN;
use std::time::Instant;

/// Cycles between two looks at the network; sources are served this far ahead.
const STEP: u64 = 16;
/// Cycles the calendar of sources covers; later ones are filed again.
const CALENDAR: u64 = 1024;
/// Router cycle of the angara profile, ps.
const ANGARA_CYCLE_PS: f64 = 2000.0;
/// Messages a source may have under way; a source with more is hopelessly behind, and creates no
/// more until some arrive, so that a saturated run does not eat all memory. Arrivals count from the end of their batch
/// on, when all processes hear of them.
const OUTSTANDING_MAX: u32 = 2000;
/// The same for all sources together, from the next step on.
const OUTSTANDING_TOTAL: u64 = 16_000_000;
/// Messages under way are counted in every step if that many times those that a batch creates on average would be too
/// many.
const CROWD: f64 = 4.0;
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
    let schedule = &experiment.schedule;
    if schedule.warmup.is_some() || schedule.measure.is_some() {
        state.warm_up(watch)?;
        state.begin();
    }
    let mut interrupted = false;
    while !state.finished() {
        let left = schedule.measure.map(|cycles| state.record.begin + cycles - state.cycle);
        state.measure(left);
        let stop = watch(state.progress()).is_break();
        if experiment.together.any(stop) {
            if state.warming_up() {
                return Err(Error::Interrupted("nothing was measured yet"));
            }
            interrupted = true;
            break;
        }
    }
    if let Some(series) = state.series.take() {
        series.finish(&state.network, state.cycle)?;
    }
    let wall_s = started.elapsed().as_secs_f64();
    let whole = state.gather();
    let mut outcome = state.outcome(wall_s, whole);
    outcome.interrupted = interrupted;
    state.judge(&mut outcome);
    outcome.observed = state.observed(outcome.warmup_cycles);
    outcome.links = outcome.observed.links.as_ref().map(Links::summary);
    Ok(outcome)
}

/// What only the processes of a run together know.
struct Whole {
    packet_hops: u64,
    flit_hops: u64,
    model_bytes: u64,
}

struct DriverState<'a> {
    experiment: &'a Experiment,
    network: Network,
    /// Ranks whose endpoints this process has.
    ranks: Vec<u32>,
    sources: Vec<Source>,
    /// Sources by the cycle of their next message, modulo [`CALENDAR`].
    calendar: Vec<Vec<u32>>,
    balance: Balance,
    ports: Ports,
    /// Messages created and not arrived at the beginning of the batch.
    backlog: u64,
    /// What this process has added since.
    change: i64,
    /// Sum of the change over all cycles of the batch.
    change_cycles: i128,
    /// N messages are under way that no source creates more.
    full: bool,
    /// Sum of the backlog over all cycles so far, taken every [`STEP`] cycles.
    backlog_cycles: u128,
    /// A source was held back.
    held: bool,
    /// Messages that sources held back would have created by the end of the last batch.
    owed: u64,
    /// Every cycle before this one has happened.
    cycle: u64,
    batch_cycles: u64,
    record: Record,
    /// Batches of the record after which the latency had settled, and more count as warm-up the longer the run; 0 if
    /// all of the record counts.
    settled: Option<usize>,
    /// The network does not carry its load, by the last look. A later one may take that back.
    saturated: bool,
    /// The first port found that is asked for more than it can do.
    overload: Option<Overload>,
    /// Batches of the record with which the run may end at the earliest.
    next_look: usize,
    /// Batches measured and the half-width of their interval, at each look.
    looks: Vec<(usize, f64)>,
    /// The interval at the last look, where there was one.
    last: Option<Interval>,
    /// Enough is measured.
    enough: bool,
    probe: Probing,
    /// Packets created.
    created: u64,
    follower: Follower,
    series: Option<Series>,
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
        let mut network = experiment.build()?;
        let observe = &experiment.observe;
        if observe.links {
            network.count_links();
        }
        let begin = |every| Series::begin(every, &mut network, &experiment.network);
        let series = observe.series.as_ref().map(begin).transpose()?;
        let nodes = experiment.placement.len();
        let own = network.own_endpoints();
        let ranks: Vec<u32> = (0..nodes as u32).filter(|&r| own.contains(&experiment.placement[r as usize])).collect();
        let source = |&rank: &u32| Source::new(experiment.seed, rank, experiment.process, experiment.rate_of(rank));
        let mut state = DriverState {
            sources: ranks.iter().map(source).collect(),
            ranks,
            calendar: vec![Vec::new(); CALENDAR as usize],
            balance: Balance::new(nodes, experiment.together.count() > 1),
            ports: ports(experiment),
            backlog: 0,
            change: 0,
            change_cycles: 0,
            full: false,
            backlog_cycles: 0,
            held: false,
            owed: 0,
            cycle: 0,
            batch_cycles: batch_cycles(experiment),
            record: Record::new(0),
            settled: None,
            saturated: false,
            overload: None,
            next_look: 0,
            looks: Vec::new(),
            last: None,
            enough: false,
            probe: Probing { min: u64::MAX, ..Probing::default() },
            created: 0,
            follower: Follower::new(experiment.observe.packets.as_ref()),
            series,
            network,
            experiment,
        };
        (0..state.sources.len() as u32).for_each(|source| state.file(source));
        state.mark();
        Ok(state)
    }

    /// Lets the user's warm-up pass, or waits until the latency has settled.
    fn warm_up(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let warmup = self.experiment.schedule.warmup;
        let early = |state: &Self| state.settled.is_none() || state.saturated && state.cycle < SATURATED_MIN;
        while warmup.map_or_else(|| early(self), |end| self.cycle < end) {
            self.measure(warmup.map(|end| end - self.cycle));
            let stop = watch(self.progress()).is_break();
            if self.experiment.together.any(stop) {
                return Err(Error::Interrupted("nothing was measured yet"));
            }
        }
        Ok(())
    }

    /// Measuring begins here: nothing earlier counts.
    fn begin(&mut self) {
        self.record = Record::new(self.cycle);
        self.settled = Some(0);
        (self.next_look, self.last, self.enough) = (0, None, false);
        self.looks.clear();
        self.mark();
    }

    /// Keeps what must be subtracted later if measuring begins here.
    fn mark(&mut self) {
        let batch = self.record.batches.pushed();
        if self.settled == Some(0) && batch > 0 {
            return;
        }
        let links = self.experiment.observe.links.then(|| self.links(0));
        let (accounts, under_way) = (self.balance.mark(), self.backlog_cycles);
        self.record.mark(Start { batch, accounts, links, under_way });
    }

    fn links(&self, cycles: u64) -> Links {
        let mut links = Links::collect(&self.network, &self.experiment.network, cycles);
        links.gather(&self.experiment.together);
        links
    }

    /// Batches of the record that are not measured.
    fn skipped(&self) -> usize {
        match self.settled {
            Some(0) => 0,
            settled => self.record.warmup(settled.unwrap_or(self.record.batches.pushed())),
        }
    }

    /// State at the beginning of the time measured.
    fn start(&self) -> &Start {
        let skipped = self.skipped();
        let marks = &self.record.marks;
        marks
            .iter()
            .find(|start| start.batch == skipped)
            .unwrap_or_else(|| marks.last().expect("one from the beginning"))
    }

    /// Cycle in which measuring began.
    fn measured_from(&self) -> u64 {
        (self.record.begin + self.skipped() as u64 * self.batch_cycles).min(self.cycle)
    }

    /// True if nothing measured is left when the warm-up is taken away.
    fn warming_up(&self) -> bool {
        self.measured_from() >= self.cycle
    }

    /// Simulates one batch, or `limit` cycles if that is less, and records it.
    fn measure(&mut self, limit: Option<u64>) {
        let batch = self.batch(limit);
        self.record.batches.push(batch);
        self.balance.tick(&self.experiment.together);
        let pushed = self.record.batches.pushed();
        if pushed.is_power_of_two() {
            self.record.latencies.push(Latencies::default());
            self.mark();
        }
        let parts = self.record.batches.coarse(PARTS);
        if self.settled.is_none() {
            // Settling gets half of the time at most.
            let late = self.cycle >= self.experiment.schedule.cycles_max / 2;
            let hopeless = self.saturated && self.cycle >= SATURATED_MIN;
            if late || hopeless || settled(&parts) {
                self.settled = Some(if late || hopeless { 1 << pushed.ilog2() } else { pushed });
            }
        }
        if pushed >= self.next_look {
            self.look();
        }
    }

    /// Puts `source` where its next message will be found, or as far ahead as the calendar goes.
    #[inline]
    fn file(&mut self, source: u32) {
        let next = self.sources[source as usize].next_cycle();
        if next != u64::MAX {
            let at = next.clamp(self.cycle, self.cycle + CALENDAR - 1);
            self.calendar[(at % CALENDAR) as usize].push(source);
        }
    }

    /// Simulates one batch, or `limit` cycles if that is less.
    fn batch(&mut self, limit: Option<u64>) -> Batch {
        let begin = self.cycle;
        let end = begin + limit.map_or(self.batch_cycles, |l| l.min(self.batch_cycles));
        let mut batch = Batch::default();
        let nodes = self.experiment.placement.len() as f64;
        let created = self.experiment.rate.per_cycle() * nodes * self.batch_cycles as f64;
        let crowded = self.backlog + (CROWD * created) as u64 >= OUTSTANDING_TOTAL;
        while self.cycle < end {
            let until = (self.cycle + STEP).min(end);
            let cycles = i128::from(until - self.cycle);
            self.full = crowded && {
                let change = self.experiment.together.total(self.change);
                self.backlog.saturating_add_signed(change) >= OUTSTANDING_TOTAL
            };
            while let Some(next) = self.series.as_ref().map(Series::next).filter(|next| *next <= until) {
                self.create_until(next, &mut batch);
                self.series.as_mut().expect("one was found").advance(&mut self.network, next);
            }
            self.create_until(until, &mut batch);
            self.network.advance(until * self.network.cycle() - 1);
            self.collect(&mut batch);
            self.change_cycles += i128::from(self.change) * cycles;
        }
        self.add_up(batch, end - begin)
    }

    /// What all processes did in a batch of N cycles, given what this one did.
    fn add_up(&mut self, own: Batch, cycles: u64) -> Batch {
        let [a, b, c, d] = limbs(self.change_cycles as u128);
        let mut all = [0; 17];
        all[..10].copy_from_slice(&own.numbers());
        all[10..].copy_from_slice(&[self.change as u64, u64::from(self.held), self.owed(), a, b, c, d]);
        self.experiment.together.sum(&mut all);
        let [numbers @ .., change, held, owed, a, b, c, d] = all;
        let under_way = (u128::from(self.backlog) * u128::from(cycles)).wrapping_add(whole([a, b, c, d]));
        let waiting = under_way + u128::from(self.owed + owed) * u128::from(cycles) / 2;
        self.backlog_cycles += under_way;
        self.backlog = self.backlog.wrapping_add(change);
        (self.change, self.change_cycles, self.held, self.owed) = (0, 0, held > 0, owed);
        Batch { backlog: self.backlog, cycles, waiting, ..Batch::of(numbers) }
    }

    /// Messages that sources of this process would have created by now, had they not been held back.
    fn owed(&self) -> u64 {
        if !self.held {
            return 0;
        }
        let owed = |(source, &rank): (&Source, &u32)| {
            let late = self.cycle.saturating_sub(source.next_cycle());
            (late as f64 * self.experiment.rate_of(rank).per_cycle()) as u64
        };
        self.sources.iter().zip(&self.ranks).map(owed).sum()
    }

    /// Creates the messages of all cycles before `until`.
    fn create_until(&mut self, until: u64, batch: &mut Batch) {
        while self.cycle < until {
            self.create(batch);
        }
    }

    /// Creates the messages of the next cycle.
    fn create(&mut self, batch: &mut Batch) {
        let now = self.cycle;
        let at = now * self.network.cycle();
        if let Some(probe) = self.experiment.probe
            && now.is_multiple_of(probe.period)
        {
            let flits = self.experiment.lengths.mean().round() as u16;
            if self.network.own_endpoints().contains(&probe.from) {
                self.inject(probe.from, probe.to, flits, at, PROBE);
            }
        }
        let mut due = std::mem::take(&mut self.calendar[(now % CALENDAR) as usize]);
        self.cycle += 1;
        for source in due.drain(..) {
            self.serve(source, now, at, batch);
            self.file(source);
        }
        // Give the list its memory back, unless somebody was filed a whole round ahead.
        let slot = &mut self.calendar[(now % CALENDAR) as usize];
        if slot.is_empty() {
            *slot = due;
        }
    }

    /// Creates the messages of source number `number` that are due in cycle `now`, which begins at `at`.
    #[inline]
    fn serve(&mut self, number: u32, now: u64, at: u64, batch: &mut Batch) {
        let experiment = self.experiment;
        let from = experiment.placement[self.ranks[number as usize] as usize];
        while self.sources[number as usize].next_cycle() <= now {
            if self.full || self.balance.waiting(from) >= OUTSTANDING_MAX {
                self.held = true;
                return;
            }
            let source = &mut self.sources[number as usize];
            let Some(message) = source.take(&experiment.destinations, &experiment.lengths) else { continue };
            batch.created += 1;
            batch.created_flits += u64::from(message.flits);
            self.change += 1;
            let to = experiment.placement[message.to as usize];
            self.balance.created(from, to, message.flits);
            self.inject(from, to, message.flits, at, 0);
        }
    }

    #[inline]
    fn inject(&mut self, src: u32, dst: u32, flits: u16, at: u64, probe: u64) {
        let adaptive = self.experiment.adaptive;
        let traced = self.follower.wants(self.created, (src, dst, flits), self.settled.is_some());
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
            self.balance.arrived(d.src, d.dst, d.flits);
            self.change -= 1;
            batch.arrived += 1;
            batch.flits += u64::from(d.flits);
            batch.latency += u128::from(latency);
            batch.routers += u64::from(d.routers);
            self.record.current().record(latency, cycle, usize::from(d.routers), d.flits);
        }
    }

    /// Packets dropped for want of a route are nobody's backlog.
    fn collect_lost(&mut self, batch: &mut Batch) {
        while let Some(lost) = self.network.poll_lost() {
            if lost.tag & PROBE == 0 {
                self.balance.lost(lost.src, lost.dst);
                self.change -= 1;
                batch.lost += 1;
            }
        }
    }

    fn progress(&self) -> Progress {
        let schedule = &self.experiment.schedule;
        let expected = match (self.last, schedule.measure) {
            (_, Some(measure)) if self.settled == Some(0) => self.record.begin + measure,
            (Some(interval), None) => {
                // The interval narrows with the square root of the time measured.
                let wider = interval.half_width / (schedule.precision * interval.mean);
                let from = self.measured_from();
                from + ((self.cycle - from) as f64 * wider.powi(2).max(1.0)) as u64
            }
            _ => schedule.warmup.map_or(3 * self.cycle, |warmup| warmup + schedule.measure.unwrap_or(2 * warmup)),
        };
        let doing = match (self.saturated, self.settled) {
            (true, _) => "saturated",
            (_, None) => "warming up",
            _ => "measuring",
        };
        Progress { doing, done: self.cycle, of: expected.min(schedule.cycles_max).max(self.cycle) }
    }

    /// Adds up what the processes have kept apart during the run.
    fn gather(&mut self) -> Whole {
        let together = &self.experiment.together;
        self.record.latencies.iter_mut().for_each(|l| l.gather(together));
        let (p, counters) = (&mut self.probe, self.network.counters());
        let [a, b, c, d] = limbs(p.sum);
        let bytes = self.network.memory_bytes() as u64;
        let mut all = [p.messages, a, b, c, d, counters.packet_hops, counters.flit_hops, bytes];
        together.sum(&mut all);
        let [messages, a, b, c, d, packet_hops, flit_hops, model_bytes] = all;
        (p.messages, p.sum) = (messages, whole([a, b, c, d]));
        (p.min, p.max) = (together.least(p.min), together.most(p.max));
        Whole { packet_hops, flit_hops, model_bytes }
    }

    fn outcome(&self, wall_s: f64, whole: Whole) -> Outcome {
        let (skipped, warmup_cycles, start) = (self.skipped(), self.measured_from(), self.start());
        let batches = self.record.batches.after(skipped);
        let total = batches.total();
        let cycle = self.network.cycle();
        let cycles = |ps: f64| ps / cycle as f64;
        let measured_cycles = self.cycle - warmup_cycles;
        let nodes = self.experiment.placement.len() as f64;
        let per_node = |flits: u64| flits as f64 / (nodes * measured_cycles.max(1) as f64);
        let latencies = self.record.latencies(skipped);
        let h = &latencies.all;
        let percentile = |q| h.quantile(q) as f64;
        let p = &self.probe;
        let interval = self.interval(&batches);
        let growth = self.growth();
        Outcome {
            settings: self.experiment.settings.clone(),
            packet_latency_cycles: total.mean().map(cycles),
            confidence: interval.map(|i| cycles(i.half_width)),
            correlation: interval.map(|i| i.correlation),
            packet_latency_ns: total.mean().map(|ps| ps / 1000.0),
            latency_percentiles_cycles: Percentiles {
                p50: percentile(0.5),
                p95: percentile(0.95),
                p99: percentile(0.99),
                max: h.max() as f64,
            },
            latency_by_routers: latencies.of_routers(cycle),
            latency_by_flits: latencies.of_flits(cycle),
            accepted_flits_per_node_cycle: per_node(total.flits),
            offered_flits_per_node_cycle: per_node(total.created_flits),
            sources: self.balance.fairness(&start.accounts, measured_cycles),
            mean_routers_visited: (total.arrived > 0).then(|| total.routers as f64 / total.arrived as f64),
            backlog_growth: growth.map(|growth| growth.share),
            backlog_growth_confidence: growth.map(|growth| growth.half_width),
            saturated: false,
            saturated_because: None,
            undecided: None,
            interrupted: false,
            packets: total.arrived,
            created: total.created,
            under_way: self.backlog,
            mean_under_way: (self.backlog_cycles - start.under_way) as f64 / measured_cycles.max(1) as f64,
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
            packet_hops: whole.packet_hops,
            flit_hops: whole.flit_hops,
            threads: self.experiment.threads,
            wall_s,
            packet_hops_per_s: whole.packet_hops as f64 / wall_s,
            flit_hops_per_s: whole.flit_hops as f64 / wall_s,
            peak_rss_bytes: peak_rss_bytes(),
            model_bytes: whole.model_bytes,
            histogram: latencies.all,
            links: None,
            observed: Observed::default(),
        }
    }

    /// Lets followed packets arrive and gathers what was watched.
    fn observed(mut self, warmup_cycles: u64) -> Observed {
        let before = self.start().links.clone();
        let links = before.map(|before| self.links(self.cycle - warmup_cycles).since(&before));
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

/// Long enough for about five hundred messages, and not so short that every batch is special.
fn batch_cycles(experiment: &Experiment) -> u64 {
    let per_cycle = experiment.rate.per_cycle() * experiment.placement.len() as f64;
    let cycles = if per_cycle > 0.0 { (500.0 / per_cycle) as u64 } else { u64::MAX };
    // A short run has some batches, too.
    cycles.clamp(50, 5_000).min((experiment.schedule.cycles_max / 128).max(1))
}

/// The largest mean load of `experiment`, in flits per node and cycle, that its sources can create and send.
pub(super) fn load_max(experiment: &Experiment) -> f64 {
    let rates = (0..experiment.placement.len() as u32).map(|rank| experiment.rate_of(rank).per_cycle());
    let busiest = rates.fold(0.0, f64::max);
    let sent = ports(experiment).takes[0] / experiment.lengths.mean();
    let most = experiment.process.rate_max().min(sent);
    if busiest > 0.0 { experiment.settings.load * most / busiest } else { 0.0 }
}

/// Flits per cycle that an endpoint sends and receives at most, and how the load fluctuates.
fn ports(experiment: &Experiment) -> Ports {
    let takes = match &experiment.network.profile {
        Profile::Generic(_) => [1.0, 1.0],
        Profile::Angara(a) => {
            let rate = |rate: angara_model::Rate| ANGARA_CYCLE_PS * f64::from(rate.den) / f64::from(rate.num);
            // Nearly everything that arrives has the rate of the links it came over.
            [rate(a.flit_internal), rate(a.flit_internal.slower(a.flit_link))].map(|r| r * f64::from(a.channels))
        }
    };
    let dispersion = experiment.process.dispersion(experiment.rate) * experiment.lengths.dispersion();
    Ports { takes, dispersion }
}

mod looks;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod tests;
