//! A network in several parts without a common clock, as daemons of several hosts make it: frames of a link arrive in
//! order and after any delay, memory is supplied late, parts hold and recover one after the other, and one may be lost.

use crate::tests::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use angara_abi::packet::{ReduceElem, ReduceOp, Vc};
use angara_net::fault::{Fault, Impair, Site};
use angara_net::torus::{Direction, NodeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The tree the ports reduce on.
const TREE: u8 = 3;
/// Where answers of a port's operations go, by tag, so that each is recognised.
const ANSWERS: u64 = 1 << 32;
const ANSWER_ROOM: u64 = 1 << 16;
/// From here on there is no memory.
const NOWHERE: u64 = 1 << 37;
/// Longest read.
const READ: u64 = 40_000;

/// A change of routes on its way to all parts.
struct Change {
    dead: Vec<Outage>,
    number: u64,
    held: BTreeSet<usize>,
    recovered: BTreeSet<usize>,
    ledger: Option<Ledger>,
}

/// Rest of a port's script.
#[derive(Default)]
struct Script {
    rounds: u32,
    left: u32,
    reduced: u64,
    tree_lost: bool,
}

/// A posted operation and its outcome so far.
#[derive(Clone, Copy, Debug)]
struct Posted {
    from: Port,
    to: Port,
    kind: OpKind,
    executed: u32,
    /// Bytes of the answer so far.
    answered: u64,
    ended: bool,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OpKind {
    Write,
    Read(u32),
    /// A read of memory that is not there.
    Refused,
    Add,
    FetchAdd,
    Barrier,
    Reduce,
}

pub(super) struct Cluster {
    shape: angara_net::torus::Shape,
    config: Config,
    family: BarrierFamily,
    pub(super) parts: Vec<Option<Fabric>>,
    owner: Vec<usize>,
    ports: Vec<Port>,
    scripts: BTreeMap<Port, Script>,
    /// By link and sending part, with the route change they were sent after.
    transit: BTreeMap<(Link, usize), VecDeque<(u64, Frame)>>,
    supplies: VecDeque<(usize, FetchToken, Vec<u8>)>,
    posted: BTreeMap<u64, Posted>,
    /// Numbers of writes posted and arrived, by source, target and channel.
    sent: BTreeMap<(Port, Port, u8), u32>,
    arrived: BTreeMap<(Port, Port, u8), u32>,
    dead: Vec<Outage>,
    change: Option<Change>,
    number: u64,
    pub(super) errors: Vec<NetError>,
    pub(super) trees_lost: usize,
    results: u64,
    dice: Dice,
    next_tag: u64,
    pub(super) recoveries: u32,
    /// Links that failed by themselves and have not been seen to.
    pub(super) failed: Vec<Link>,
    /// Links that damage everything.
    bad: Vec<Link>,
    /// Writes may be lost.
    pub(super) gaps: bool,
}

fn memory(port: Port, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|o| (o * 7 + port.node as u64 * 31 + (o >> 8)) as u8).collect()
}

/// Returns what an atomic with this operand finds.
fn old_value(operand: u64) -> u64 {
    operand.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Lets N instants at which something happens pass. Returns whether everything is quiet.
fn run_ticks(fabric: &mut Fabric, ticks: u64) -> bool {
    (0..ticks).any(|_| fabric.run_some(1))
}

impl Cluster {
    /// `here`: the nodes that take part in the job.
    pub(super) fn new(shape: &str, parts: usize, family: BarrierFamily, seed: u64, here: &[NodeId]) -> Cluster {
        let mut config = Config::new(shape.parse().unwrap());
        (config.seed, config.trains) = (seed, seed % 2 == 1);
        config.params.ports = ports_drawn(seed);
        let nodes = config.shape.nodes();
        let owner = (0..nodes).map(|n| n * parts / nodes).collect();
        // Every third node has two.
        let endpoints =
            |node: u32| (0..=u16::from(node.is_multiple_of(3))).map(move |endpoint| Port { node, endpoint });
        let ports: Vec<Port> = here.iter().flat_map(|node| endpoints(*node)).collect();
        let mut cluster = Cluster {
            shape: config.shape,
            config,
            family,
            parts: Vec::new(),
            owner,
            scripts: ports.iter().map(|p| (*p, Script::default())).collect(),
            ports,
            transit: BTreeMap::new(),
            supplies: VecDeque::new(),
            posted: BTreeMap::new(),
            sent: BTreeMap::new(),
            arrived: BTreeMap::new(),
            dead: Vec::new(),
            change: None,
            number: 0,
            errors: Vec::new(),
            trees_lost: 0,
            results: 0,
            dice: Dice(seed),
            next_tag: 0,
            recoveries: 0,
            failed: Vec::new(),
            bad: Vec::new(),
            gaps: false,
        };
        cluster.parts = (0..parts).map(|part| Some(cluster.make_part(part))).collect();
        let first = cluster.parts[0].as_ref().unwrap();
        let rows = first.build_tree(cluster.ports[0].node, &cluster.ports).unwrap();
        cluster.parts.iter_mut().flatten().for_each(|f| f.load_tree(TREE, JOB, &rows).unwrap());
        cluster
    }

    fn make_part(&self, part: usize) -> Fabric {
        let owned = (0..self.owner.len() as u32).filter(|n| self.owner[*n as usize] == part).collect();
        let mut f = Fabric::new(Config { owned: Some(owned), ..self.config.clone() }).unwrap();
        f.open_job_as(JOB, 5, &self.ports).unwrap();
        f.set_barrier_family(JOB, self.family).unwrap();
        f
    }

    /// Every port posts N rounds of operations that end with a barrier.
    pub(super) fn script(&mut self, rounds: u32) {
        for s in self.scripts.values_mut() {
            (s.rounds, s.left) = (rounds, 6);
        }
    }

    fn part_of(&self, node: NodeId) -> usize {
        self.owner[node as usize]
    }

    /// One of many small things happens.
    pub(super) fn step(&mut self) {
        let part = self.dice.below(self.parts.len() as u64) as usize;
        match self.dice.below(10) {
            0 => {
                let from = self.ports[self.dice.below(self.ports.len() as u64) as usize];
                self.post(from);
            }
            1 if self.change.is_some() => self.go_on_with_change(),
            2 | 3 => self.transmit(part),
            4 | 5 => {
                let busy: Vec<_> = self.transit.iter().filter(|(_, q)| !q.is_empty()).map(|(k, _)| *k).collect();
                if !busy.is_empty() {
                    let key = busy[self.dice.below(busy.len() as u64) as usize];
                    for _ in 0..1 + self.dice.below(8) {
                        self.deliver(key);
                    }
                }
            }
            6 => self.supply(),
            _ => {
                let ticks = 1 + self.dice.below(60);
                if let Some(f) = &mut self.parts[part] {
                    run_ticks(f, ticks);
                }
                self.apply_perhaps(part);
            }
        }
    }

    /// Everything goes on until nothing moves; true if all has ended.
    pub(super) fn settle(&mut self) -> bool {
        let mut still = 0;
        for _ in 0..200_000 {
            let before = (self.next_tag, self.supplies.len(), self.ended());
            let mut moved = false;
            self.ports.clone().into_iter().for_each(|from| self.post(from));
            self.go_on_with_change();
            for part in 0..self.parts.len() {
                if let Some(f) = &mut self.parts[part] {
                    moved |= !run_ticks(f, 200);
                }
                moved |= self.apply(part);
                self.transmit(part);
            }
            let keys: Vec<_> = self.transit.keys().copied().collect();
            for key in keys {
                while self.deliver(key) {
                    moved = true;
                }
            }
            while !self.supplies.is_empty() {
                self.supply();
                moved = true;
            }
            still = if moved || before != (self.next_tag, 0, self.ended()) { 0 } else { still + 1 };
            if still > 100 {
                return self.finished();
            }
        }
        false
    }

    fn ended(&self) -> usize {
        self.posted.values().filter(|p| p.ended).count()
    }

    fn finished(&self) -> bool {
        self.change.is_none()
            && self.scripts.iter().all(|(p, s)| s.rounds == 0 || self.parts[self.part_of(p.node)].is_none())
            && self.posted.values().all(|p| p.ended || self.parts[self.part_of(p.from.node)].is_none())
            && self.parts.iter().flatten().all(|f| f.in_flight() == (0, 0))
    }

    /// Returns what has not ended, for people.
    pub(super) fn diagnosis(&self) -> String {
        let open: Vec<String> =
            self.posted.iter().filter(|(_, p)| !p.ended).map(|(t, p)| format!("{t} {p:?}")).take(8).collect();
        let parts: Vec<String> = self
            .parts
            .iter()
            .flatten()
            .map(|f| format!("route change {} hold {} in flight {:?}", f.route_change(), f.on_hold(), f.in_flight()))
            .collect();
        let rounds: Vec<u32> = self.scripts.values().map(|s| s.rounds).collect();
        format!("open: {open:#?}\nparts: {parts:#?}\nrounds left {rounds:?} dead {:?} {:?}", self.dead, self.family)
    }

    fn post(&mut self, from: Port) {
        let part = self.part_of(from.node);
        let Some(f) = self.parts[part].as_mut() else { return };
        let script = self.scripts.get_mut(&from).unwrap();
        if script.rounds == 0 {
            return;
        }
        let to = self.ports[self.dice.below(self.ports.len() as u64) as usize];
        let tag = self.next_tag;
        let back = heap(ANSWERS + tag * ANSWER_ROOM);
        let vc = self.dice.below(2) as u8;
        let mut data = vec![0; 12 + self.dice.below(240) as usize];
        let amo = |result| Op::Amo { to, place: heap(8), op: AmoOp::Add, width: 8, operand: tag, comparand: 0, result };
        let one = 1i64.to_le_bytes();
        let (kind, op) = match self.dice.below(8) {
            _ if script.left == 0 => (OpKind::Barrier, Op::Barrier { half: script.rounds.is_multiple_of(2) }),
            _ if script.left == 3 && !script.tree_lost => (
                OpKind::Reduce,
                Op::Reduce {
                    tree: TREE,
                    reduce: (script.reduced % 16) as u8,
                    op: ReduceOp::Sum,
                    elem: ReduceElem::I64,
                    to: None,
                    place: heap(0),
                    source: Source::Inline(&one),
                },
            ),
            0 if self.dice.below(8) == 0 => (
                OpKind::Refused,
                Op::Read { to, remote: heap(NOWHERE), local: back, len: 1 + self.dice.below(READ) as u32 },
            ),
            0 => {
                let len = 1 + self.dice.below(READ) as u32;
                (OpKind::Read(len), Op::Read { to, remote: heap(0), local: back, len })
            }
            1 => (OpKind::Add, amo(None)),
            2 => (OpKind::FetchAdd, amo(Some(back))),
            _ => {
                let number = self.sent.entry((from, to, vc)).or_default();
                data[0..4].copy_from_slice(&from.node.to_le_bytes());
                data[4] = vc;
                data[5..9].copy_from_slice(&number.to_le_bytes());
                data[9] = from.endpoint as u8;
                let fill = (*number as u8).wrapping_mul(3) ^ from.node as u8;
                data[12..].fill(fill);
                let adaptive = self.dice.below(2) == 0;
                let vc = [Vc::Response, Vc::Request][vc as usize];
                (OpKind::Write, Op::Write { to, place: heap(64), source: Source::Inline(&data), vc, adaptive })
            }
        };
        match f.inject(from, JOB, Class::Put, op, 0, tag) {
            Ok(()) => {}
            Err(InjectError::Busy) => return,
            Err(InjectError::NoTree(_)) => {
                script.tree_lost = true;
                return;
            }
            Err(InjectError::Unreachable { .. }) => {
                script.left -= 1;
                return;
            }
            Err(e) => panic!("{op:?}: {e}"),
        }
        match kind {
            OpKind::Barrier => (script.rounds, script.left) = (script.rounds - 1, 6),
            OpKind::Reduce => (script.left, script.reduced) = (script.left - 1, script.reduced + 1),
            _ => script.left -= 1,
        }
        if kind == OpKind::Write {
            *self.sent.get_mut(&(from, to, vc)).unwrap() += 1;
        }
        self.next_tag += 1;
        let posted = Posted { from, to, kind, executed: 0, answered: 0, ended: false, failed: false };
        self.posted.insert(tag, posted);
    }

    /// Every port contributes to one more reduction.
    pub(super) fn reduce(&mut self) {
        for from in self.ports.clone() {
            let script = self.scripts.get_mut(&from).unwrap();
            (script.rounds, script.left) = (1, 3);
            self.post(from);
            self.scripts.get_mut(&from).unwrap().rounds = 0;
        }
    }

    fn supply(&mut self) {
        let Some((part, token, bytes)) = self.supplies.pop_front() else { return };
        if let Some(f) = &mut self.parts[part] {
            f.supply(token, &bytes);
        }
    }

    /// Applies the effects of a part, or does not yet: they may also be applied after it was held or has recovered.
    fn apply_perhaps(&mut self, part: usize) {
        if self.dice.below(2) == 0 {
            self.apply(part);
        }
    }

    fn apply(&mut self, part: usize) -> bool {
        let mut any = false;
        let Some(f) = &mut self.parts[part] else { return false };
        while let Some(effect) = f.poll_effect() {
            any = true;
            match effect {
                Effect::Write { at, place, data, .. } if place.offset >= ANSWERS => {
                    let (tag, offset) = ((place.offset - ANSWERS) / ANSWER_ROOM, place.offset % ANSWER_ROOM);
                    let posted = self.posted.get_mut(&tag).expect("an answer to nothing");
                    assert_eq!((posted.from, posted.answered), (at, offset), "answer out of order, or twice: {tag}");
                    posted.answered += data.len() as u64;
                    let expected = match posted.kind {
                        OpKind::Read(_) => memory(posted.to, offset, data.len()),
                        _ => old_value(tag).to_le_bytes().to_vec(),
                    };
                    assert!(f.payload(data) == expected, "wrong answer to {tag} {posted:?}");
                }
                Effect::Write { at, data, .. } => {
                    let bytes = f.payload(data);
                    let node = u32::from_le_bytes(bytes[0..4].try_into().unwrap());
                    let from = Port { node, endpoint: bytes[9] as u16 };
                    let number = u32::from_le_bytes(bytes[5..9].try_into().unwrap());
                    let next = self.arrived.entry((from, at, bytes[4])).or_default();
                    let ok = number == *next || self.gaps && number > *next;
                    assert!(ok, "{number}, not {next}, from {from:?} to {at:?} on {}", bytes[4]);
                    let fill = (number as u8).wrapping_mul(3) ^ from.node as u8;
                    assert!(bytes[12..].iter().all(|b| *b == fill), "damaged");
                    *next = number + 1;
                }
                Effect::Fetch { place, token, .. } if place.offset >= NOWHERE => f.refuse(token),
                Effect::Fetch { at, place, len, token, .. } => {
                    self.supplies.push_back((part, token, memory(at, place.offset, len as usize)));
                }
                Effect::Amo { at, operand, token, .. } => {
                    let posted = self.posted.get_mut(&operand).expect("an atomic nobody posted");
                    posted.executed += 1;
                    assert!(posted.executed == 1 && posted.to == at, "executed twice: {operand} {posted:?}");
                    if let Some(token) = token {
                        self.supplies.push_back((part, token, old_value(operand).to_le_bytes().to_vec()));
                    }
                }
                Effect::TreeResult { data, .. } => {
                    assert_eq!(f.payload(data), (self.ports.len() as i64).to_le_bytes(), "a wrong sum");
                    self.results += 1;
                }
                Effect::Error { what: NetError::TreeLost { .. } | NetError::TreeDown { .. }, at, .. } => {
                    self.trees_lost += 1;
                    self.scripts.get_mut(&at).unwrap().tree_lost = true;
                }
                Effect::Error { what, .. } => self.errors.push(what),
                Effect::LinkDown { link, .. } => self.failed.push(link),
                Effect::TreeCredit { .. } => {}
            }
        }
        while let Some(c) = f.poll_completion() {
            any = true;
            let posted = self.posted.get_mut(&c.tag).unwrap();
            let last = match posted.kind {
                OpKind::Write | OpKind::Add | OpKind::Reduce => OpState::Injected,
                _ => OpState::Complete,
            };
            posted.failed = matches!(c.state, OpState::Failed(_));
            if posted.failed || c.state == last {
                assert!(!posted.ended, "{posted:?} ended twice");
                posted.ended = true;
            }
        }
        any
    }

    fn transmit(&mut self, part: usize) {
        let Some(f) = &mut self.parts[part] else { return };
        for link in f.boundary_links() {
            while let Some((_, frame)) = f.poll_transmit(link) {
                self.transit.entry((link, part)).or_default().push_back((f.route_change(), frame));
            }
        }
    }

    /// The first frame of a link arrives, if its time has come.
    fn deliver(&mut self, (link, from): (Link, usize)) -> bool {
        let far = self.shape.neighbour(link.node, link.dir).unwrap();
        let to = if self.part_of(link.node) == from { far } else { link.node };
        let part = self.part_of(to);
        let queue = self.transit.get_mut(&(link, from)).unwrap();
        let Some((change, _)) = queue.front() else { return false };
        let Some(f) = &mut self.parts[part] else {
            queue.clear();
            return false;
        };
        if *change > f.route_change() {
            return false;
        }
        let (change, frame) = queue.pop_front().unwrap();
        if change == f.route_change() {
            f.handle_frame(link, 0, frame).unwrap();
        }
        true
    }

    /// Begins a change, also in the middle of another one.
    pub(super) fn begin_change(&mut self, dead: Vec<Outage>) {
        let parts = self.parts.iter().flatten();
        self.number = parts.map(Fabric::route_change).max().unwrap().max(self.number) + 1;
        let (held, recovered) = (BTreeSet::new(), BTreeSet::new());
        self.change = Some(Change { dead, number: self.number, held, recovered, ledger: None });
    }

    /// One part takes the next step of the change.
    fn go_on_with_change(&mut self) {
        let live: BTreeSet<usize> = (0..self.parts.len()).filter(|p| self.parts[*p].is_some()).collect();
        let Some(change) = &mut self.change else { return };
        let due = match change.ledger {
            None => live.difference(&change.held).copied().collect::<Vec<_>>(),
            Some(_) => live.difference(&change.recovered).copied().collect(),
        };
        if due.is_empty() {
            match change.ledger {
                None => {
                    let mut sum = Ledger::default();
                    for f in self.parts.iter().flatten() {
                        let ledger = f.ledger();
                        let read = Ledger::from_bytes(&ledger.to_bytes()).unwrap();
                        assert_eq!(read, ledger);
                        sum.merge(&read);
                    }
                    change.ledger = Some(sum);
                }
                Some(_) => {
                    self.dead = change.dead.clone();
                    self.change = None;
                    self.recoveries += 1;
                }
            }
            return;
        }
        let part = due[self.dice.below(due.len() as u64) as usize];
        let f = self.parts[part].as_mut().unwrap();
        match &change.ledger {
            None => {
                f.hold();
                change.held.insert(part);
            }
            Some(ledger) => {
                f.recover(change.number, &change.dead, ledger).unwrap();
                change.recovered.insert(part);
            }
        }
        self.apply_perhaps(part);
    }

    pub(super) fn changing(&self) -> bool {
        self.change.is_some()
    }

    /// Everything out of service, also by a change that is not made yet.
    pub(super) fn dead(&self) -> Vec<Outage> {
        self.change.as_ref().map_or(&self.dead, |c| &c.dead).clone()
    }

    /// Loses the frames on their way between two parts; both notice before anything else comes over that way.
    pub(super) fn lose_frames(&mut self, a: usize, b: usize) {
        for part in [a, b] {
            if let Some(f) = &mut self.parts[part] {
                f.hold();
            }
        }
        let (shape, owner) = (self.shape, &self.owner);
        for ((link, _), queue) in &mut self.transit {
            let far = shape.neighbour(link.node, link.dir).unwrap();
            let ends = (owner[link.node as usize], owner[far as usize]);
            if ends == (a, b) || ends == (b, a) {
                queue.clear();
            }
        }
    }

    /// A part is lost with everything inside it. The dead list that follows from it.
    pub(super) fn lose_part(&mut self, part: usize) -> Vec<Outage> {
        self.parts[part] = None;
        self.supplies.retain(|s| s.0 != part);
        let neighbour = |l: &Link, owner: &[usize]| {
            let far = self.shape.neighbour(l.node, l.dir).unwrap();
            (owner[l.node as usize] == part) != (owner[far as usize] == part)
        };
        self.transit.retain(|(link, _), _| !neighbour(link, &self.owner));
        let mut dead = self.dead();
        dead.extend((0..self.owner.len() as u32).filter(|n| self.owner[*n as usize] == part).map(Outage::Node));
        dead
    }

    /// An empty part takes the place of a lost one. What is dead then.
    pub(super) fn rejoin(&mut self, part: usize) -> Vec<Outage> {
        let mut f = self.make_part(part);
        f.hold();
        self.parts[part] = Some(f);
        let owner = self.owner.clone();
        self.dead().into_iter().filter(|b| !matches!(b, Outage::Node(n) if owner[*n as usize] == part)).collect()
    }

    /// True if the nodes of the job reach each other with this dead.
    pub(super) fn connected(&self, dead: &[Outage]) -> bool {
        let mut trial = Fabric::new(self.config.clone()).unwrap();
        if trial.recover(1, dead, &Ledger::default()).is_err() {
            return false;
        }
        let pair = |a: &Port| self.ports.iter().all(|b| trial.reachable(a.node, b.node));
        self.ports.iter().all(pair)
    }

    pub(super) fn random_link(&mut self) -> Outage {
        let node = self.dice.below(self.owner.len() as u64) as u32;
        Outage::Link(Link { node, dir: Direction::ALL[self.dice.below(8) as usize] })
    }

    /// A link begins to damage everything that goes over it.
    pub(super) fn spoil(&mut self, link: Link) {
        let fault = Fault::impaired(Site::Link(link), Impair::Corrupt(1_000_000));
        if let Some(f) = &mut self.parts[self.owner[link.node as usize]]
            && f.set_fault(fault).is_ok()
        {
            self.bad.push(link);
        }
    }

    /// No link damages anything from now on.
    pub(super) fn unspoil(&mut self) {
        for link in std::mem::take(&mut self.bad) {
            if let Some(f) = &mut self.parts[self.owner[link.node as usize]] {
                f.clear_fault(Fault::impaired(Site::Link(link), Impair::Corrupt(0)));
            }
        }
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.dice.below(n)
    }

    /// Every barrier kept its promises, everything posted between live parts has arrived or failed.
    pub(super) fn check(&self, strict: bool) {
        for f in self.parts.iter().flatten() {
            assert!(f.barrier_check(JOB).held(), "{:?} {:?} {:?}", f.barrier_check(JOB), self.family, self.errors);
        }
        if !strict {
            return;
        }
        assert!(self.errors.is_empty(), "{:?}", self.errors);
        assert_eq!(self.sent, self.arrived.clone(), "writes");
        for (tag, p) in &self.posted {
            let fails = match p.kind {
                OpKind::Reduce => p.failed,
                kind => kind == OpKind::Refused,
            };
            assert!(p.ended && p.failed == fails, "{tag} {p:?}");
            let (executed, answered) = match p.kind {
                OpKind::Read(len) => (0, len as u64),
                OpKind::Add => (1, 0),
                OpKind::FetchAdd => (1, 8),
                _ => (0, 0),
            };
            assert_eq!((p.executed, p.answered), (executed, answered), "{tag} {p:?}");
        }
        let reduced: u64 = self.scripts.values().map(|s| s.reduced).sum();
        assert!(self.results == reduced || self.trees_lost > 0, "{} of {reduced} results", self.results);
    }
}
