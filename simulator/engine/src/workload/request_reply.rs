//! Closed-loop request and reply: every rank keeps some requests open, and sends the next when a
//! reply comes back.
//!
//! Requests and replies travel in separate traffic classes, so that replies never wait for requests:
//! without that, buffers full of requests that wait for replies would stop everything.

use super::closed::Closed;
use super::{Report, Shows, Watch, Workload, WorkloadKind, numbers};
use crate::Error;
use crate::rng::{Purpose, Stream};
use crate::run::Experiment;
use crate::run::stats::{Batch, Batches, Histogram};
use crate::table::number;
use angara_model::{Injection, TrafficClass};
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "request-reply",
    form: "request-reply:WINDOW,REQUEST_FLITS,REPLY_FLITS",
    about: "every rank keeps WINDOW requests open, to ranks by --pattern; round trips measured",
    parse: |arguments| {
        let [window, request, reply] = numbers(arguments)?;
        let flits = |n: u64| u16::try_from(n).ok().filter(|&n| (1..=4096).contains(&n));
        match (u32::try_from(window), flits(request), flits(reply)) {
            (Ok(window @ 1..=65_536), Some(request), Some(reply)) => {
                Ok(Arc::new(RequestReply { window, request, reply }))
            }
            _ => Err(Error::invalid("workload", arguments, "a window is 1 to 65536, a packet 1 to 4096 flits")),
        }
    },
};

/// Round trips per rank if `cycles` does not say how long to run.
const TRIPS: u64 = 200;
/// Tag of a reply; a request's tag is the time it was sent.
const REPLY: u64 = 1 << 61;

#[derive(Debug)]
struct RequestReply {
    window: u32,
    request: u16,
    reply: u16,
}

impl Workload for RequestReply {
    fn keys(&self) -> &'static [&'static str] {
        &["pattern", "warmup", "cycles"]
    }

    fn shows(&self) -> Shows {
        Shows { links: true, packets: true, ..Shows::default() }
    }

    fn packet_flits_max(&self) -> Option<u16> {
        Some(self.request.max(self.reply))
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut closed = Closed::new(experiment)?;
        let cycle = closed.network().cycle();
        let ranks = experiment.placement.len();
        let rank_of = experiment.ranks();
        let mut streams: Vec<Stream> =
            (0..ranks as u32).map(|r| Stream::new(experiment.seed, r, Purpose::Destination)).collect();
        let limits = Limits::new(experiment, ranks as u64 * TRIPS.max(4 * u64::from(self.window)), cycle);
        let send = |closed: &mut Closed, rank: usize, stream: &mut Stream, at: u64| {
            let Some(to) = experiment.destinations.pick(rank as u32, stream) else { return };
            closed.send(Injection {
                src: experiment.placement[rank],
                dst: experiment.placement[to as usize],
                flits: self.request,
                class: TrafficClass::Request,
                adaptive: experiment.adaptive,
                at,
                tag: at,
                traced: false,
            });
        };
        for rank in 0..ranks {
            for _ in 0..self.window {
                send(&mut closed, rank, &mut streams[rank], 0);
            }
        }
        let mut trips = Trips::default();
        while let Some(d) = closed.next_delivery()? {
            if d.tag & REPLY == 0 {
                closed.send(Injection {
                    src: d.dst,
                    dst: d.src,
                    flits: self.reply,
                    class: TrafficClass::Response,
                    adaptive: experiment.adaptive,
                    at: d.tail,
                    tag: d.tag | REPLY,
                    traced: false,
                });
                continue;
            }
            let rank = rank_of[d.dst as usize] as usize;
            trips.record(d.tail, d.tail - (d.tag & !REPLY), cycle, &limits);
            if !limits.over(d.tail, trips.all) {
                send(&mut closed, rank, &mut streams[rank], d.tail);
            }
            closed.look(watch, "trading", trips.all.min(limits.trips), limits.trips)?;
        }
        let mut report = Report::new(&format!("{} · {} requests open per node", experiment.title(), self.window));
        trips.report(&mut report, cycle, ranks, u64::from(self.request + self.reply));
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}

/// When measuring begins and requests end.
struct Limits {
    warmup: Option<u64>,
    end: Option<u64>,
    trips: u64,
}

impl Limits {
    fn new(experiment: &Experiment, trips: u64, cycle: u64) -> Limits {
        let s = &experiment.schedule;
        let warmup = s.warmup.map(|c| c * cycle);
        Limits { warmup, end: s.measure.map(|c| warmup.unwrap_or(0) + c * cycle), trips }
    }
    fn over(&self, time: u64, trips: u64) -> bool {
        self.end.map_or(trips >= self.trips, |end| time >= end)
    }
    /// Without a given warm-up the first tenth is not measured, and nothing once requests have ended.
    fn measured(&self, time: u64, trips: u64) -> bool {
        let warm = self.warmup.map_or(trips * 10 >= self.trips, |from| time >= from);
        warm && !self.over(time, trips)
    }
}

/// Round trips measured.
#[derive(Default)]
struct Trips {
    all: u64,
    first: Option<u64>,
    last: u64,
    batch: Batch,
    batches: Batches,
    histogram: Histogram,
}

/// Round trips of a batch.
const BATCH: u64 = 1000;

impl Trips {
    fn record(&mut self, time: u64, took: u64, cycle: u64, limits: &Limits) {
        self.all += 1;
        if !limits.measured(time, self.all) {
            return;
        }
        self.first.get_or_insert(time);
        self.last = time;
        self.batch.arrived += 1;
        self.batch.latency += u128::from(took);
        self.histogram.record(took.div_ceil(cycle));
        if self.batch.arrived == BATCH {
            self.batches.push(std::mem::take(&mut self.batch));
        }
    }

    fn report(mut self, report: &mut Report, cycle: u64, ranks: usize, flits: u64) {
        let interval = self.batches.latency();
        self.batches.push(self.batch);
        let total = self.batches.total();
        let cycles = |ps: f64| ps / cycle as f64;
        let mean = total.mean();
        let sure = interval.map(|i| cycles(i.half_width));
        match mean {
            Some(ps) => {
                let sure = sure.map_or(String::new(), |s| format!(" ± {s:.2}"));
                let (p50, p99) = (self.histogram.quantile(0.5), self.histogram.quantile(0.99));
                report.line("round trip", format!("{:.2}{sure} cycles ({:.1} ns)", cycles(ps), ps / 1000.0));
                report.line("", format!("half {p50}, 99 % {p99}, largest {} cycles", self.histogram.max()));
            }
            None => report.line("round trip", "none measured; give more cycles"),
        }
        let span = (self.last - self.first.unwrap_or(0)) as f64;
        let per_cycle = if span > 0.0 { total.arrived as f64 / cycles(span) / ranks as f64 } else { 0.0 };
        report.line("rate", format!("{} round trips per node and cycle", number(per_cycle, 4)));
        report.set("round_trip_cycles", mean.map(cycles));
        report.set("round_trip_ns", mean.map(|ps| ps / 1000.0));
        report.set("confidence", sure);
        report.set("round_trips", total.arrived);
        report.plot("round-trip", "round_trip_cycles", "mean round trip, cycles");
        report.plot("throughput", "accepted_flits_per_node_cycle", "accepted load, flits per node and cycle");
        report.set("round_trips_per_node_cycle", per_cycle);
        report.set("accepted_flits_per_node_cycle", per_cycle * flits as f64);
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::simulate;

    #[test]
    fn one_open_request_takes_two_ways() {
        let report = simulate(
            "topology = \"torus:4\"\nrouter = \"generic\"\npattern = \"neighbor\"\nworkload = \"request-reply:1,1,1\"",
        );
        // Two routers each way, four cycles each, two to enter and leave, and one from arrival to answer.
        assert_eq!(report.json["round_trip_cycles"], 22.0);
        assert_eq!(report.json["accepted_flits_per_node_cycle"].as_f64().map(|f| (f * 10.0).round()), Some(1.0));
    }

    #[test]
    fn many_open_requests_neither_stop_nor_overtake_the_network() {
        for router in ["generic", "angara"] {
            let text = format!("topology = \"torus:4x4\"\nrouter = \"{router}\"\nworkload = \"request-reply:32,2,6\"");
            let report = simulate(&text);
            let accepted = report.json["accepted_flits_per_node_cycle"].as_f64().unwrap();
            assert!((0.1..2.0).contains(&accepted), "{router}: {accepted}");
            assert_eq!(report.json["packets"].as_u64().unwrap() % 2, 0, "every request was answered");
        }
    }
}
