//! Links that double, reorder, delay and slow down packets, alone and all at once: nothing is lost, doubled or
//! reordered end to end, time is what the rules say, and counters tell what happened.

use crate::tests::driver::*;
use crate::tests::order::Streams;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::fault::{Fault, Impair, Impairment, Site};
use angara_net::torus::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Something of every kind, or nothing of it, by the dice.
fn any_impairment(dice: &mut Dice) -> Impairment {
    let mut share = || if dice.below(2) == 0 { 0 } else { dice.below(250_000) as u32 };
    let (wrong, twice, late) = (share(), share(), share());
    let delay_ps = [0, 1, 5_000, 700_000, 30_000_000][dice.below(5) as usize];
    let rate = [0, 0, 20_000_000, 3_000_000_000, 90_000_000_000][dice.below(5) as usize];
    Impairment { corrupt: wrong, drop: 0, duplicate: twice, reorder: late, delay_ps, rate, seed: None }
}

/// Gives about half of the links something of their own.
pub(crate) fn impair_some(shape: angara_net::torus::Shape, dice: &mut Dice) -> BTreeMap<Link, Impairment> {
    let links = (0..shape.nodes() as u32).flat_map(|node| Direction::ALL.map(|dir| Link { node, dir }));
    let links: Vec<Link> = links.filter(|l| shape.neighbour(l.node, l.dir).is_some()).collect();
    links
        .into_iter()
        .map(|link| (link, if dice.below(2) == 0 { Impairment::default() } else { any_impairment(dice) }))
        .collect()
}

fn all_links(fabric: &mut Fabric, what: Impairment) {
    let shape = fabric.shape();
    let links = (0..shape.nodes() as u32).flat_map(|node| Direction::ALL.map(|dir| Link { node, dir }));
    let links = links.filter(|l| shape.neighbour(l.node, l.dir).is_some()).map(|link| (link, what)).collect();
    fabric.set_impairments(&links).unwrap();
}

fn totals(fabric: &Fabric) -> LinkCounters {
    let mut sum = LinkCounters::default();
    for node in 0..fabric.shape().nodes() as u32 {
        for dir in Direction::ALL {
            let c = fabric.link_counters(Link { node, dir });
            sum.crc_errors += c.crc_errors;
            sum.replays += c.replays;
            sum.duplicates += c.duplicates;
            sum.reordered += c.reordered;
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Impairments of the links change all the time: cables get longer and shorter under packets on their way.
    #[test]
    fn nothing_is_lost_doubled_or_reordered(seed: u64, adaptive: bool, shape in 0..4usize) {
        let mut config = Config::new(["4x2", "8", "mesh:3x3", "2x2x2"][shape].parse().unwrap());
        config.seed = seed;
        config.params.ports = ports_drawn(seed);
        let nodes = config.shape.nodes() as u64;
        let ports: Vec<Port> = (0..nodes as u32).map(port).collect();
        let mut w = World::with(config, &ports);
        let (mut dice, mut streams) = (Dice(seed), Streams::new());
        for round in 0..800 {
            if round % 100 == 0 {
                let links = impair_some(w.fabric.shape(), &mut dice);
                w.fabric.set_impairments(&links).unwrap();
            }
            let (a, b) = (ports[dice.below(nodes) as usize], ports[dice.below(nodes) as usize]);
            let vc = [Vc::Request, Vc::Response][dice.below(2) as usize];
            while !streams.post(&mut w, &mut dice, a, b, vc, adaptive) {
                let to = w.fabric.now() + 300_000;
                w.fabric.advance(to);
                w.apply();
            }
        }
        w.finish();
        streams.check(&w, !adaptive, true);
        w.fabric.adapters.chip.check_idle().unwrap();
        let sum = totals(&w.fabric);
        prop_assert!(sum.crc_errors + sum.duplicates + sum.reordered > 0, "{sum:?}");
        prop_assert!(sum.replays >= sum.crc_errors + sum.reordered, "{sum:?}");
    }

    /// Barriers flush what is behind delays, and trees keep their sequence.
    #[test]
    fn barriers_and_trees_keep_their_promises(seed: u64) {
        let mut w = World::new("4x2");
        let mut dice = Dice(seed);
        let families = [BarrierFamily::Multiphase, BarrierFamily::AllToAll, BarrierFamily::Master, BarrierFamily::Tree,
            BarrierFamily::Hypercube, BarrierFamily::Counting];
        w.fabric.set_barrier_family(JOB, families[dice.below(6) as usize]).unwrap();
        let ports: Vec<Port> = (0..8).map(port).collect();
        let rows = w.fabric.build_tree(0, &ports).unwrap();
        w.fabric.load_tree(0, JOB, &rows).unwrap();
        for round in 0..12u8 {
            let links = impair_some(w.fabric.shape(), &mut dice);
            w.fabric.set_impairments(&links).unwrap();
            let half = dice.below(2) == 0;
            for node in 0..8u64 {
                let value = (node as i64 + round as i64).to_le_bytes();
                w.put(port(node as u32), port(((node + 3) % 8) as u32), 8 * node, &value);
                let reduce = Op::Reduce { tree: 0, reduce: round % 16, op: angara_abi::packet::ReduceOp::Sum,
                    elem: angara_abi::packet::ReduceElem::I64, to: None, place: heap(2000), source: Source::Inline(&value) };
                w.must_post(port(node as u32), Class::Sync, reduce);
                w.must_post(port(node as u32), Class::Sync, Op::Barrier { half });
            }
            w.finish();
            for node in 0..8 {
                let result = i64::from_le_bytes(w.memory[&port(node)][2000..2008].try_into().unwrap());
                prop_assert_eq!(result, 28 + 8 * round as i64);
            }
        }
        prop_assert!(w.fabric.barrier_check(JOB).held(), "{:?}", w.fabric.barrier_check(JOB));
        prop_assert!(w.errors().is_empty(), "{:?}", w.errors());
    }
}

/// When one write of 8 bytes and the answer to one read arrive that have the network to themselves.
fn alone(what: Impairment, hops: u32) -> (Tick, Tick) {
    let mut w = World::new("mesh:6");
    all_links(&mut w.fabric, what);
    w.put(port(0), port(hops), 0, &[1; 8]);
    w.finish();
    let time = |e: &Effect| match e {
        Effect::Write { time, .. } => Some(*time),
        _ => None,
    };
    let written = w.effects.iter().find_map(time).unwrap();
    let began = w.fabric.now();
    w.must_post(port(0), Class::Get, Op::Read { to: port(hops), remote: heap(0), local: heap(64), len: 8 });
    w.finish();
    (written, w.effects.iter().rev().find_map(time).unwrap() - began)
}

#[test]
fn a_delay_makes_a_packet_exactly_so_much_later_on_every_link() {
    for hops in 1..5 {
        let usual = alone(Impairment::default(), hops);
        for delay_ps in [1, 129_000, 2_000_000_000] {
            let late = alone(Impairment { delay_ps, ..Impairment::default() }, hops);
            let added = hops as Tick * delay_ps;
            assert_eq!(late, (usual.0 + added, usual.1 + 2 * added), "{hops} hops of {delay_ps} ps more");
        }
    }
}

/// When the first and the last packet of one long write over one link arrive.
fn stream(what: Impairment, packets: u64) -> (Tick, Tick) {
    let mut w = World::new("mesh:2");
    all_links(&mut w.fabric, what);
    let source = Source::Memory { place: heap(0), len: packets as u32 * 256 };
    w.must_post(
        port(0),
        Class::Put,
        Op::Write { to: port(1), place: heap(0), source, vc: Vc::Request, adaptive: false },
    );
    // Memory answers at once.
    while let Some(next) = w.fabric.poll_timeout() {
        w.fabric.advance(next);
        w.apply();
    }
    let time = |e: &Effect| match e {
        Effect::Write { time, .. } => Some(*time),
        _ => None,
    };
    let times: Vec<Tick> = w.effects.iter().filter_map(time).collect();
    assert_eq!(times.len() as u64, packets);
    (times[0], times[times.len() - 1])
}

#[test]
fn a_rate_limits_a_stream_to_itself() {
    for rate in [1_000_000, 10 << 20, 2_000_000_000] {
        let packets = 300;
        let (first, last) = stream(Impairment { rate, ..Impairment::default() }, packets);
        // 18 flits of 16 bytes each; only the times of single packets are rounded.
        let exact = (packets - 1) as u128 * 18 * 16 * 1_000_000_000_000 / rate as u128;
        let took = (last - first) as u128;
        assert!(took >= exact && took <= exact + packets as u128, "{rate} B/s: {took} ps, {exact} at best");
    }
    // A link that could do more than the chip's does what the chip's does.
    let usual = stream(Impairment::default(), 300);
    let fast = stream(Impairment { rate: 90_000_000_000, ..Impairment::default() }, 300);
    assert!(fast.1 - fast.0 >= usual.1 - usual.0);
}

#[test]
fn a_delay_costs_credits_too() {
    // Eight slots per round trip: out and back, both longer by the delay.
    let delay_ps = 10_000_000;
    let (first, last) = stream(Impairment { delay_ps, ..Impairment::default() }, 401);
    let round = (last - first) / 50;
    assert!((2 * delay_ps..2 * delay_ps + 400_000).contains(&round), "{round} ps for 8 packets");
}

#[test]
fn every_packet_twice_costs_the_wire_twice_and_is_counted() {
    let packets = 300;
    let usual = stream(Impairment::default(), packets);
    let what = Impairment { duplicate: 1_000_000, ..Impairment::default() };
    let double = stream(what, packets);
    assert!(double.1 - double.0 > 19 * (usual.1 - usual.0) / 10, "{double:?} after {usual:?}");
    let mut w = World::new("mesh:2");
    all_links(&mut w.fabric, what);
    for i in 0..50u64 {
        w.put(port(0), port(1), 8 * i, &[7; 8]);
    }
    w.finish();
    let c = w.fabric.link_counters(Link { node: 0, dir: Direction::new(0, true) });
    assert_eq!((c.total().packets, c.rx_packets, c.duplicates, c.replays, c.crc_errors), (50, 50, 50, 0, 0));
}

#[test]
fn a_packet_alone_is_overtaken_by_nobody() {
    let usual = alone(Impairment { duplicate: 1, ..Impairment::default() }, 1);
    let late = Impairment { reorder: 1_000_000, ..Impairment::default() };
    let held = alone(late, 1);
    assert_eq!(held.0, usual.0 + 1_000_000, "it arrives a microsecond late");
    let mut w = World::new("mesh:2");
    all_links(&mut w.fabric, Impairment { reorder: 300_000, ..Impairment::default() });
    for i in 0..200u64 {
        w.put(port(0), port(1), 8 * i, &[7; 8]);
    }
    w.finish();
    let c = w.fabric.link_counters(Link { node: 0, dir: Direction::new(0, true) });
    assert!(c.reordered > 20 && c.replays >= 2 * c.reordered && c.crc_errors == 0, "{c:?}");
}

#[test]
fn what_befalls_packets_depends_on_the_seed_alone() {
    let run = |seed: u64| {
        let mut config = Config::new("4".parse().unwrap());
        config.seed = seed;
        let ports: Vec<Port> = (0..4).map(port).collect();
        let mut w = World::with(config, &ports);
        all_links(
            &mut w.fabric,
            Impairment {
                corrupt: 20_000,
                duplicate: 50_000,
                reorder: 50_000,
                delay_ps: 1000,
                rate: 1 << 30,
                ..Impairment::default()
            },
        );
        for i in 0..200u32 {
            w.put(port(i % 4), port((i + 1) % 4), 0, &[1; 64]);
        }
        w.finish();
        (totals(&w.fabric), w.effects.len(), w.fabric.now())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// Returns what a link with errors under a seed of its own counts, and when the last of its packets is answered, in a
/// network of seed `network` where `before` packets have crossed the link already while it was bad in another way.
fn seeded(network: u64, before: u64, seed: u64) -> (LinkCounters, Tick) {
    let mut w = World::with(Config { seed: network, ..Config::new("mesh:2".parse().unwrap()) }, &[port(0), port(1)]);
    let link = Link { node: 0, dir: Direction::new(0, true) };
    let befalls = |w: &mut World, packets: u64, what: Impairment| {
        w.fabric.set_impairments(&BTreeMap::from([(link, what)])).unwrap();
        let (from, start) = (w.fabric.link_counters(link), w.fabric.now());
        for i in 0..packets {
            w.put(port(0), port(1), 8 * (i % 1000), &[1; 8]);
        }
        w.finish();
        let to = w.fabric.link_counters(link);
        let counts = LinkCounters {
            crc_errors: to.crc_errors - from.crc_errors,
            replays: to.replays - from.replays,
            duplicates: to.duplicates - from.duplicates,
            reordered: to.reordered - from.reordered,
            ..LinkCounters::default()
        };
        (counts, w.fabric.now() - start)
    };
    befalls(&mut w, before, Impairment { corrupt: 300_000, ..Impairment::default() });
    let what =
        Impairment { corrupt: 50_000, duplicate: 50_000, reorder: 50_000, seed: Some(seed), ..Impairment::default() };
    befalls(&mut w, 300, what)
}

#[test]
fn with_a_seed_of_its_own_a_link_loses_the_same_packets_whatever_was_before() {
    let first = seeded(1, 0, 7);
    assert!(first.0.crc_errors > 0 && first.0.duplicates > 0 && first.0.reordered > 0, "{first:?}");
    assert_eq!(first, seeded(2, 0, 7), "the seed of the network does not matter");
    assert_eq!(first, seeded(1, 41, 7), "nor how many packets there were before");
    assert_ne!(first, seeded(1, 0, 8));
    assert_eq!(first, seeded(7, 0, 7));
}

#[test]
fn a_seed_begins_anew_only_when_what_befalls_the_link_changes() {
    let link = Link { node: 0, dir: Direction::new(0, true) };
    let what = Impairment { corrupt: 100_000, seed: Some(5), ..Impairment::default() };
    // Errors of the first hundred packets and of the second, where `between` is said before the latter.
    let run = |between: &[Impairment]| {
        let mut w = World::new("mesh:2");
        w.fabric.set_impairments(&BTreeMap::from([(link, what)])).unwrap();
        [(); 2].map(|()| {
            let before = w.fabric.link_counters(link).crc_errors;
            for i in 0..100u64 {
                w.put(port(0), port(1), 8 * i, &[1; 8]);
            }
            w.finish();
            between.iter().for_each(|what| w.fabric.set_impairments(&BTreeMap::from([(link, *what)])).unwrap());
            w.fabric.link_counters(link).crc_errors - before
        })
    };
    let on = run(&[]);
    assert_ne!(on[0], on[1], "a seed whose two halves can be told apart");
    assert_eq!(run(&[what]), on, "said again it goes on");
    assert_eq!(run(&[Impairment::default(), what]), [on[0]; 2], "cleared and said again it begins anew");
}

#[test]
fn trains_are_made_again_when_links_are_sound_again() {
    let mut w = World::with(Config { trains: true, ..Config::new("mesh:2".parse().unwrap()) }, &[port(0), port(1)]);
    let source = Source::Memory { place: heap(0), len: 32_000 };
    let mut effects = || {
        let before = w.effects.len();
        let write = Op::Write { to: port(1), place: heap(64), source, vc: Vc::Request, adaptive: false };
        w.must_post(port(0), Class::Put, write);
        w.finish();
        let is_write = |e: &&Effect| matches!(e, Effect::Write { .. });
        let writes = w.effects[before..].iter().filter(is_write).count();
        let on = writes == 125;
        all_links(&mut w.fabric, Impairment { corrupt: if on { 0 } else { 1 }, ..Impairment::default() });
        writes
    };
    assert_eq!([effects(), effects(), effects()], [1, 125, 1]);
}

#[test]
fn faults_are_read_and_shown() {
    let shape = "4x2".parse().unwrap();
    for text in [
        "link 0,0 +X corrupt=1%",
        "link 0,0 +X dup=0.5%",
        "link 1,0 -X reorder=2%",
        "link 1,0 -X delay=2ms",
        "delay=1500ns",
        "delay=7ps",
        "link 1,1 +Y rate=10M",
        "link 1,1 +Y seed=18446744073709551615",
        "link 1,1 +Y seed=none",
        "rate=1000",
    ] {
        let fault = Fault::parse(text, &shape).unwrap();
        assert_eq!(fault.show(&shape), text);
    }
    for text in [
        "link 0,0 +X delay=soon",
        "link 0,0 +X rate=fast",
        "link 0,0 +X dup=200%",
        "link 0,0 +X slow=1%",
        "rate=",
        "seed=-1",
    ] {
        assert!(Fault::parse(text, &shape).is_err(), "{text}");
    }
    let mut fabric = Fabric::new(Config::new(shape)).unwrap();
    for how in [Impair::Delay(2_000_000_000_000), Impair::Rate(999), Impair::Drop(1_000_001)] {
        let refused = fabric.set_fault(Fault::impaired(Site::EveryLink, how));
        assert!(matches!(refused, Err(FaultError::Impairment(_))), "{how:?}");
    }
    let mut set = |text: &str| fabric.set_fault(Fault::parse(text, &shape).unwrap());
    set("link 0,0 +X delay=1us").unwrap();
    set("link 0,0 +X delay=2us").unwrap();
    set("link 0,0 +X dup=1%").unwrap();
    let faults = fabric.faults();
    assert_eq!(faults.len(), 2, "the second delay replaces the first: {faults:?}");
    let link = Link { node: 0, dir: Direction::new(0, true) };
    assert_eq!(fabric.impairment(link), Impairment { duplicate: 10_000, delay_ps: 2_000_000, ..Impairment::default() });
    assert!(fabric.is_slow());
    faults.into_iter().for_each(|fault| fabric.clear_fault(fault));
    assert_eq!((fabric.impairment(link), fabric.is_slow()), (Impairment::default(), false));
}
