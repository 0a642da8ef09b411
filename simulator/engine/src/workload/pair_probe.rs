//! One pair of ranks in an otherwise idle network: how long messages of growing size take.
//!
//! The smallest message shows the latency of the way, the largest the bandwidth a single pair gets.
//! (`--probe` measures a pair under the load of everybody else.)

use super::closed::{Closed, packets_for};
use super::{Report, Shows, Watch, Workload, WorkloadKind, numbers};
use crate::Error;
use crate::plot::Chart;
use crate::run::Experiment;
use crate::table::{Table, binary, number};
use angara_model::{Injection, TrafficClass};
use serde_json::json;
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "pair-probe",
    form: "pair-probe:FROM,TO",
    about: "messages of 8 B to 1 MiB between two ranks, nobody else sends; latency and bandwidth",
    parse: |arguments| {
        let [from, to] = numbers(arguments)?;
        let rank = |n| u32::try_from(n).map_err(|_| Error::invalid("workload", n, "ranks are 32-bit numbers"));
        Ok(Arc::new(PairProbe { from: rank(from)?, to: rank(to)? }))
    },
};

/// Bytes of the messages.
const SIZES: [u64; 10] = [8, 32, 128, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

#[derive(Debug)]
struct PairProbe {
    from: u32,
    to: u32,
}

/// Measurement of one message size.
struct Row {
    bytes: u64,
    packets: u64,
    /// From the first packet's creation to the last one's last flit, ps.
    time: u64,
    routers: u16,
}

impl Workload for PairProbe {
    fn keys(&self) -> &'static [&'static str] {
        &["length"]
    }

    fn shows(&self) -> Shows {
        Shows { links: true, packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let ranks = experiment.placement.len() as u32;
        if self.from.max(self.to) >= ranks {
            let text = format!("pair-probe:{},{}", self.from, self.to);
            return Err(Error::invalid("workload", text, format!("ranks are numbered 0 to {}", ranks - 1)));
        }
        Ok(())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut closed = Closed::new(experiment)?;
        let mut rows = Vec::new();
        for (done, bytes) in (0..).zip(SIZES) {
            // The last message has left the network, and its credits have come back.
            let at = closed.network().now() + 10_000_000;
            let lengths: Vec<u16> = packets_for(experiment, bytes).collect();
            for &flits in &lengths {
                closed.send(Injection {
                    src: experiment.placement[self.from as usize],
                    dst: experiment.placement[self.to as usize],
                    flits,
                    class: TrafficClass::Response,
                    adaptive: experiment.adaptive,
                    at,
                    ..Injection::default()
                });
            }
            let (mut time, mut routers) = (0, 0);
            while let Some(d) = closed.next_delivery()? {
                (time, routers) = (d.tail - at, routers.max(d.routers));
                closed.look(watch, "probing", done, SIZES.len() as u64)?;
            }
            rows.push(Row { bytes, packets: lengths.len() as u64, time, routers });
        }
        let mut report = Report::new(&format!("{} · from rank {} to rank {}", experiment.title(), self.from, self.to));
        tell(&rows, &mut report);
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}

/// Bytes per nanosecond, which are GB/s.
fn bandwidth(row: &Row) -> f64 {
    row.bytes as f64 / (row.time as f64 / 1000.0)
}

fn tell(rows: &[Row], report: &mut Report) {
    let mut table = Table::new(&[">bytes", ">packets", ">time, ns", ">GB/s"]);
    for row in rows {
        let time = row.time as f64 / 1000.0;
        table.row(&[
            binary(row.bytes as f64),
            row.packets.to_string(),
            format!("{time:.1}"),
            number(bandwidth(row), 4),
        ]);
    }
    report.table(&table);
    report.line("routers visited", rows[0].routers);
    let points = |y: fn(&Row) -> f64| rows.iter().map(|r| (r.bytes as f64, y(r))).collect::<Vec<_>>();
    let chart = |title: &str, y: &str, points| Chart {
        title: title.into(),
        x: "bytes".into(),
        y: y.into(),
        x_log: true,
        y_log: true,
        curves: vec![("pair".into(), points)],
        ..Chart::default()
    };
    report.chart("latency", chart("Time of a message", "ns", points(|r| r.time as f64 / 1000.0)));
    report.chart("bandwidth", chart("Bandwidth of a pair", "GB/s", points(bandwidth)));
    let row = |r: &Row| json!({"bytes": r.bytes, "packets": r.packets, "time_ns": r.time as f64 / 1000.0, "gigabytes_per_s": bandwidth(r)});
    report.set("sizes", rows.iter().map(row).collect::<Vec<_>>());
    report.set("latency_ns", rows[0].time as f64 / 1000.0);
    report.set("gigabytes_per_s", rows.last().map(bandwidth));
    report.set("mean_routers_visited", rows[0].routers);
    report.plot("latency", "latency_ns", "time of 8 bytes, ns");
    report.plot("bandwidth", "gigabytes_per_s", "GB/s of a pair");
}

#[cfg(test)]
mod tests {
    use crate::workload::simulate;

    #[test]
    fn a_pair_has_the_latency_and_bandwidth_of_the_parameters() {
        let report = simulate("topology = \"torus:4x4\"\nrouter = \"angara\"\nworkload = \"pair-probe:0,1\"");
        // 729 ns for the head of a packet over one link, and two more flits.
        let latency = report.json["latency_ns"].as_f64().unwrap();
        assert!((729.0..735.0).contains(&latency), "{latency}");
        // 256 of 288 bytes are payload: at most 6.67 GB/s of the link's 7.5.
        let bandwidth = report.json["gigabytes_per_s"].as_f64().unwrap();
        assert!((2.0..6.67).contains(&bandwidth), "{bandwidth}");
        assert_eq!(report.json["sizes"].as_array().unwrap().len(), 10);
    }

    #[test]
    fn generic_packets_are_as_long_as_asked() {
        let report =
            simulate("topology = \"mesh:4\"\nrouter = \"generic\"\nlength = 16\nworkload = \"pair-probe:0,3\"");
        // Four routers: 4 R + 2 cycles of 2 ns.
        assert_eq!((&report.json["latency_ns"], &report.json["mean_routers_visited"]), (&36.0.into(), &4.into()));
        assert_eq!(report.json["sizes"][4]["packets"], 4);
    }
}
