//! Everything arrives once, intact, and in order per source, target and channel.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use angara_abi::packet::Vc;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Random writes between random nodes; each carries its number within its stream. Checks what arrived.
pub(crate) struct Streams {
    sent: BTreeMap<(Port, Port, Vc), u64>,
    posted: u64,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams { sent: BTreeMap::new(), posted: 0 }
    }
    /// Posts one write of random length. The payload starts with source, channel and number.
    pub(crate) fn post(
        &mut self,
        w: &mut World,
        dice: &mut Dice,
        from: Port,
        to: Port,
        vc: Vc,
        adaptive: bool,
    ) -> bool {
        let number = self.sent.entry((from, to, vc)).or_default();
        let len = 24 + dice.below(232) as usize;
        let mut bytes = vec![(*number % 251) as u8; len];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&from.node.to_le_bytes());
        bytes[12] = vc as u8;
        let op = Op::Write { to, place: heap(0), source: Source::Inline(&bytes), vc, adaptive };
        match w.post(from, Class::Put, op) {
            Ok(_) => {
                *number += 1;
                self.posted += 1;
                true
            }
            Err(InjectError::Busy | InjectError::Unreachable { .. }) => false,
            Err(e) => panic!("{e}"),
        }
    }
    /// Number of writes that arrived. Panics on loss (if `all`), duplication, damage, disorder.
    pub(crate) fn check(&self, w: &World, ordered: bool, all: bool) -> u64 {
        let mut seen: BTreeMap<(Port, Port, u8), Vec<u64>> = BTreeMap::new();
        for (effect, bytes) in w.effects.iter().zip(&w.data) {
            let Effect::Write { at, .. } = effect else { continue };
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let from = port(u32::from_le_bytes(bytes[8..12].try_into().unwrap()));
            assert!(bytes[24..].iter().all(|b| *b == (number % 251) as u8), "damaged payload");
            seen.entry((from, *at, bytes[12])).or_default().push(number);
        }
        let mut total = 0;
        for ((from, to, vc), count) in &self.sent {
            let mut numbers = seen.remove(&(*from, *to, *vc as u8)).unwrap_or_default();
            total += numbers.len() as u64;
            if ordered {
                assert!(numbers.is_sorted(), "{from:?}->{to:?} {vc:?} out of order: {numbers:?}");
            }
            numbers.sort_unstable();
            assert!(numbers.windows(2).all(|w| w[0] < w[1]), "{from:?}->{to:?} {vc:?} delivered twice");
            if all {
                assert_eq!(numbers.len() as u64, *count, "{from:?}->{to:?} {vc:?} lost packets");
            }
        }
        assert!(seen.is_empty(), "packets nobody sent");
        total
    }
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }
}

fn storm(shape: &str, seed: u64, writes: usize, adaptive: bool, params: Params) -> World {
    let mut config = Config::new(shape.parse().unwrap());
    config.params = Params { ports: ports_drawn(seed), ..params };
    let ports: Vec<Port> = (0..config.shape.nodes() as u32).map(port).collect();
    let mut w = World::with(config, &ports);
    let mut dice = Dice(seed);
    let mut streams = Streams::new();
    for _ in 0..writes {
        let (a, b) = (ports[dice.below(ports.len() as u64) as usize], ports[dice.below(ports.len() as u64) as usize]);
        let vc = [Vc::Request, Vc::Response][dice.below(2) as usize];
        while !streams.post(&mut w, &mut dice, a, b, vc, adaptive) {
            let to = w.fabric.now() + 200_000;
            w.fabric.advance(to);
            w.apply();
        }
    }
    w.finish();
    assert_eq!(streams.check(&w, !adaptive, true), writes as u64, "seed {seed}");
    w
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn deterministic_traffic_is_fifo_per_pair_and_channel(shape in 0..6usize, seed: u64) {
        let shape = ["8", "4x4", "2x2x2", "4x2x2x2", "3x3x4", "mesh:4x3"][shape];
        storm(shape, seed, 1500, false, Params::default());
    }

    #[test]
    fn adaptive_traffic_arrives_complete(shape in 0..5usize, seed: u64) {
        let shape = ["8", "4x4", "2x2x2", "3x3x4", "mesh:4x3"][shape];
        storm(shape, seed, 1500, true, Params::default());
    }
}

#[test]
fn full_rings_with_the_smallest_buffers_do_not_deadlock() {
    // Everyone sends to the node half a ring away: the case bubble flow control exists for.
    for slots in [2, 3] {
        let params = Params { slots, ..Params::default() };
        for seed in 0..8 {
            storm("8", seed, 2000, false, params);
            storm("4x4", seed, 2000, false, params);
            storm("4x4", seed, 2000, true, params);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || storm("3x3x4", 11, 800, true, Params::default());
    let (a, b) = (run(), run());
    assert_eq!(a.effects.len(), b.effects.len());
    assert!(a.effects.iter().zip(&b.effects).all(|(x, y)| match (x, y) {
        (Effect::Write { at: p, time: t, .. }, Effect::Write { at: q, time: u, .. }) => (p, t) == (q, u),
        _ => false,
    }));
}

/// 200 writes on vc1 between nodes of 16.
fn load(w: &mut World, dice: &mut Dice) {
    let mut noise = Streams::new();
    for _ in 0..200 {
        let (a, b) = (port(dice.below(16) as u32), port(1 + dice.below(15) as u32));
        noise.post(w, dice, a, b, Vc::Request, false);
    }
}

#[test]
fn a_fence_orders_across_channels() {
    for seed in 0..20 {
        let mut w = World::new("4x4");
        let mut dice = Dice(seed);
        // Load on the way, then: adaptive and vc0 writes, a fence, one vc1 write that must come last.
        load(&mut w, &mut dice);
        let (from, to) = (port(0), port(10));
        for i in 0..30u64 {
            let source = Source::Inline(&[1; 200]);
            let vc = [Vc::Request, Vc::Response][(i % 2) as usize];
            w.must_post(from, Class::Put, Op::Write { to, place: heap(1000), source, vc, adaptive: i % 3 == 0 });
        }
        let fence = w.must_post(from, Class::Sync, Op::Fence);
        w.must_post(
            from,
            Class::Put,
            Op::Write { to, place: heap(2000), source: Source::Inline(&[2]), vc: Vc::Response, adaptive: true },
        );
        w.finish();
        let at = |offset: u64| times(&w, to, offset);
        let fenced = w.completions.iter().find(|c| c.tag == fence).unwrap();
        assert_eq!(fenced.state, OpState::Complete);
        assert_eq!(at(1000).len(), 30);
        assert!(at(1000).iter().all(|t| *t <= fenced.time), "seed {seed}");
        assert!(at(2000)[0] > fenced.time, "seed {seed}");
    }
}

/// When the writes to `offset` of `to` were done.
fn times(w: &World, to: Port, offset: u64) -> Vec<Tick> {
    let time = |e: &Effect| match e {
        Effect::Write { at, place, time, .. } if *at == to && place.offset == offset => Some(*time),
        _ => None,
    };
    w.effects.iter().filter_map(time).collect()
}

/// Writes on vc1 to two targets, a fence, and one write to each that goes another way or not.
#[test]
fn a_fence_is_free_where_nothing_overtakes_and_holds_what_could() {
    for (seed, vc, adaptive) in
        (0..20).flat_map(|s| [(s, Vc::Request, false), (s, Vc::Response, false), (s, Vc::Request, true)])
    {
        let mut w = World::new("4x4");
        let mut dice = Dice(seed);
        load(&mut w, &mut dice);
        let (from, targets) = (port(0), [port(10), port(1)]);
        for (i, to) in (0..30).flat_map(|i| targets.map(|to| (i, to))) {
            let source = Source::Inline(&[1; 200][..1 + 6 * i]);
            w.must_post(
                from,
                Class::Put,
                Op::Write { to, place: heap(1000), source, vc: Vc::Request, adaptive: false },
            );
        }
        let fence = w.must_post(from, Class::Sync, Op::Fence);
        for to in targets {
            let source = Source::Inline(&[2]);
            w.must_post(from, Class::Put, Op::Write { to, place: heap(2000), source, vc, adaptive });
        }
        w.finish();
        let fenced = w.completions.iter().find(|c| c.tag == fence).unwrap();
        let last = targets.map(|to| *times(&w, to, 1000).iter().max().unwrap());
        assert!(fenced.time < last[0].min(last[1]), "seed {seed}: the fence waited until {}", fenced.time);
        for (to, last) in targets.into_iter().zip(last) {
            assert_eq!(times(&w, to, 1000).len(), 30);
            assert!(times(&w, to, 2000)[0] > last, "seed {seed}, {vc:?}, adaptive {adaptive}");
        }
    }
}

/// Random writes, atomics, reads, fences and flushes of some ports of a loaded network.
fn fences_and_flushes(seed: u64, params: Params) -> World {
    let params = Params { ports: ports_drawn(seed), ..params };
    let mut w =
        World::with(Config { params, ..Config::new("4x4".parse().unwrap()) }, &(0..16).map(port).collect::<Vec<_>>());
    let mut dice = Dice(seed);
    load(&mut w, &mut dice);
    for _ in 0..400 {
        let (from, to) = (port(dice.below(4) as u32), port(4 + dice.below(12) as u32));
        let (bytes, place) = ([1; 256], heap(0));
        let source = Source::Inline(&bytes[..1 + dice.below(256) as usize]);
        let op = match dice.below(10) {
            0 | 1 => Op::Fence,
            2 => Op::Flush { to, remote: place, local: heap(64) },
            3 => Op::Amo { to, place, op: AmoOp::Add, width: 8, operand: 1, comparand: 0, result: None },
            4 => Op::Read { to, remote: place, local: heap(128), len: 700 },
            5 => Op::Write { to, place, source, vc: Vc::Response, adaptive: false },
            6 => Op::Write { to, place, source, vc: Vc::Request, adaptive: true },
            _ => Op::Write { to, place, source, vc: Vc::Request, adaptive: false },
        };
        w.must_post(from, Class::Put, op);
    }
    w.finish();
    w
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fences_and_flushes_keep_what_they_promise(seed: u64, adaptive: bool, delivered: bool, slots in 2..9u16) {
        let quiet = if delivered { Quiet::Delivered } else { Quiet::Read };
        let w = fences_and_flushes(seed, Params { adaptive, quiet, slots, ..Params::default() });
        let check = w.fabric.order_check(JOB);
        prop_assert!(check.held() && check.checked > 50, "{:?}", check);
    }
}

#[test]
fn the_model_notices_a_fence_or_flush_that_does_not_wait() {
    crate::adapter::heedless(true);
    let (mut overtaken, mut unfinished) = (0, 0);
    for (seed, quiet) in (0..10).flat_map(|seed| [(seed, Quiet::Read), (seed, Quiet::Delivered)]) {
        let params = Params { adaptive: true, quiet, ..Params::default() };
        let check = fences_and_flushes(seed, params).fabric.order_check(JOB);
        (overtaken, unfinished) = (overtaken + check.overtaken, unfinished + check.unfinished);
    }
    crate::adapter::heedless(false);
    assert!(overtaken > 0 && unfinished > 0, "{overtaken} {unfinished}");
}

#[test]
fn long_writes_and_reads_arrive_whole() {
    let mut dice = Dice(3);
    for len in [1usize, 255, 256, 257, 4096, 32_768, 32_769, 60_000] {
        let mut w = World::new("2x2x2");
        let data = dice.bytes(len);
        w.memory.get_mut(&port(0)).unwrap()[..len].copy_from_slice(&data);
        let source = Source::Memory { place: heap(0), len: len as u32 };
        let write = Op::Write { to: port(7), place: heap(64), source, vc: Vc::Request, adaptive: false };
        let put = w.must_post(port(0), Class::Put, write);
        // A read behind the write on vc1 sees it: this is quiet.
        let get = w.must_post(
            port(0),
            Class::Get,
            Op::Read { to: port(7), remote: heap(64), local: heap(65_536), len: len as u32 },
        );
        w.finish();
        assert_eq!(w.memory[&port(7)][64..64 + len], data);
        assert_eq!(w.memory[&port(0)][65_536..65_536 + len], data, "{len}");
        assert_eq!(w.states(put), [OpState::Copied, OpState::Injected]);
        assert_eq!(w.states(get), [OpState::Complete]);
    }
}

#[test]
fn refused_memory_fails_the_operation_and_nothing_else() {
    let mut w = World::new("2x2x2");
    let read = Op::Read { to: port(3), remote: heap(0), local: heap(0), len: 100_000 };
    let get = w.must_post(port(0), Class::Get, read);
    let source = Source::Memory { place: heap(0), len: 1000 };
    let write = Op::Write { to: port(3), place: heap(0), source, vc: Vc::Request, adaptive: false };
    let put = w.must_post(port(1), Class::Put, write);
    loop {
        w.fabric.run_free();
        let mut any = false;
        while let Some(effect) = w.fabric.poll_effect() {
            any = true;
            if let Effect::Fetch { token, .. } = effect {
                w.fabric.refuse(token);
            }
        }
        while let Some(c) = w.fabric.poll_completion() {
            w.completions.push(c);
        }
        if !any {
            break;
        }
    }
    assert_eq!(w.states(get), [OpState::Failed(OpFault::Refused)]);
    assert_eq!(w.states(put), [OpState::Failed(OpFault::Refused)]);
    w.put(port(0), port(3), 0, &[5; 8]);
    let read = Op::Read { to: port(3), remote: heap(0), local: heap(64), len: 8 };
    let again = w.must_post(port(0), Class::Get, read);
    w.finish();
    assert_eq!(w.states(again), [OpState::Complete]);
    assert_eq!(w.memory[&port(0)][64], 5);
}

#[test]
fn a_closed_job_leaves_nothing_behind_and_disturbs_nobody() {
    for stop in (0..3_000_000).step_by(170_000) {
        let config = Config::new("4x2".parse().unwrap());
        let mine: Vec<Port> = (0..8).map(port).collect();
        let theirs: Vec<Port> = (0..8).map(|node| Port { node, endpoint: 1 }).collect();
        let (mut w, other) = (World::with(config, &mine), JobSlot::new(7));
        w.fabric.open_job(other, &theirs).unwrap();
        let mut dice = Dice(stop);
        let mut streams = Streams::new();
        for i in 0..60u64 {
            let (a, b) = (theirs[(i % 8) as usize], theirs[(i * 5 % 8) as usize]);
            let write =
                Op::Write { to: b, place: heap(0), source: Source::Inline(&[9; 256]), vc: Vc::Request, adaptive: true };
            w.fabric.inject(a, other, Class::Put, write, 0, i).unwrap();
            let read = Op::Read { to: b, remote: heap(0), local: heap(0), len: 1000 };
            w.fabric.inject(a, other, Class::Get, read, 0, i).unwrap();
            streams.post(&mut w, &mut dice, mine[(i % 8) as usize], mine[(i * 3 % 8) as usize], Vc::Request, false);
        }
        for p in &theirs {
            w.fabric.inject(*p, other, Class::Sync, Op::Barrier { half: false }, 0, 99).unwrap();
        }
        w.fabric.advance(stop);
        w.fabric.close_job(other);
        let mut stale = 0;
        loop {
            w.fabric.run_free();
            let mut any = false;
            while let Some(effect) = w.fabric.poll_effect() {
                any = true;
                match effect {
                    Effect::Write { job: JOB, data, .. } => {
                        w.data.push(w.fabric.payload(data).to_vec());
                        w.effects.push(effect);
                    }
                    Effect::Fetch { token, .. } => w.fabric.supply(token, &[]),
                    _ => stale += 1,
                }
            }
            if !any {
                break;
            }
        }
        assert!(stale <= 120, "effects that were queued before the job closed");
        assert_eq!(streams.check(&w, true, true), streams.posted());
        assert_eq!(w.fabric.in_flight(), (0, 0), "closed at {stop}");
        w.fabric.open_job(other, &theirs).unwrap();
        let tag = w.put(mine[0], mine[1], 0, &[1; 24]);
        w.finish();
        assert!(w.states(tag).contains(&OpState::Injected));
    }
}
