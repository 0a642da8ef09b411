//! Programs of nodes on the whole chip: adapters, collective trees and barriers included.
//!
//! A program is a list of [`Step`]s per node. The node's processor goes through them in order; a step
//! that waits holds it until what it waits for has come, and a step that hands something to the
//! adapter costs a software overhead first. [`Stage`] runs the programs of all nodes on
//! `angara_fabric::Fabric`, with lengths instead of data. Everything between posting and arrival is
//! simulated packet by packet; only what happens inside a processor is a given number of nanoseconds.

use super::Watch;
use crate::Error;
use crate::run::{Experiment, Progress};
use angara_abi::account::Class;
use angara_abi::desc::{Place, Region};
use angara_abi::packet::{ReduceElem, ReduceOp, Vc};
use angara_abi::torus::{NodeId, Shape};
use angara_fabric::Tick;
use angara_fabric::{
    BarrierCheck, BarrierFamily, Completion, Config, Effect, Fabric, Fault, FaultKind, JobSlot, NetError, Op, OpState,
    Port, Source,
};
use angara_model::Profile;
use std::collections::VecDeque;

/// The only job.
pub(super) const JOB: JobSlot = JobSlot::new(0);
/// Bytes of a collective packet.
const TREE_BYTES: u64 = 256;
/// Where the message's number stands in the offset it is written to.
const TAG_SHIFT: u32 = 32;
/// Events between two calls of a watch.
const LOOK: u64 = 1 << 16;

/// One step of a node's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The processor computes for this long, ps.
    Compute(Tick),
    /// Writes `bytes` to node `to`; costs the software overhead.
    Send {
        /// Target node.
        to: NodeId,
        /// Bytes, below 4 GiB.
        bytes: u32,
        /// What the target's [`Step::Receive`] asks for.
        tag: u16,
    },
    /// Waits for a whole message.
    Receive(u16),
    /// Contributes to reductions of one 256-byte packet after the other; costs the overhead once.
    Reduce {
        /// TreeId.
        tree: u8,
        /// Bytes, a multiple of 8.
        bytes: u32,
        /// Node that gets the result; everybody without.
        to: Option<NodeId>,
    },
    /// Broadcasts packet after packet on a tree; costs the overhead once.
    Broadcast {
        /// TreeId.
        tree: u8,
        /// Bytes.
        bytes: u32,
    },
    /// Waits until this many packets of reductions have come to the node, on all trees since the start.
    Reduced(u64),
    /// Waits until this many packets of broadcasts have come to the node.
    Heard(u64),
    /// Enters the barrier and waits to leave.
    Barrier {
        /// Only until what was sent to me has arrived.
        half: bool,
    },
}

/// What one node does.
pub type Program = Vec<Step>;

/// Packets that carry `bytes` on a tree.
pub fn tree_packets(bytes: u64) -> u64 {
    bytes.div_ceil(TREE_BYTES).max(1)
}

/// A node's processor.
#[derive(Debug, Default)]
struct Cpu {
    next: usize,
    /// Free from then on.
    free: Tick,
    /// Messages come and not yet asked for.
    inbox: Vec<(u16, Tick)>,
    reduced: u64,
    heard: u64,
    /// When the last result and the last broadcast came.
    told: Tick,
    /// When it left its last barrier.
    left: Option<Tick>,
    in_barrier: bool,
    /// Operations the adapter's queue had no room for.
    outbox: VecDeque<(Tick, Posted)>,
    /// Contributions made per tree, for their ReduceIds.
    made: [u64; angara_abi::TREES],
}

#[derive(Clone, Copy, Debug)]
enum Posted {
    Write { to: NodeId, bytes: u32, tag: u16 },
    Reduce { tree: u8, id: u8, bytes: u32, to: Option<NodeId> },
    Broadcast { tree: u8, bytes: u32 },
    Barrier { half: bool },
}

/// Nodes with a program each, and the network between them.
pub struct Stage {
    fabric: Fabric,
    overhead: Tick,
    programs: Vec<Program>,
    cpus: Vec<Cpu>,
    /// Nodes that may go on.
    ready: Vec<NodeId>,
    finished: usize,
    end: Tick,
    packets: u64,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Ran {
    /// When the last node had finished, ps.
    pub time: Tick,
    /// When each node had.
    pub ends: Vec<Tick>,
    /// Packets that came to a host.
    pub packets: u64,
    /// Packets sent over links, each link counted.
    pub packet_hops: u64,
    /// Flits sent over links.
    pub flit_hops: u64,
    /// What the model saw of the barriers.
    pub barriers: BarrierCheck,
}

/// The chip's network, and what is or goes wrong with it.
#[derive(Clone, Debug)]
pub struct Chip {
    /// The network.
    pub config: Config,
    /// Links that fail or corrupt packets.
    pub faults: Vec<Fault>,
}

impl From<Config> for Chip {
    fn from(config: Config) -> Chip {
        Chip { config, faults: Vec::new() }
    }
}

/// The chip's network that `experiment` describes, without data.
///
/// # Errors
/// A network without the chip's adapters and trees.
pub fn chip(experiment: &Experiment) -> Result<Chip, Error> {
    let needs = "this workload uses the chip's adapters; give a torus or mesh of up to four sizes and router angara";
    let Profile::Angara(a) = &experiment.network.profile else {
        return Err(Error::invalid("router", "generic", needs));
    };
    refuse_impossible(experiment)?;
    let text = experiment.settings.topology.clone();
    let shape: Shape =
        text.strip_prefix("torus:").unwrap_or(&text).parse().map_err(|_| Error::invalid("topology", &text, needs))?;
    let faults = &experiment.settings.fault;
    let faults = faults.iter().map(|text| Fault::parse(text, &shape)).collect::<Result<Vec<_>, _>>();
    let faults = faults.map_err(|e| Error::Network(e.to_string()))?;
    if let Some(dead) = faults.iter().find(|f| matches!(f.kind, FaultKind::NodeDown(_))) {
        let why = "every node has its part in a collective, barrier or application; let links fail instead";
        return Err(Error::invalid("fault", dead.show(&shape), why));
    }
    Ok(Chip {
        config: Config { params: a.params(), payload: false, seed: experiment.seed, ..Config::new(shape) },
        faults,
    })
}

/// What a script cannot do is refused.
fn refuse_impossible(experiment: &Experiment) -> Result<(), Error> {
    let refuse = |key, value: &dyn ToString, why: &str| {
        Err(Error::invalid(
            key,
            value.to_string(),
            format!("collectives, barriers and applications {why}; leave it out"),
        ))
    };
    if experiment.adaptive {
        return refuse("routing", &"adaptive", "know a message's end by its last packet, which must not be overtaken");
    }
    if let Some(packets) = &experiment.observe.packets {
        return refuse(
            "trace",
            packets,
            "make their packets in the adapter, where none has a number to be followed by",
        );
    }
    if experiment.threads > 1 {
        let why = "have trees and barriers that span all parts of the network and are simulated by one thread";
        return refuse("threads", &experiment.threads, why);
    }
    Ok(())
}

/// Nanoseconds as ps.
pub fn ns(value: f64) -> Tick {
    (value * 1000.0).round() as Tick
}

impl Stage {
    /// One port on every node of the network; `overhead` is the software's share of posting, ps.
    ///
    /// # Errors
    /// A network that cannot be built.
    pub fn new(chip: impl Into<Chip>, overhead: Tick) -> Result<Stage, Error> {
        let Chip { config, faults } = chip.into();
        let nodes = config.shape.nodes();
        let broken = |e: &dyn std::fmt::Display| Error::Network(e.to_string());
        let mut fabric = Fabric::new(config).map_err(|e| broken(&e))?;
        faults.into_iter().try_for_each(|f| fabric.set_fault(f)).map_err(|e| broken(&e))?;
        let ports: Vec<Port> = (0..nodes as u32).map(|node| Port { node, endpoint: 0 }).collect();
        fabric.open_job(JOB, &ports).map_err(|e| broken(&e))?;
        Ok(Stage {
            fabric,
            overhead,
            programs: vec![Vec::new(); nodes],
            cpus: (0..nodes).map(|_| Cpu::default()).collect(),
            ready: (0..nodes as u32).rev().collect(),
            finished: 0,
            end: 0,
            packets: 0,
        })
    }

    /// The network, to choose a barrier or look at counters.
    pub fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.cpus.len()
    }

    /// Loads tree `tree` over all nodes, with its root at `root`.
    ///
    /// # Errors
    /// A tree that cannot be built.
    pub fn plant(&mut self, tree: u8, root: NodeId) -> Result<(), Error> {
        let ports: Vec<Port> = (0..self.nodes() as u32).map(|node| Port { node, endpoint: 0 }).collect();
        let rows = self.fabric.build_tree(root, &ports).map_err(|e| Error::Network(e.to_string()))?;
        self.fabric.load_tree(tree, JOB, &rows).map_err(|e| Error::Network(e.to_string()))
    }

    /// How the nodes do barriers.
    ///
    /// # Errors
    /// Never before the first barrier.
    pub fn set_barrier(&mut self, family: BarrierFamily) -> Result<(), Error> {
        self.fabric.set_barrier_family(JOB, family).map_err(|e| Error::Network(e.to_string()))
    }

    /// Gives a node its program.
    pub fn set(&mut self, node: NodeId, program: Program) {
        self.programs[node as usize] = program;
    }

    /// Runs all programs to their ends.
    ///
    /// # Errors
    /// What the network reports, programs that wait for each other, or the user's wish to stop.
    pub fn run(mut self, watch: &mut Watch<'_>) -> Result<Ran, Error> {
        let mut events = 0u64;
        loop {
            while let Some(node) = self.ready.pop() {
                self.go(node)?;
            }
            let Some(next) = self.fabric.poll_timeout() else { break };
            self.fabric.advance(next);
            self.collect()?;
            events += 1;
            let (done, of) = (self.finished as u64, self.cpus.len() as u64);
            if events.is_multiple_of(LOOK) && watch(Progress { doing: "simulating", done, of }).is_break() {
                return Err(Error::Interrupted("the programs had not ended"));
            }
        }
        if self.finished < self.cpus.len() {
            let stuck = (0..self.cpus.len()).find(|n| self.cpus[*n].next < self.programs[*n].len());
            let node = stuck.unwrap_or(0);
            let step = self.programs[node].get(self.cpus[node].next);
            let step = step.map_or("the end".into(), |s| format!("{s:?}"));
            return Err(Error::Network(format!("node {node} waits for ever at {step}")));
        }
        let (mut packet_hops, mut flit_hops) = (0, 0);
        for node in 0..self.nodes() as u32 {
            for dir in angara_abi::torus::Direction::ALL {
                let sent = self.fabric.link_counters(angara_fabric::Link { node, dir }).total();
                (packet_hops, flit_hops) = (packet_hops + sent.packets, flit_hops + sent.flits);
            }
        }
        let ends = self.cpus.iter().map(|c| c.free).collect();
        let barriers = self.fabric.barrier_check(JOB);
        Ok(Ran { time: self.end, ends, packets: self.packets, packet_hops, flit_hops, barriers })
    }

    /// Takes what the network has done.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(effect) = self.fabric.poll_effect() {
            match effect {
                Effect::Write { at, place, time, last, .. } => {
                    self.packets += 1;
                    if last {
                        let tag = (place.offset >> TAG_SHIFT) as u16;
                        self.cpus[at.node as usize].inbox.push((tag, time));
                        self.ready.push(at.node);
                    }
                }
                Effect::TreeResult { at, bcast, time, .. } => {
                    self.packets += 1;
                    let cpu = &mut self.cpus[at.node as usize];
                    *if bcast { &mut cpu.heard } else { &mut cpu.reduced } += 1;
                    cpu.told = time;
                    self.ready.push(at.node);
                }
                // Who does not get a result has nothing to wait for.
                Effect::TreeCredit { .. } => {}
                // Counted, see `Ran::barriers`.
                Effect::Error {
                    what: NetError::EarlyExit { .. } | NetError::LatePacket { .. } | NetError::Unfinished { .. },
                    ..
                } => {}
                Effect::Error { what, .. } => return Err(Error::Network(what.to_string())),
                other => return Err(Error::Network(format!("unexpected: {other:?}"))),
            }
        }
        while let Some(Completion { from, tag, state, time, .. }) = self.fabric.poll_completion() {
            match state {
                OpState::Failed(why) => return Err(Error::Network(why.to_string())),
                OpState::Complete if tag == BARRIER => self.cpus[from.node as usize].left = Some(time),
                _ if self.cpus[from.node as usize].outbox.is_empty() => continue,
                _ => self.flush(from.node)?,
            }
            self.ready.push(from.node);
        }
        Ok(())
    }

    /// Lets a node's processor go on as far as it can.
    fn go(&mut self, node: NodeId) -> Result<(), Error> {
        loop {
            let cpu = &mut self.cpus[node as usize];
            let Some(step) = self.programs[node as usize].get(cpu.next).copied() else {
                return Ok(());
            };
            match step {
                Step::Compute(time) => cpu.free += time,
                Step::Send { to, bytes, tag } => self.post(node, Posted::Write { to, bytes, tag }, true)?,
                Step::Receive(tag) => {
                    let Some(i) = cpu.inbox.iter().position(|(t, _)| *t == tag) else { return Ok(()) };
                    let (_, time) = cpu.inbox.swap_remove(i);
                    cpu.free = cpu.free.max(time);
                }
                Step::Reduce { tree, bytes, to } => {
                    for (i, bytes) in pieces(bytes).enumerate() {
                        let made = &mut self.cpus[node as usize].made[tree as usize];
                        let id = (*made % angara_abi::REDUCES as u64) as u8;
                        *made += 1;
                        self.post(node, Posted::Reduce { tree, id, bytes, to }, i == 0)?;
                    }
                }
                Step::Broadcast { tree, bytes } => {
                    for (i, bytes) in pieces(bytes).enumerate() {
                        self.post(node, Posted::Broadcast { tree, bytes }, i == 0)?;
                    }
                }
                Step::Reduced(count) if cpu.reduced < count => return Ok(()),
                Step::Heard(count) if cpu.heard < count => return Ok(()),
                Step::Reduced(_) | Step::Heard(_) => cpu.free = cpu.free.max(cpu.told),
                Step::Barrier { half } if !cpu.in_barrier => {
                    cpu.in_barrier = true;
                    self.post(node, Posted::Barrier { half }, true)?;
                    continue;
                }
                Step::Barrier { .. } => {
                    let Some(time) = cpu.left.take() else { return Ok(()) };
                    cpu.in_barrier = false;
                    cpu.free = cpu.free.max(time);
                }
            }
            let cpu = &mut self.cpus[node as usize];
            cpu.next += 1;
            if cpu.next == self.programs[node as usize].len() {
                self.finished += 1;
                self.end = self.end.max(cpu.free);
            }
        }
    }

    fn post(&mut self, node: NodeId, what: Posted, costs: bool) -> Result<(), Error> {
        let cpu = &mut self.cpus[node as usize];
        cpu.free += if costs { self.overhead } else { 0 };
        let issue = cpu.free;
        cpu.outbox.push_back((issue, what));
        self.flush(node)
    }

    /// Posts what the adapter has room for.
    fn flush(&mut self, node: NodeId) -> Result<(), Error> {
        let from = Port { node, endpoint: 0 };
        while let Some((issue, what)) = self.cpus[node as usize].outbox.front().copied() {
            let place = Place { region: Region::Heap, offset: 0 };
            let source = |bytes| Source::Length(bytes);
            let to_port = |node| Port { node, endpoint: 0 };
            let (op, class, tag) = match what {
                Posted::Write { to, bytes, tag } => {
                    let place = Place { offset: u64::from(tag) << TAG_SHIFT, ..place };
                    let op =
                        Op::Write { to: to_port(to), place, source: source(bytes), vc: Vc::Request, adaptive: false };
                    (op, Class::Put, 0)
                }
                Posted::Reduce { tree, id, bytes, to } => {
                    let (op, elem) = (ReduceOp::Sum, ReduceElem::I64);
                    let (all, to, source) = (to.is_none(), to.map(to_port), source(bytes));
                    (Op::Reduce { tree, reduce: id, op, elem, all, to, place, source }, Class::Sync, 0)
                }
                Posted::Broadcast { tree, bytes } => (Op::Bcast { tree, place, source: source(bytes) }, Class::Sync, 0),
                Posted::Barrier { half } => (Op::Barrier { half }, Class::Sync, BARRIER),
            };
            match self.fabric.inject(from, JOB, class, op, issue, tag) {
                Ok(()) => drop(self.cpus[node as usize].outbox.pop_front()),
                Err(angara_fabric::InjectError::Busy) => return Ok(()),
                Err(e) => return Err(Error::Network(e.to_string())),
            }
        }
        Ok(())
    }
}

/// Tag of barriers among completions.
const BARRIER: u64 = 1;

/// Lengths of the tree packets that carry `bytes`.
fn pieces(bytes: u32) -> impl Iterator<Item = u32> {
    let count = tree_packets(u64::from(bytes)) as u32;
    (0..count).map(move |i| (bytes - i * TREE_BYTES as u32).min(TREE_BYTES as u32))
}
