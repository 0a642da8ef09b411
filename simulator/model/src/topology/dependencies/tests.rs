use super::*;
use crate::topology::{AnyTopology, Dragonfly, Hop, HyperX, RouteState, Routing, Written};

#[test]
fn no_topology_has_a_circle() {
    for text in [
        "torus:5x4x3",
        "torus:2x2x2",
        "torus:3x3",
        "torus:4x3,c=2,x=2",
        "mesh:3x3,x=3",
        "dragonfly:p=1,a=3,h=3,g=4",
        "fly:3,3",
        "dragonfly:p=1,a=2,h=3,g=4",
        "torus:6",
        "mesh:4x3x2",
        "fat-tree:2,4",
        "fat-tree:4,2",
        "clos:3,2,5",
        "cayley:13:1,5",
        "cayley:5x4:1.0,0.1",
        "cayley:s4:2134,3214,4231",
        "random:16,4,2,7",
        "slimfly:5",
        "express:9x5,3",
    ] {
        let topology: AnyTopology = text.parse().unwrap();
        let circle = circle(topology.ways(), 16);
        assert!(circle.is_none(), "{text}: {}", circle.unwrap().shown(&*topology));
    }
}

/// Hops of the longest of several ways of every pair, and whether channels wait in a circle.
fn longest(t: &impl Route) -> (usize, bool) {
    let n = t.endpoints() as u32;
    let links = |pair: (u32, u32), word| t.way(pair, mix(word), Queues::Random(word)).len() - 1;
    let pairs = (0..n).flat_map(|s| (0..n).map(move |d| (s, d)));
    let longest = pairs.flat_map(|pair| (0..24).map(move |word| links(pair, word))).max();
    (longest.unwrap_or(0), circle(t, 24).is_some())
}

#[test]
fn no_detours_wait_in_a_circle() {
    for p in [1, 2] {
        for (routing, hops) in
            [(Routing::Minimal, 3), (Routing::Valiant, 5), (Routing::Ugal, 5), (Routing::UgalG, 5), (Routing::Par, 6)]
        {
            let t = Dragonfly::new(p, 10, 100).unwrap().with_routing(routing).unwrap();
            assert_eq!(longest(&t), (hops, false), "{t} {routing:?}");
            // Of several links between two groups a packet keeps to one.
            let several = Dragonfly::with([1, 4, 2, 4], [1, 1]).unwrap().with_routing(routing).unwrap();
            assert_eq!(longest(&several), (hops, false), "{several} {routing:?}");
        }
    }
    for (sizes, endpoints) in [(&[4, 4][..], 1), (&[3, 3, 3], 1), (&[5], 2)] {
        for (routing, factor) in [(Routing::Minimal, 1), (Routing::Valiant, 2), (Routing::Ugal, 2)] {
            let t = HyperX::new(sizes, endpoints).unwrap().with_routing(routing).unwrap();
            assert_eq!(longest(&t), (factor * sizes.len(), false), "{t} {routing:?}");
        }
    }
}

#[test]
fn no_escapes_wait_in_a_circle() {
    for text in [
        "torus:6",
        "torus:4x3,c=2,x=2",
        "torus:5x4x3",
        "torus:2x2x2",
        "mesh:4x3x2",
        "mesh:1",
        "hyperx:4x3,2",
        "hyperx:3x3x3,1",
    ] {
        let topology: AnyTopology = text.parse().unwrap();
        let topology = topology.with_routing(Routing::Adaptive).unwrap();
        let circle = circle(topology.ways(), 24);
        assert!(circle.is_none(), "{text}: {}", circle.unwrap().shown(&*topology));
    }
}

/// A network that forgets its classes.
#[derive(Clone)]
struct Careless(AnyTopology);

impl Topology for Careless {
    fn endpoints(&self) -> usize {
        self.0.endpoints()
    }
    fn routers(&self) -> usize {
        self.0.routers()
    }
    fn ports(&self) -> usize {
        self.0.ports()
    }
    fn output(&self, router: u32, port: u8) -> End {
        self.0.output(router, port)
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        self.0.attach(endpoint)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        self.0.start(src, dst, random)
    }
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        self.0.next(router, route)
    }
}

impl Route for Careless {}

/// BookSim's UGAL of a dragonfly stays in the first class until it has reached a router drawn at random, so local
/// links of that class wait for global ones and these for local ones.
#[test]
fn one_class_is_too_few_for_a_dragonfly() {
    assert!(circle(&Careless("dragonfly:2,1,1".parse().unwrap()), 1).is_some());
}

#[test]
fn a_ring_without_a_dateline_has_one() {
    let ring = Careless("torus:6".parse().unwrap());
    let circle = circle(&ring, 4).unwrap();
    assert_eq!(circle.0.len(), 6);
    for (a, b) in circle.0.iter().zip(circle.0.iter().cycle().skip(1)) {
        assert!(matches!(ring.output(a.router, a.port), End::Router { router, .. } if router == b.router));
    }
    assert!(circle.shown(&ring).starts_with("router "), "{}", circle.shown(&ring));
    assert!(super::circle(&Careless("mesh:4x4".parse().unwrap()), 4).is_none());
}

/// Flits behind one port.
struct Full {
    port: u8,
    used: u32,
}

impl Outputs for Full {
    fn used(&self, port: u8) -> u32 {
        if port == self.port { self.used } else { 0 }
    }
    fn owned(&self, _port: u8) -> u32 {
        0
    }
    fn bound(&self, _router: u32, port: u8) -> u32 {
        self.used(port)
    }
}

#[test]
fn an_empty_dragonfly_takes_the_cycles_of_its_links() {
    let t = Dragonfly::new(2, 10, 100).unwrap();
    let cycles = |d| {
        let mut way = t.way((0, d), 0, Queues::Empty);
        way.pop();
        way.iter().map(|step| u64::from(t.delay(step.router, step.port))).sum::<u64>()
    };
    assert_eq!((0..72).map(cycles).max(), Some(120));
    // Group 0's first router has the links to groups 1 and 2; group 1 is entered at its first router.
    assert_eq!([0, 2, 8, 10].map(cycles), [0, 10, 100, 110]);
}

#[test]
fn ugal_decides_by_its_formula() {
    let hops = |t: &dyn Fn(u64, u32) -> usize, used: u32| (0..200).map(|n| t(mix(n), used)).max().unwrap_or(0);
    let dragonfly = Dragonfly::new(2, 1, 1).unwrap().with_routing(Routing::Ugal).unwrap();
    // From group 0 to group 4.
    let at = |random, used| first_decision(&dragonfly, (0, 35, random), used);
    assert_eq!([0, 30, 31].map(|used| hops(&at, used)), [3, 3, 5]);
    let eager = dragonfly.with_threshold(7).unwrap();
    let at = |random, used| first_decision(&eager, (0, 35, random), used);
    assert_eq!([0, 7, 8].map(|used| hops(&at, used)), [3, 3, 5]);
    // One hop away: detours of two hops in the same line.
    let hyperx = HyperX::new(&[5], 1).unwrap().with_routing(Routing::Ugal).unwrap();
    let at = |random, used| first_decision(&hyperx, (0, 3, random), used);
    assert_eq!([0, 2, 3].map(|used| hops(&at, used)), [1, 1, 2]);
    let eager = hyperx.with_threshold(0).unwrap();
    let at = |random, used| first_decision(&eager, (0, 3, random), used);
    assert_eq!([0, 1].map(|used| hops(&at, used)), [1, 2]);
    for routing in [Routing::Minimal, Routing::Valiant] {
        assert_eq!(dragonfly.with_routing(routing).unwrap().with_threshold(1), None);
        assert_eq!(hyperx.with_routing(routing).unwrap().with_threshold(1), None);
    }
}

#[test]
fn what_a_queue_can_hold_follows_from_the_classes() {
    let of = |text: &str, routing, vcs| {
        let c = text.parse::<AnyTopology>().unwrap().with_routing(routing).unwrap().comparison(vcs)?;
        Some((c.threshold, c.credits, c.own, c.inputs))
    };
    assert_eq!(of("dragonfly:2", Routing::Valiant, 3), None);
    assert_eq!(of("dragonfly:2", Routing::Ugal, 3), Some((30, 2, 1, 0)));
    // Channels 0 and 1 of 4 are for detours, 2 of 5 for packets on their way to the exit.
    assert_eq!(of("dragonfly:2", Routing::Ugal, 4), Some((30, 2, 1, 0)));
    assert_eq!(of("dragonfly:2", Routing::Ugal, 5), Some((30, 3, 2, 0)));
    assert_eq!(of("dragonfly:2", Routing::Par, 4), Some((30, 2, 1, 0)));
    // Three other routers of the group, two endpoints.
    assert_eq!(of("dragonfly:2", Routing::UgalG, 3), Some((30, 1, 1, 3 + 2 * 3)));
    assert_eq!(of("hyperx:4x1x4,2", Routing::Ugal, 6), Some((2, 6, 6, 0)));
}

/// Hops of a packet that finds N flits on the first port of its shortest way, and nothing on others.
fn first_decision(t: &impl Route, (src, dst, random): (u32, u32, u64), used: u32) -> usize {
    let mut route = t.start(src, dst, random);
    let (mut at, mut input) = t.attach(src);
    let queues = Full { port: t.way((src, dst), 1, Queues::Empty)[0].port, used };
    for hops in 0..20 {
        let hop = t.choose(at, input, &mut route, &queues);
        match t.output(at, hop.port) {
            End::Router { router, port } => (at, input) = (router, port),
            _ => return hops,
        }
    }
    panic!("{src}→{dst} does not arrive")
}
