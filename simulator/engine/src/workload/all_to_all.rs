//! Personalised all-to-all: every rank has a message of its own for every other one.
//!
//! Rank r sends to r+1, r+2, … in this order, all as fast as its injection takes them, so that no
//! rank is everybody's first destination.

use super::closed::{Closed, packets_for};
use super::{Report, Shows, Watch, Workload, WorkloadKind, numbers};
use crate::Error;
use crate::run::Experiment;
use crate::table::number;
use angara_model::{Injection, TrafficClass};
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "all-to-all",
    form: "all-to-all:BYTES",
    about: "every rank sends BYTES to every other one; time until all have arrived",
    parse: |arguments| {
        let [bytes] = numbers(arguments)?;
        match bytes {
            0 => Err(Error::invalid("workload", bytes, "send at least 1 byte")),
            _ => Ok(Arc::new(AllToAll { bytes })),
        }
    },
};

/// Most packets of a run; each takes memory while it waits.
const PACKETS_MAX: u64 = 100_000_000;

#[derive(Debug)]
struct AllToAll {
    bytes: u64,
}

impl AllToAll {
    fn packets(&self, experiment: &Experiment) -> u64 {
        let ranks = experiment.placement.len() as u64;
        ranks * (ranks - 1) * packets_for(experiment, self.bytes).count() as u64
    }
}

impl Workload for AllToAll {
    fn keys(&self) -> &'static [&'static str] {
        &["length"]
    }

    fn shows(&self) -> Shows {
        Shows { links: true, packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let packets = self.packets(experiment);
        if packets > PACKETS_MAX {
            let remedy = format!("that is {packets} packets, more than {PACKETS_MAX}; send less or on fewer nodes");
            return Err(Error::invalid("workload", format!("all-to-all:{}", self.bytes), remedy));
        }
        Ok(())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut closed = Closed::new(experiment)?;
        let (total, ranks) = (self.packets(experiment), experiment.placement.len());
        // A rank's next packet is posted when its last one arrived somewhere, with this many under
        // way, so that memory holds a window and not the whole exchange.
        let mut next: Vec<Schedule> = (0..ranks).map(|_| Schedule::default()).collect();
        let lengths: Vec<u16> = packets_for(experiment, self.bytes).collect();
        let rank_of = experiment.ranks();
        for rank in 0..ranks {
            for _ in 0..WINDOW {
                next[rank].post(&mut closed, experiment, &lengths, rank, 0);
            }
        }
        let (mut arrived, mut end) = (0, 0);
        while let Some(d) = closed.next_delivery()? {
            arrived += 1;
            end = end.max(d.tail);
            let rank = rank_of[d.src as usize] as usize;
            next[rank].post(&mut closed, experiment, &lengths, rank, d.tail);
            closed.look(watch, "exchanging", arrived, total)?;
        }
        let cycle = closed.network().cycle();
        let sent = (ranks as u64 - 1) * self.bytes;
        let mut report = Report::new(&format!("{} · all-to-all, {} bytes", experiment.title(), self.bytes));
        report.line("time", format!("{} us ({} cycles)", number(end as f64 / 1e6, 5), end.div_ceil(cycle)));
        let rate = sent as f64 / (end as f64 / 1000.0);
        report.line("per node", format!("{sent} bytes sent, {} GB/s", number(rate, 4)));
        report.set("time_ns", end as f64 / 1000.0);
        report.set("time_cycles", end.div_ceil(cycle));
        report.set("bytes_per_node", sent);
        report.plot("time", "time_ns", "time, ns");
        report.plot("bandwidth", "gigabytes_per_s_per_node", "GB/s per node");
        report.set("gigabytes_per_s_per_node", rate);
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}

/// Packets of one rank under way at once: more than the network holds of one source.
const WINDOW: usize = 256;

/// How far a rank has come.
#[derive(Default)]
struct Schedule {
    /// Distance to the destination, less one.
    step: usize,
    packet: usize,
}

impl Schedule {
    fn post(&mut self, closed: &mut Closed, experiment: &Experiment, lengths: &[u16], rank: usize, at: u64) {
        let ranks = experiment.placement.len();
        if self.step + 1 >= ranks {
            return;
        }
        let to = (rank + 1 + self.step) % ranks;
        closed.send(Injection {
            src: experiment.placement[rank],
            dst: experiment.placement[to],
            flits: lengths[self.packet],
            class: TrafficClass::Response,
            adaptive: experiment.adaptive,
            at,
            tag: 0,
            traced: false,
        });
        self.packet += 1;
        if self.packet == lengths.len() {
            (self.packet, self.step) = (0, self.step + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::simulate;

    #[test]
    fn a_ring_of_two_takes_a_known_time() {
        // 3 full packets, as many as enter a ring of 4 slots at once, one hop on: 300 ns in, 129 ns for the
        // hop, 300 ns out, and the flits behind each other at the link's 7.5 GB/s.
        let report = simulate("topology = \"torus:2\"\nrouter = \"angara\"\nworkload = \"all-to-all:768\"");
        assert_eq!((&report.json["packets"], &report.json["bytes_per_node"]), (&6.into(), &768.into()));
        let time = report.json["time_ns"].as_f64().unwrap();
        let streaming = 3.0 * 18.0 * 6.4 / 3.0;
        assert!((724.0..734.0).contains(&(time - streaming)), "{time}");
    }

    #[test]
    fn everybody_sends_to_everybody_else() {
        let report =
            simulate("topology = \"mesh:3x3\"\nrouter = \"generic\"\nlength = 4\nworkload = \"all-to-all:100\"");
        // 100 bytes are 7 flits: two packets.
        assert_eq!(report.json["packets"], 9 * 8 * 2);
        assert!(report.text.contains("all-to-all, 100 bytes"), "{}", report.text);
    }
}
