//! What the data plane shows of itself to whoever looks on: copies of counters, made when they are asked for.
//!
//! A large network is copied a piece at a time, so that posts are served in between.

use crate::channels::lanes::Lanes;
use crate::jobs::job::Jobs;
use crate::jobs::traffic::LinkAccounts;
use crate::notice::Gauges;
use crate::registers::RegisterPages;
use crate::trees::Trees;
use angara_abi::JobId;
use angara_abi::account::{Class, Load};
use angara_fabric::{ChannelUse, Fabric, JobSlot, Link, NodeCounters};
use angara_net::torus::{Direction, NodeId};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Rounds of the data plane since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rounds {
    /// With something to do.
    pub busy: u64,
    /// Without.
    pub idle: u64,
    /// Naps.
    pub sleeps: u64,
}

/// Counters of a link so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkFigures {
    /// There is such a link, and its counters are kept here.
    pub here: bool,
    /// It works.
    pub up: bool,
    /// Load carried.
    pub load: Load,
    /// Transmissions that arrived damaged.
    pub crc_errors: u64,
    /// Packets sent again.
    pub replays: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Packets that came too early.
    pub reordered: u64,
}

/// Details of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkDetail {
    /// Load carried, by class.
    pub classes: Vec<(Class, Load)>,
    /// Slots of its virtual channels in use now.
    pub channels: Vec<ChannelUse>,
}

/// The data plane as a whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlaneFigures {
    pub rounds: Rounds,
    /// Processor time of its thread, seconds.
    pub cpu_s: f64,
    /// Violations by clients.
    pub violations: u64,
    /// Events the network has handled.
    pub events: u64,
    /// Virtual time of the network, in picoseconds, if there is one.
    pub time_ps: Option<u64>,
    /// Packets in the network, and payload slots in use.
    pub in_flight: (usize, usize),
    /// Channels served, those of them whose post waits for room, and those that have been stopped.
    pub channels: (usize, usize, usize),
    /// Sums over the adapters of this host.
    pub adapters: NodeCounters,
    /// Nodes that have left barriers: how many, and the phases of the latest one.
    pub barriers: Vec<(NodeId, u64, u64)>,
    /// Trees that are loaded.
    pub trees: Vec<TreeFigures>,
    /// Faults, as people write them.
    pub faults: Vec<String>,
    /// Node sets of jobs.
    pub sets: SetFigures,
}

/// Node sets of jobs, as the network has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetFigures {
    /// Jobs with a set, and how often the route table of each set has been made.
    pub tables_made: Vec<(JobId, u64)>,
    /// Nodes of the whole network that work and are in no set.
    pub nodes_without: usize,
}

impl SetFigures {
    /// How often the route table of a job's set has been made, if it has a set.
    pub fn tables_made(&self, id: JobId) -> Option<u64> {
        self.tables_made.iter().find(|(job, _)| *job == id).map(|(_, made)| *made)
    }
}

/// A tree of the collective subnet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeFigures {
    /// TreeId.
    pub number: u8,
    pub job: Option<JobId>,
    /// Node at its root.
    pub root: Option<NodeId>,
    /// Each other node of it, and where its root lies from there.
    pub up: Vec<(NodeId, Direction)>,
    /// Results sent, and broadcasts delivered, by nodes of this host.
    pub results: u64,
    /// Broadcasts delivered here.
    pub broadcasts: u64,
}

/// Parts of a data plane that have something to show.
pub(crate) struct Figures<'p> {
    pub(crate) fabric: &'p Fabric,
    pub(crate) jobs: &'p Jobs,
    pub(crate) lanes: &'p Lanes,
    pub(crate) accounts: &'p LinkAccounts,
    pub(crate) registers: &'p RegisterPages,
    pub(crate) trees: &'p Trees,
    pub(crate) gauges: &'p Gauges,
    pub(crate) rounds: Rounds,
    pub(crate) is_virtual: bool,
}

impl Figures<'_> {
    /// Counters of every link of some nodes, by node and direction, as the network has them.
    pub(crate) fn links(&self, nodes: Range<NodeId>) -> Vec<LinkFigures> {
        let shape = self.fabric.shape();
        let figures = |link: Link| {
            if shape.neighbour(link.node, link.dir).is_none() {
                return LinkFigures::default();
            }
            let counters = self.fabric.link_counters(link);
            let mut load = counters.total();
            if let Some(past) = self.accounts.past(link) {
                load.add(past);
            }
            LinkFigures {
                here: self.fabric.owns(link.node),
                up: self.fabric.routes().link_works(link),
                load,
                crc_errors: counters.crc_errors,
                replays: counters.replays,
                duplicates: counters.duplicates,
                reordered: counters.reordered,
            }
        };
        nodes.flat_map(|node| Direction::ALL.map(|dir| figures(Link { node, dir }))).collect()
    }

    /// Returns what is open of a link.
    pub(crate) fn link(&self, link: Link) -> LinkDetail {
        let counters = self.fabric.link_counters(link);
        let classes = Class::ALL.into_iter().zip(counters.tx).collect();
        LinkDetail { classes, channels: self.fabric.link_channels(link) }
    }

    /// Jobs that are open, and how many PEs they have.
    pub(crate) fn jobs(&self) -> Vec<(JobSlot, usize)> {
        self.jobs.iter().map(|(slot, job)| (slot, job.memory.pes)).collect()
    }

    /// Everything but links.
    pub(crate) fn plane(&self, nodes: Vec<NodeId>, faults: Vec<String>) -> PlaneFigures {
        let mut adapters = NodeCounters::default();
        for node in nodes.iter().map(|node| self.fabric.node_counters(*node)) {
            adapters.foreign_drops += node.foreign_drops;
            adapters.unreachable_drops += node.unreachable_drops;
            adapters.ejected += node.ejected;
        }
        PlaneFigures {
            rounds: self.rounds,
            cpu_s: self.gauges.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9,
            violations: self.gauges.violations.load(Ordering::Relaxed),
            events: self.fabric.events_handled(),
            time_ps: self.is_virtual.then(|| self.fabric.now()),
            in_flight: self.fabric.in_flight(),
            channels: (
                self.lanes.served().count(),
                self.lanes.served().filter(|lane| lane.pending.is_some()).count(),
                self.lanes.served().filter(|lane| lane.broken).count(),
            ),
            adapters,
            barriers: self.registers.barriers(),
            trees: (0..angara_abi::TREES as u8).filter_map(|tree| self.tree(tree, &nodes)).collect(),
            faults,
            sets: self.sets(),
        }
    }

    /// Figures of node sets.
    pub(crate) fn sets(&self) -> SetFigures {
        let with_set = self.jobs.iter().filter(|(_, job)| job.memory.set.is_some());
        SetFigures {
            tables_made: with_set.map(|(slot, job)| (job.memory.id, self.fabric.tables_made(slot))).collect(),
            nodes_without: self.fabric.nodes_without_set(),
        }
    }

    fn tree(&self, number: u8, nodes: &[NodeId]) -> Option<TreeFigures> {
        let rows = self.fabric.tree(number)?;
        let slot = self.trees.owner(number)?;
        let up = rows.rows.iter().filter_map(|(node, row)| Some((*node, row.to_root?))).collect();
        let (mut results, mut broadcasts) = (0, 0);
        for node in nodes {
            let (sent, delivered) = self.fabric.tree_counters(number, *node);
            (results, broadcasts) = (results + sent, broadcasts + delivered);
        }
        let job = self.jobs.get(slot).map(|job| job.memory.id);
        Some(TreeFigures { number, job, root: rows.root(), up, results, broadcasts })
    }
}
