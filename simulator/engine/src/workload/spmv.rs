//! Sparse matrix times vector of paper 000: every node multiplies its rows, then the result's parts go
//! to everybody.
//!
//! Written `spmv[:METHOD[,SW[,PACKETS]]]`. The matrix has 20.48 million rows of 10 numbers; a node
//! computes 591 million operations a second, as the paper measured. The all-gather is simulated on the
//! chip: METHOD `p2p` doubles recursively, `trees` broadcasts every part on one of the 16 trees whose
//! roots are spread evenly. A part of the real size is 313 packets at 2,048 nodes and every packet
//! comes to every node, 1.3 billion of them, so larger networks are simulated with PACKETS and with
//! twice as many packets per part; both times are reported, and the whole follows from them as a
//! straight line: a long all-gather moves one packet of every part in a time of its own.

use super::collective::{Collective, CollectivePlan, Method, measure_at, report_time};
use super::script::{Chip, Ran, chip, ns};
use super::{Report, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::table::number;
use angara_net::torus::NodeId;
use std::sync::Arc;
use std::time::Instant;

/// Rows of the matrix.
pub const ROWS: u64 = 20_480_000;
/// Numbers in a row.
pub const ROW_NUMBERS: f64 = 10.0;
/// Operations of a node per second.
pub const SPEED: f64 = 591e6;
const PACKET_BYTES: u64 = 256;
/// Packets to hosts that a run may simulate; beyond that, parts are cut short.
const DELIVERIES: u64 = 1_000_000;

/// Seconds a node computes.
pub fn compute_s(nodes: usize) -> f64 {
    2.0 * ROWS as f64 * ROW_NUMBERS / nodes as f64 / SPEED
}

/// Packets per part that are simulated on `nodes` nodes, if not all; then also twice as many.
pub fn sample(nodes: usize) -> Option<u64> {
    let whole = part_packets(nodes);
    let packets = (DELIVERIES / (nodes * nodes) as u64).max(1);
    (2 * packets < whole).then_some(packets)
}

fn part_packets(nodes: usize) -> u64 {
    (ROWS * 8 / nodes as u64).div_ceil(PACKET_BYTES)
}

/// A simulated all-gather.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Seconds for the whole vector.
    pub time_s: f64,
    /// Packets per part and seconds, as simulated.
    pub simulated: Vec<(u64, f64)>,
    /// The longest of the runs.
    pub ran: Ran,
}

/// Simulates the all-gather on `chip`, with `packets` and twice as many packets per part, or whole.
///
/// # Errors
/// See [`super::collective::measure`].
pub fn gather(
    chip: &Chip,
    how: Method,
    overhead_ns: f64,
    packets: Option<u64>,
    watch: &mut Watch<'_>,
) -> Result<Gathered, Error> {
    let nodes = chip.config.shape.nodes();
    let whole = part_packets(nodes);
    let mut run = |packets: u64| {
        let plan = CollectivePlan { what: Collective::AllGather, how, bytes: packets * PACKET_BYTES };
        let ran = measure_at(chip.clone(), plan, ns(overhead_ns), &|rank| rank as NodeId, watch)?;
        Ok::<_, Error>((ran.time as f64 / 1e12, ran))
    };
    let Some(packets) = packets else {
        let (time_s, ran) = run(whole)?;
        return Ok(Gathered { time_s, simulated: vec![(whole, time_s)], ran });
    };
    let ((short, _), (long, ran)) = (run(packets)?, run(2 * packets)?);
    let each = (long - short) / packets as f64;
    let time_s = short + each * (whole - packets) as f64;
    Ok(Gathered { time_s, simulated: vec![(packets, short), (2 * packets, long)], ran })
}

#[derive(Debug)]
struct Spmv {
    how: Method,
    overhead_ns: f64,
    packets: Option<u64>,
}

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "spmv",
    form: "spmv[:trees|p2p|ring[,SW[,PACKETS]]]",
    about: "sparse matrix times vector, 20.48 million rows: compute, all-gather",
    parse: |arguments| {
        let mut parts = arguments.splitn(3, ',');
        let mut next = |default: &str| parts.next().filter(|p| !p.is_empty()).unwrap_or(default).to_string();
        let (how, sw, packets) = (next("trees"), next("0"), next(""));
        let (how, overhead_ns) = super::collective::method(Collective::AllGather, &format!("{how},{sw}"))?;
        let bad = || Error::invalid("workload", &packets, "give a number of packets per part");
        let packets = match packets.trim() {
            "" => None,
            text => Some(text.parse().ok().filter(|p| *p > 0).ok_or_else(bad)?),
        };
        Ok(Arc::new(Spmv { how, overhead_ns, packets }))
    },
};

impl Workload for Spmv {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let nodes = chip(experiment)?.config.shape.nodes();
        if self.packets.is_some_and(|p| 2 * p > part_packets(nodes)) {
            let why = format!("a whole part has {} packets; give at most half of that", part_packets(nodes));
            return Err(Error::invalid("workload", &experiment.settings.workload, why));
        }
        CollectivePlan { what: Collective::AllGather, how: self.how, bytes: PACKET_BYTES }.check(nodes)
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let chip = chip(experiment)?;
        let nodes = chip.config.shape.nodes();
        let g = gather(&chip, self.how, self.overhead_ns, self.packets.or_else(|| sample(nodes)), watch)?;
        let ms = |s: f64| format!("{} ms", number(s * 1e3, 5));
        let title = format!("{} · sparse matrix times vector, {}", experiment.title(), self.how.name());
        let mut report = Report::new(&title);
        report.line("computing", ms(compute_s(nodes)));
        report.line("all-gather", ms(g.time_s));
        for (packets, time) in &g.simulated {
            report.line("simulated", format!("{packets} of {} packets per part: {}", part_packets(nodes), ms(*time)));
        }
        let speed = 2.0 * ROWS as f64 * ROW_NUMBERS / (compute_s(nodes) + g.time_s) / 1e9;
        report.line("speed", format!("{} GFLOPS", number(speed, 4)));
        report_time(&mut report, &g.ran, started, experiment);
        report.set("compute_ns", compute_s(nodes) * 1e9);
        report.set("allgather_ns", g.time_s * 1e9);
        report.set("simulated", g.simulated.iter().map(|(p, s)| (*p, s * 1e9)).collect::<Vec<_>>());
        report.set("gigaflops", speed);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::super::collective::measure;
    use super::*;
    use angara_fabric::Config;
    use std::ops::ControlFlow;

    #[test]
    fn two_short_runs_foretell_a_longer_one() {
        let config = Config { payload: false, ..Config::new("4x2x2".parse().unwrap()) };
        for how in [Method::Trees, Method::PointToPoint] {
            let short = gather(&config.clone().into(), how, 0.0, Some(20), &mut |_| ControlFlow::Continue(())).unwrap();
            let (v, t) = (short.simulated[0], short.simulated[1]);
            let plan = CollectivePlan { what: Collective::AllGather, how, bytes: 120 * PACKET_BYTES };
            let long = measure(config.clone(), plan, 0.0).unwrap().time as f64 / 1e12;
            let foretold = v.1 + (t.1 - v.1) / 20.0 * 100.0;
            assert!((foretold / long - 1.0).abs() < 0.03, "{how:?}: {foretold} s foretold, {long} s simulated");
        }
    }

    #[test]
    fn a_part_is_simulated_whole_if_it_is_small_enough() {
        assert_eq!((sample(2048), sample(256), part_packets(2048)), (Some(1), Some(15), 313));
        assert_eq!(sample(2), None);
        let report = crate::workload::simulate("topology = \"torus:2x2x2\"\nworkload = \"spmv:p2p,0,10\"");
        assert!(report.json["allgather_ns"].as_f64().unwrap() > 20e6, "{}", report.text);
    }
}
