//! Two fabrics joined by their boundary links behave as one.

use crate::tests::driver::*;
use crate::tests::failures::impaired::impair_some;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::torus::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Everything visible from outside, in canonical order.
type Trace = Vec<(Tick, Port, String)>;

/// A network made of one or several fabrics.
struct Joined {
    parts: Vec<Fabric>,
    ports: Vec<Port>,
    memory: BTreeMap<Port, Vec<u8>>,
    trace: Trace,
}

/// A frame sent at t arrives no earlier than this much later.
const LOOKAHEAD: Tick = 80_000;

impl Joined {
    fn new(shape: &str, parts: usize, ports: &[Port]) -> Joined {
        Joined::with(Config::new(shape.parse().unwrap()), parts, ports)
    }
    fn with(config: Config, parts: usize, ports: &[Port]) -> Joined {
        let nodes = config.shape.nodes() as u32;
        let fabrics = (0..parts as u32)
            .map(|part| {
                let owned = (0..nodes).filter(|n| n * parts as u32 / nodes == part).collect();
                let mut f = Fabric::new(Config { owned: Some(owned), ..config.clone() }).unwrap();
                f.open_job(JOB, ports).unwrap();
                f
            })
            .collect();
        let memory = ports.iter().map(|p| (*p, vec![p.node as u8; MEMORY])).collect();
        Joined { parts: fabrics, ports: ports.to_vec(), memory, trace: Vec::new() }
    }
    fn part(&mut self, node: u32) -> &mut Fabric {
        self.parts.iter_mut().find(|f| f.owns(node)).unwrap()
    }
    fn run(&mut self) {
        let mut moved = true;
        loop {
            let next = self.parts.iter().filter_map(Fabric::poll_timeout).min();
            if next.is_none() && !moved {
                return;
            }
            // Without events only word of ejected packets is under way, which acts at once.
            moved = false;
            let now = self.parts.iter().map(Fabric::now).max().unwrap();
            let horizon = next.unwrap_or(now) + LOOKAHEAD - 1;
            for i in 0..self.parts.len() {
                while self.parts[i].advance(horizon) < horizon {
                    self.apply(i);
                }
                self.apply(i);
            }
            for i in 0..self.parts.len() {
                for link in self.parts[i].boundary_links() {
                    while let Some((time, frame)) = self.parts[i].poll_transmit(link) {
                        let note = matches!(frame, Frame::Gone { .. });
                        assert!(time > horizon || note, "the lookahead is safe");
                        let far = self.parts[i].shape().neighbour(link.node, link.dir).unwrap();
                        let to = if self.parts[i].owns(link.node) { far } else { link.node };
                        self.part(to).handle_frame(link, time, frame).unwrap();
                        moved = true;
                    }
                }
            }
        }
    }
    fn apply(&mut self, i: usize) {
        let f = &mut self.parts[i];
        while let Some(effect) = f.poll_effect() {
            match effect {
                Effect::Write { at, place, data, time, last, .. } => {
                    let bytes = f.payload(data).to_vec();
                    let start = place.offset as usize;
                    self.memory.get_mut(&at).unwrap()[start..start + bytes.len()].copy_from_slice(&bytes);
                    self.trace.push((time, at, format!("write {place:?} {last} {bytes:?}")));
                }
                Effect::TreeResult { at, place, data, time, count, bcast, .. } => {
                    let bytes = f.payload(data).to_vec();
                    self.trace.push((time, at, format!("tree {place:?} {count} {bcast} {bytes:?}")));
                }
                Effect::Fetch { at, place, len, token, time, .. } => {
                    let start = place.offset as usize;
                    f.supply(token, &self.memory[&at][start..start + len as usize]);
                    self.trace.push((time, at, format!("fetch {place:?} {len}")));
                }
                Effect::Amo { at, place, op, operand, token, time, .. } => {
                    if let Some(token) = token {
                        f.supply(token, &[7; 8]);
                    }
                    self.trace.push((time, at, format!("amo {place:?} {op:?} {operand}")));
                }
                Effect::TreeCredit { at, tree, count, time, .. } => {
                    self.trace.push((time, at, format!("credit {tree} {count}")));
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(c) = f.poll_completion() {
            self.trace.push((c.time, c.from, format!("{} {:?}", c.tag, c.state)));
        }
    }
    fn finish(mut self, nodes: u32) -> (Trace, Vec<LinkCounters>) {
        self.run();
        self.trace.sort();
        let mut links = Vec::new();
        for node in 0..nodes {
            for dir in Direction::ALL {
                let mut sum = LinkCounters::default();
                for f in &self.parts {
                    let c = f.link_counters(Link { node, dir });
                    (0..4).for_each(|i| sum.tx[i].add(c.tx[i]));
                    sum.rx_packets += c.rx_packets;
                    sum.crc_errors += c.crc_errors;
                    sum.replays += c.replays;
                    sum.duplicates += c.duplicates;
                    sum.reordered += c.reordered;
                }
                links.push(sum);
            }
        }
        for f in &self.parts {
            assert_eq!(f.in_flight(), (0, 0));
        }
        (self.trace, links)
    }
}

fn everything(config: &Config, parts: usize, seed: u64, impaired: bool) -> (Trace, Vec<LinkCounters>) {
    let nodes = config.shape.nodes() as u32;
    let ports: Vec<Port> = (0..nodes).map(port).collect();
    let mut j = Joined::with(config.clone(), parts, &ports);
    let rows = j.parts[0].build_tree(1, &ports).unwrap();
    j.parts.iter_mut().for_each(|f| f.load_tree(2, JOB, &rows).unwrap());
    // Families that rest on acknowledgements hear of packets elsewhere by notes, at other times.
    let families = [BarrierFamily::Multiphase, BarrierFamily::AllToAll, BarrierFamily::Counting];
    let family = families[(seed % 3) as usize];
    j.parts.iter_mut().for_each(|f| f.set_barrier_family(JOB, family).unwrap());
    let mut dice = Dice(seed);
    if impaired {
        let links = impair_some(j.parts[0].shape(), &mut dice);
        j.parts.iter_mut().for_each(|f| f.set_impairments(&links).unwrap());
    }
    let mut tag = 0;
    for p in j.ports.clone() {
        for s in 0..20u64 {
            let to = ports[dice.below(nodes as u64) as usize];
            let issue = dice.below(3_000_000);
            let bytes = dice.bytes(256);
            let value = (s as i64 + p.node as i64).to_le_bytes();
            let op = match (s % 10, dice.below(4)) {
                (9, _) => Op::Barrier { half: s == 19 },
                (5, _) => Op::Reduce {
                    tree: 2,
                    reduce: (s / 10) as u8,
                    op: angara_abi::packet::ReduceOp::Sum,
                    elem: angara_abi::packet::ReduceElem::I64,
                    to: (s != 5).then_some(ports[3]),
                    place: heap(0),
                    source: Source::Inline(&value),
                },
                (7, 0) => Op::Bcast { tree: 2, place: heap(8), source: Source::Inline(&bytes[..16]) },
                (_, 0) => Op::Read { to, remote: heap(0), local: heap(4096), len: 1 + dice.below(5000) as u32 },
                (_, 1) => Op::Amo {
                    to,
                    place: heap(8),
                    op: angara_abi::desc::AmoOp::Swap,
                    width: 8,
                    operand: s,
                    comparand: 0,
                    result: Some(heap(0)),
                },
                (_, 2) => Op::Write {
                    to,
                    place: heap(64),
                    source: Source::Memory { place: heap(0), len: if s == 4 { 40_000 } else { 2000 } },
                    vc: Vc::Request,
                    adaptive: false,
                },
                _ => Op::Write {
                    to,
                    place: heap(64),
                    source: Source::Inline(&bytes),
                    vc: Vc::Response,
                    adaptive: false, // in a split network no packet is
                },
            };
            tag += 1;
            j.part(p.node).inject(p, JOB, Class::Put, op, issue, tag).unwrap();
        }
    }
    j.finish(nodes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn joined_fabrics_equal_one(shape in 0..4usize, ports in 1..=6u8, seed: u64, trains: bool, impaired: bool) {
        let shape = ["8", "4x4", "2x2x2", "3x2x2"][shape].parse().unwrap();
        let mut config = Config { trains, ..Config::new(shape) };
        config.params.ports = ports;
        let (one, links) = everything(&config, 1, seed, impaired);
        for parts in [2, 4] {
            let (trace, l) = everything(&config, parts, seed, impaired);
            let first = one.iter().zip(&trace).find(|(a, b)| a != b);
            prop_assert!(first.is_none() && one.len() == trace.len(), "{parts} parts: {:?}", first);
            prop_assert_eq!(&l, &links);
        }
    }
}

#[test]
fn damaged_frames_and_wrong_links_are_refused() {
    let ports = [port(0), port(1)];
    let mut j = Joined::new("2", 2, &ports);
    let op =
        Op::Write { to: port(1), place: heap(0), source: Source::Inline(&[1; 32]), vc: Vc::Request, adaptive: false };
    j.parts[0].inject(port(0), JOB, Class::Put, op, 0, 1).unwrap();
    j.parts[0].run_free();
    let link = Link { node: 0, dir: Direction::new(0, true) };
    let (time, frame) = j.parts[0].poll_transmit(link).unwrap();
    let Frame::Packet { vc, meta, flits, train } = frame.clone() else { panic!("{frame:?}") };
    for bit in 0..flits.len() * 8 {
        let mut bytes = flits.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let bad = Frame::Packet { vc, meta, flits: bytes.into(), train: train.clone() };
        assert!(matches!(j.parts[1].handle_frame(link, time, bad), Err(FrameError::Packet(_))), "bit {bit}");
    }
    assert!(j.parts[1].link_counters(link).crc_errors > 0);
    let backwards = Link { node: 1, dir: Direction::new(0, false) };
    assert!(matches!(j.parts[1].handle_frame(backwards, time, frame.clone()), Err(FrameError::Link(_))));
    let credit = Frame::Credit { vc };
    assert!(matches!(j.parts[1].handle_frame(backwards, time, credit), Err(FrameError::Content(_))));
    j.parts[1].handle_frame(link, time, frame).unwrap();
    j.run();
    assert!(j.trace.iter().any(|t| t.2.starts_with("write")));
}

#[test]
fn a_fence_waits_for_packets_in_another_fabric() {
    let ports: Vec<Port> = (0..8).map(port).collect();
    for parts in [1, 2, 4] {
        let mut j = Joined::new("8", parts, &ports);
        for i in 0..20u64 {
            let vc = [Vc::Request, Vc::Response][(i % 2) as usize];
            let op = Op::Write { to: port(4), place: heap(0), source: Source::Inline(&[1; 200]), vc, adaptive: true };
            j.parts[0].inject(port(0), JOB, Class::Put, op, 0, 1).unwrap();
        }
        j.parts[0].inject(port(0), JOB, Class::Put, Op::Fence, 0, 77).unwrap();
        j.run();
        let fenced = j.trace.iter().find(|t| t.2.starts_with("77")).unwrap().0;
        let writes: Vec<Tick> = j.trace.iter().filter(|t| t.2.starts_with("write")).map(|t| t.0).collect();
        assert_eq!(writes.len(), 20);
        assert!(writes.iter().all(|t| *t <= fenced), "{parts} parts");
    }
}

#[test]
fn a_read_of_memory_that_is_not_there_fails_in_another_fabric() {
    let ports: Vec<Port> = (0..4).map(port).collect();
    let mut j = Joined::new("mesh:4", 2, &ports);
    for tag in 0..10 {
        let read = Op::Read { to: port(3), remote: heap(0), local: heap(0), len: 8 };
        j.parts[0].inject(port(0), JOB, Class::Get, read, 0, tag).unwrap();
    }
    for _ in 0..100 {
        for i in 0..2 {
            j.parts[i].run_free();
            while let Some(effect) = j.parts[i].poll_effect() {
                let Effect::Fetch { token, .. } = effect else { panic!("{effect:?}") };
                j.parts[i].refuse(token);
            }
            for l in j.parts[i].boundary_links() {
                while let Some((time, frame)) = j.parts[i].poll_transmit(l) {
                    j.parts[1 - i].handle_frame(l, time, frame).unwrap();
                }
            }
        }
    }
    for tag in 0..10 {
        let c = j.parts[0].poll_completion().unwrap();
        assert_eq!((c.tag, c.state), (tag, OpState::Failed(OpFault::Refused)));
    }
    j.parts.iter().for_each(|f| assert_eq!(f.in_flight(), (0, 0)));
}

/// Hosts that are joined by trunks have no common time: each goes as far as the clock on the wall allows, to any picosecond, and
/// frames count from the moment they come. Where an effect waits for memory the present stays at the last event.
#[test]
fn frames_come_at_any_time_between_two_events() {
    for seed in 0..20 {
        let ports: Vec<Port> = (0..4).map(port).collect();
        let mut j = Joined::new("4", 2, &ports);
        let mut dice = Dice(seed * 100_000);
        let (mut to, mut asked, mut done) = (0, 0, 0);
        while done < 100 {
            to += 1 + dice.below(500);
            for i in 0..2 {
                j.parts[i].run_some_until(to, 1 + dice.below(8));
                for link in j.parts[i].boundary_links() {
                    while let Some((_, frame)) = j.parts[i].poll_transmit(link) {
                        let far = j.parts[i].shape().neighbour(link.node, link.dir).unwrap();
                        let there = if j.parts[i].owns(link.node) { far } else { link.node };
                        j.part(there).handle_frame(link, 0, frame).unwrap();
                    }
                }
                if dice.below(30) == 0 {
                    j.apply(i);
                }
            }
            if asked < 100 && dice.below(10) == 0 {
                let (from, target) = (port(dice.below(4) as u32), port(dice.below(4) as u32));
                let op = Op::Read { to: target, remote: heap(0), local: heap(4096), len: 1 + dice.below(2000) as u32 };
                let part = j.part(from.node);
                asked += u32::from(part.inject(from, JOB, Class::Get, op, part.now(), asked.into()).is_ok());
            }
            done = j.trace.iter().filter(|(_, _, what)| what.ends_with("Complete")).count();
            assert!(to < 10_000_000_000, "seed {seed}: {done} of 100 by {to} ps");
        }
    }
}
