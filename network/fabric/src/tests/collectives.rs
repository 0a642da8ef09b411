//! Trees and what runs on them.

use super::driver::*;
use crate::collective::{build, validate};
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::{ReduceElem, ReduceOp};
use angara_net::fault::Fault;
use angara_net::torus::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn all(nodes: u32) -> Vec<Port> {
    (0..nodes).map(port).collect()
}

fn sum(tree: u8, s: u64, to: Option<Port>, values: &[u8]) -> Op<Source<'_>> {
    let (op, elem, place) = (ReduceOp::Sum, ReduceElem::I64, heap(256 * (s % 64)));
    Op::Reduce { tree, reduce: (s % 16) as u8, op, elem, to, place, source: Source::Inline(values) }
}

#[test]
fn built_trees_are_valid_for_any_root_and_any_members() {
    for shape in ["2", "8", "4x4", "2x2x2", "3x3x4", "4x2x2x2", "mesh:3x4x2"] {
        let f = Fabric::new(Config::new(shape.parse().unwrap())).unwrap();
        let n = f.shape().nodes() as u32;
        let mut dice = Dice(1);
        for root in 0..n {
            for _ in 0..6 {
                let mut members: Vec<Port> = all(n).into_iter().filter(|_| dice.below(3) == 0).collect();
                members.push(Port { node: dice.below(n as u64) as u32, endpoint: 3 });
                let rows = build(f.routes(), root, &members).unwrap();
                validate(&f.shape(), &rows).unwrap();
                assert_eq!(rows.rows.iter().map(|r| r.1.contributors as usize).sum::<usize>(), members.len());
            }
        }
    }
}

#[test]
fn trees_avoid_dead_links() {
    let mut f = Fabric::new(Config::new("4x4".parse().unwrap())).unwrap();
    let dead = Link { node: 0, dir: Direction::new(0, true) };
    f.set_fault(Fault::link_down(dead)).unwrap();
    for root in 0..16 {
        let rows = build(f.routes(), root, &all(16)).unwrap();
        validate(&f.shape(), &rows).unwrap();
        for (node, row) in &rows.rows {
            assert!(row.to_root.is_none_or(|dir| f.routes().link_up(Link { node: *node, dir })));
        }
    }
}

#[test]
fn the_validator_finds_every_kind_of_mistake() {
    let shape = "4x4".parse().unwrap();
    let f = Fabric::new(Config::new(shape)).unwrap();
    let good = build(f.routes(), 5, &all(16)).unwrap();
    validate(&shape, &good).unwrap();
    let broken = |change: &dyn Fn(&mut TreeRow), node: NodeIdAlias| {
        let mut rows = good.clone();
        change(&mut rows.rows.iter_mut().find(|r| r.0 == node).unwrap().1);
        validate(&shape, &rows).unwrap_err()
    };
    type NodeIdAlias = u32;
    let plus_x = Direction::new(0, true);
    assert!(matches!(broken(&|r| r.is_root = true, 0), TreeError::TwoRoots { first: 0, node: 5 }), "(a)");
    assert!(matches!(broken(&|r| r.is_root = false, 5), TreeError::NoRoot), "(a)");
    assert!(matches!(broken(&|r| r.to_root = Some(plus_x), 5), TreeError::RootParent(5)), "(g)");
    assert!(matches!(broken(&|r| r.down_sum += 1, 5), TreeError::Count(5)), "(f)");
    assert!(matches!(broken(&|r| (r.down, r.down_sum) = (0, 0), 5), TreeError::Parent { .. }), "(d)");
    let down = |r: &mut TreeRow| (r.down, r.down_sum) = (r.down | plus_x.opposite().bit() | plus_x.bit(), 2);
    let leaf = good.rows.iter().find(|r| r.1.down == 0).unwrap().0;
    assert!(matches!(broken(&down, leaf), TreeError::Child { node, .. } if node == leaf), "(b)");
    assert!(matches!(broken(&|r| r.contributors = 2, 5), TreeError::Contributors(5)));
    assert!(matches!(broken(&|r| r.contributors = 0, leaf), TreeError::EmptyLeaf(_)), "(h)");
    // (b) and (e): a closed ring beside the tree, which the paper's three criteria accept.
    let mut ring = build(f.routes(), 0, &[port(0)]).unwrap();
    let minus_x = plus_x.opposite();
    for node in 4..8 {
        let row = TreeRow { to_root: Some(plus_x), down: minus_x.bit(), down_sum: 1, ..TreeRow::default() };
        ring.rows.push((node, row));
    }
    assert!(matches!(validate(&shape, &ring), Err(TreeError::Detached(_))), "(e)");
    // (c): X below Y.
    let y = Direction::new(1, true);
    let chain = [
        (0, TreeRow { is_root: true, down: y.bit(), down_sum: 1, ..TreeRow::default() }),
        (4, TreeRow { to_root: Some(y.opposite()), down: plus_x.bit(), down_sum: 1, ..TreeRow::default() }),
        (5, TreeRow { to_root: Some(minus_x), contributors: 1, ..TreeRow::default() }),
    ];
    let order = TreeRows { rows: chain.to_vec(), ports: vec![port(5)] };
    assert!(matches!(validate(&shape, &order), Err(TreeError::Order { node: 4, .. })), "(c)");
}

/// Results each port has seen on each tree, in order: (value, count).
fn results(w: &World) -> BTreeMap<(Port, u8), Vec<(i64, u64)>> {
    let mut seen: BTreeMap<(Port, u8), Vec<(i64, u64)>> = BTreeMap::new();
    for (effect, bytes) in w.effects.iter().zip(&w.data) {
        if let Effect::TreeResult { at, tree, bcast: false, count, .. } = effect {
            let value = i64::from_le_bytes(bytes[..8].try_into().unwrap());
            seen.entry((*at, *tree)).or_default().push((value, *count));
        }
    }
    seen
}

/// `total` all-reduces on each of `trees` trees, contributors posting at their own pace.
fn all_reduces(shape: &str, ports: &[Port], trees: u8, total: u64, seed: u64) {
    let params = Params { ports: ports_drawn(seed), ..Params::default() };
    let config = Config { params, ..Config::new(shape.parse().unwrap()) };
    let nodes = config.shape.nodes() as u64;
    let mut w = World::with(config, ports);
    let mut dice = Dice(seed);
    for tree in 0..trees {
        let rows = w.fabric.build_tree(dice.below(nodes) as u32, ports).unwrap();
        w.fabric.load_tree(tree, JOB, &rows).unwrap();
    }
    let mut posted: BTreeMap<(Port, u8), u64> = BTreeMap::new();
    let value =
        |p: &Port, tree: u8, s: u64| (p.node as i64 + 1) * (p.endpoint as i64 + 1) + s as i64 * 1000 + tree as i64;
    loop {
        let mut open = Vec::new();
        for p in ports {
            for tree in 0..trees {
                if posted.get(&(*p, tree)).copied().unwrap_or(0) < total {
                    open.push((*p, tree));
                }
            }
        }
        if open.is_empty() {
            break;
        }
        let (p, tree) = open[dice.below(open.len() as u64) as usize];
        // The driver's rule: at most 16 beyond the results seen.
        let seen = results(&w).get(&(p, tree)).map_or(0, Vec::len) as u64;
        for _ in 0..1 + dice.below(5) {
            if posted.get(&(p, tree)).copied().unwrap_or(0) >= seen + 16 {
                break;
            }
            let s = posted.entry((p, tree)).or_default();
            let bytes = value(&p, tree, *s).to_le_bytes();
            if *s < total && w.post(p, Class::Sync, sum(tree, *s, None, &bytes)).is_ok() {
                *posted.get_mut(&(p, tree)).unwrap() += 1;
            }
        }
        let to = w.fabric.now() + dice.below(300_000);
        w.fabric.advance(to);
        w.apply();
    }
    w.finish();
    assert!(w.errors().is_empty(), "{:?}", w.errors());
    let seen = results(&w);
    for tree in 0..trees {
        let want: Vec<(i64, u64)> =
            (0..total).map(|s| (ports.iter().map(|p| value(p, tree, s)).sum(), s + 1)).collect();
        for p in ports {
            assert_eq!(seen[&(*p, tree)], want, "seed {seed} tree {tree} {p:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_reduces_in_flight_on_several_trees(shape in 0..5usize, trees in 1..5u8, seed: u64) {
        let shape = ["2", "8", "4x4", "2x2x2", "4x2x2x2"][shape];
        let n = shape.parse::<angara_net::torus::Shape>().unwrap().nodes() as u32;
        all_reduces(shape, &all(n), trees, 40, seed);
    }

    #[test]
    fn several_contributors_per_node_and_transit_nodes(trees in 1..4u8, seed: u64) {
        let mut dice = Dice(seed);
        let mut ports = vec![Port { node: 3, endpoint: 1 }];
        for node in 0..16 {
            if dice.below(3) == 0 {
                ports.extend((2..3 + dice.below(3) as u16).map(|endpoint| Port { node, endpoint }));
            }
        }
        all_reduces("4x2x2", &ports, trees, 40, seed);
    }
}

#[test]
fn all_sixteen_trees_with_sixteen_reductions_each() {
    all_reduces("2x2x2", &all(8), 16, 48, 7);
}

#[test]
fn a_reduction_to_one_node_reaches_that_port_and_credits_the_others() {
    for receiver in [0, 5, 9] {
        let mut w = World::new("4x4");
        let rows = w.fabric.build_tree(5, &all(16)).unwrap();
        w.fabric.load_tree(3, JOB, &rows).unwrap();
        for s in 0..100u64 {
            for node in 0..16 {
                let bytes = (node as i64 + s as i64).to_le_bytes();
                w.must_post(port(node), Class::Sync, sum(3, s, Some(port(receiver)), &bytes));
            }
        }
        w.finish();
        let seen = results(&w);
        assert_eq!(seen.len(), 1);
        let want: Vec<(i64, u64)> = (0..100).map(|s| (120 + 16 * s, s as u64 + 1)).collect();
        assert_eq!(seen[&(port(receiver), 3)], want);
        let mut credits: BTreeMap<Port, u64> = BTreeMap::new();
        for e in &w.effects {
            if let Effect::TreeCredit { at, count, .. } = e {
                assert!(credits.insert(*at, *count).unwrap_or(0) < *count);
            }
        }
        for node in (0..16).filter(|n| *n != receiver) {
            assert_eq!(credits[&port(node)], 100, "node {node}");
        }
    }
}

/// Packets sent over the link from `node` towards `dir`.
fn crossed(w: &World, node: u32, dir: Direction) -> u64 {
    w.fabric.link_counters(Link { node, dir }).total().packets
}

/// Two nodes in a row, node 0 the root of tree 0, and the directions from 0 to 1 and back.
fn pair() -> (World, Direction, Direction) {
    let mut w = World::new("mesh:2");
    let rows = w.fabric.build_tree(0, &all(2)).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    let down = Direction::new(0, true);
    (w, down, down.opposite())
}

#[test]
fn children_get_a_credit_for_every_eighth_result() {
    let (mut w, down, up) = pair();
    for s in 0..43 {
        for node in 0..2 {
            // The result goes to the root's own host, so credits are all that goes down.
            w.must_post(port(node), Class::Sync, sum(0, s, Some(port(0)), &[1; 8]));
        }
    }
    w.finish();
    assert_eq!((crossed(&w, 1, up), crossed(&w, 0, down)), (43, 43 / 8));
}

#[test]
fn a_child_sends_sixteen_reductions_and_eight_more_per_credit() {
    let (mut w, _, up) = pair();
    for s in 0..40 {
        w.must_post(port(1), Class::Sync, sum(0, s, None, &[1; 8]));
    }
    // The root's own contributions decide how many are finished.
    for (finished, sent) in [(0, 16), (7, 16), (8, 24), (15, 24), (16, 32), (23, 32), (24, 40)] {
        let made = w.next_tag;
        for s in (made - 40)..finished {
            w.must_post(port(0), Class::Sync, sum(0, s, None, &[1; 8]));
        }
        w.settle();
        assert_eq!(crossed(&w, 1, up), sent, "{finished} finished");
    }
}

/// The processor's first credits at `at`: their time and the reductions they tell of.
fn first_credits(w: &World, at: Port) -> (Tick, u64) {
    let mut seen = (0, 0);
    for e in &w.effects {
        match e {
            Effect::TreeCredit { at: to, count, time, .. } if *to == at && (seen.0 == 0 || seen.0 == *time) => {
                seen = (*time, seen.1 + count);
            }
            _ => {}
        }
    }
    seen
}

#[test]
fn the_processor_is_told_after_128_results_over_all_trees() {
    let mut config = Config::new("mesh:2".parse().unwrap());
    config.params.ops_per_port = 256; // so that all is posted before time passes
    let members = [Port { node: 0, endpoint: 0 }, Port { node: 0, endpoint: 1 }];
    let mut w = World::with(config, &[members[0], members[1], port(1)]);
    for tree in 0..16 {
        let rows = w.fabric.build_tree(0, &members).unwrap();
        w.fabric.load_tree(tree, JOB, &rows).unwrap();
    }
    for s in 0..10 {
        for tree in 0..16 {
            for at in members {
                w.must_post(at, Class::Sync, sum(tree, s, Some(port(1)), &[1; 8]));
            }
        }
    }
    w.finish();
    let (time, told) = first_credits(&w, members[1]);
    assert!(time < 4096 * 2_000, "not by the timer: {time} ps");
    assert_eq!(told, 128);
}

#[test]
fn the_processor_is_told_4096_cycles_after_the_first_result() {
    let (mut w, _, _) = pair();
    for s in 0..3 {
        for node in 0..2 {
            w.must_post(port(node), Class::Sync, sum(0, s, Some(port(0)), &[1; 8]));
        }
    }
    w.finish();
    let (time, told) = first_credits(&w, port(1));
    // Its own contribution reaches the Reducer with its tail: 300 ns and three flits.
    let result = 300_000 + 3 * 2_000;
    let ejected = 3 * 2_000 + 300_000; // the last of four flits
    assert_eq!((time, told), (result + 4096 * 2_000 + ejected, 3));
}

#[test]
fn a_broadcast_waits_for_the_whole_packet_at_every_node() {
    // Eight nodes in a row, the root at one end: 18 flits behind each other at every hop.
    let mut w = World::new("mesh:8");
    let rows = w.fabric.build_tree(0, &all(8)).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    w.must_post(port(0), Class::Sync, Op::Bcast { tree: 0, place: heap(0), source: Source::Inline(&[1; 256]) });
    w.finish();
    let far = w.effects.iter().find_map(|e| match e {
        Effect::TreeResult { at, time, .. } if *at == port(7) => Some(*time),
        _ => None,
    });
    let (at_core, at_link) = (18 * 2_000, 18 * 6_400 / 3);
    assert_eq!(far, Some(300_000 + at_core + 7 * (129_000 + at_link) + 300_000 + 17 * 2_000));
}

#[test]
fn broadcasts_from_root_and_others_reach_everyone_in_one_order() {
    let ports = all(16);
    let mut w = World::new("4x2x2");
    for tree in 0..3 {
        let rows = w.fabric.build_tree(tree as u32 * 5, &ports).unwrap();
        w.fabric.load_tree(tree, JOB, &rows).unwrap();
    }
    let mut dice = Dice(2);
    for i in 0..300u32 {
        let (from, tree) = (ports[dice.below(16) as usize], dice.below(3) as u8);
        let mut bytes = vec![i as u8; 4 + dice.below(252) as usize];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        w.must_post(from, Class::Sync, Op::Bcast { tree, place: heap(0), source: Source::Inline(&bytes) });
    }
    w.finish();
    let mut seen: BTreeMap<(u8, Port), Vec<u32>> = BTreeMap::new();
    for (effect, bytes) in w.effects.iter().zip(&w.data) {
        let Effect::TreeResult { at, tree, bcast: true, count, .. } = effect else { panic!("{effect:?}") };
        let order = seen.entry((*tree, *at)).or_default();
        let id = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(bytes[4..].iter().all(|b| *b == id as u8));
        order.push(id);
        assert_eq!(*count, order.len() as u64);
    }
    for tree in 0..3 {
        let first = &seen[&(tree, ports[0])];
        assert!(ports.iter().all(|p| seen[&(tree, *p)] == *first), "one order for all");
    }
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 300 * 16);
}

#[test]
fn contributions_that_disagree_are_reported_and_the_slot_is_reset() {
    let mut w = World::new("2x2x2");
    let rows = w.fabric.build_tree(0, &all(8)).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    let eight = 1i64.to_le_bytes();
    for node in 0..8 {
        let elem = if node == 6 { ReduceElem::U64 } else { ReduceElem::I64 };
        let op = Op::Reduce {
            tree: 0,
            reduce: 0,
            op: ReduceOp::Sum,
            elem,
            to: None,
            place: heap(0),
            source: Source::Inline(&eight),
        };
        w.must_post(port(node), Class::Sync, op);
    }
    w.settle();
    assert!(w.errors().iter().any(|e| matches!(e, NetError::ReduceMismatch { tree: 0, reduce: 0, .. })));
    assert!(results(&w).is_empty());
    w.fabric.unload_tree(0);
    w.finish();
}

#[test]
fn reduce_ids_must_come_in_sequence() {
    let mut w = World::new("2");
    let rows = w.fabric.build_tree(0, &all(2)).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    let tag = w.must_post(port(0), Class::Sync, sum(0, 1, None, &[0; 8]));
    w.finish();
    assert_eq!(w.states(tag), [OpState::Failed(OpFault::ReduceOrder { got: 1, expected: 0 })]);
    assert!(matches!(w.errors()[..], [NetError::ReduceOrder { tree: 0, got: 1, expected: 0 }]));
}

#[test]
fn a_dead_link_unloads_the_trees_that_use_it() {
    let mut w = World::new("4x2x2");
    let rows = w.fabric.build_tree(0, &all(16)).unwrap();
    let (child, row) = *rows.rows.iter().find(|r| r.1.to_root.is_some()).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    for s in 0..20 {
        for node in 0..15 {
            w.must_post(port(node), Class::Sync, sum(0, s, None, &[1; 64]));
        }
    }
    w.fabric.advance(900_000);
    let link = Link { node: child, dir: row.to_root.unwrap() };
    w.fabric.set_fault(Fault::link_down(link)).unwrap();
    w.finish();
    let down = w.errors().iter().filter(|e| matches!(e, NetError::TreeDown { tree: 0, .. })).count();
    assert_eq!(down, 16, "every participant is told once");
    assert!(w.post(port(0), Class::Sync, sum(0, 4, None, &[1; 8])).is_err());
    let rows = w.fabric.build_tree(0, &all(16)).unwrap();
    w.fabric.load_tree(0, JOB, &rows).unwrap();
    for node in 0..16 {
        w.must_post(port(node), Class::Sync, sum(0, 0, None, &2i64.to_le_bytes()));
    }
    w.finish();
    assert!(all(16).iter().all(|p| results(&w)[&(*p, 0)] == [(32, 1)]));
}

#[test]
fn a_quiet_tree_moves_to_other_links_with_everything_contributed_so_far() {
    for (all_reduce, rounds) in [(true, 3u64), (true, 20), (false, 20)] {
        let mut w = World::new("4x2x2");
        let rows = w.fabric.build_tree(0, &all(16)).unwrap();
        w.fabric.load_tree(0, JOB, &rows).unwrap();
        let to = (!all_reduce).then(|| port(5));
        let contribute = |w: &mut World, s: u64, nodes: &[u32]| {
            for &node in nodes {
                w.must_post(port(node), Class::Sync, sum(0, s, to, &(node as i64 + s as i64).to_le_bytes()));
            }
            w.settle();
        };
        let everyone: Vec<u32> = (0..16).collect();
        let (early, late) = everyone.split_at(9);
        (0..rounds).for_each(|s| contribute(&mut w, s, &everyone));
        // Two more reductions have begun when a link of the tree dies.
        contribute(&mut w, rounds, early);
        contribute(&mut w, rounds + 1, early);
        let (child, row) = *rows.rows.iter().find(|r| r.1.to_root.is_some()).unwrap();
        let link = Link { node: child, dir: row.to_root.unwrap() };
        w.fabric.set_fault(Fault::link_down(link)).unwrap();
        w.settle();
        assert!(w.errors().is_empty(), "{:?}", w.errors());
        contribute(&mut w, rounds, late);
        contribute(&mut w, rounds + 1, late);
        (rounds + 2..rounds + 20).for_each(|s| contribute(&mut w, s, &everyone));
        let moved = w.fabric.tree(0).unwrap().clone();
        validate(&w.fabric.shape(), &moved).unwrap();
        assert!(moved.rows.iter().all(|(n, r)| *n != link.node || r.to_root != Some(link.dir)));
        w.fabric.unload_tree(0);
        w.finish();
        let sums: Vec<i64> = (0..rounds + 20).map(|s| 120 + 16 * s as i64).collect();
        let receivers = if all_reduce { all(16) } else { vec![port(5)] };
        for p in receivers {
            let got: Vec<(i64, u64)> = results(&w)[&(p, 0)].clone();
            assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), sums);
            assert!(got.iter().zip(1..).all(|(g, n)| g.1 == n), "counts go up one by one: {got:?}");
        }
    }
}
