//! The processors of all PEs, and the network between them.

use super::{Chip, JOB, Operation, Program, Ran, Step, Store, TREE_BYTES, tree_packets};
use crate::Error;
use crate::observe::Capture;
use crate::run::Progress;
use crate::workload::Watch;
use angara_abi::account::Class;
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::packet::{ReduceElem, ReduceOp, Vc};
use angara_fabric::{
    BarrierFamily, Completion, Effect, Fabric, FetchToken, Filter, InjectError, Link, NetError, Op, OpState, Port,
    Source, Tick,
};
use angara_net::torus::{Direction, NodeId};
use std::collections::{BTreeSet, VecDeque};

/// Where the number of a message or a put stands in the offset it is written to. Below are bytes.
const NUMBER_SHIFT: u32 = 32;
/// Bytes of a word.
const WORD: u64 = 8;
/// Events between two calls of a watch.
const LOOK: u64 = 1 << 16;
/// Tag of completions that nobody waits for.
const UNTAGGED: u64 = 0;
/// Tag of barriers.
const BARRIER: u64 = 1;
/// First tag of operations with an answer.
const ANSWERS: u64 = 2;

/// A PE's processor.
#[derive(Debug)]
struct Cpu {
    port: Port,
    next: usize,
    /// Time from which on it is free.
    free: Tick,
    /// True if everything the present step posts has been posted.
    posted: bool,
    /// Messages that have come and were not yet asked for.
    inbox: Vec<(u16, Tick)>,
    reduced: u64,
    heard: u64,
    /// When the last result and the last broadcast came.
    told: Tick,
    /// When it left its last barrier.
    left: Option<Tick>,
    /// Operations the adapter's queue had no room for.
    outbox: VecDeque<(Tick, Posted)>,
    /// Contributions made per tree, for their ReduceIds.
    made: [u64; angara_abi::TREES],
    /// Memory that steps wait for.
    words: Vec<u64>,
    /// PEs written to since the last quiet or full barrier, in order.
    touched: Vec<NodeId>,
    /// Tags of the operations whose answers have not come, and the latest tag.
    open: BTreeSet<u64>,
    tag: u64,
    /// When the last answer came.
    answered: Tick,
}

impl Cpu {
    fn new(port: Port) -> Cpu {
        Cpu {
            port,
            next: 0,
            free: 0,
            posted: false,
            inbox: Vec::new(),
            reduced: 0,
            heard: 0,
            told: 0,
            left: None,
            outbox: VecDeque::new(),
            made: [0; angara_abi::TREES],
            words: Vec::new(),
            touched: Vec::new(),
            open: BTreeSet::new(),
            tag: ANSWERS,
            answered: 0,
        }
    }

    fn word(&mut self, word: u32) -> &mut u64 {
        let word = word as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        &mut self.words[word]
    }

    /// Tag of the next operation with an answer.
    fn asks(&mut self) -> u64 {
        self.tag += 1;
        self.open.insert(self.tag);
        self.tag
    }
}

#[derive(Clone, Copy, Debug)]
enum Posted {
    Write { to: NodeId, bytes: u32, tag: u16 },
    Reduce { tree: u8, id: u8, bytes: u32, to: Option<NodeId> },
    Broadcast { tree: u8, bytes: u32 },
    Barrier { half: bool },
    Operation { number: u32, tag: u64 },
    Flush { to: NodeId, tag: u64 },
    Fence,
}

/// PEs with a program each, and the network between them.
pub struct Stage {
    fabric: Fabric,
    capture: Option<Capture>,
    overhead: Tick,
    programs: Vec<Program>,
    operations: Vec<Operation>,
    cpus: Vec<Cpu>,
    /// PEs by node and endpoint.
    seats: Vec<Vec<NodeId>>,
    /// PEs that may go on.
    ready: BTreeSet<NodeId>,
    /// PEs that look at a word when the network has come as far as they have.
    looks: BTreeSet<(Tick, NodeId)>,
    /// When each step of each PE ended, if anybody wants to know.
    ends: Option<Vec<Vec<Tick>>>,
    finished: usize,
    end: Tick,
    packets: u64,
}

impl Stage {
    /// One PE on every node of the network; `overhead` is the software's share of posting, ps.
    ///
    /// # Errors
    /// A network that cannot be built.
    pub fn new(chip: impl Into<Chip>, overhead: Tick) -> Result<Stage, Error> {
        let chip = chip.into();
        let nodes: Vec<NodeId> = (0..chip.config.shape.nodes() as NodeId).collect();
        Stage::on(chip, &nodes, overhead)
    }

    /// A PE on each of these nodes; those that share one have its endpoints in order.
    ///
    /// # Errors
    /// A network that cannot be built, or without one of the nodes.
    pub fn on(chip: impl Into<Chip>, nodes: &[NodeId], overhead: Tick) -> Result<Stage, Error> {
        let Chip { config, faults, capture } = chip.into();
        let mut seats = vec![Vec::new(); config.shape.nodes()];
        let broken = |e: &dyn std::fmt::Display| Error::Network(e.to_string());
        let mut fabric = Fabric::new(config).map_err(|e| broken(&e))?;
        faults.into_iter().try_for_each(|f| fabric.set_fault(f)).map_err(|e| broken(&e))?;
        let mut ports = Vec::new();
        for (pe, &node) in (0..).zip(nodes) {
            let seat: &mut Vec<NodeId> =
                seats.get_mut(node as usize).ok_or_else(|| broken(&format!("node {node} does not exist")))?;
            ports.push(Port { node, endpoint: seat.len() as u16 });
            seat.push(pe);
        }
        fabric.open_job(JOB, &ports).map_err(|e| broken(&e))?;
        let capture = capture.filter(Capture::begin);
        if capture.is_some() {
            fabric.listen(vec![Filter::default()]);
        }
        Ok(Stage {
            fabric,
            capture,
            overhead,
            programs: vec![Vec::new(); nodes.len()],
            operations: Vec::new(),
            cpus: ports.into_iter().map(Cpu::new).collect(),
            seats,
            ready: (0..nodes.len() as NodeId).collect(),
            looks: BTreeSet::new(),
            ends: None,
            finished: 0,
            end: 0,
            packets: 0,
        })
    }

    /// The network, to choose a barrier or look at counters.
    pub fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// PEs.
    pub fn nodes(&self) -> usize {
        self.cpus.len()
    }

    /// Loads tree `tree` over all PEs, with its root at node `root`.
    ///
    /// # Errors
    /// A tree that cannot be built.
    pub fn plant(&mut self, tree: u8, root: NodeId) -> Result<(), Error> {
        let ports: Vec<Port> = self.cpus.iter().map(|cpu| cpu.port).collect();
        let rows = self.fabric.build_tree(root, &ports).map_err(|e| Error::Network(e.to_string()))?;
        self.fabric.load_tree(tree, JOB, &rows).map_err(|e| Error::Network(e.to_string()))
    }

    /// How the PEs do barriers.
    ///
    /// # Errors
    /// Never before the first barrier.
    pub fn set_barrier(&mut self, family: BarrierFamily) -> Result<(), Error> {
        self.fabric.set_barrier_family(JOB, family).map_err(|e| Error::Network(e.to_string()))
    }

    /// A step that posts `operation`.
    pub fn operation(&mut self, operation: Operation) -> Step {
        self.operations.push(operation);
        Step::Operation(self.operations.len() as u32 - 1)
    }

    /// Gives a PE its program.
    pub fn set(&mut self, pe: NodeId, program: Program) {
        self.programs[pe as usize] = program;
    }

    /// Has it remembered when each step ended.
    pub fn keep_ends(&mut self) {
        self.ends = Some(vec![Vec::new(); self.cpus.len()]);
    }

    /// Runs all programs to their ends.
    ///
    /// # Errors
    /// If the network reports an error, if programs wait for each other, or if the user stops the run.
    pub fn run(mut self, watch: &mut Watch<'_>) -> Result<Ran, Error> {
        self.play(watch)?;
        if let Some((pe, step)) = self.stuck() {
            let step = self.programs[pe as usize][step];
            return Err(Error::Network(format!("node {pe} waits for ever at {step:?}")));
        }
        Ok(self.ran())
    }

    /// Lets time pass until nothing more happens.
    ///
    /// # Errors
    /// If the network reports an error, or if the user stops the run.
    pub(super) fn play(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let mut events = 0u64;
        loop {
            // Nobody sees the middle of a tick. As in virtual time, ties are decided by the number of the PE: what one
            // posts without taking time happens before the next one goes on.
            while self.fabric.poll_timeout() != Some(self.fabric.now())
                && let Some(pe) = self.ready.pop_first()
            {
                self.go(pe)?;
            }
            let look = self.looks.first().map(|look| look.0);
            let Some(next) = self.fabric.poll_timeout().into_iter().chain(look).min() else { return Ok(()) };
            self.fabric.advance(next);
            self.tell();
            self.collect()?;
            while let Some((_, pe)) = self.looks.first().copied().filter(|look| look.0 <= next) {
                self.looks.pop_first();
                self.ready.insert(pe);
            }
            events += 1;
            let (done, of) = (self.finished as u64, self.cpus.len() as u64);
            if events.is_multiple_of(LOOK) && watch(Progress { doing: "simulating", done, of }).is_break() {
                return Err(Error::Interrupted("the programs had not ended"));
            }
        }
    }

    /// Tells a capture what has happened.
    fn tell(&mut self) {
        let Some(capture) = &self.capture else { return };
        if self.fabric.heard().iter().try_for_each(|heard| capture.hear(heard)).is_break() {
            self.fabric.listen(Vec::new());
            self.capture = None;
        }
    }

    /// The first PE that has not come to its end, and the step it waits at.
    pub(super) fn stuck(&self) -> Option<(NodeId, usize)> {
        let steps = self.cpus.iter().zip(&self.programs).map(|(cpu, program)| (cpu.next, program.len()));
        (0..).zip(steps).find(|(_, (next, all))| next < all).map(|(pe, (next, _))| (pe, next))
    }

    /// Returns what has been found.
    pub(super) fn ran(&mut self) -> Ran {
        let (mut packet_hops, mut flit_hops) = (0, 0);
        for node in 0..self.seats.len() as NodeId {
            for dir in Direction::ALL {
                let sent = self.fabric.link_counters(Link { node, dir }).total();
                (packet_hops, flit_hops) = (packet_hops + sent.packets, flit_hops + sent.flits);
            }
        }
        let ends = self.cpus.iter().map(|c| c.free).collect();
        let barriers = self.fabric.barrier_check(JOB);
        let steps = self.ends.take().unwrap_or_default();
        Ran { time: self.end, ends, steps, packets: self.packets, packet_hops, flit_hops, barriers }
    }

    /// Takes what the network has done.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(effect) = self.fabric.poll_effect() {
            match effect {
                Effect::Write { at, place, data, time, last, .. } => {
                    self.packets += 1;
                    self.written(at, place, data.len() as u64, last.then_some(time));
                }
                Effect::Amo { at, place, op, operand, comparand, token, .. } => {
                    self.packets += 1;
                    self.atomic(at, place, op, (operand, comparand), token);
                }
                Effect::TreeResult { at, bcast, time, .. } => {
                    self.packets += 1;
                    let pe = self.pe(at);
                    let cpu = &mut self.cpus[pe as usize];
                    *if bcast { &mut cpu.heard } else { &mut cpu.reduced } += 1;
                    cpu.told = time;
                    self.ready.insert(pe);
                }
                // A PE that gets no result has nothing to wait for.
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
            let pe = self.pe(from);
            let cpu = &mut self.cpus[pe as usize];
            match state {
                OpState::Failed(why) => return Err(Error::Network(why.to_string())),
                OpState::Complete if tag == BARRIER => cpu.left = Some(time),
                OpState::Complete if cpu.open.remove(&tag) => cpu.answered = time,
                _ if cpu.outbox.is_empty() => continue,
                _ => {}
            }
            self.flush(pe)?;
            self.ready.insert(pe);
        }
        Ok(())
    }

    fn pe(&self, at: Port) -> NodeId {
        self.seats[at.node as usize][at.endpoint as usize]
    }

    /// A packet has written `len` bytes; `ended` when, if it was the last one.
    fn written(&mut self, at: Port, place: Place, len: u64, ended: Option<Tick>) {
        let pe = self.pe(at);
        let cpu = &mut self.cpus[pe as usize];
        let (number, byte) = (place.offset >> NUMBER_SHIFT, place.offset & ((1 << NUMBER_SHIFT) - 1));
        match place.region {
            Region::Heap => {
                let Some(time) = ended else { return };
                cpu.inbox.push((number as u16, time));
            }
            Region::Static => {
                let Operation::Put { store: Some(Store { value, .. }), .. } = self.operations[number as usize] else {
                    return;
                };
                for word in byte / WORD..(byte + len) / WORD {
                    *cpu.word(word as u32) = value;
                }
            }
            // Nobody looks there.
            Region::Bounce => return,
        }
        self.ready.insert(pe);
    }

    fn atomic(&mut self, at: Port, place: Place, op: AmoOp, (new, cond): (u64, u64), token: Option<FetchToken>) {
        let pe = self.pe(at);
        let word = self.cpus[pe as usize].word((place.offset / WORD) as u32);
        let old = *word;
        *word = match op {
            AmoOp::Add => old.wrapping_add(new),
            AmoOp::Xor => old ^ new,
            AmoOp::And => old & new,
            AmoOp::Or => old | new,
            AmoOp::Swap => new,
            AmoOp::CompareSwap if old == cond => new,
            AmoOp::CompareSwap | AmoOp::Fetch => old,
        };
        if let Some(token) = token {
            self.fabric.supply(token, &old.to_le_bytes());
        }
        self.ready.insert(pe);
    }

    /// Lets a PE's processor go on as far as it can.
    fn go(&mut self, pe: NodeId) -> Result<(), Error> {
        while let Some(step) = self.programs[pe as usize].get(self.cpus[pe as usize].next).copied() {
            if !self.cpus[pe as usize].posted {
                self.begin(pe, step)?;
                self.cpus[pe as usize].posted = true;
            }
            if !self.has_ended(pe, step) {
                return Ok(());
            }
            let cpu = &mut self.cpus[pe as usize];
            (cpu.next, cpu.posted) = (cpu.next + 1, false);
            if let Some(ends) = &mut self.ends {
                ends[pe as usize].push(cpu.free);
            }
            if cpu.next == self.programs[pe as usize].len() {
                self.finished += 1;
                self.end = self.end.max(cpu.free);
            }
        }
        Ok(())
    }

    /// Returns what a step does before it waits.
    fn begin(&mut self, pe: NodeId, step: Step) -> Result<(), Error> {
        let cpu = &mut self.cpus[pe as usize];
        match step {
            Step::Compute(time) => cpu.free += time,
            Step::Send { to, bytes, tag } => return self.post(pe, Posted::Write { to, bytes, tag }, true),
            Step::Reduce { tree, bytes, to } => {
                for (i, bytes) in pieces(bytes).enumerate() {
                    let made = &mut self.cpus[pe as usize].made[tree as usize];
                    let id = (*made % angara_abi::REDUCES as u64) as u8;
                    *made += 1;
                    self.post(pe, Posted::Reduce { tree, id, bytes, to }, i == 0)?;
                }
            }
            Step::Broadcast { tree, bytes } => {
                for (i, bytes) in pieces(bytes).enumerate() {
                    self.post(pe, Posted::Broadcast { tree, bytes }, i == 0)?;
                }
            }
            Step::Barrier { half } => {
                // It completes what was written before.
                if !half {
                    cpu.touched.clear();
                }
                return self.post(pe, Posted::Barrier { half }, true);
            }
            Step::Operation(number) => {
                let (touches, asks) = match self.operations[number as usize] {
                    Operation::Put { to, .. } => (Some(to), false),
                    Operation::Get { .. } => (None, true),
                    Operation::Atomic { at, fetch, .. } => (Some(at).filter(|_| !fetch), fetch),
                };
                if let Some(to) = touches.filter(|to| !cpu.touched.contains(to)) {
                    cpu.touched.push(to);
                }
                let tag = if asks { cpu.asks() } else { UNTAGGED };
                return self.post(pe, Posted::Operation { number, tag }, true);
            }
            Step::Fence => return self.post(pe, Posted::Fence, true),
            Step::Quiet => {
                for to in std::mem::take(&mut cpu.touched) {
                    let tag = self.cpus[pe as usize].asks();
                    self.post(pe, Posted::Flush { to, tag }, true)?;
                }
            }
            Step::Receive(_) | Step::Reduced(_) | Step::Heard(_) | Step::Gets | Step::Wait { .. } => {}
        }
        Ok(())
    }

    /// True if what a step waits for has come; the processor is free from then on.
    fn has_ended(&mut self, pe: NodeId, step: Step) -> bool {
        let cpu = &mut self.cpus[pe as usize];
        let since = match step {
            Step::Receive(tag) => {
                let message = cpu.inbox.iter().position(|(t, _)| *t == tag);
                message.map(|i| cpu.inbox.swap_remove(i).1)
            }
            Step::Reduced(count) => (cpu.reduced >= count).then_some(cpu.told),
            Step::Heard(count) => (cpu.heard >= count).then_some(cpu.told),
            Step::Barrier { .. } => cpu.left.take(),
            Step::Operation(number) => match self.operations[number as usize] {
                Operation::Get { wait: true, .. } | Operation::Atomic { fetch: true, .. } => {
                    (!cpu.open.contains(&cpu.tag)).then_some(cpu.answered)
                }
                _ => Some(0),
            },
            Step::Gets | Step::Quiet => cpu.open.is_empty().then_some(cpu.answered),
            Step::Wait { word, value } => {
                // The PE sees the word's value at the time of its look, and it does not look before it is free.
                let now = self.fabric.now();
                if now < cpu.free {
                    self.looks.insert((cpu.free, pe));
                    return false;
                }
                (*cpu.word(word) >= value).then_some(now)
            }
            Step::Compute(_) | Step::Send { .. } | Step::Reduce { .. } | Step::Broadcast { .. } | Step::Fence => {
                Some(0)
            }
        };
        if let Some(since) = since {
            cpu.free = cpu.free.max(since);
        }
        since.is_some()
    }

    fn post(&mut self, pe: NodeId, what: Posted, costs: bool) -> Result<(), Error> {
        let cpu = &mut self.cpus[pe as usize];
        cpu.free += if costs { self.overhead } else { 0 };
        let issue = cpu.free;
        cpu.outbox.push_back((issue, what));
        self.flush(pe)
    }

    /// Posts what the adapter has room for.
    fn flush(&mut self, pe: NodeId) -> Result<(), Error> {
        let from = self.cpus[pe as usize].port;
        while let Some((issue, what)) = self.cpus[pe as usize].outbox.front().copied() {
            let (op, class, tag) = self.ask(what);
            match self.fabric.inject(from, JOB, class, op, issue, tag) {
                Ok(()) => drop(self.cpus[pe as usize].outbox.pop_front()),
                Err(InjectError::Busy) => return Ok(()),
                Err(e) => return Err(Error::Network(e.to_string())),
            }
        }
        Ok(())
    }

    /// As the network takes it, what it is counted as, and its tag.
    fn ask(&self, what: Posted) -> (Op<Source<'static>>, Class, u64) {
        let port = |pe: NodeId| self.cpus[pe as usize].port;
        let place = Place { region: Region::Heap, offset: 0 };
        let nowhere = Place { region: Region::Bounce, offset: 0 };
        let source = Source::Length;
        let write = |to, place, bytes| Op::Write {
            to: port(to),
            place,
            source: source(bytes),
            vc: Vc::Request,
            adaptive: false,
        };
        match what {
            Posted::Write { to, bytes, tag } => {
                let place = Place { offset: u64::from(tag) << NUMBER_SHIFT, ..place };
                (write(to, place, bytes), Class::Put, UNTAGGED)
            }
            Posted::Reduce { tree, id, bytes, to } => {
                let (op, elem) = (ReduceOp::Sum, ReduceElem::I64);
                let (to, source) = (to.map(port), source(bytes));
                (Op::Reduce { tree, reduce: id, op, elem, to, place, source }, Class::Sync, UNTAGGED)
            }
            Posted::Broadcast { tree, bytes } => {
                (Op::Bcast { tree, place, source: source(bytes) }, Class::Sync, UNTAGGED)
            }
            Posted::Barrier { half } => (Op::Barrier { half }, Class::Sync, BARRIER),
            Posted::Fence => (Op::Fence, Class::Sync, UNTAGGED),
            Posted::Flush { to, tag } => (Op::Flush { to: port(to), remote: place, local: nowhere }, Class::Sync, tag),
            Posted::Operation { number, tag } => match self.operations[number as usize] {
                Operation::Put { to, bytes, store } => {
                    let at = |store: Store| {
                        let offset = (u64::from(number) << NUMBER_SHIFT) + u64::from(store.word) * WORD;
                        Place { region: Region::Static, offset }
                    };
                    (write(to, store.map_or(nowhere, at), bytes), Class::Put, tag)
                }
                Operation::Get { from, bytes, .. } => {
                    (Op::Read { to: port(from), remote: place, local: nowhere, len: bytes }, Class::Get, tag)
                }
                Operation::Atomic { at, word, op, operand, comparand, fetch } => {
                    let place = Place { region: Region::Static, offset: u64::from(word) * WORD };
                    let (to, result) = (port(at), fetch.then_some(nowhere));
                    (Op::Amo { to, place, op, width: WORD as u8, operand, comparand, result }, Class::Amo, tag)
                }
            },
        }
    }
}

/// Lengths of the tree packets that carry `bytes`.
fn pieces(bytes: u32) -> impl Iterator<Item = u32> {
    let count = tree_packets(u64::from(bytes)) as u32;
    (0..count).map(move |i| (bytes - i * TREE_BYTES as u32).min(TREE_BYTES as u32))
}
