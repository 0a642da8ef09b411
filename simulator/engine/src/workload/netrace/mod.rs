//! Traces of caches and memories as the library Netrace reads them: packets with the packets that wait for them.

mod file;
#[cfg(test)]
mod tests;

use super::arrived::Arrived;
use super::closed::{Closed, payload_flits};
use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use angara_model::{Injection, TrafficClass};
use file::{Packet, Trace};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "netrace",
    form: "netrace:FILE[,independent]",
    about: "a trace of Netrace, packets sent when those they depend on have arrived, or independent of them",
    parse: |arguments| Ok(Arc::new(Netrace::read(arguments)?)),
};

/// What follows the file's name if dependencies are not to be honoured.
const INDEPENDENT: &str = ",independent";
/// Flits of the longest packet of a generic network: a cache line with its header.
const FLITS_MAX: u16 = 5;

struct Netrace {
    path: String,
    /// Tells this file from others in the identity of a sweep.
    digest: u64,
    trace: Trace,
    independent: bool,
}

impl std::fmt::Debug for Netrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:016x} {}", self.path, self.digest, self.independent)
    }
}

impl Netrace {
    fn read(arguments: &str) -> Result<Netrace, Error> {
        let independent = arguments.ends_with(INDEPENDENT);
        let path = arguments.strip_suffix(INDEPENDENT).unwrap_or(arguments);
        if path.is_empty() {
            return Err(Error::invalid("workload", arguments, "give the path of a file"));
        }
        let (trace, bytes) = Trace::read(path)?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Ok(Netrace { path: path.into(), digest: hasher.finish(), trace, independent })
    }

    /// For how many packets each one waits.
    fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.trace.packets.len()];
        if !self.independent {
            (0..waits.len()).for_each(|i| self.trace.dependants(i).iter().for_each(|&d| waits[d as usize] += 1));
        }
        waits
    }
}

impl Workload for Netrace {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { histogram: true, links: true, packets: true }
    }

    fn packet_flits_max(&self) -> Option<u16> {
        Some(FLITS_MAX)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let count = experiment.placement.len();
        let most = |packet: &Packet| usize::from(packet.from.max(packet.to));
        match self.trace.packets.iter().enumerate().find(|(_, packet)| most(packet) >= count) {
            Some((i, packet)) => {
                let why =
                    format!("packet {i} (number {}) goes from node {} to node {}", packet.id, packet.from, packet.to);
                let remedy = format!("the network has nodes 0 to {}; give a larger topology", count - 1);
                Err(Error::invalid("workload", format!("netrace:{}", self.path), format!("{why}; {remedy}")))
            }
            None => Ok(()),
        }
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut closed = Closed::new(experiment)?;
        let (cycle, packets) = (closed.network().cycle(), &self.trace.packets);
        let send = |closed: &mut Closed, i: usize, after: u64| {
            let packet = &packets[i];
            closed.send(Injection {
                src: experiment.placement[usize::from(packet.from)],
                dst: experiment.placement[usize::from(packet.to)],
                flits: payload_flits(experiment, u64::from(packet.bytes)),
                class: TrafficClass::Request,
                adaptive: experiment.adaptive,
                at: after.max(packet.cycle * cycle),
                tag: i as u64,
                ..Injection::default()
            });
        };
        let mut waits = self.waits();
        (0..packets.len()).filter(|&i| waits[i] == 0).for_each(|i| send(&mut closed, i, 0));
        let (mut arrived, total) = (Arrived::default(), packets.len() as u64);
        while let Some(d) = closed.next_delivery()? {
            arrived.record(&d, cycle);
            let dependants = if self.independent { &[] } else { self.trace.dependants(d.tag as usize) };
            for &dependant in dependants {
                let left = &mut waits[dependant as usize];
                *left -= 1;
                if *left == 0 {
                    // What has arrived is seen in the next cycle.
                    send(&mut closed, dependant as usize, d.tail + cycle);
                }
            }
            closed.look(watch, "replaying", arrived.messages, total)?;
        }
        let Netrace { path, trace: Trace { name, .. }, .. } = self;
        let mut report = Report::new(&format!("{} · {total} packets of {name}, {path}", experiment.title()));
        let last = packets.last().map_or(0, |packet| packet.cycle);
        report.line("last packet", format!("in cycle {last} of the trace"));
        report.set("last_packet_cycle", last);
        arrived.tell(cycle, experiment.placement.len(), &mut report);
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}
