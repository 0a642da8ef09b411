//! Links and nodes that die while packets are under way.

use crate::tests::driver::*;
use crate::tests::order::Streams;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::fault::{Fault, Impair, Site};
use angara_net::torus::Direction;
use proptest::prelude::*;

fn down(link: Link) -> Fault {
    Fault::link_down(link)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Links die and come back under load; a torus with few dead links stays connected, so nothing
    /// may be lost, doubled or reordered.
    #[test]
    fn reachable_pairs_lose_and_reorder_nothing(shape in 0..4usize, seed: u64, adaptive: bool, corrupt: bool) {
        let shape = ["4x4", "3x3x4", "4x2x2", "mesh:4x4"][shape];
        let mut config = Config::new(shape.parse().unwrap());
        config.seed = seed;
        config.params.ports = ports_drawn(seed);
        let n = config.shape.nodes() as u64;
        let ports: Vec<Port> = (0..n as u32).map(port).collect();
        let mut w = World::with(config, &ports);
        if corrupt {
            let fault = Fault::impaired(Site::EveryLink, Impair::Corrupt(20_000));
            w.fabric.set_fault(fault).unwrap();
        }
        let (mut dice, mut streams) = (Dice(seed), Streams::new());
        let mut dead: Vec<Fault> = Vec::new();
        for round in 0..12 {
            for _ in 0..120 {
                let (a, b) = (ports[dice.below(n) as usize], ports[dice.below(n) as usize]);
                let vc = [Vc::Request, Vc::Response][dice.below(2) as usize];
                streams.post(&mut w, &mut dice, a, b, vc, adaptive);
            }
            let to = w.fabric.now() + dice.below(2_000_000);
            w.fabric.advance(to);
            w.apply();
            let link = Link { node: dice.below(n) as u32, dir: Direction::ALL[dice.below(8) as usize] };
            if dead.len() < 2 && round % 3 != 2 {
                let connected = |f: &Fabric| (0..n as u32).all(|a| (0..n as u32).all(|b| f.reachable(a, b)));
                let mut trial = Fabric::new(Config::new(shape.parse().unwrap())).unwrap();
                dead.iter().for_each(|k| trial.set_fault(*k).unwrap());
                if trial.set_fault(down(link)).is_ok() && connected(&trial) {
                    w.fabric.set_fault(down(link)).unwrap();
                    dead.push(Fault::link_down(link));
                }
            } else if let Some(fault) = dead.pop() {
                w.fabric.clear_fault(fault);
            }
            prop_assert!(w.fabric.adapters.chip.no_request_on_dead_links());
        }
        w.finish();
        streams.check(&w, !adaptive, true);
        prop_assert!(w.errors().is_empty(), "{:?}", w.errors());
    }

    /// Anything may die: nothing hangs, nothing arrives twice or out of order, the rest is reported.
    #[test]
    fn whatever_dies_everything_ends_and_is_accounted_for(seed: u64, shape in 0..3usize) {
        let shape = ["4x2", "2x2x2", "mesh:3x3"][shape];
        let mut config = Config::new(shape.parse().unwrap());
        config.params.ports = ports_drawn(seed);
        let n = config.shape.nodes() as u64;
        let ports: Vec<Port> = (0..n as u32).map(port).collect();
        let mut w = World::with(config, &ports);
        let (mut dice, mut streams) = (Dice(seed), Streams::new());
        let mut reads = 0;
        for _ in 0..8 {
            for _ in 0..40 {
                let (a, b) = (ports[dice.below(n) as usize], ports[dice.below(n) as usize]);
                streams.post(&mut w, &mut dice, a, b, Vc::Request, false);
                let read = Op::Read { to: b, remote: heap(4096), local: heap(8192), len: 900 };
                reads += w.post(a, Class::Get, read).is_ok() as u64;
            }
            let to = w.fabric.now() + dice.below(2_000_000);
            w.fabric.advance(to);
            w.apply();
            let node = dice.below(n) as u32;
            let fault = match dice.below(6) {
                0 => Fault::node_down(node),
                1 => { w.fabric.clear_fault(Fault::node_down(node)); continue }
                _ => Fault::link_down(Link { node, dir: Direction::ALL[dice.below(8) as usize] }),
            };
            let _ = w.fabric.set_fault(fault);
        }
        w.finish();
        // Reads deliver writes too; leave those out before looking at the streams.
        let keep: Vec<bool> = w.effects.iter().map(|e| !matches!(e, Effect::Write { place, .. } if place.offset >= 8192)).collect();
        let mut it = keep.iter();
        w.data.retain(|_| *it.next().unwrap());
        let mut it = keep.iter();
        w.effects.retain(|_| *it.next().unwrap());
        let arrived = streams.check(&w, true, false);
        let lost_writes = streams.posted() - arrived;
        let errors = w.errors().len() as u64;
        let failed = w.completions.iter().filter(|c| matches!(c.state, OpState::Failed(_))).count() as u64;
        let finished = w.completions.iter().filter(|c| c.state == OpState::Complete).count() as u64;
        prop_assert_eq!(finished + failed, reads, "every read ends");
        prop_assert!(errors >= lost_writes, "{} writes lost, {} errors", lost_writes, errors);
    }
}

#[test]
fn packets_waiting_for_a_link_that_dies_take_another_way() {
    let mut w = World::new("8");
    let link = Link { node: 2, dir: Direction::new(0, true) };
    let (mut dice, mut streams) = (Dice(4), Streams::new());
    for _ in 0..50 {
        streams.post(&mut w, &mut dice, port(1), port(4), Vc::Request, false);
    }
    w.fabric.advance(1_400_000);
    w.apply();
    let before = w.effects.len();
    assert!(before > 5 && before < 45, "{before} of 50 through before the link dies");
    w.fabric.set_fault(down(link)).unwrap();
    assert_eq!(w.fabric.hops(1, 4), Some(5));
    w.finish();
    assert_eq!(streams.check(&w, true, true), 50);
}

#[test]
fn with_every_route_dead_the_put_fails_with_its_name() {
    let mut w = World::new("4");
    let cut = [Link { node: 0, dir: Direction::new(0, true) }, Link { node: 0, dir: Direction::new(0, false) }];
    let read = w.must_post(port(1), Class::Get, Op::Read { to: port(0), remote: heap(0), local: heap(0), len: 64 });
    for i in 0..20 {
        w.put(port(0), port(2), i * 8, &[1; 8]);
    }
    w.fabric.advance(400_000);
    for link in cut {
        w.fabric.set_fault(down(link)).unwrap();
    }
    let refused =
        Op::Write { to: port(2), place: heap(0), source: Source::Inline(&[1]), vc: Vc::Request, adaptive: false };
    let error = w.post(port(0), Class::Put, refused).unwrap_err();
    assert!(
        matches!(error, InjectError::Unreachable { from: 0, to: 2, outage: Outage::Link(l) } if l.node == 0 || l.node == 3)
    );
    w.finish();
    let Effect::Error { at, .. } = w.effects.iter().find(|e| matches!(e, Effect::Error { .. })).unwrap() else {
        panic!()
    };
    assert!(*at == port(0) || *at == port(1));
    assert!(w.errors().iter().all(|e| matches!(e, NetError::Unreachable { outage: Outage::Link(_), .. })));
    assert!(matches!(w.states(read)[..], [OpState::Failed(OpFault::Unreachable { .. })]));
    // A local operation still works.
    w.put(port(0), port(0), 64, &[9; 8]);
    w.finish();
    assert_eq!(w.memory[&port(0)][64], 9);
}

#[test]
fn a_planned_fault_begins_on_time() {
    let mut w = World::new("4x2");
    let link = Link { node: 0, dir: Direction::new(0, true) };
    w.fabric.set_fault(Fault::link_down(link).at(5_000_000)).unwrap();
    assert_eq!(w.fabric.faults().len(), 1);
    w.fabric.advance(4_999_999);
    assert_eq!(w.fabric.hops(0, 1), Some(1));
    w.fabric.advance(5_000_000);
    assert_eq!(w.fabric.hops(0, 1), Some(3));
    w.fabric.clear_fault(Fault::link_down(link));
    assert_eq!((w.fabric.hops(0, 1), w.fabric.faults().len()), (Some(1), 0));
}
