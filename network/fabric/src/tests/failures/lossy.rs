//! Links that corrupt packets: the checksum notices, replay repairs, hopeless links go down.

use crate::tests::driver::*;
use crate::tests::order::Streams;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::fault::{Fault, Impair, Site};
use angara_net::torus::Direction;
use proptest::prelude::*;

fn totals(w: &World) -> (u64, u64) {
    let mut sum = (0, 0);
    for node in 0..w.fabric.shape().nodes() as u32 {
        for dir in Direction::ALL {
            let c = w.fabric.link_counters(Link { node, dir });
            sum = (sum.0 + c.crc_errors, sum.1 + c.replays);
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn corruption_costs_replays_but_neither_packets_nor_order(seed: u64, percent in 1..40u32) {
        let mut config = Config::new("4x2".parse().unwrap());
        config.seed = seed;
        config.params.ports = ports_drawn(seed);
        let ports: Vec<Port> = (0..8).map(port).collect();
        let mut w = World::with(config, &ports);
        let fault = Fault::impaired(Site::EveryLink, Impair::Corrupt(percent * 10_000));
        w.fabric.set_fault(fault).unwrap();
        let (mut dice, mut streams) = (Dice(seed), Streams::new());
        for _ in 0..1000 {
            let (a, b) = (ports[dice.below(8) as usize], ports[dice.below(8) as usize]);
            let vc = [Vc::Request, Vc::Response][dice.below(2) as usize];
            while !streams.post(&mut w, &mut dice, a, b, vc, false) {
                let to = w.fabric.now() + 100_000;
                w.fabric.advance(to);
                w.apply();
            }
        }
        w.finish();
        streams.check(&w, true, true);
        let (crc, replays) = totals(&w);
        prop_assert!(crc > 0 && replays >= crc, "{crc} errors, {replays} replays");
    }
}

#[test]
fn every_operation_works_over_a_bad_link_and_traffic_is_counted_once() {
    let run = |per_million: u32| {
        let mut w = World::new("2x2");
        let fault = Fault::impaired(Site::EveryLink, Impair::Corrupt(per_million));
        w.fabric.set_fault(fault).unwrap();
        let rows = w.fabric.build_tree(0, &[port(0), port(1), port(2), port(3)]).unwrap();
        w.fabric.load_tree(0, JOB, &rows).unwrap();
        for round in 0..20u64 {
            for node in 0..4 {
                let to = port((node + 1) % 4);
                w.must_post(port(node), Class::Get, Op::Read { to, remote: heap(0), local: heap(64), len: 1000 });
                let amo = Op::Amo {
                    to,
                    place: heap(0),
                    op: angara_abi::desc::AmoOp::Add,
                    width: 8,
                    operand: 1,
                    comparand: 0,
                    result: Some(heap(32)),
                };
                w.must_post(port(node), Class::Amo, amo);
                let reduce = Op::Reduce {
                    tree: 0,
                    reduce: (round % 16) as u8,
                    op: angara_abi::packet::ReduceOp::Sum,
                    elem: angara_abi::packet::ReduceElem::I64,
                    to: None,
                    place: heap(2000),
                    source: Source::Inline(&1i64.to_le_bytes()),
                };
                w.must_post(port(node), Class::Sync, reduce);
                w.must_post(port(node), Class::Sync, Op::Barrier { half: false });
            }
        }
        w.finish();
        assert!(w.completions.iter().all(|c| !matches!(c.state, OpState::Failed(_))));
        for node in 0..4 {
            assert_eq!(w.memory[&port(node)][0], 20);
            assert_eq!(w.memory[&port(node)][2000], 4);
        }
        (w.sent(Class::Get), w.sent(Class::Amo), totals(&w))
    };
    let (clean, bad) = (run(0), run(100_000));
    assert_eq!((clean.0, clean.1, clean.2), (bad.0, bad.1, (0, 0)));
    assert!(bad.2.0 > 0);
}

#[test]
fn the_error_pattern_depends_on_the_seed_alone() {
    let run = |seed: u64| {
        let mut config = Config::new("4".parse().unwrap());
        config.seed = seed;
        config.params.ports = ports_drawn(seed);
        let ports: Vec<Port> = (0..4).map(port).collect();
        let mut w = World::with(config, &ports);
        let fault = Fault::impaired(Site::EveryLink, Impair::Corrupt(50_000));
        w.fabric.set_fault(fault).unwrap();
        for i in 0..200u32 {
            w.put(port(i % 4), port((i + 1) % 4), 0, &[1; 64]);
        }
        w.finish();
        let times: Vec<Tick> = w
            .effects
            .iter()
            .filter_map(|e| match e {
                Effect::Write { time, .. } => Some(*time),
                _ => None,
            })
            .collect();
        (totals(&w), times)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).1, run(4).1);
}

#[test]
fn a_link_that_never_gets_a_packet_across_goes_down_and_traffic_takes_another_way() {
    let mut w = World::new("4");
    let link = Link { node: 0, dir: Direction::new(0, true) };
    let fault = Fault::impaired(Site::Link(link), Impair::Corrupt(1_000_000));
    w.fabric.set_fault(fault).unwrap();
    let (mut dice, mut streams) = (Dice(1), Streams::new());
    for _ in 0..40 {
        streams.post(&mut w, &mut dice, port(0), port(1), Vc::Request, false);
    }
    w.finish();
    assert_eq!(streams.check(&w, true, true), 40);
    assert!(w.effects.iter().any(|e| matches!(e, Effect::LinkDown { link: l, change: 0, .. } if *l == link)));
    assert_eq!(w.fabric.hops(0, 1), Some(3));
    assert_eq!(w.fabric.link_counters(link).crc_errors, 16);
    assert!(w.fabric.faults().iter().any(|f| *f == Fault::link_down(link)));
}
