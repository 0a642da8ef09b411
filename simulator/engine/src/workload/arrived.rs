//! What has arrived of messages that a file gives, and what a report says of it.

use super::{Plot, Report};
use crate::plot::Chart;
use crate::run::latencies::{self, Latencies};
use crate::run::outcome::Percentiles;
use angara_model::Delivery;

#[derive(Default)]
pub(super) struct Arrived {
    pub(super) messages: u64,
    flits: u64,
    /// Sum of latencies, ps.
    latency: u128,
    routers: u64,
    /// When the last one did, ps.
    end: u64,
    latencies: Latencies,
}

impl Arrived {
    /// Counts a message that has arrived.
    pub(super) fn record(&mut self, d: &Delivery, cycle: u64) {
        self.messages += 1;
        self.flits += u64::from(d.flits);
        self.latency += u128::from(d.tail - d.at);
        self.routers += u64::from(d.routers);
        self.end = self.end.max(d.tail);
        self.latencies.record(d.tail - d.at, cycle, usize::from(d.routers), d.flits);
    }

    /// Adds what has arrived in a network of `nodes` nodes; a cycle is `cycle` ps.
    pub(super) fn tell(&self, cycle: u64, nodes: usize, report: &mut Report) {
        let messages = self.messages.max(1) as f64;
        let (mean, cycles) = (self.latency as f64 / messages, self.end.div_ceil(cycle));
        let accepted = self.flits as f64 / (nodes as f64 * cycles.max(1) as f64);
        let routers = self.routers as f64 / messages;
        let h = &self.latencies.all;
        let (by_routers, by_flits) = (self.latencies.of_routers(cycle), self.latencies.of_flits(cycle));
        let quantile = |q| h.quantile(q) as f64;
        let p = Percentiles { p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99), max: h.max() as f64 };
        report.line("latency", format!("{:.2} cycles ({:.1} ns)", mean / cycle as f64, mean / 1000.0));
        let text = format!("half {:.0}, 95 % {:.0}, 99 % {:.0}, largest {:.0} cycles", p.p50, p.p95, p.p99, p.max);
        report.line("", text);
        latencies::lines(&by_routers, &by_flits).for_each(|(name, text)| report.line(name, text));
        report.line("all arrived", format!("after {cycles} cycles ({:.1} ns)", self.end as f64 / 1000.0));
        report.line("accepted", format!("{accepted:.4} flits per node and cycle until then"));
        report.line("routers visited", format!("{routers:.3}"));
        report.set("packet_latency_cycles", mean / cycle as f64);
        report.set("packet_latency_ns", mean / 1000.0);
        report.set("latency_percentiles_cycles", p);
        report.set("latency_by_routers", by_routers);
        report.set("latency_by_flits", by_flits);
        report.set("time_cycles", cycles);
        report.set("time_ns", self.end as f64 / 1000.0);
        report.set("accepted_flits_per_node_cycle", accepted);
        report.set("mean_routers_visited", routers);
        report.set("cycle_ps", cycle);
        report.histograms.push(("latency".into(), h.clone()));
        report.chart("histogram", self.chart());
        report.plots.push(Plot::new("latency", "packet_latency_cycles", "mean latency, cycles"));
        report.plots.push(Plot::new("time", "time_ns", "time, ns"));
    }

    /// Share of messages over their latency.
    fn chart(&self) -> Chart {
        let curve = ("latency".into(), self.latencies.all.shares());
        Chart::of_latencies("Latency of the messages".into(), vec![curve])
    }
}
