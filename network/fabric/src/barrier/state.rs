//! State of the barrier units of all nodes.

use super::check::BarrierCheck;
use super::family::BarrierFamily;
use crate::chip::layout::DATA_VCS;
use crate::routes::{DIRS, NONE};
use crate::types::{JobSlot, Port, Tick};
use angara_net::torus::NodeId;
use std::collections::BTreeMap;

/// Meaning of a message; its offset holds this in the low byte and a number above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// The sender and all below it have entered. In the second half: they are done with the first.
    Arrived,
    /// All have entered.
    Release,
    /// Round of a hypercube.
    Round,
}

/// Messages of one barrier that have come to a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// Per half: arrivals, counted in halves if a sender's messages come on two channels.
    pub(super) arrived: [u32; 2],
    /// Packets announced.
    pub(super) announced: u64,
    pub(super) released: bool,
    pub(super) rounds: u32,
}

/// Message that some members still have to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    pub(super) word: Word,
    /// True if it goes to all members, in order of distance; else it goes to the children in the tree.
    pub(super) all: bool,
    pub(super) next: u32,
    /// Channels to send it on, as bits, and those on which the present target has been sent it.
    pub(super) channels: u8,
    pub(super) sent: u8,
}

/// Tree of members: the parent and the children of each.
#[derive(Debug, Default)]
pub(super) struct Upwards {
    pub(super) up: Vec<u32>,
    /// Children of member i: `children[first[i]..first[i + 1]]`.
    pub(super) first: Vec<u32>,
    pub(super) children: Vec<u32>,
}

impl Upwards {
    pub(super) fn new(up: Vec<u32>) -> Upwards {
        let mut first = vec![0; up.len() + 1];
        up.iter().filter(|p| **p != NONE).for_each(|p| first[*p as usize + 1] += 1);
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let (mut at, mut children) = (first.clone(), vec![0; first[up.len()] as usize]);
        for (i, p) in up.iter().enumerate().filter(|(_, p)| **p != NONE) {
            children[at[*p as usize] as usize] = i as u32;
            at[*p as usize] += 1;
        }
        Upwards { up, first, children }
    }
    pub(super) fn children(&self, member: u32) -> &[u32] {
        let i = member as usize;
        &self.children[self.first[i] as usize..self.first[i + 1] as usize]
    }
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Not in a barrier.
    Idle,
    /// Waits for this many markers.
    Flush(u8),
    /// In this phase of the current half: waits for the neighbours' specials.
    Phase(u32),
    /// Goes into this phase (or ends the half) when the adapter's increment is over.
    Next(u32),
    /// The host's word is on its way to the adapter.
    Enter,
    /// At this step of exchanging messages.
    Talk(u8),
    /// The adapters are done: waits for what is on its way to the host.
    Settle,
    /// First half of a full barrier done: waits for the answers to ejected requests.
    Service,
}

/// One node of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Open ports of the job at the node; 0 for a transit node.
    pub(crate) ports: u32,
    /// Ports that wait in the barrier, with their operations.
    pub(crate) waiting: Vec<(u32, u32)>,
    pub(crate) stage: Stage,
    pub(crate) second: bool,
    /// True for full barriers: the one under way, the one the ports wait in, the one left last.
    pub(crate) full: bool,
    pub(super) asked_full: bool,
    pub(super) left_full: bool,
    /// Flag `full` of the latest specials of each parity.
    pub(crate) seen_full: [bool; 2],
    /// Had left the barrier that a route change started again; takes part without waiting ports.
    pub(crate) rerun: bool,
    /// Group neighbours, one bit per direction.
    pub(crate) dirs: u16,
    /// Specials not yet used, by parity, travel direction and channel.
    pub(crate) got: [[[u8; DATA_VCS]; DIRS]; 2],
    /// Requests of the job ejected here and not yet answered.
    pub(crate) service: u32,
    /// Barriers left, as the adapters count: a route change may take one back.
    pub(crate) done: u64,
    /// Barriers left, as the ports count.
    pub(crate) left: u64,
    /// When the event that ends `Next`, `Enter` or `Settle` is due.
    pub(crate) due: Tick,
    /// Messages not yet used, by parity.
    pub(super) heard: [Heard; 2],
    /// Messages being sent to many, one after the other.
    pub(super) bulk: Option<Bulk>,
    /// The adapter's way into the network is in use until then.
    pub(super) unit_busy: Tick,
    /// Packets delivered here, by parity of the barrier they were sent before (counting only).
    pub(super) delivered: [u64; 2],
    /// Channels the ports had put data on before the barrier, as bits (all-to-all only).
    pub(super) channels: u8,
    /// Packets sent before the barrier, by target (counting only).
    pub(super) said: BTreeMap<NodeId, u32>,
    /// `said` and `channels` are those of the barrier the ports wait in.
    pub(super) told: bool,
    /// Those of the barrier before that one.
    pub(super) before: (BTreeMap<NodeId, u32>, u8),
}

impl Member {
    pub(crate) fn new(ports: u32) -> Member {
        Member {
            ports,
            waiting: Vec::new(),
            stage: Stage::Idle,
            second: false,
            full: false,
            asked_full: false,
            left_full: false,
            seen_full: [false; 2],
            rerun: false,
            dirs: 0,
            got: Default::default(),
            service: 0,
            done: 0,
            left: 0,
            due: 0,
            heard: Default::default(),
            bulk: None,
            unit_busy: 0,
            delivered: [0; 2],
            channels: 0,
            said: BTreeMap::new(),
            told: false,
            before: Default::default(),
        }
    }
    /// Packets sent before the barrier under way, by target, and the channels they went on: a node that takes part once
    /// more in a barrier it had left may have begun the next one.
    pub(super) fn announced(&self) -> (&BTreeMap<NodeId, u32>, u8) {
        if self.rerun && self.told { (&self.before.0, self.before.1) } else { (&self.said, self.channels) }
    }
    /// Parity of the barrier the node is in or will enter next.
    pub(super) fn odd(&self) -> bool {
        self.done % 2 == 1
    }
}

/// The barrier group of a job.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) family: BarrierFamily,
    /// Per node of the network: its place in `members`, or [`crate::routes::NONE`]. The job's own
    /// nodes come first, sorted.
    pub(crate) index: Vec<u32>,
    pub(crate) members: Vec<Member>,
    pub(crate) nodes: Vec<NodeId>,
    /// How many nodes of the job are modelled here.
    pub(crate) here: u32,
    /// K, once known for the present routes.
    pub(crate) phases: Option<u32>,
    /// Members that cannot reach each other.
    pub(crate) cut: Option<(NodeId, NodeId)>,
    /// Phases left out on purpose.
    pub(super) short_by: u32,
    /// Parents and children of members in a tree, or below a master.
    pub(super) tree: Upwards,
    /// Offsets from a node to all others, the nearest first.
    pub(super) order: Vec<NodeId>,
    pub(super) check: BarrierCheck,
    pub(super) checked: bool,
    /// Nodes that have entered and left the barrier of each number modulo 4.
    pub(super) entered: [u32; 4],
    pub(super) gone: [u32; 4],
}

impl Group {
    /// A group for `nodes` nodes of the network, empty so far.
    pub(crate) fn new(nodes: usize) -> Group {
        Group { index: vec![crate::routes::NONE; nodes], checked: true, ..Group::default() }
    }
}

/// An open job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ports: Vec<Port>,
    /// Its nodes, sorted, once each.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) group: Group,
}

/// The barrier units of all nodes: groups by job.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    pub(super) jobs: Vec<Option<Job>>,
}

impl Barriers {
    /// An open job.
    #[inline]
    pub(crate) fn job(&self, job: JobSlot) -> Option<&Job> {
        self.jobs.get(job.index())?.as_ref()
    }
    /// Job slots used so far.
    pub(crate) fn slots(&self) -> impl Iterator<Item = JobSlot> + use<> {
        JobSlot::first(self.jobs.len())
    }
    pub(crate) fn open(&mut self, job: JobSlot, open: Job) {
        if self.jobs.len() <= job.index() {
            self.jobs.resize_with(job.index() + 1, || None);
        }
        self.jobs[job.index()] = Some(open);
    }
    pub(crate) fn close(&mut self, job: JobSlot) -> Option<Job> {
        self.jobs.get_mut(job.index())?.take()
    }
    /// True if some job's barriers count packets.
    pub(crate) fn counting(&self) -> bool {
        self.jobs.iter().flatten().any(|j| j.group.family == BarrierFamily::Counting)
    }
    pub(super) fn member(&mut self, job: JobSlot, node: NodeId) -> Option<&mut Member> {
        let group = &mut self.jobs.get_mut(job.index())?.as_mut()?.group;
        let index = *group.index.get(node as usize)?;
        group.members.get_mut(index as usize)
    }
}
