//! Barriers: nobody leaves early, no packet arrives late, several at once, faults on the way.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::fault::Fault;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A run of `rounds` barriers: before each, every port sends writes (and reads and fetching atomics if
/// `full`) to random members, adaptive ones among them. Returns (early exits, late arrivals); the
/// model's own check must have seen them too.
fn rounds(config: Config, ports: &[Port], half: bool, seed: u64, rounds: u64, short_by: u32) -> (u64, u64) {
    rounds_of(BarrierFamily::Multiphase, config, ports, half, seed, rounds, short_by)
}

fn rounds_of(
    family: BarrierFamily,
    config: Config,
    ports: &[Port],
    half: bool,
    seed: u64,
    rounds: u64,
    short_by: u32,
) -> (u64, u64) {
    let nodes = ports.iter().map(|p| p.node).collect::<std::collections::BTreeSet<_>>().len() as u64;
    let params = Params { ports: ports_drawn(seed), ..config.params };
    let mut w = World::with(Config { params, ..config }, ports);
    w.fabric.set_barrier_family(JOB, family).unwrap();
    w.fabric.shorten_barrier(JOB, short_by);
    let mut dice = Dice(seed);
    let mut early = 0;
    let mut late = 0;
    let mut round_of: BTreeMap<Port, u64> = ports.iter().map(|p| (*p, 0)).collect();
    let mut entered: BTreeMap<u64, u64> = BTreeMap::new();
    for p in ports {
        post_round(&mut w, &mut dice, ports, *p, 0, half);
    }
    while round_of.values().any(|r| *r < rounds) {
        let before = w.effects.len();
        let Some(next) = w.fabric.poll_timeout() else { panic!("stuck, seed {seed}") };
        w.fabric.advance(next);
        w.apply();
        for i in before..w.effects.len() {
            // A write of round r may not arrive at a port that has already left barrier r.
            if let Effect::Write { at, .. } = w.effects[i]
                && w.data[i].len() == 40
                && u64::from_le_bytes(w.data[i][..8].try_into().unwrap()) < round_of[&at]
            {
                late += 1;
            }
        }
        for c in std::mem::take(&mut w.completions) {
            let round = c.tag / 1000;
            if c.tag % 1000 == 1 {
                *entered.entry(round).or_default() += 1; // everything before the barrier is injected
            }
            if c.tag % 1000 == 2 {
                assert_eq!(c.state, OpState::Complete, "seed {seed}");
                if entered.get(&round).copied().unwrap_or(0) < ports.len() as u64 {
                    early += 1;
                }
                *round_of.get_mut(&c.from).unwrap() = round + 1;
                if round + 1 < rounds {
                    post_round(&mut w, &mut dice, ports, c.from, round + 1, half);
                }
            }
        }
    }
    w.finish();
    let check = w.fabric.barrier_check(JOB);
    assert_eq!(check.left, nodes * rounds, "{family} seed {seed}");
    assert!(check.late >= late, "{family} seed {seed}: the model sees every kind of packet");
    assert!(check.early <= early, "{family} seed {seed}: {check:?}");
    assert_eq!(check.held(), w.errors().is_empty(), "{family} seed {seed}: {:?}", w.errors());
    (early, late)
}

fn post_round(w: &mut World, dice: &mut Dice, ports: &[Port], from: Port, round: u64, half: bool) {
    // Ports reach the barrier at very different times.
    let mut issue = w.fabric.now() + dice.below(4_000_000);
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&round.to_le_bytes());
    for i in 0..8 {
        issue += dice.below(20_000);
        let to = ports[dice.below(ports.len() as u64) as usize];
        let vc = [Vc::Request, Vc::Response][(i % 2) as usize];
        let op = Op::Write { to, place: heap(0), source: Source::Inline(&bytes), vc, adaptive: dice.below(3) == 0 };
        w.fabric.inject(from, JOB, Class::Put, op, issue, round * 1000).unwrap();
        if !half && i % 4 == 0 {
            let op = Op::Read { to, remote: heap(64), local: heap(64), len: 700 };
            w.fabric.inject(from, JOB, Class::Get, op, issue, round * 1000 + 3).unwrap();
            let (op, place, result) = (angara_abi::desc::AmoOp::Fetch, heap(128), Some(heap(136)));
            let op = Op::Amo { to, place, op, width: 8, operand: 0, comparand: 0, result };
            w.fabric.inject(from, JOB, Class::Amo, op, issue, round * 1000 + 3).unwrap();
        }
    }
    // A fetching atomic to oneself shows when this port has reached its barrier.
    let op = Op::Write { to: from, place: heap(0), source: Source::Inline(&[0; 1]), vc: Vc::Request, adaptive: false };
    w.fabric.inject(from, JOB, Class::Sync, op, issue, round * 1000 + 1).unwrap();
    w.fabric.inject(from, JOB, Class::Sync, Op::Barrier { half }, issue, round * 1000 + 2).unwrap();
}

fn one_port_each(shape: &str) -> (Config, Vec<Port>) {
    let config = Config::new(shape.parse().unwrap());
    let ports = (0..config.shape.nodes() as u32).map(port).collect();
    (config, ports)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn nobody_leaves_early_and_nothing_arrives_late(shape in 0..7usize, half: bool, seed: u64) {
        let shape = ["8", "4x4", "2x2x2", "3x3", "4x2x2x2", "mesh:3x2", "2"][shape];
        let (config, ports) = one_port_each(shape);
        prop_assert_eq!(rounds(config, &ports, half, seed, 4, 0), (0, 0));
    }

    #[test]
    fn every_family_keeps_the_guarantees(family in 0..6usize, shape in 0..7usize, half: bool, seed: u64) {
        let shape = ["8", "4x4", "2x2x2", "3x3", "4x2x2x2", "mesh:3x2", "2"][shape];
        let (config, ports) = one_port_each(shape);
        prop_assert_eq!(rounds_of(BarrierFamily::ALL[family], config, &ports, half, seed, 5, 0), (0, 0));
    }

    #[test]
    fn subsets_with_transit_nodes_and_several_ports_per_node(family in 0..6usize, half: bool, seed: u64) {
        let config = Config::new("4x4x2".parse().unwrap());
        let mut dice = Dice(seed);
        let nodes: Vec<u32> = (0..32).filter(|_| dice.below(4) == 0).collect();
        let mut ports: Vec<Port> = Vec::new();
        for node in nodes {
            ports.extend((0..1 + dice.below(3) as u16).map(|endpoint| Port { node, endpoint }));
        }
        if !ports.is_empty() {
            prop_assert_eq!(rounds_of(BarrierFamily::ALL[family], config, &ports, half, seed, 4, 0), (0, 0));
        }
    }
}

#[test]
fn one_phase_less_is_not_enough() {
    // Lemma 2 with phases from 0: a packet meets phase n - 1 at most at its nth hop. `rounds` asserts
    // that the model's own check sees what arrives late.
    let (mut early, mut late) = (0, 0);
    for seed in 0..12 {
        let (config, ports) = one_port_each("8");
        let (e, l) = rounds(config, &ports, true, seed, 4, 1);
        early += e;
        late += l;
    }
    assert!(early > 0 && late > 0, "K-1 phases: {early} early exits, {late} late packets");
}

#[test]
fn an_idle_barrier_takes_the_time_of_the_cost_model() {
    // Paper 001: T = K(lat_hop + lat_inc) + lat_inj + lat_ej.
    for (shape, k) in [("2x2x2", 3), ("4x4x4", 6)] {
        let (config, ports) = one_port_each(shape);
        let mut w = World::with(config, &ports);
        for p in &ports {
            w.must_post(*p, Class::Sync, Op::Barrier { half: true });
        }
        w.finish();
        assert_eq!(w.fabric.longest_route(JOB), k);
        let done = w.completions.iter().map(|c| c.time).max().unwrap();
        assert_eq!(done, k as u64 * 139_000 + 600_000, "{shape}");
    }
}

/// Time of one barrier of `family` on an idle network, with one port per node.
fn idle(family: BarrierFamily, shape: &str, half: bool) -> Tick {
    let (config, ports) = one_port_each(shape);
    let mut w = World::with(config, &ports);
    w.fabric.set_barrier_family(JOB, family).unwrap();
    for p in &ports {
        w.must_post(*p, Class::Sync, Op::Barrier { half });
    }
    w.finish();
    assert!(w.fabric.barrier_check(JOB).held());
    w.completions.iter().map(|c| c.time).max().unwrap()
}

#[test]
fn idle_times_of_the_other_families_follow_from_their_messages() {
    // Host to adapter and back; a message pays its two flits at the ejector (4 ns) and 129 ns a hop.
    let (host, hop, message) = (600_000, 129_000, 4_267);
    let step = |hops: u64| hops * hop + message;
    // 8 nodes in a cube: a round of the hypercube and an edge of the tree are one hop each.
    assert_eq!(idle(BarrierFamily::Hypercube, "2x2x2", true), host + 3 * step(1));
    let tree = idle(BarrierFamily::Tree, "2x2x2", true);
    assert!((host + 6 * step(1)..host + 6 * step(1) + 12 * 4_267).contains(&tree), "{tree}");
    let master = idle(BarrierFamily::Master, "2x2x2", true);
    assert!((host + 2 * step(3)..host + 2 * step(3) + 14 * 4_267).contains(&master), "{master}");
    // All-to-all: formula (1), bound by the injector; the last message goes K hops. The excess is the
    // wait for slots: a link has 4 of them, each back after 213 ns, and entering a ring takes 2.
    for (shape, n, k) in [("2x2x2", 8, 3), ("4x4x4", 64, 6)] {
        let bound = (n - 1) * 4_000 + k * hop + host;
        let half = idle(BarrierFamily::AllToAll, shape, true);
        assert!(half >= bound, "{shape}: {half} ps, bound {bound}");
        let full = idle(BarrierFamily::AllToAll, shape, false);
        assert!(full > half + bound - host, "{shape}: two halves, {full} ps");
        assert!(idle(BarrierFamily::Counting, shape, true) >= bound, "{shape}: an announcement has a flit more");
    }
}

#[test]
fn families_that_rest_on_acknowledgements_wait_for_them() {
    for family in [BarrierFamily::Master, BarrierFamily::Tree, BarrierFamily::Hypercube] {
        let (config, ports) = one_port_each("8");
        let mut w = World::with(config, &ports);
        w.fabric.set_barrier_family(JOB, family).unwrap();
        w.put(port(0), port(4), 0, &[1; 8]);
        for p in &ports {
            w.must_post(*p, Class::Sync, Op::Barrier { half: true });
        }
        w.finish();
        // There and back over four hops before node 0 enters.
        let least = 600_000 + 2 * 4 * 129_000 + 600_000;
        assert!(w.completions.iter().filter(|c| c.state == OpState::Complete).all(|c| c.time > least), "{family}");
    }
}

#[test]
fn the_family_is_chosen_before_the_first_barrier() {
    let mut w = World::new("2");
    let closed = JobSlot::new(3);
    assert_eq!(w.fabric.set_barrier_family(closed, BarrierFamily::Tree), Err(JobError::NotOpen(closed)));
    w.fabric.set_barrier_family(JOB, BarrierFamily::Counting).unwrap();
    w.fabric.set_barrier_family(JOB, BarrierFamily::Tree).unwrap();
    assert_eq!(w.fabric.barrier_family(JOB), BarrierFamily::Tree);
    w.must_post(port(0), Class::Sync, Op::Barrier { half: true });
    w.settle();
    assert_eq!(w.fabric.set_barrier_family(JOB, BarrierFamily::Master), Err(JobError::BarrierUsed(JOB)));
    assert!("trees".parse::<BarrierFamily>().unwrap_err().contains("multiphase, all-to-all"));
    assert!(BarrierFamily::ALL.iter().all(|f| f.name().parse() == Ok(*f)));
}

#[test]
fn a_group_of_one_node_leaves_without_the_network() {
    let config = Config::new("4x2".parse().unwrap());
    let ports: Vec<Port> = (0..3).map(|endpoint| Port { node: 5, endpoint }).collect();
    let mut w = World::with(config, &ports);
    for p in &ports[..2] {
        w.must_post(*p, Class::Sync, Op::Barrier { half: false });
    }
    w.settle();
    assert!(w.completions.is_empty(), "the third port has not entered");
    w.must_post(ports[2], Class::Sync, Op::Barrier { half: false });
    w.finish();
    assert_eq!(w.completions.len(), 3);
    assert_eq!(w.sent(Class::Sync).packets, 0);
}

#[test]
fn specials_are_counted_as_sync_traffic() {
    // One special per phase, link and direction: 2 dimensions, 16 nodes, K = 4.
    let mut w = World::new("4x4");
    for p in 0..16 {
        w.must_post(port(p), Class::Sync, Op::Barrier { half: true });
    }
    w.finish();
    let sent = w.sent(Class::Sync);
    assert_eq!((sent.packets, sent.flits, sent.bytes), (4 * 16 * 4, 2 * 4 * 16 * 4, 0));
}

#[test]
fn barriers_of_several_jobs_do_not_mix() {
    let config = Config::new("4x2x2".parse().unwrap());
    let all = |endpoint| (0..16).map(move |node| Port { node, endpoint }).collect::<Vec<_>>();
    let mut w = World::with(config, &all(0));
    w.fabric.open_job(JobSlot::new(1), &all(1)).unwrap();
    w.fabric.open_job(JobSlot::new(2), &[Port { node: 0, endpoint: 2 }, Port { node: 15, endpoint: 2 }]).unwrap();
    // Each has the endpoints of its number.
    let enter = |w: &mut World, job: u16, node: u32, half: bool| {
        let op = Op::Barrier { half };
        w.fabric.inject(Port { node, endpoint: job }, JobSlot::new(job), Class::Sync, op, 0, job.into()).unwrap();
    };
    for node in 0..15 {
        enter(&mut w, 0, node, false);
        enter(&mut w, 1, node, true);
    }
    enter(&mut w, 2, 0, false);
    enter(&mut w, 2, 15, false);
    w.settle();
    let left = |w: &World, job| w.completions.iter().filter(|c| c.job == JobSlot::new(job)).count();
    assert_eq!((left(&w, 0), left(&w, 1), left(&w, 2)), (0, 0, 2));
    enter(&mut w, 1, 15, true);
    w.settle();
    assert_eq!((left(&w, 0), left(&w, 1)), (0, 16));
    enter(&mut w, 0, 15, false);
    w.finish();
    assert_eq!(left(&w, 0), 16);
}

#[test]
fn a_route_change_during_a_barrier_neither_hangs_nor_frees_anyone_early() {
    for (at, family) in (0..3_000_000).step_by(90_000).flat_map(|at| BarrierFamily::ALL.map(|f| (at, f))) {
        for full in [false, true] {
            let mut w = World::new("4x2x2");
            w.fabric.set_barrier_family(JOB, family).unwrap();
            let link = Link { node: 1, dir: angara_net::torus::Direction::new(0, true) };
            w.fabric.set_fault(Fault::link_down(link).at(at)).unwrap();
            for node in 0..15 {
                w.must_post(port(node), Class::Sync, Op::Barrier { half: !full });
                w.must_post(port(node), Class::Sync, Op::Barrier { half: !full });
            }
            w.must_post(port(15), Class::Sync, Op::Fence);
            let late = 1_000_000;
            for tag in [500, 501] {
                let op = Op::Barrier { half: !full };
                w.fabric.inject(port(15), JOB, Class::Sync, op, late, tag).unwrap();
            }
            w.finish();
            let barriers: Vec<_> = w.completions.iter().filter(|c| c.from != port(15) || c.tag >= 500).collect();
            assert_eq!(barriers.len(), 32, "{family}, fault at {at}");
            assert!(w.fabric.barrier_check(JOB).held(), "{family}, fault at {at}: {:?}", w.errors());
            assert!(barriers.iter().all(|c| c.state == OpState::Complete && c.time > late));
        }
    }
}

#[test]
fn a_route_change_behind_data_under_way_does_not_make_a_barrier_forget_it() {
    for (at, family) in (0..2_000_000).step_by(200_000).flat_map(|at| BarrierFamily::ALL.map(|f| (at, f))) {
        for half in [false, true] {
            let mut w = World::new("4x4");
            w.fabric.set_barrier_family(JOB, family).unwrap();
            let link = Link { node: 0, dir: angara_net::torus::Direction::new(0, true) };
            w.fabric.set_fault(Fault::link_down(link).at(at)).unwrap();
            for round in 0..3 {
                for node in 0..16 {
                    for to in [node ^ 1, (node + 5) % 16, (node + 15) % 16] {
                        w.put(port(node), port(to), 64 * node as u64, &[round; 40]);
                    }
                    w.must_post(port(node), Class::Sync, Op::Barrier { half });
                }
            }
            w.finish();
            let check = w.fabric.barrier_check(JOB);
            assert_eq!(check.left, 3 * 16, "{family}, half {half}, fault at {at}");
            assert!(check.held(), "{family}, half {half}, fault at {at}: {check:?}");
        }
    }
}

#[test]
fn a_barrier_whose_members_are_cut_off_fails_by_name() {
    BarrierFamily::ALL.into_iter().for_each(cut_off_by_name);
}

fn cut_off_by_name(family: BarrierFamily) {
    let mut w = World::new("mesh:4");
    w.fabric.set_barrier_family(JOB, family).unwrap();
    let link = Link { node: 1, dir: angara_net::torus::Direction::new(0, true) };
    w.must_post(port(0), Class::Sync, Op::Barrier { half: false });
    w.settle();
    w.fabric.set_fault(Fault::link_down(link)).unwrap();
    let tag = w.must_post(port(2), Class::Sync, Op::Barrier { half: false });
    w.finish();
    let failed = OpState::Failed(OpFault::Barrier(Outage::Link(link)));
    assert_eq!(w.completions.iter().map(|c| c.state).collect::<Vec<_>>(), [failed; 2]);
    assert_eq!(w.states(tag), [failed]);
}

/// Returns what a full barrier on an idle network puts on links.
fn counted(shape: &str, nodes: &[u32], family: BarrierFamily) -> u64 {
    let ports: Vec<Port> = nodes.iter().map(|n| port(*n)).collect();
    let mut w = World::with(Config::new(shape.parse().unwrap()), &ports);
    w.fabric.set_barrier_family(JOB, family).unwrap();
    for p in &ports {
        w.must_post(*p, Class::Sync, Op::Barrier { half: false });
    }
    w.finish();
    assert!(w.fabric.barrier_check(JOB).held());
    w.sent(Class::Sync).packets
}

#[test]
fn the_foretold_work_of_a_barrier_is_what_its_links_carry() {
    let jobs: [(&str, &[u32]); 9] = [
        ("4", &[2]),
        ("4", &[0, 1]),
        ("4x4", &[0, 10]),
        ("5x3", &[0, 4, 7, 12]),
        ("mesh:4x4", &[0, 3, 9, 15]),
        ("2x2x2", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("3x4x2", &[1, 6, 20]),
        ("8x8x8", &[3, 77, 130, 259, 301, 388, 400, 511]),
        ("3x2x2x2", &[0, 5, 23]),
    ];
    for (shape, nodes) in jobs {
        let work = BarrierWork::new(shape.parse().unwrap(), nodes);
        let counted = (counted(shape, nodes, BarrierFamily::Multiphase), counted(shape, nodes, BarrierFamily::Tree));
        assert_eq!((work.multiphase, work.tree), counted, "{shape} {nodes:?}: foretold left, counted right");
    }
}

#[test]
fn neighbours_keep_the_multiphase_barrier_and_scattered_jobs_take_a_tree() {
    use BarrierFamily::{Multiphase, Tree};
    // Eight random nodes of 16x16x16, and a corner of it.
    let far = [17, 700, 1203, 1999, 2345, 3010, 3500, 4001];
    let near = [0, 1, 16, 17, 256, 257, 272, 273];
    let all = |n: u32| (0..n).collect::<Vec<u32>>();
    let jobs: [(&str, Vec<u32>, BarrierFamily); 13] = [
        ("1", vec![0; 8], Multiphase),
        ("2", all(2), Multiphase),
        ("4", all(4), Multiphase),
        ("2x2x2", all(8), Multiphase),
        ("2x2x2", [all(8), all(8)].concat(), Multiphase),
        ("4x2", all(8), Multiphase),
        ("16x16x16", near.to_vec(), Multiphase),
        ("16x16x16", vec![0, 1], Multiphase),
        ("16x16x16", vec![0, 2184], Tree),
        ("16x16x16", far.to_vec(), Tree),
        ("4x4x4", all(64), Multiphase),
        ("8x8x4", all(256), Tree),
        ("32x32x32", (0..512).map(|i| i * 64).collect(), Tree),
    ];
    for (shape, nodes, wanted) in jobs {
        let work = BarrierWork::new(shape.parse().unwrap(), &nodes);
        assert_eq!(work.choice(), wanted, "{shape}, {} PEs: {work:?}", nodes.len());
    }
}
