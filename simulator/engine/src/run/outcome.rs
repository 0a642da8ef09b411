//! Measurements of a simulation.

use super::Fairness;
use super::experiment::Settings;
use super::latencies::{self, OfFlits, OfRouters};
use super::report::{Plot, Report};
use super::stats::{CORRELATION_MAX, FINE, Histogram};
use crate::observe::{Observed, links};
use crate::plot::Chart;
use serde::Serialize;
use std::fmt::Write;

/// Jain's index below which the text says how unevenly sources are served.
const UNFAIR: f64 = 0.98;

/// The result of one run. Latencies count from a message's creation to its last flit's arrival,
/// waiting at the source included; `null` where nothing arrived.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Settings of the simulation.
    pub settings: Settings,
    /// Mean latency, router cycles.
    pub packet_latency_cycles: Option<f64>,
    /// Half-width of its 95 % confidence interval, router cycles.
    pub confidence: Option<f64>,
    /// Correlation of neighbouring 64ths of the time measured, -1 to 1. Above 0.15 the run was too short
    /// for the confidence interval to be relied on.
    pub correlation: Option<f64>,
    /// Mean latency, ns.
    pub packet_latency_ns: Option<f64>,
    /// Half, 95 % and 99 % of the latencies are at most this, and the largest; router cycles.
    pub latency_percentiles_cycles: Percentiles,
    /// Latency by the routers that messages passed.
    pub latency_by_routers: Vec<OfRouters>,
    /// Latency by the lengths of messages.
    pub latency_by_flits: Vec<OfFlits>,
    /// Flits that arrived per node and cycle.
    pub accepted_flits_per_node_cycle: f64,
    /// Flits that were created per node and cycle.
    pub offered_flits_per_node_cycle: f64,
    /// How evenly the sources were served.
    pub sources: Option<Fairness>,
    /// Routers a packet passed, those of source and destination included.
    pub mean_routers_visited: Option<f64>,
    /// Messages by which those that wait became more, by those created; about 0 unless the network is saturated. `null`
    /// where the run was too short to tell.
    pub backlog_growth: Option<f64>,
    /// Half-width of its 95 % confidence interval.
    pub backlog_growth_confidence: Option<f64>,
    /// The network does not carry the offered load: latency has no limit and only says how long
    /// the run was.
    pub saturated: bool,
    /// Evidence of saturation, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturated_because: Option<String>,
    /// What may show that the network does not carry the offered load, but may be chance, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// The user ended the run before it was as precise as asked.
    pub interrupted: bool,
    /// Messages that arrived in the time measured.
    pub packets: u64,
    /// Messages created in the time measured.
    pub created: u64,
    /// Messages under way at the end, waiting at their sources included.
    pub under_way: u64,
    /// Mean of the messages under way over the time measured, taken every 16 cycles.
    pub mean_under_way: f64,
    /// Messages dropped because faults had left no route.
    pub unreachable: u64,
    /// Latency of the probe's messages, router cycles.
    pub probe: Option<ProbeOutcome>,
    /// Cycles before measuring.
    pub warmup_cycles: u64,
    /// Cycles measured.
    pub measured_cycles: u64,
    /// One router cycle, ps.
    pub cycle_ps: u64,
    /// Packets that left a router, whole run.
    pub packet_hops: u64,
    /// Flits that left a router, whole run.
    pub flit_hops: u64,
    /// Threads that simulated.
    pub threads: usize,
    /// Time simulated took, s.
    pub wall_s: f64,
    /// Speed: packet_hops / wall_s.
    pub packet_hops_per_s: f64,
    /// Speed: flit_hops / wall_s.
    pub flit_hops_per_s: f64,
    /// Largest resident memory of the process so far, bytes; 0 where the system does not say.
    pub peak_rss_bytes: u64,
    /// Bytes of the network's tables and queues at the end.
    pub model_bytes: u64,
    /// All latencies, router cycles.
    #[serde(skip)]
    pub histogram: Histogram,
    /// Loads of the links, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<links::Summary>,
    /// Observations made.
    #[serde(skip)]
    pub observed: Observed,
}

/// Points of the latency distribution, router cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Latencies of the probe's messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProbeOutcome {
    /// Messages that arrived.
    pub messages: u64,
    /// Mean latency, router cycles.
    pub mean_cycles: f64,
    /// Smallest latency, router cycles.
    pub min_cycles: f64,
    /// Largest latency, router cycles.
    pub max_cycles: f64,
}

impl Outcome {
    /// The result as that of a workload.
    pub fn report(&self) -> Report {
        let json = match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => unreachable!("outcomes are objects of numbers and names"),
        };
        let charts = vec![("histogram".to_string(), self.histogram_chart())];
        let plots = vec![
            Plot::new("latency", "packet_latency_cycles", "mean latency, cycles"),
            Plot::new("throughput", "accepted_flits_per_node_cycle", "accepted load, flits per node and cycle"),
        ];
        Report {
            text: self.text(),
            json,
            histograms: vec![("latency".into(), self.histogram.clone())],
            charts,
            plots,
            observed: self.observed.clone(),
            ..Report::default()
        }
    }

    /// Share of messages over their latency.
    pub fn histogram_chart(&self) -> Chart {
        let s = &self.settings;
        let title = format!("Latency: {}, load {}, {}", s.topology, s.load, s.pattern);
        Chart::of_latencies(title, vec![("latency".into(), self.histogram.shares())])
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let s = &self.settings;
        let mut out =
            format!("{} · {} · length {} · load {} · {}\n", s.machine(), s.pattern, s.length, s.load, s.process);
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "  {name:<22}{value}");
        };
        if let Some(why) = &self.saturated_because {
            line("SATURATED", why.clone());
            line("", "latency grows with the length of the run".into());
        }
        if let Some(what) = &self.undecided {
            line("UNDECIDED", format!("{what}; a longer run tells: give --cycles-max"));
        }
        if self.interrupted {
            line("INTERRUPTED", "results of the cycles simulated so far".into());
        }
        match (self.packet_latency_cycles, self.packet_latency_ns) {
            (Some(cycles), Some(ns)) => {
                let sure = self.confidence.map_or(String::new(), |c| format!(" ± {c:.2}"));
                line("latency", format!("{cycles:.2}{sure} cycles ({ns:.1} ns)"));
                if !self.saturated && self.correlation.is_some_and(|c| c > CORRELATION_MAX) {
                    let part = self.measured_cycles / FINE as u64;
                    let why = format!("the run is too short for this ±: after {part} cycles latencies are still alike");
                    line("", format!("{why}; give more --cycles or --cycles-max"));
                }
                let p = &self.latency_percentiles_cycles;
                line(
                    "",
                    format!("half {:.0}, 95 % {:.0}, 99 % {:.0}, largest {:.0} cycles", p.p50, p.p95, p.p99, p.max),
                );
            }
            _ => line("latency", "nothing arrived".into()),
        }
        latencies::lines(&self.latency_by_routers, &self.latency_by_flits).for_each(|(name, text)| line(name, text));
        let (accepted, offered) = (self.accepted_flits_per_node_cycle, self.offered_flits_per_node_cycle);
        line("accepted", format!("{accepted:.4} of {offered:.4} flits per node and cycle"));
        if let Some(s) = self.sources.filter(|s| s.jain < UNFAIR) {
            let text =
                format!("{:.4} to {:.4} flits per cycle of a source, Jain's index {:.3}", s.least, s.most, s.jain);
            line("", text);
        }
        if let Some(routers) = self.mean_routers_visited {
            line("routers visited", format!("{routers:.3}"));
        }
        if self.unreachable > 0 {
            line("unreachable", format!("{} messages dropped: no route was left", self.unreachable));
        }
        if let Some(p) = &self.probe {
            let text = format!(
                "{:.1} cycles ({:.0} to {:.0}), {} messages",
                p.mean_cycles, p.min_cycles, p.max_cycles, p.messages
            );
            line("probe", text);
        }
        self.links.iter().flat_map(lines_of_links).for_each(|(name, text)| line(name, text));
        line(
            "measured",
            format!("{} messages in {} cycles after {}", self.packets, self.measured_cycles, self.warmup_cycles),
        );
        let speed = format!(
            "{:.2} s, {:.2} M packet hops/s, {:.2} M flit hops/s, {:.0} MiB",
            self.wall_s,
            self.packet_hops_per_s / 1e6,
            self.flit_hops_per_s / 1e6,
            self.peak_rss_bytes as f64 / f64::from(1 << 20)
        );
        line("simulated in", speed);
        out
    }
}

/// What links carried, and how often they failed, if they did.
fn lines_of_links(l: &links::Summary) -> Vec<(&'static str, String)> {
    let busiest = l.busiest.first().map_or(String::new(), |b| format!(" ({})", b.link));
    let (mean, most) = (l.mean_flits_per_cycle, l.max_flits_per_cycle);
    let mut lines = vec![("links", format!("mean {mean:.4}, largest {most:.4} flits per cycle{busiest}"))];
    if l.crc_errors + l.replays > 0 {
        lines.push(("", format!("{} packets with a wrong checksum, {} sent again", l.crc_errors, l.replays)));
    }
    if l.duplicates + l.reordered > 0 {
        lines.push(("", format!("{} packets came twice, {} before one sent earlier", l.duplicates, l.reordered)));
    }
    lines
}

/// Largest resident memory of this process, bytes; 0 if the system does not say.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::driver;
    use crate::settings::Keys;
    use crate::workload::simulate;
    use std::ops::ControlFlow;

    fn of(settings: &str) -> Outcome {
        let keys: Keys = toml::from_str(settings).unwrap();
        driver::run(&keys.resolve().map_err(|e| e.0).unwrap().experiment, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn people_read_this() {
        let report = simulate(
            "topology = \"torus:4x4\"\nrouter = \"generic\"\nload = 0.0\nprobe = \"0,5,100\"\nwarmup = 0\ncycles = 1000\n",
        );
        let (stable, speed) = report.text.rsplit_once("  simulated in").unwrap();
        let expected = "\
torus:4x4 · router generic, dor · uniform · length 1 · load 0 · bernoulli
  latency               nothing arrived
  accepted              0.0000 of 0.0000 flits per node and cycle
  probe                 14.0 cycles (14 to 14), 10 messages
  measured              0 messages in 1000 cycles after 0
";
        assert_eq!(stable, expected);
        assert!(speed.contains("M packet hops/s"));
        let keys: Vec<&str> = [
            "packet_latency_cycles",
            "accepted_flits_per_node_cycle",
            "mean_routers_visited",
            "packet_hops",
            "flit_hops",
            "wall_s",
            "peak_rss_bytes",
            "saturated",
            "confidence",
        ]
        .into_iter()
        .filter(|key| !report.json.contains_key(*key))
        .collect();
        assert!(keys.is_empty(), "{keys:?} are missing");
    }

    #[test]
    fn shares_of_the_histogram_are_by_the_width_of_their_bucket() {
        let shares = |latencies: &[u64]| {
            let mut outcome = of("topology = \"torus:4x4\"\nrouter = \"generic\"\nwarmup = 0\ncycles = 100\n");
            (outcome.packets, outcome.histogram) = (latencies.len() as u64, Histogram::default());
            latencies.iter().for_each(|l| outcome.histogram.record(*l));
            outcome.histogram_chart().curves.remove(0).1
        };
        assert_eq!(shares(&[10, 10, 10]), [(10.0, 1.0)]);
        assert_eq!(shares(&[0, 1000]), [(0.0, 0.5), (1007.0, 0.5 / 8.0)], "1000 to 1007 are a bucket");
        assert_eq!(shares(&[3, 4, 90, 90]), [(3.0, 0.25), (4.0, 0.25), (90.0, 0.5)]);
        // All shares together are 1.
        let all: Vec<u64> = (0..5000).collect();
        let sum: f64 = shares(&all).windows(2).map(|w| w[1].1 * (w[1].0 - w[0].0)).sum();
        assert!((sum + shares(&all)[0].1 - 1.0).abs() < 0.02, "{sum}");
    }

    #[test]
    fn saturation_is_explained() {
        let report =
            simulate("topology = \"torus:4x4\"\nrouter = \"generic\"\npattern = \"hotspot:5,0.5\"\nload = 0.5\n");
        assert_eq!(report.json["saturated"], true);
        let line = report.text.lines().nth(1).unwrap();
        assert!(line.contains("SATURATED") && line.contains("of the 0.5000 asked for arrive; a lower load"), "{line}");
    }
}
