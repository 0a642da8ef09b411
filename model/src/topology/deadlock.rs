//! Tests that the channels of adaptive topologies do not wait for each other in a circle.

use super::contract::{End, Outputs, Route, Routing, Written};
use super::dependencies::{Channel, circle_of};
use super::{Dragonfly, HyperX};
use angara_fabric::rng;
use std::collections::{HashMap, HashSet};

/// Queues that make a packet take its detour, or not: the fuller port is named.
struct Queues {
    full: Option<u8>,
    used: u32,
}

/// When the port of the shortest way is full.
#[derive(Clone, Copy, PartialEq)]
enum Full {
    Never,
    Always,
    /// At routers that the packet reaches over a link.
    Later,
}

impl Outputs for Queues {
    fn used(&self, port: u8) -> u32 {
        match self.full {
            Some(full) if full == port => self.used,
            _ => 0,
        }
    }
    fn owned(&self, _port: u8) -> u32 {
        0
    }
    /// Half of all ports are full, if any is.
    fn bound(&self, router: u32, port: u8) -> u32 {
        let full = rng::mix(u64::from(router) << 8 | u64::from(port)).is_multiple_of(2);
        if self.full.is_some() && full { self.used } else { 0 }
    }
}

/// Adds the channels that a packet on `way` asks for while it has one.
fn add(waits: &mut HashMap<Channel, HashSet<Channel>>, way: &[Channel]) {
    for pair in way.windows(2) {
        waits.entry(pair[0]).or_default().insert(pair[1]);
    }
}

/// Channels from `src` to `dst`, and the cycles of their links.
fn walk(t: &impl Route, (src, dst, random): (u32, u32, u64), when: Full) -> (Vec<Channel>, u64) {
    let mut route = t.start(src, dst, random);
    let (mut at, mut input) = t.attach(src);
    let (mut way, mut cycles) = (Vec::new(), 0);
    let shortest = t.clone();
    for _ in 0..20 {
        // The port of the shortest way is full, if the packet is to take its detour.
        let full = match when {
            Full::Always => true,
            Full::Later => !way.is_empty(),
            Full::Never => false,
        };
        let full = full.then(|| first_port(&shortest, at, dst));
        let hop = t.choose(at, input, &mut route, &Queues { full, used: 1000 });
        match t.output(at, hop.port) {
            End::Endpoint(e) => {
                assert_eq!(e, dst);
                return (way, cycles);
            }
            End::Router { router, port } => {
                way.push(Channel { router: at, port: hop.port, class: hop.class.index() as u8 });
                cycles += u64::from(t.delay(at, hop.port));
                (at, input) = (router, port);
            }
            End::Open => panic!("{src}→{dst} leaves the network at router {at} port {}", hop.port),
        }
    }
    panic!("{src}→{dst} does not arrive")
}

/// The first port of the shortest way from a router: that of an endpoint of it, if there were no detours.
fn first_port(t: &impl Route, router: u32, dst: u32) -> u8 {
    let at = (0..t.endpoints() as u32).find(|&e| t.attach(e).0 == router).expect("every router has endpoints");
    let mut route = t.start(at, dst, 1);
    t.choose(router, t.attach(at).1, &mut route, &Queues { full: None, used: 0 }).port
}

/// Hops of the longest way, and whether channels wait in a circle.
fn all(t: &impl Route) -> (usize, bool) {
    let (mut waits, mut longest) = (HashMap::new(), 0);
    for (s, d) in (0..t.endpoints() as u32).flat_map(|s| (0..t.endpoints() as u32).map(move |d| (s, d))) {
        for (n, when) in (0..12).flat_map(|n| [Full::Never, Full::Always, Full::Later].map(|when| (n, when))) {
            let (way, _) = walk(t, (s, d, rng::mix(u64::from(s * 977 + d) << 8 | n)), when);
            longest = longest.max(way.len());
            add(&mut waits, &way);
        }
    }
    (longest, circle_of(&waits).is_some())
}

#[test]
fn no_channels_wait_in_a_circle() {
    for p in [1, 2] {
        for (routing, hops) in
            [(Routing::Minimal, 3), (Routing::Valiant, 5), (Routing::Ugal, 5), (Routing::UgalG, 5), (Routing::Par, 6)]
        {
            let t = Dragonfly::new(p, 10, 100).unwrap().with_routing(routing).unwrap();
            assert_eq!(all(&t), (hops, false), "{t} {routing:?}");
        }
    }
    for (sizes, endpoints) in [(&[4, 4][..], 1), (&[3, 3, 3], 1), (&[5], 2)] {
        for (routing, factor) in [(Routing::Minimal, 1), (Routing::Valiant, 2), (Routing::Ugal, 2)] {
            let t = HyperX::new(sizes, endpoints).unwrap().with_routing(routing).unwrap();
            assert_eq!(all(&t), (factor * sizes.len(), false), "{t} {routing:?}");
        }
    }
}

/// BookSim's UGAL of a dragonfly stays in the first class until it has reached a router drawn at random, so local
/// links of that class wait for global ones and these for local ones.
#[test]
fn a_detour_to_a_router_needs_more_classes() {
    let t = Dragonfly::new(2, 1, 1).unwrap();
    let mut waits = HashMap::new();
    for (s, d) in (0..72).flat_map(|s| (0..72).map(move |d| (s, d))) {
        let (way, _) = walk(&t, (s, d, 0), Full::Never);
        add(&mut waits, &way.iter().map(|&channel| Channel { class: 0, ..channel }).collect::<Vec<_>>());
    }
    assert!(circle_of(&waits).is_some());
}

#[test]
fn an_empty_dragonfly_takes_the_cycles_of_its_links() {
    let t = Dragonfly::new(2, 10, 100).unwrap();
    let slowest = (0..72).map(|d| walk(&t, (0, d, 0), Full::Never).1).max();
    assert_eq!(slowest, Some(120));
    // Group 0's first router has the links to groups 1 and 2; group 1 is entered at its first router.
    assert_eq!([0, 2, 8, 10].map(|d| walk(&t, (0, d, 0), Full::Never).1), [0, 10, 100, 110]);
}

#[test]
fn ugal_decides_by_its_formula() {
    let longest = |t: &dyn Fn(u32) -> usize| (0..200).map(t).max().unwrap_or(0);
    let hops = |t: &dyn Fn(u64, u32) -> usize, used: u32| longest(&|n| t(rng::mix(n.into()), used));
    let dragonfly = Dragonfly::new(2, 1, 1).unwrap().with_routing(Routing::Ugal).unwrap();
    // From group 0 to group 4.
    let at = |random, used| first_decision(&dragonfly, (0, 35, random), used);
    assert_eq!([0, 30, 31].map(|used| hops(&at, used)), [3, 3, 5]);
    // One hop away: detours of two hops in the same line.
    let hyperx = HyperX::new(&[5], 1).unwrap().with_routing(Routing::Ugal).unwrap();
    let at = |random, used| first_decision(&hyperx, (0, 3, random), used);
    assert_eq!([0, 2, 3].map(|used| hops(&at, used)), [1, 1, 2]);
}

/// Hops of a packet that finds so many flits on the first port of its shortest way, and nothing on others.
fn first_decision(t: &impl Route, (src, dst, random): (u32, u32, u64), used: u32) -> usize {
    let mut route = t.start(src, dst, random);
    let (mut at, mut input) = t.attach(src);
    let queues = Queues { full: Some(first_port(t, at, dst)), used };
    for hops in 0..20 {
        let hop = t.choose(at, input, &mut route, &queues);
        match t.output(at, hop.port) {
            End::Router { router, port } => (at, input) = (router, port),
            _ => return hops,
        }
    }
    panic!("{src}→{dst} does not arrive")
}
