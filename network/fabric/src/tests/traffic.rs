//! Writes, reads, atomics, fences: intact, in order, counted.

use super::driver::*;
use crate::*;
use angara_abi::account::{Class, Load, Traffic};
use angara_abi::desc::AmoOp;
use angara_abi::packet::Vc;

#[test]
fn a_write_takes_the_published_time() {
    let mut w = World::new("8");
    let tag = w.put(port(0), port(1), 0, &[7; 16]);
    w.finish();
    let Effect::Write { time, last: true, .. } = w.effects[0] else { panic!("{:?}", w.effects) };
    // The header after 300 + 129 + 300 ns, and two more flits at 7.5 GB/s.
    assert_eq!(time, 729_000 + (2u64 * 6400).div_ceil(3));
    assert_eq!(w.states(tag), [OpState::Injected]);
}

#[test]
fn a_hop_costs_129_ns() {
    let mut times = Vec::new();
    for target in 0..4 {
        let mut w = World::new("8");
        w.put(port(0), port(target), 0, &[7; 16]);
        w.finish();
        let Effect::Write { time, .. } = w.effects[0] else { panic!("{:?}", w.effects) };
        times.push(time);
    }
    assert_eq!(times[2] - times[1], 129_000);
    assert_eq!(times[3] - times[2], 129_000);
}

#[test]
fn reads_and_atomics_return_what_was_there() {
    let mut w = World::new("2x2x2");
    w.memory.get_mut(&port(7)).unwrap()[..8].copy_from_slice(&41u64.to_le_bytes());
    let add = Op::Amo {
        to: port(7),
        place: heap(0),
        op: AmoOp::Add,
        width: 8,
        operand: 1,
        comparand: 0,
        result: Some(heap(64)),
    };
    let amo = w.must_post(port(0), Class::Amo, add);
    let read = Op::Read { to: port(7), remote: heap(0), local: heap(128), len: 8 };
    let get = w.must_post(port(0), Class::Get, read);
    w.finish();
    assert_eq!(w.memory[&port(0)][64], 41);
    assert_eq!(w.memory[&port(0)][128], 42);
    assert_eq!(w.states(amo), [OpState::Complete]);
    assert_eq!(w.states(get), [OpState::Complete]);
}

#[test]
fn traffic_is_hops_times_what_accounting_says() {
    let mut w = World::new("4x3x2");
    let mut put = Load::default();
    let mut get = Load::default();
    let mut amo = Load::default();
    let scaled = |l: Load, n: u64| Load { packets: l.packets * n, flits: l.flits * n, bytes: l.bytes * n };
    let mut dice = Dice(5);
    for _ in 0..200 {
        let (a, b) = (dice.below(24) as u32, dice.below(24) as u32);
        let len = 1 + dice.below(40_000) as usize;
        let (out, back) = (w.fabric.hops(a, b).unwrap() as u64, w.fabric.hops(b, a).unwrap() as u64);
        let source = Source::Memory { place: heap(0), len: len as u32 };
        w.must_post(
            port(a),
            Class::Put,
            Op::Write { to: port(b), place: heap(50_000), source, vc: Vc::Request, adaptive: false },
        );
        put.add(scaled(Traffic::put(len).out, out));
        w.must_post(
            port(a),
            Class::Get,
            Op::Read { to: port(b), remote: heap(0), local: heap(50_000), len: len as u32 },
        );
        get.add(scaled(Traffic::get(len).out, out));
        get.add(scaled(Traffic::get(len).back, back));
        for (op, result) in [(AmoOp::Add, None), (AmoOp::Add, Some(heap(100_000))), (AmoOp::Swap, None)] {
            let amo_op = Op::Amo { to: port(b), place: heap(0), op, width: 8, operand: 1, comparand: 0, result };
            w.must_post(port(a), Class::Amo, amo_op);
            let t = Traffic::amo(8, op.is_native() && result.is_none(), result.is_some());
            amo.add(scaled(t.out, out));
            amo.add(scaled(t.back, back));
        }
    }
    w.finish();
    assert_eq!(w.sent(Class::Put), put);
    assert_eq!(w.sent(Class::Get), get);
    assert_eq!(w.sent(Class::Amo), amo);
    assert_eq!(w.sent(Class::Sync), Load::default());
}

#[test]
fn trains_carry_the_same_bytes_and_count_as_their_packets() {
    let run = |trains: bool| {
        let config = Config { trains, ..Config::new("4x2".parse().unwrap()) };
        let ports: Vec<Port> = (0..8).map(port).collect();
        let mut w = World::with(config, &ports);
        let mut dice = Dice(7);
        for p in &ports {
            w.memory.insert(*p, dice.bytes(MEMORY));
        }
        // No two writes to one place, so the end does not depend on their order.
        for (i, len) in [1, 256, 257, 4096, 9000, 32_768, 32_769, 60_000].into_iter().enumerate() {
            let (from, to) = (port(i as u32), port(7 - i as u32));
            let source = Source::Memory { place: heap(0), len };
            let write = Op::Write { to, place: heap(65_536), source, vc: Vc::Request, adaptive: false };
            w.must_post(from, Class::Put, write);
            let local = heap(65_536 + 61_440);
            w.must_post(from, Class::Get, Op::Read { to, remote: heap(8), local, len: len.min(4096) });
        }
        w.finish();
        let links: Vec<_> = ports
            .iter()
            .flat_map(|p| angara_net::torus::Direction::ALL.map(|dir| Link { node: p.node, dir }))
            .map(|link| w.fabric.link_counters(link).tx)
            .collect();
        (w.memory, links, w.effects.len())
    };
    let (memory, links, effects) = run(false);
    let (memory_trains, links_trains, effects_trains) = run(true);
    assert!(memory == memory_trains, "the bytes differ");
    assert!(links == links_trains, "the links counted something else");
    assert!(effects_trains < effects / 4, "{effects_trains} effects, {effects} without trains");
}

#[test]
fn what_goes_alone_takes_the_same_time_and_counts_the_same_as_step_by_step() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let shape = ["8", "4x3", "2x2x2", "3x2x4", "2x3x2x2"][dice.below(5) as usize];
        let mut config = Config::new(shape.parse().unwrap());
        let nodes = config.shape.nodes() as u64;
        let params = &mut config.params;
        params.link_ps = 1 + dice.below(200_000);
        params.inject_ps = dice.below(400_000);
        params.eject_ps = params.router_ps + dice.below(400_000);
        params.host_read_ps = dice.below(2) * 70_000;
        params.core_flit.num = 1 + dice.below(9_000);
        params.link_flit.num = 1 + dice.below(20_000);
        let ports: Vec<Port> = (0..nodes as u32).map(port).collect();
        let mut worlds = [false, true].map(|trains| World::with(Config { trains, ..config.clone() }, &ports));
        for _ in 0..12 {
            let (from, to) = (port(dice.below(nodes) as u32), port(dice.below(nodes) as u32));
            // No trains, so that both move the same packets.
            let (len, bytes) = (1 + dice.below(256) as u32, dice.bytes(256));
            let source = match dice.below(2) {
                0 => Source::Inline(&bytes[..len as usize]),
                _ => Source::Memory { place: heap(8), len },
            };
            let vc = [Vc::Request, Vc::Response][dice.below(2) as usize];
            let result = (dice.below(2) == 0).then_some(heap(64));
            let (op, operand) = ([AmoOp::Add, AmoOp::Xor, AmoOp::Swap][dice.below(3) as usize], dice.below(99));
            let op = match dice.below(5) {
                0 => Op::Read { to, remote: heap(512), local: heap(1024), len },
                1 => Op::Flush { to, remote: heap(0), local: heap(2048) },
                2 => Op::Amo { to, place: heap(256), op, width: 8, operand, comparand: 0, result },
                3 => Op::Fence,
                _ => Op::Write { to, place: heap(4096), source, vc, adaptive: false },
            };
            let ends = worlds.each_mut().map(|w| {
                let (seen, told, began) = (w.effects.len(), w.completions.len(), w.fabric.now());
                w.must_post(from, Class::Put, op);
                w.finish();
                let times: Vec<_> = w.effects[seen..].iter().map(|e| format!("{e:?}")).collect();
                let ends: Vec<_> = w.completions[told..].iter().map(|c| c.state).collect();
                (times, ends, w.fabric.now() - began, w.sent(Class::Put))
            });
            assert!(ends[0] == ends[1], "seed {seed}, {op:?} from {from:?}: {:?} {:?}", ends[0].0, ends[1].0);
        }
        assert!(worlds[0].memory == worlds[1].memory, "seed {seed}: the bytes differ");
        assert!(
            worlds[1].fabric.events_handled() < worlds[0].fabric.events_handled() / 2,
            "seed {seed}: nothing went alone"
        );
    }
}
