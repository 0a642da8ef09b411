//! Routes: legal, minimal, balanced; detours around what is dead; no deadlock.

use super::driver::*;
use crate::*;
use angara_abi::torus::Direction;
use proptest::prelude::*;

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

#[test]
fn a_dimension_of_size_two_uses_plus_until_that_link_is_dead() {
    let mut f = fabric("4x2");
    let plus = Link { node: 0, dir: Direction::new(1, true) };
    assert_eq!(f.routes().path(0, 4).unwrap(), [plus]);
    f.set_fault(Fault { kind: FaultKind::LinkDown(plus), at: None }).unwrap();
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
                let kind = FaultKind::LinkDown(Link { node, dir });
                if f.set_fault(Fault { kind, at: None }).is_err() {
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
    f.set_fault(Fault { kind: FaultKind::LinkDown(dead), at: None }).unwrap();
    let route = f.route(0, 1).unwrap();
    assert!(route.first_step.is_some() && route.hops == 3, "{route:?}");
    assert!(f.routes().out_of_order());
    assert!(f.routes().acyclic());
}

#[test]
fn a_cut_off_node_is_unreachable_and_the_link_is_named() {
    let mut f = fabric("mesh:3");
    let dead = Link { node: 1, dir: Direction::new(0, true) };
    f.set_fault(Fault { kind: FaultKind::LinkDown(dead), at: None }).unwrap();
    assert!(f.reachable(0, 1) && !f.reachable(0, 2));
    assert_eq!(f.routes().blame(0, 2), Blame::Link(dead));
    f.clear_fault(FaultKind::LinkDown(dead));
    assert!(f.reachable(0, 2));
    f.set_fault(Fault { kind: FaultKind::NodeDown(1), at: None }).unwrap();
    assert_eq!(f.routes().blame(0, 2), Blame::Node(1));
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
            let kind = match dice.below(5) {
                0 => FaultKind::NodeDown(node),
                _ => FaultKind::LinkDown(Link { node, dir: Direction::ALL[dice.below(8) as usize] }),
            };
            let _ = f.set_fault(Fault { kind, at: None }); // refused where there is no such link
        }
        for a in 0..n {
            for b in 0..n {
                if f.reachable(a, b) {
                    check_path(&f, a, b);
                } else {
                    f.routes().blame(a, b);
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
