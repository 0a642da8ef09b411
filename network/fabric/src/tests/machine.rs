//! Parameters that a machine file may set for adapters and nodes, each checked by the time that it adds.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use angara_abi::packet::Vc;

/// Two PEs on node 0 and one on every other of a ring of four.
fn ring(params: Params) -> World {
    let config = Config { params, ..Config::new("4".parse().unwrap()) };
    let mut ports: Vec<Port> = (0..4).map(port).collect();
    ports.push(SECOND);
    World::with(config, &ports)
}

const SECOND: Port = Port { node: 0, endpoint: 1 };

fn bulk(to: Port, len: u32) -> Op<Source<'static>> {
    let source = Source::Memory { place: heap(0), len };
    Op::Write { to, place: heap(8192), source, vc: Vc::Request, adaptive: false }
}

fn read(to: Port, len: u32) -> Op<Source<'static>> {
    Op::Read { to, remote: heap(0), local: heap(8192), len }
}

fn flush(to: Port) -> Op<Source<'static>> {
    Op::Flush { to, remote: heap(0), local: heap(64) }
}

fn fetch_add(to: Port) -> Op<Source<'static>> {
    let (op, width, operand, comparand) = (AmoOp::Add, 8, 1, 0);
    Op::Amo { to, place: heap(0), op, width, operand, comparand, result: Some(heap(64)) }
}

impl World {
    /// When the writes to a port took effect.
    fn written(&self, to: Port) -> Vec<Tick> {
        let time = |e: &Effect| match e {
            Effect::Write { at, time, .. } if *at == to => Some(*time),
            _ => None,
        };
        self.effects.iter().filter_map(time).collect()
    }
    /// When an operation was complete.
    fn completed(&self, tag: u64) -> Tick {
        let mut all = self.completions.iter().filter(|c| c.tag == tag && c.state == OpState::Complete);
        all.next().expect("it has completed").time
    }
}

/// When the last byte of `op` is where it goes, from port 0 to port 1.
fn arrival(params: Params, op: Op<Source<'_>>) -> Tick {
    let mut w = ring(params);
    w.must_post(port(0), Class::Put, op);
    w.finish();
    let writes = [port(0), port(1)].into_iter().flat_map(|p| w.written(p)).max();
    writes.expect("something was written")
}

fn inline(bytes: &[u8]) -> Op<Source<'_>> {
    Op::Write { to: port(1), place: heap(0), source: Source::Inline(bytes), vc: Vc::Request, adaptive: false }
}

#[test]
fn bulk_operations_wait_for_the_dma_engine_and_no_others_do() {
    let slow = Params { dma_start_ps: 700_000, ..Params::default() };
    let added = |op| arrival(slow, op) - arrival(Params::default(), op);
    for op in [bulk(port(1), 257), bulk(port(1), 10_000), read(port(1), 257), read(port(1), 10_000)] {
        assert_eq!(added(op), 700_000, "{op:?}");
    }
    for op in [bulk(port(1), 256), read(port(1), 256), fetch_add(port(1)), flush(port(1)), inline(&[1; 256])] {
        assert_eq!(added(op), 0, "{op:?}");
    }
    // Operations posted behind one wait with it.
    let mut w = ring(slow);
    w.must_post(port(0), Class::Put, bulk(port(1), 1000));
    w.put(port(0), port(2), 0, &[1; 8]);
    w.finish();
    assert!(w.written(port(2))[0] > 700_000 + arrival(Params::default(), inline(&[1; 8])));
}

#[test]
fn what_is_read_from_memory_takes_longer_by_the_latency_of_memory() {
    let slow = Params { host_read_ps: 250_000, ..Params::default() };
    let added = |op| arrival(slow, op) - arrival(Params::default(), op);
    for op in [bulk(port(1), 100), bulk(port(1), 2000), read(port(1), 8), fetch_add(port(1))] {
        assert_eq!(added(op), 250_000, "{op:?}");
    }
    assert_eq!(added(inline(&[1; 8])), 0);
}

#[test]
fn a_seed_draws_delays_within_their_bound_and_keeps_order() {
    let times = |seed: u64, jitter_ps: Tick| {
        let config =
            Config { params: Params { jitter_ps, ..Params::default() }, seed, ..Config::new("4".parse().unwrap()) };
        let mut w = World::with(config, &(0..4).map(port).collect::<Vec<_>>());
        for i in 0..20 {
            w.put(port(0), port(1), 8 * i, &[i as u8; 8]);
            w.put(port(2), port(1), 4096 + 8 * i, &[i as u8; 8]);
        }
        w.finish();
        let place = |e: &Effect| match e {
            Effect::Write { place, .. } => Some(place.offset),
            _ => None,
        };
        let places: Vec<u64> = w.effects.iter().filter_map(place).collect();
        for own in [0..4096, 4096..8192] {
            assert!(places.iter().filter(|p| own.contains(*p)).is_sorted(), "seed {seed}");
        }
        (places, *w.written(port(1)).last().expect("writes"))
    };
    let (exact, end) = times(1, 0);
    assert_eq!((exact.clone(), end), times(2, 0), "without it no seed matters");
    let drawn: Vec<_> = (1..20).map(|seed| times(seed, 100_000)).collect();
    assert!(drawn.iter().all(|(_, last)| *last >= end && *last <= end + 100_000), "{end} {drawn:?}");
    assert!(drawn.iter().any(|(places, _)| *places != exact), "orders of two nodes' packets differ");
    assert_eq!(drawn[3], times(4, 100_000), "and one seed always draws the same");
}

#[test]
fn packets_of_a_node_keep_their_gap() {
    for (gap_ps, expected) in [(0, 6400), (5_000, 6400), (90_000, 90_000)] {
        let mut w = ring(Params { gap_ps, ..Params::default() });
        for to in [1, 3, 1, 3] {
            w.put(port(0), port(to), 0, &[1; 8]);
        }
        w.finish();
        let mut times: Vec<Tick> = [port(1), port(3)].into_iter().flat_map(|p| w.written(p)).collect();
        times.sort_unstable();
        // Three flits at the rate of a link, or the gap.
        assert!(times.windows(2).all(|t| t[1] - t[0] == expected), "gap {gap_ps}: {times:?}");
    }
}

#[test]
fn quiet_as_an_oracle_ends_when_the_last_write_is_there() {
    for quiet in [Quiet::Read, Quiet::Delivered] {
        let mut w = ring(Params { quiet, ..Params::default() });
        w.must_post(port(0), Class::Put, bulk(port(2), 5000));
        let tag = w.must_post(port(0), Class::Sync, flush(port(2)));
        w.finish();
        let last = *w.written(port(2)).last().expect("writes");
        match quiet {
            Quiet::Delivered => assert_eq!(w.completed(tag), last),
            Quiet::Read => assert!(w.completed(tag) > last + 600_000),
        }
    }
}

#[test]
fn with_adaptive_routing_a_flush_waits_for_what_it_cannot_follow() {
    let mut overtaken = 0;
    for seed in 0..20 {
        for routing in [true, false] {
            let params = Params { adaptive: routing, ..Params::default() };
            let config = Config { params, ..Config::new("4x4".parse().unwrap()) };
            let ports: Vec<Port> = (0..16).map(port).collect();
            let mut w = World::with(config, &ports);
            let mut dice = Dice(seed * 1000);
            // Contents that are posted, not fetched: the driver of these tests fetches when nothing moves any more.
            for from in (0..16).filter(|from| *from != 10) {
                let own = if from == 0 { 50_000 } else { 0 };
                for i in 0..40 + if from == 0 { 0 } else { dice.below(20) } {
                    w.put(port(from), port(10), own + 256 * i, &[1; 256]);
                }
            }
            w.must_post(port(0), Class::Sync, flush(port(10)));
            w.finish();
            let asked = |e: &Effect| matches!(e, Effect::Fetch { at, .. } if *at == port(10));
            let asked = w.effects.iter().position(asked).expect("the flush reads");
            let own = |e: &Effect| match e {
                Effect::Write { place, .. } if place.offset >= 50_000 => Some(place.offset),
                _ => None,
            };
            let before = w.effects[..asked].iter().filter_map(own).count();
            let own: Vec<u64> = w.effects.iter().filter_map(own).collect();
            assert_eq!(before, own.len(), "seed {seed}, adaptive: {routing}: writes behind the flush");
            let in_order = own.is_sorted();
            assert!(routing || in_order, "one way keeps order");
            overtaken += usize::from(!in_order);
        }
    }
    assert!(overtaken > 0, "adaptive packets never took different ways");
}

#[test]
fn pes_of_one_node_reach_each_other_through_its_memory_if_the_machine_says_so() {
    let path = NodePath { latency_ps: 100_000, flit: FlitTime::of_rate(16_000) };
    let mut w = ring(Params { node_path: Some(path), ..Params::default() });
    w.put(port(0), SECOND, 0, &[7; 32]); // 2 ns at 16 GB/s
    let get = w.must_post(port(0), Class::Get, Op::Read { to: SECOND, remote: heap(0), local: heap(64), len: 16 });
    w.finish();
    assert_eq!(w.written(SECOND), [102_000]);
    // The read is behind the write, and its 16 bytes take 1 ns more.
    assert_eq!(w.completed(get), 102_000 + 101_000);
    assert_eq!(w.memory[&port(0)][64..80], [7; 16]);
    let before = w.fabric.now();
    w.put(port(0), port(1), 0, &[1; 8]);
    w.finish();
    assert_eq!(w.written(port(1))[0] - before, arrival(Params::default(), inline(&[1; 8])), "others go as ever");

    // A barrier does not end before what went through memory is there.
    let slow = NodePath { latency_ps: 50_000_000, flit: FlitTime::of_rate(1) };
    for half in [false, true] {
        let mut w = ring(Params { node_path: Some(slow), ..Params::default() });
        w.must_post(port(0), Class::Put, bulk(SECOND, 3000));
        let all: Vec<Port> = (0..4).map(port).chain([SECOND]).collect();
        let tags: Vec<u64> = all.iter().map(|p| w.must_post(*p, Class::Sync, Op::Barrier { half })).collect();
        w.finish();
        let last = *w.written(SECOND).last().expect("writes");
        assert!(tags.iter().all(|tag| w.completed(*tag) > last), "half: {half}");
    }
}

#[test]
fn a_nodes_memory_keeps_its_order_also_among_what_it_brings_at_one_time() {
    // A request has no bytes of its own, so it arrives together with the write before it.
    let path = NodePath { latency_ps: 100_000, flit: FlitTime::of_rate(16_000) };
    let mut w = ring(Params { node_path: Some(path), ..Params::default() });
    for round in 1..=20u8 {
        // The place in which a packet is kept is another one each time.
        for _ in 0..round % 4 {
            w.put(SECOND, port(0), 512, &[0; 8]);
        }
        w.put(port(0), SECOND, 0, &[round; 8]);
        w.must_post(port(0), Class::Get, Op::Read { to: SECOND, remote: heap(0), local: heap(128), len: 8 });
        w.must_post(port(0), Class::Sync, flush(SECOND));
        // Others take places as these become free.
        for i in 0..8 {
            w.put(port(1 + i % 3), port(0), 256, &[0; 200]);
            w.must_post(port(1 + i % 3), Class::Get, read(SECOND, 700));
        }
        w.finish();
        assert_eq!(w.memory[&port(0)][128..136], [round; 8], "round {round}");
    }
}

/// When what of which port's memory was changed, by a driver that goes on as far as it may.
fn changes(mut fabric: Fabric) -> Vec<(Tick, Port)> {
    let mut all = Vec::new();
    while let Some(next) = fabric.poll_timeout() {
        fabric.advance(next);
        while let Some(effect) = fabric.poll_effect() {
            match effect {
                Effect::Write { at, time, .. } => all.push((time, at)),
                Effect::Fetch { len, token, .. } => fabric.supply(token, &vec![0; len as usize]),
                other => panic!("{other:?}"),
            }
        }
        while fabric.poll_completion().is_some() {}
    }
    all
}

#[test]
fn who_shares_a_node_has_the_same_times_with_data_and_without() {
    let run = |payload, first: Port, second: Port| {
        let mut fabric = Fabric::new(Config { payload, ..Config::new("4".parse().unwrap()) }).unwrap();
        fabric.open_job(JOB, &[port(0), SECOND, port(1), port(2)]).unwrap();
        let write = |to, source| Op::Write { to, place: heap(0), source, vc: Vc::Request, adaptive: false };
        let memory = |len| if payload { Source::Memory { place: heap(0), len } } else { Source::Length(len) };
        let bytes = if payload { Source::Inline(&[1; 100]) } else { Source::Length(100) };
        // At one time: what is read from memory, what is not, and answers that are read from memory.
        let ops = [(first, write(port(1), memory(1000))), (second, write(port(2), bytes)), (first, read(port(2), 600))];
        for (from, op) in ops {
            fabric.inject(from, JOB, Class::Put, op, 5_000, 1).unwrap();
        }
        for from in [port(1), port(2)] {
            fabric.inject(from, JOB, Class::Put, write(first, memory(700)), 5_000, 1).unwrap();
        }
        changes(fabric)
    };
    for (first, second) in [(port(0), SECOND), (SECOND, port(0))] {
        assert_eq!(run(true, first, second), run(false, first, second), "{first:?}");
    }
}

/// When writes of 32 KiB from node 0 to all these nodes are done.
fn written_to(targets: &[u32], params: Params) -> Tick {
    let config = Config { params, ..Config::new("3x3x3".parse().unwrap()) };
    let mut w = World::with(config, &(0..27).map(port).collect::<Vec<_>>());
    for to in targets {
        w.must_post(port(0), Class::Put, bulk(port(*to), 32_768));
    }
    w.finish();
    targets.iter().flat_map(|to| w.written(port(*to))).max().expect("writes")
}

#[test]
fn ports_feed_all_links_of_a_node_at_once() {
    let params = |ports| Params { ports, staged_per_port: 64, ..Params::default() };
    let with = |ports| written_to(&[1, 2, 3, 6, 9, 18], params(ports));
    let one = written_to(&[1], params(1));
    assert_eq!(with(6), one, "six links, each as if it were alone");
    assert!(with(1) > 5 * one, "{} {one}", with(1));
    assert!(with(3) > with(6) && with(2) > with(3) && with(1) > with(2));
}

#[test]
fn a_fence_waits_for_all_ports() {
    let first_after = |fenced: bool| {
        let params = Params { ports: 8, ..Params::default() };
        let mut w =
            World::with(Config { params, ..Config::new("3x3x3".parse().unwrap()) }, &[port(0), port(1), port(3)]);
        w.must_post(port(0), Class::Put, bulk(port(1), 32_768));
        if fenced {
            w.must_post(port(0), Class::Sync, Op::Fence);
        }
        w.must_post(port(0), Class::Put, bulk(port(3), 256));
        w.finish();
        w.written(port(3))[0]
    };
    // The second write goes beside the first one, or when all of the first one's packets have been made.
    assert!(
        first_after(false) < 1_000_000 && first_after(true) > 2_000_000,
        "{} {}",
        first_after(false),
        first_after(true)
    );
}

#[test]
fn a_port_has_a_rate_of_its_own() {
    let slow = Params { port_flit: Some(FlitTime::of_rate(1_000)), ..Params::default() };
    let (fast, slow) = (arrival(Params::default(), bulk(port(1), 25_600)), arrival(slow, bulk(port(1), 25_600)));
    // 100 packets of 18 flits, 16 ns each; the last one streams out of the network at the port's rate, too.
    assert!(slow > 100 * 18 * 16_000 && slow > 2 * fast, "{slow} {fast}");
}
