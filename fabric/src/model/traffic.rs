//! Open-loop traffic: endpoints that inject at a given load, and the measurement of what comes of it.
//!
//! A [`Generator`] decides when each endpoint injects what to whom; [`measure`] runs a network under
//! it: warm-up, a window in which packets are tagged, then on until every tagged packet arrived.
//! Latency counts from the moment a packet was generated, so waiting at the source is included.

use super::rng::{Purpose, Stream, unit};
use super::{Network, Packet, Tick, TrafficClass};

/// When an endpoint injects.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Process {
    /// In every cycle one packet with a fixed probability.
    Bernoulli,
    /// Independent exponential gaps.
    Poisson,
    /// Batches at independent exponential gaps; geometric sizes with the given mean.
    BatchPoisson {
        /// Mean packets per batch, at least 1.
        mean: f64,
    },
}

/// Chooses a destination for a source from 64 random bits.
pub type Pattern = Box<dyn Fn(u32, u64) -> u32 + Send>;

/// Uniform destinations among `endpoints`, the source itself included.
pub fn uniform(endpoints: usize) -> Pattern {
    Box::new(move |_, bits| super::rng::below(bits, endpoints as u64) as u32)
}

/// What endpoints inject.
pub struct Workload {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// When.
    pub process: Process,
    /// Packet lengths in flits with their shares (any positive weights).
    pub lengths: Vec<(u16, f64)>,
    /// Offered load: flits per endpoint and cycle.
    pub load: f64,
    /// Decides everything random.
    pub seed: u64,
    /// `angara`: class of every packet.
    pub class: TrafficClass,
    /// `angara`: packets may use the adaptive channel.
    pub adaptive: bool,
}

#[derive(Clone, Copy)]
struct Endpoint {
    /// Time of the next packet, in cycles.
    next: f64,
    drawn: u64,
    left_in_batch: u32,
}

/// Generates the packets of a [`Workload`] in time order.
pub struct Generator {
    workload: Workload,
    /// (cumulated share of 2^64, flits)
    lengths: Vec<(u64, u16)>,
    /// Probability of a packet per cycle (Bernoulli), or packets or batches per cycle.
    rate: f64,
    cycle: Tick,
    endpoints: Vec<Endpoint>,
    /// Endpoints by the cycle of their next packet, modulo its length; later ones are looked at again.
    calendar: Vec<Vec<u32>>,
    done: u64,
    generated: u64,
}

/// Cycles the calendar covers.
const CALENDAR: usize = 1024;

impl Generator {
    /// A generator for the endpoints of `net`.
    pub fn new(workload: Workload, net: &Network) -> Generator {
        let total: f64 = workload.lengths.iter().map(|l| l.1).sum();
        let mean = workload.lengths.iter().map(|l| l.0 as f64 * l.1).sum::<f64>() / total;
        let mut sum = 0.0;
        let lengths = workload
            .lengths
            .iter()
            .map(|l| {
                sum += l.1;
                ((sum / total * u64::MAX as f64) as u64, l.0)
            })
            .collect();
        let mut rate = workload.load / mean;
        if let Process::BatchPoisson { mean } = workload.process {
            rate /= mean.max(1.0);
        }
        let mut g = Generator {
            lengths,
            rate,
            cycle: net.cycle(),
            endpoints: vec![Endpoint { next: 0.0, drawn: 0, left_in_batch: 0 }; net.endpoints()],
            calendar: (0..CALENDAR).map(|_| Vec::new()).collect(),
            done: 0,
            generated: 0,
            workload,
        };
        if rate > 0.0 {
            for e in 0..g.endpoints.len() as u32 {
                // Bernoulli may inject in cycle 0.
                g.endpoints[e as usize].next = if g.workload.process == Process::Bernoulli { -1.0 } else { 0.0 };
                g.schedule_next(e);
                g.file(e);
            }
        }
        g
    }
    /// Packets generated so far.
    pub fn generated(&self) -> u64 {
        self.generated
    }
    fn schedule_next(&mut self, e: u32) {
        let stream = Stream::new(self.workload.seed, e as u64, Purpose::Arrival);
        let p = &mut self.endpoints[e as usize];
        if p.left_in_batch > 0 {
            p.left_in_batch -= 1;
            return;
        }
        let u = unit(stream.at(2 * p.drawn));
        match self.workload.process {
            Process::Bernoulli => {
                let gap = if self.rate >= 1.0 { 1.0 } else { 1.0 + (u.ln() / (-self.rate).ln_1p()).floor() };
                p.next += gap;
            }
            Process::Poisson => p.next -= u.ln() / self.rate,
            Process::BatchPoisson { mean } => {
                p.next -= u.ln() / self.rate;
                if mean > 1.0 {
                    let more = unit(stream.at(2 * p.drawn + 1)).ln() / (1.0 - 1.0 / mean).ln();
                    p.left_in_batch = more as u32;
                }
            }
        }
        p.drawn += 1;
    }
    fn cycle_of(&self, e: u32) -> u64 {
        self.endpoints[e as usize].next.ceil() as u64
    }
    fn file(&mut self, e: u32) {
        let at = self.cycle_of(e).min(self.done + CALENDAR as u64 - 1);
        self.calendar[at as usize % CALENDAR].push(e);
    }
    /// Injects every packet due in cycles before `until` that was not injected yet; their times are
    /// rounded up to cycles if `whole_cycles`.
    pub fn fill(&mut self, net: &mut Network, until: u64, whole_cycles: bool) {
        while self.done < until {
            let now = self.done;
            let mut list = std::mem::take(&mut self.calendar[now as usize % CALENDAR]);
            self.done += 1;
            for e in list.drain(..) {
                while self.cycle_of(e) <= now {
                    let time = self.endpoints[e as usize].next;
                    let at = if whole_cycles { now * self.cycle } else { (time * self.cycle as f64).ceil() as Tick };
                    self.emit(net, e, at);
                    self.schedule_next(e);
                }
                self.file(e);
            }
            self.calendar[now as usize % CALENDAR].append(&mut list);
        }
    }
    fn emit(&mut self, net: &mut Network, e: u32, at: Tick) {
        let p = &self.endpoints[e as usize];
        let count = (p.drawn << 16) + p.left_in_batch as u64;
        let w = &self.workload;
        let dst = (w.pattern)(e, Stream::new(w.seed, e as u64, Purpose::Destination).at(count));
        let flits = match self.lengths[..] {
            [(_, only)] => only,
            _ => {
                let bits = Stream::new(w.seed, e as u64, Purpose::Length).at(count);
                self.lengths.iter().find(|l| bits <= l.0).unwrap_or(&self.lengths[self.lengths.len() - 1]).1
            }
        };
        self.generated += 1;
        net.inject(Packet { src: e, dst, flits, at, class: w.class, adaptive: w.adaptive, tag: 0, traced: false });
    }
}

/// How long to run.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Cycles before anything is measured.
    pub warmup: u64,
    /// Cycles of the window.
    pub measure: u64,
    /// Cycles after the window before the run is given up as saturated.
    pub drain_max: u64,
}

/// What a run measured. Latencies and rates in router cycles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Mean latency of the packets generated in the window that arrived.
    pub latency: f64,
    /// Standard error of that mean, from ten consecutive parts of the window.
    pub latency_error: f64,
    /// Largest latency seen.
    pub latency_max: f64,
    /// Flits received per endpoint and cycle in the window.
    pub accepted: f64,
    /// Flits generated per endpoint and cycle in the window.
    pub offered: f64,
    /// Mean routers passed.
    pub routers: f64,
    /// Packets generated in the window.
    pub packets: u64,
    /// Some of them had not arrived when the run was given up, or much less than the offered load
    /// was accepted.
    pub saturated: bool,
    /// Cycles simulated.
    pub cycles: u64,
}

const PARTS: usize = 10;
/// Cycles between two looks at the network: enough for it to work on one part of itself after the other.
const STEP: u64 = 16;

/// Runs `net` under `workload`. Uses up the network's deliveries.
pub fn measure(net: &mut Network, workload: Workload, schedule: Schedule, whole_cycles: bool) -> Measured {
    let cycle = net.cycle();
    let mut generator = Generator::new(workload, net);
    let (from, to) = (schedule.warmup, schedule.warmup + schedule.measure);
    let mut part = [(0u64, 0u128); PARTS];
    let (mut accepted, mut routers, mut longest, mut arrived) = (0u64, 0u64, 0u64, 0u64);
    let (mut at_start, mut in_window) = (0, 0);
    let mut now = 0;
    while now < to + schedule.drain_max {
        if now == from {
            at_start = generator.generated();
        }
        // Up to the next time something is counted.
        let edge = [from, to].into_iter().find(|&edge| edge > now).unwrap_or(u64::MAX);
        let until = edge.min(now + STEP);
        generator.fill(net, until, whole_cycles);
        net.advance(until * cycle - 1);
        while let Some(d) = net.poll_delivery() {
            let (born, tail) = (d.at / cycle, d.tail / cycle);
            if (from..to).contains(&tail) {
                accepted += d.flits as u64;
            }
            if (from..to).contains(&born) {
                let p = &mut part[((born - from) * PARTS as u64 / schedule.measure) as usize];
                p.0 += 1;
                p.1 += (d.tail - d.at) as u128;
                longest = longest.max(d.tail - d.at);
                routers += d.routers as u64;
                arrived += 1;
            }
        }
        now = until;
        if now == to {
            in_window = generator.generated() - at_start;
        }
        if now >= to && arrived >= in_window {
            break;
        }
    }
    let sum: u128 = part.iter().map(|p| p.1).sum();
    let mean = |p: &(u64, u128)| p.1 as f64 / p.0.max(1) as f64 / cycle as f64;
    let latency = mean(&(arrived, sum));
    let spread: f64 = part.iter().map(|p| (mean(p) - latency).powi(2)).sum();
    let per = (net.endpoints() as u64 * schedule.measure) as f64;
    let mean_flits = net.counters().delivered_flits as f64 / net.counters().delivered.max(1) as f64;
    let offered = in_window as f64 * mean_flits / per;
    let accepted = accepted as f64 / per;
    Measured {
        latency,
        latency_error: (spread / (PARTS * (PARTS - 1)) as f64).sqrt(),
        latency_max: longest as f64 / cycle as f64,
        accepted,
        offered,
        routers: routers as f64 / arrived.max(1) as f64,
        packets: in_window,
        saturated: arrived < in_window || accepted < 0.95 * offered,
        cycles: now,
    }
}
