//! Split networks: barriers without a common clock, and recovery while everything is in use.

use super::cluster::Cluster;
use crate::tests::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_net::torus::NodeId;

/// How many schedules each test runs.
fn schedules() -> u64 {
    std::env::var("FABRIC_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

/// Runs `test` for many seeds, or for the one that is asked for.
fn for_seeds(name: &str, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let only = std::env::var("FABRIC_SEED").ok().and_then(|n| n.parse().ok());
    let seeds = only.map_or(0..schedules(), |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(e) = std::panic::catch_unwind(|| test(seed)) {
            eprintln!("seed {seed}: FABRIC_SEED={seed} cargo test --release -p angara-fabric --lib {name}");
            std::panic::resume_unwind(e);
        }
    }
}

/// Shape, parts and kind of barrier of a seed; which part, if any, has no node in the job.
fn setting(seed: u64) -> (&'static str, usize, BarrierFamily, Dice) {
    let mut dice = Dice(seed.wrapping_mul(77));
    let shape = ["4x4", "8", "2x2x2", "4x2", "mesh:4x4", "4x2x2"][dice.below(6) as usize];
    let parts = [2, 3, 4][dice.below(3) as usize];
    (shape, parts, BarrierFamily::ALL[dice.below(6) as usize], dice)
}

fn nodes_of(shape: &str, parts: usize, without: Option<usize>) -> Vec<NodeId> {
    let nodes = shape.parse::<angara_net::torus::Shape>().unwrap().nodes();
    (0..nodes as u32).filter(|n| Some(*n as usize * parts / nodes) != without).collect()
}

fn settle(c: &mut Cluster) {
    assert!(c.settle(), "does not end\n{}", c.diagnosis());
}

#[test]
fn barriers_need_no_common_clock() {
    for_seeds("barriers_need_no_common_clock", |seed| {
        let (shape, parts, family, _) = setting(seed);
        let mut c = Cluster::new(shape, parts, family, seed, &nodes_of(shape, parts, None));
        c.script(4);
        (0..3000).for_each(|_| c.step());
        settle(&mut c);
        c.check(true);
        assert_eq!(c.trees_lost, 0);
    });
}

/// Links die and come back, some by themselves, trunks lose what is on its way, a part is lost and an empty one takes its place, changes are
/// given up half-way: nothing of the job, which has no node in that part, is lost, doubled or reordered.
#[test]
fn recovery_loses_doubles_and_reorders_nothing() {
    for_seeds("recovery_loses_doubles_and_reorders_nothing", |seed| {
        let (shape, parts, family, mut dice) = setting(seed);
        let victim = (dice.below(2) == 0).then(|| dice.below(parts as u64) as usize);
        let without = victim.filter(|v| {
            let nodes = nodes_of(shape, parts, None).len();
            let of_victim = |n: u32| n as usize * parts / nodes == *v;
            let dead: Vec<Outage> = (0..nodes as u32).filter(|n| of_victim(*n)).map(Outage::Node).collect();
            Cluster::new(shape, parts, family, seed, &nodes_of(shape, parts, victim)).connected(&dead)
        });
        let mut c = Cluster::new(shape, parts, family, seed, &nodes_of(shape, parts, without));
        c.script(6);
        for _ in 0..8 {
            (0..50 + c.below(800)).for_each(|_| c.step());
            if c.changing() && c.below(3) > 0 {
                continue;
            }
            let mut dead = c.dead();
            let gone = without.filter(|v| c.parts[*v].is_none());
            match (c.below(6), without, gone) {
                (0 | 1, _, Some(part)) => dead = c.rejoin(part),
                (0 | 1, Some(part), None) => {
                    dead = c.lose_part(part);
                    assert!(!dead.is_empty());
                }
                // A session between two parts breaks and begins anew.
                (2, ..) => {
                    let a = c.below(parts as u64) as usize;
                    c.lose_frames(a, (a + 1) % parts);
                }
                (3, ..) if dead.iter().any(|d| matches!(d, Outage::Link(_))) => {
                    let i = dead.iter().position(|d| matches!(d, Outage::Link(_))).unwrap();
                    dead.remove(i);
                }
                (4, ..) => {
                    if let Outage::Link(link) = c.random_link() {
                        c.spoil(link);
                    }
                    continue;
                }
                _ => dead.push(c.random_link()),
            }
            dead.extend(c.failed.drain(..).map(Outage::Link));
            // With a part gone the rest may need a link back.
            while !c.connected(&dead) {
                let Some(i) = dead.iter().rposition(|d| matches!(d, Outage::Link(_))) else { break };
                dead.remove(i);
            }
            c.begin_change(dead);
        }
        // Links that have failed say nothing more before routes change.
        c.unspoil();
        (0..100).for_each(|_| c.step());
        c.begin_change(c.dead());
        settle(&mut c);
        c.check(true);
        assert!(c.recoveries > 0);
    });
}

/// Anything may die, also parts with nodes of the job: everything ends, nothing comes twice or out of order.
#[test]
fn whatever_is_lost_everything_ends() {
    for_seeds("whatever_is_lost_everything_ends", |seed| {
        let (shape, parts, family, _) = setting(seed);
        let nodes = nodes_of(shape, parts, None);
        let mut c = Cluster::new(shape, parts, family, seed, &nodes);
        c.gaps = true;
        c.script(5);
        for _ in 0..6 {
            (0..50 + c.below(800)).for_each(|_| c.step());
            let mut dead = c.dead();
            match c.below(4) {
                0 if c.parts.iter().flatten().count() > 1 => {
                    let part = c.below(parts as u64) as usize;
                    if c.parts[part].is_some() {
                        dead = c.lose_part(part);
                    }
                }
                1 => dead.push(Outage::Node(nodes[c.below(nodes.len() as u64) as usize])),
                _ => dead.extend([c.random_link(), c.random_link()]),
            }
            let exists = |b: &Outage| match b {
                Outage::Link(l) => {
                    shape.parse::<angara_net::torus::Shape>().unwrap().neighbour(l.node, l.dir).is_some()
                }
                Outage::Node(_) => true,
            };
            dead.retain(exists);
            c.begin_change(dead);
        }
        settle(&mut c);
        c.check(false);
    });
}

#[test]
fn a_link_that_fails_by_itself_waits_for_a_change() {
    // Within a part, and between two.
    for node in [1, 3] {
        let link = Link { node, dir: "+X".parse().unwrap() };
        for repaired in [false, true] {
            let mut c = Cluster::new("8", 2, BarrierFamily::AllToAll, 3, &nodes_of("8", 2, None));
            c.spoil(link);
            c.script(2);
            (0..20_000).for_each(|_| c.step());
            assert_eq!(c.failed, [link], "said once");
            assert_eq!(c.parts[0].as_ref().unwrap().route_change(), 0);
            c.unspoil();
            c.begin_change(if repaired { Vec::new() } else { vec![Outage::Link(link)] });
            settle(&mut c);
            c.check(true);
        }
    }
}

/// A tree on which nothing is under way moves to other links, through an empty part, too; a busy one is given up
/// by all.
#[test]
fn trees_at_rest_move_and_busy_ones_are_given_up_everywhere() {
    // Nodes 4 to 7 are a part that may be lost; 0 to 3 and 8 to 11 have the job.
    let nodes: Vec<NodeId> = (0..4).chain(8..12).collect();
    let mut c = Cluster::new("4x3", 3, BarrierFamily::Multiphase, 1, &nodes);
    let up = |node: u32| Link { node, dir: "+Y".parse().unwrap() };
    let change = |c: &mut Cluster, dead: Vec<Outage>| {
        c.begin_change(dead);
        settle(c);
    };
    let sums = |c: &mut Cluster| {
        (0..20).for_each(|_| {
            c.reduce();
            settle(c);
        });
        assert_eq!(c.trees_lost, 0);
        c.check(true);
    };
    sums(&mut c);
    // The cables of the ring from 8..12 to 0..4; the other way leads through the middle part.
    change(&mut c, (8..12).map(|n| Outage::Link(up(n))).collect());
    let root = c.parts[0].as_ref().unwrap().tree(3).unwrap().clone();
    assert!(root.rows.iter().any(|(n, _)| (4..8).contains(n)), "{root:?}");
    sums(&mut c);
    // Without the middle part only the cables will do.
    let dead = c.lose_part(1).into_iter().filter(|b| matches!(b, Outage::Node(_))).collect();
    change(&mut c, dead);
    sums(&mut c);
    let mut dead = c.rejoin(1);
    dead.extend((8..12).map(|n| Outage::Link(up(n))));
    change(&mut c, dead.clone());
    sums(&mut c);
    assert!(c.parts[1].as_ref().unwrap().tree(3).is_some());
    c.reduce();
    (0..40).for_each(|_| c.step());
    change(&mut c, dead);
    assert!(c.parts.iter().flatten().all(|f| f.tree(3).is_none()));
    assert!(c.trees_lost > 0);
}

/// The answer to a read is behind nothing that the barrier after it sends, however late its memory is supplied.
#[test]
fn a_full_barrier_waits_for_answers_that_are_late() {
    for family in [BarrierFamily::Multiphase, BarrierFamily::AllToAll] {
        let mut w = World::new("4");
        w.fabric.set_barrier_family(JOB, family).unwrap();
        for node in 0..4 {
            if node == 0 {
                w.must_post(
                    port(0),
                    Class::Get,
                    Op::Read { to: port(1), remote: heap(0), local: heap(0), len: 30_000 },
                );
            }
            w.must_post(port(node), Class::Sync, Op::Barrier { half: false });
        }
        // Everything but the memory of the read has been seen to.
        w.fabric.run_free();
        w.finish();
        assert!(w.fabric.barrier_check(JOB).held(), "{family}: {:?}", w.errors());
        assert_eq!(w.fabric.barrier_check(JOB).left, 4);
    }
}

#[test]
fn any_bytes_are_a_ledger_or_refused_and_no_ledger_does_harm() {
    for_seeds("any_bytes_are_a_ledger_or_refused_and_no_ledger_does_harm", |seed| {
        let (shape, parts, family, mut dice) = setting(seed);
        let mut c = Cluster::new(shape, parts, family, seed, &nodes_of(shape, parts, None));
        c.script(2);
        (0..1500).for_each(|_| c.step());
        let f = c.parts[0].as_mut().unwrap();
        f.hold();
        let good = f.ledger().to_bytes();
        assert!((0..good.len()).all(|n| Ledger::from_bytes(&good[..n]).is_err()));
        for _ in 0..20 {
            let mut bytes = good.clone();
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.below(256) as u8;
            }
            if let Ok(ledger) = Ledger::from_bytes(&bytes) {
                f.recover(f.route_change() + 1, &[], &ledger).unwrap();
                f.run_some(300);
                while f.poll_effect().is_some() {}
            }
        }
    });
}
