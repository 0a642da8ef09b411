//! Routes: legal, minimal, balanced; detours around what is dead; no deadlock.

use super::driver::*;
use crate::*;
use angara_abi::account::Class;
use angara_abi::packet::Vc;
use angara_net::fault::Fault;
use angara_net::torus::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SHAPES: [&str; 13] =
    ["2", "7", "8", "4x2", "5x4", "2x2x2", "4x4x4", "3x3x4", "4x2x2x2", "3x4x2x5", "mesh:5", "mesh:3x4", "mesh:3x2x4"];

fn fabric(shape: &str) -> Fabric {
    Fabric::new(Config::new(shape.parse().unwrap())).unwrap()
}

/// Follows the links of a route and checks that they are what the route says.
fn check_path(f: &Fabric, a: u32, b: u32) -> Vec<Link> {
    let route = f.route(a, b).unwrap();
    let path = f.routes().path(a, b).unwrap();
    assert_eq!(path.len(), route.hops as usize, "{a}->{b}");
    let mut at = a;
    for link in &path {
        assert_eq!(link.node, at, "{a}->{b}: {path:?}");
        at = f.shape().neighbour(at, link.dir).unwrap();
        assert!(f.routes().link_up(*link), "{a}->{b} crosses dead {link:?}");
    }
    assert_eq!(at, b);
    let ordered = &path[route.first_step.is_some() as usize..path.len() - route.last_step.is_some() as usize];
    assert!(ordered.is_sorted_by_key(|l| l.dir), "{a}->{b}: direction order");
    for dim in 0..4 {
        let both = route.dirbits >> dim & route.dirbits >> (dim + 4) & 1;
        assert_eq!(both, 0, "{a}->{b}: both signs of dimension {dim}");
    }
    path
}

#[test]
fn without_faults_every_route_is_minimal_and_in_direction_order() {
    for shape in SHAPES {
        let f = fabric(shape);
        let n = f.shape().nodes() as u32;
        for a in 0..n {
            for b in 0..n {
                let path = check_path(&f, a, b);
                assert_eq!(path.len() as u32, f.shape().distance(a, b), "{shape} {a}->{b}");
                let route = f.route(a, b).unwrap();
                assert_eq!((route.first_step, route.last_step), (None, None));
            }
        }
        assert!(f.routes().acyclic(), "{shape}");
    }
}

fn balanced(shape: &str) -> Fabric {
    let params = Params { balanced: true, ..Params::default() };
    Fabric::new(Config { params, ..Config::new(shape.parse().unwrap()) }).unwrap()
}

/// Packets of each link when every pair sends one.
fn all_to_all(f: &Fabric) -> BTreeMap<Link, u64> {
    let n = f.shape().nodes() as u32;
    let mut load = BTreeMap::new();
    for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))) {
        f.routes().path(a, b).unwrap().into_iter().for_each(|link| *load.entry(link).or_default() += 1);
    }
    load
}

#[test]
fn balanced_routes_are_minimal_in_direction_order_and_carry_no_more_on_any_link() {
    for shape in SHAPES {
        let (f, plain) = (balanced(shape), fabric(shape));
        let n = f.shape().nodes() as u32;
        for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))) {
            let path = check_path(&f, a, b);
            assert_eq!(path.len() as u32, f.shape().distance(a, b), "{shape} {a}->{b}");
        }
        assert!(f.routes().acyclic(), "{shape}");
        let most = |f: &Fabric| all_to_all(f).into_values().max();
        assert!(most(&f) <= most(&plain), "{shape}: {:?} of {:?}", most(&f), most(&plain));
    }
    // Where a ring has two nodes, each of its two cables has about half.
    let load = all_to_all(&balanced("4x2x2x2"));
    for (link, load) in load.iter().filter(|(link, _)| link.dir.dim() > 0) {
        assert!((7..=9).contains(load), "{link:?}: {load} of 16");
    }
    assert_eq!(load.len(), 32 * 8, "no link is idle");
}

#[test]
fn packets_take_the_balanced_routes_alone_and_among_others() {
    for at_once in [false, true] {
        let params = Params { balanced: true, ..Params::default() };
        let config = Config { params, trains: !at_once, ..Config::new("4x2x2x2".parse().unwrap()) };
        let ports: Vec<Port> = (0..32).map(port).collect();
        let mut w = World::with(config, &ports);
        for (a, b) in (0..32).flat_map(|a| (0..32).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let source = Source::Memory { place: heap(0), len: 64 };
            let write = Op::Write { to: port(b), place: heap(64), source, vc: Vc::Request, adaptive: false };
            w.must_post(port(a), Class::Put, write);
            if !at_once {
                w.finish();
            }
        }
        w.finish();
        for (link, load) in all_to_all(&w.fabric) {
            assert_eq!(
                w.fabric.link_counters(link).tx[Class::Put as usize].packets,
                load,
                "{link:?}, at once: {at_once}"
            );
        }
    }
}

#[test]
fn a_balanced_route_that_breaks_gets_a_detour_and_no_other_changes() {
    let mut f = balanced("4x2x2x2");
    let before = f.routes().path(0, 4).unwrap();
    f.set_fault(Fault::link_down(before[0])).unwrap();
    let around = check_path(&f, 0, 4);
    assert!(around != before && f.routes().acyclic());
    for b in 0..32 {
        let path = balanced("4x2x2x2").routes().path(1, b).unwrap();
        let crosses = path.iter().any(|link| !f.routes().link_up(*link));
        assert!(crosses || f.routes().path(1, b).unwrap() == path, "1->{b}");
    }
}

#[test]
fn a_dimension_of_size_two_uses_plus_until_that_link_is_dead() {
    let mut f = fabric("4x2");
    let plus = Link { node: 0, dir: Direction::new(1, true) };
    assert_eq!(f.routes().path(0, 4).unwrap(), [plus]);
    f.set_fault(Fault::link_down(plus)).unwrap();
    assert_eq!(f.routes().path(0, 4).unwrap(), [Link { node: 0, dir: Direction::new(1, false) }]);
    assert_eq!(f.routes().path(4, 0).unwrap()[0].dir, Direction::new(1, true), "the other cable's far end");
}

#[test]
fn ties_split_the_load_evenly() {
    // Uniform traffic, even n: n^(dim+1)/8 per directed link (paper 001 with the text's factor corrected).
    for (shape, want) in [("4", 2), ("4x4", 8), ("4x4x4", 32)] {
        let f = fabric(shape);
        let n = f.shape().nodes() as u32;
        let mut load = vec![0; n as usize * 8];
        for a in 0..n {
            for b in 0..n {
                for link in f.routes().path(a, b).unwrap() {
                    load[link.node as usize * 8 + link.dir.index()] += 1;
                }
            }
        }
        for node in 0..n {
            for dir in Direction::ALL {
                let is = load[node as usize * 8 + dir.index()];
                let link = f.shape().neighbour(node, dir).is_some();
                assert_eq!(is, if link { want } else { 0 }, "{shape} node {node} {dir}");
            }
        }
    }
}

#[test]
fn any_single_dead_link_leaves_a_torus_connected_in_direction_order() {
    for shape in ["5", "4x4", "2x2x2", "3x3x4", "4x2x2x2"] {
        let n = fabric(shape).shape().nodes() as u32;
        for node in 0..n.min(8) {
            for dir in Direction::ALL {
                let mut f = fabric(shape);
                let fault = Fault::link_down(Link { node, dir });
                if f.set_fault(fault).is_err() {
                    continue;
                }
                for a in 0..n {
                    for b in 0..n {
                        assert!(f.reachable(a, b), "{shape} without {node} {dir}: {a}->{b}");
                        check_path(&f, a, b);
                    }
                }
                assert!(f.routes().acyclic());
                assert!(!f.routes().out_of_order(), "{shape} {node} {dir}");
            }
        }
    }
}

#[test]
fn a_mesh_needs_first_and_last_steps_and_stays_free_of_deadlock() {
    let mut f = fabric("mesh:3x3");
    let dead = Link { node: 0, dir: Direction::new(0, true) };
    f.set_fault(Fault::link_down(dead)).unwrap();
    let route = f.route(0, 1).unwrap();
    assert!(route.first_step.is_some() && route.hops == 3, "{route:?}");
    assert!(f.routes().out_of_order());
    assert!(f.routes().acyclic());
}

#[test]
fn a_cut_off_node_is_unreachable_and_the_link_is_named() {
    let mut f = fabric("mesh:3");
    let dead = Link { node: 1, dir: Direction::new(0, true) };
    f.set_fault(Fault::link_down(dead)).unwrap();
    assert!(f.reachable(0, 1) && !f.reachable(0, 2));
    assert_eq!(f.routes().outage(0, 2), Outage::Link(dead));
    f.clear_fault(Fault::link_down(dead));
    assert!(f.reachable(0, 2));
    f.set_fault(Fault::node_down(1)).unwrap();
    assert_eq!(f.routes().outage(0, 2), Outage::Node(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn tables_with_random_faults_are_legal_and_acyclic(shape in 0..SHAPES.len(), seed: u64, faults in 1..6usize) {
        let mut f = fabric(SHAPES[shape]);
        let n = f.shape().nodes() as u32;
        let mut dice = Dice(seed);
        for _ in 0..faults {
            let node = dice.below(n as u64) as u32;
            let fault = match dice.below(5) {
                0 => Fault::node_down(node),
                _ => Fault::link_down(Link { node, dir: Direction::ALL[dice.below(8) as usize] }),
            };
            let _ = f.set_fault(fault); // refused where there is no such link
        }
        for a in 0..n {
            for b in 0..n {
                if f.reachable(a, b) {
                    check_path(&f, a, b);
                } else {
                    f.routes().outage(a, b);
                }
            }
        }
        prop_assert!(f.routes().acyclic());
    }
}

#[test]
fn fault_texts_are_read_and_written_back() {
    let shape = "4x2x2".parse().unwrap();
    for text in ["link 1,0,1 +X down", "link 3,1,0 -Z corrupt=1%", "node 2,0,0 down", "corrupt=0.5%"] {
        let fault = Fault::parse(text, &shape).unwrap();
        assert_eq!(fault.show(&shape), text);
        let timed = Fault::parse(&format!("{text} @2ms"), &shape).unwrap();
        assert_eq!(timed, Fault { at: Some(2_000_000_000), ..fault });
        assert_eq!(Fault::parse(&timed.show(&shape), &shape).unwrap(), timed);
    }
    for text in ["", "link 9,0,0 +X down", "link 0,0,0 +Q down", "node down", "corrupt=200%", "corrupt=1% @soon"] {
        assert!(Fault::parse(text, &shape).is_err(), "{text}");
    }
}
