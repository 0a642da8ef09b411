//! The workload `trace:FILE`: a program that ran in virtual time and was recorded, on this network or another one.

mod player;

use super::collective::report_time;
use super::goal::{self, Goal};
use super::script::{Chip, Ran, any_chip};
use super::{Brought, Report, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::table::{Table, number};
use angara_fabric::{Fabric, Link, Port, Tick};
use angara_model::Profile;
use angara_net::torus::{Direction, NodeId, Shape};
use angara_protocol::recording::Recording;
use player::Player;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// PEs and links that people are shown.
const SHOWN: usize = 16;

#[derive(Debug)]
struct Replay {
    recording: Recording,
    path: PathBuf,
}

pub(in crate::workload) const KIND: WorkloadKind = WorkloadKind {
    name: "trace",
    form: "trace:FILE",
    about: "a program recorded by `angara run --record`: when each PE ends, and what links carry",
    parse: |arguments| {
        let path = Path::new(arguments);
        Ok(Arc::new(Replay { recording: Recording::open(path)?, path: path.into() }))
    },
};

impl Replay {
    /// The port of each PE: its recorded one, moved by the placement.
    fn ports(&self, experiment: &Experiment) -> Result<Vec<Port>, Error> {
        let nodes = experiment.placement.len();
        let port = |&(node, endpoint): &(NodeId, u16)| match experiment.placement.get(node as usize) {
            Some(&node) => Ok(Port { node, endpoint }),
            None => {
                let why = format!("the recorded program has a PE on node {node}; give a network of more nodes");
                Err(Error::invalid("topology", format!("a network of {nodes} nodes"), why))
            }
        };
        self.recording.header.places.iter().map(port).collect()
    }
}

impl Workload for Replay {
    fn keys(&self) -> &'static [&'static str] {
        &["length"]
    }

    fn defaults(&self) -> Option<Brought> {
        let header = &self.recording.header;
        Some(Brought {
            topology: header.topology.parse().ok(),
            set: (!header.set.is_empty()).then(|| vec![header.set.clone()]),
            seed: header.seed,
        })
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        if let Profile::Generic(_) = experiment.network.profile {
            return goal::check_recorded(&self.recording, experiment);
        }
        any_chip(experiment)?;
        self.ports(experiment).map(drop)
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        if let Profile::Generic(_) = experiment.network.profile {
            return Goal::recorded(&self.recording, &self.path)?.run(experiment, watch);
        }
        let started = Instant::now();
        let Chip { config, faults, .. } = any_chip(experiment)?;
        let shape = config.shape;
        let mut player = Player::new(&self.recording, (config, faults), self.ports(experiment)?)?;
        player.play(watch)?;
        let (ends, packets) = player.ended()?;
        let fabric = player.fabric();
        let used = used(fabric, &shape);
        let ran = Ran {
            time: ends.iter().copied().max().unwrap_or(0),
            ends,
            steps: Vec::new(),
            packets,
            packet_hops: used.values().map(|of| of.0).sum(),
            flit_hops: used.values().map(|of| of.1).sum(),
            barriers: fabric.barrier_check(super::script::JOB),
        };
        let mut report = Report::new(&format!("{} · recorded program of {} PEs", experiment.title(), ran.ends.len()));
        report_time(&mut report, &ran, started, experiment);
        self.show_ends(&mut report, &ran.ends);
        show_links(&mut report, &shape, &used);
        Ok(report)
    }
}

impl Replay {
    fn show_ends(&self, report: &mut Report, ends: &[Tick]) {
        let recorded = &self.recording.ends;
        let equal = ends.iter().zip(recorded).filter(|(end, recorded)| Some(**end) == **recorded).count();
        report.line("as recorded", format!("{equal} of {} PEs end at the same picosecond", ends.len()));
        let mut table = Table::new(&["PE", "ends, ns", "recorded, ns"]);
        let mut csv = String::from("pe,end_ps,recorded_ps\n");
        let mut pes = Vec::new();
        for (pe, (end, recorded)) in ends.iter().zip(recorded).enumerate() {
            let ns = |ps: Tick| number(ps as f64 / 1000.0, 9);
            if pe < SHOWN {
                table.row(&[&pe.to_string(), &ns(*end), &recorded.map_or_else(|| "-".into(), ns)]);
            }
            csv.push_str(&format!("{pe},{end},{}\n", recorded.map(|ps| ps.to_string()).unwrap_or_default()));
            pes.push(json!({"pe": pe, "end_ps": end, "recorded_ps": recorded}));
        }
        report.table(&table);
        if ends.len() > SHOWN {
            report.line("not shown", format!("{} more PEs; --json and --out have all", ends.len() - SHOWN));
        }
        report.set("pes", pes);
        report.set("equal", equal == ends.len());
        report.file("pes.csv", csv);
    }
}

/// Packets and flits of each link that was used, by node and direction.
type Used = BTreeMap<(NodeId, usize), (u64, u64)>;

fn used(fabric: &Fabric, shape: &Shape) -> Used {
    let mut used = Used::new();
    for node in 0..shape.nodes() as NodeId {
        for dir in Direction::ALL {
            let sent = fabric.link_counters(Link { node, dir }).total();
            if sent.packets > 0 {
                used.insert((node, dir.index()), (sent.packets, sent.flits));
            }
        }
    }
    used
}

fn show_links(report: &mut Report, shape: &Shape, used: &Used) {
    let mut most: Vec<_> = used.iter().collect();
    most.sort_by_key(|(link, carried)| (std::cmp::Reverse(carried.1), **link));
    let dir = |index: usize| Direction::ALL[index].to_string();
    let mut table = Table::new(&["link", "packets", "flits"]);
    for ((node, index), (packets, flits)) in most.iter().take(SHOWN) {
        let at = shape.show(shape.coords(*node));
        table.row(&[&format!("{at} {}", dir(*index)), &packets.to_string(), &flits.to_string()]);
    }
    report.table(&table);
    let mut csv = String::from("node,direction,packets,flits\n");
    let mut links = Vec::new();
    for ((node, index), (packets, flits)) in used {
        csv.push_str(&format!("{node},{},{packets},{flits}\n", dir(*index)));
        links.push(json!({"node": node, "direction": dir(*index), "packets": packets, "flits": flits}));
    }
    report.set("links_used", links);
    report.file("links_used.csv", csv);
}
