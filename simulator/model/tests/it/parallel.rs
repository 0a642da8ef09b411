//! One, two and three threads simulate the same network to the last bit: every delivery in the same
//! order, every counter, at every step.

use angara_fabric::rng::{below, mix};
use angara_model::peers::in_memory;
use angara_model::topology::{FatTree, Graph, Grid, Routing, VCS_MAX};
use angara_model::{
    Angara, AnyTopology, Delivery, Generic, Injection, LinkLoad, Lost, Network, Profile, Rate, Setup, Switching,
    Totals, TraceEvent,
};
use angara_oracle::generic::graph;
use proptest::prelude::*;

/// Half of a number of virtual channels.
fn half_vcs() -> impl Strategy<Value = u8> {
    prop_oneof![1u8..4, 1..=VCS_MAX / 2]
}

/// Everything visible from outside.
#[derive(PartialEq, Debug, Default)]
struct Seen {
    deliveries: Vec<Delivery>,
    counters: Vec<Totals>,
    loads: Vec<LinkLoad>,
    /// Those of one instant have no order.
    lost: Vec<Lost>,
    trace: Vec<TraceEvent>,
}

/// Runs random traffic in steps of random size.
fn run(config: &Setup, threads: usize, seed: u64, flits: u16) -> Seen {
    run_on(Network::with_threads(config, threads).unwrap(), seed, flits)
}

/// The same by several processes, which are threads here, each with a network of its own part alone.
fn run_among(config: &Setup, processes: usize, seed: u64, flits: u16) -> Seen {
    let parts: Vec<Seen> = std::thread::scope(|scope| {
        let part = |peers| scope.spawn(|| run_on(Network::among(config, peers).unwrap(), seed, flits));
        let threads: Vec<_> = in_memory(processes).into_iter().map(part).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Seen::default();
    for part in parts {
        all.deliveries.extend(part.deliveries);
        all.lost.extend(part.lost);
        all.trace.extend(part.trace);
        let sum = |a: Totals, b: Totals| Totals {
            injected: a.injected + b.injected,
            delivered: a.delivered + b.delivered,
            delivered_flits: a.delivered_flits + b.delivered_flits,
            packet_hops: a.packet_hops + b.packet_hops,
            flit_hops: a.flit_hops + b.flit_hops,
            lost: a.lost + b.lost,
        };
        all.counters.resize(part.counters.len(), Totals::default());
        all.counters.iter_mut().zip(part.counters).for_each(|(all, more)| *all = sum(*all, more));
        all.loads.resize(part.loads.len(), LinkLoad::default());
        let loads = all.loads.iter_mut().zip(part.loads);
        loads.filter(|(_, more)| *more != LinkLoad::default()).for_each(|(all, more)| {
            assert_eq!(*all, LinkLoad::default(), "a router belongs to one part");
            *all = more;
        });
    }
    all.deliveries.sort_by_key(|d| (d.tail, d.dst));
    all.lost.sort();
    all.trace.sort();
    all
}

fn run_on(mut net: Network, seed: u64, flits: u16) -> Seen {
    net.count_links();
    let own = net.own_endpoints();
    let n = net.endpoints() as u64;
    let mut seen = Seen::default();
    let mut now = 0;
    for step in 0..30 {
        let until = now + 1 + below(mix(seed ^ step), 20_000);
        let mut packets: Vec<Injection> = (0..3 * n)
            .map(|i| {
                let r = |k: u64| mix(seed ^ mix(step << 32 | i << 8 | k));
                let at = now + 1 + below(r(0), until - now);
                let (src, dst) = (below(r(1), n) as u32, below(r(2), n) as u32);
                let (flits, tag) = (1 + below(r(3), flits as u64) as u16, step << 32 | i);
                Injection {
                    src,
                    dst,
                    flits,
                    at,
                    tag,
                    traced: i % 16 == 0,
                    adaptive: i % 3 == 0,
                    ..Injection::default()
                }
            })
            .collect();
        packets.sort_by_key(|p| p.at);
        packets.into_iter().filter(|p| own.contains(&p.src)).for_each(|p| net.inject(p));
        net.advance(until);
        assert!(net.now() <= until);
        now = until;
        seen.deliveries.extend(std::iter::from_fn(|| net.poll_delivery()));
        seen.lost.extend(std::iter::from_fn(|| net.poll_lost()));
        seen.counters.push(net.counters());
        seen.trace.extend(net.take_trace());
    }
    net.run_until_idle();
    net.check_idle().unwrap();
    seen.deliveries.extend(std::iter::from_fn(|| net.poll_delivery()));
    seen.lost.extend(std::iter::from_fn(|| net.poll_lost()));
    assert!(seen.lost.is_sorted_by_key(|l| l.time));
    seen.lost.sort();
    seen.counters.push(net.counters());
    seen.trace.extend(net.take_trace());
    seen.loads =
        (0..net.routers() as u32).flat_map(|r| (0..8).map(move |p| (r, p))).map(|(r, p)| net.link_load(r, p)).collect();
    seen
}

fn shape() -> impl Strategy<Value = AnyTopology> {
    let grid = (prop::collection::vec(1u16..6, 1..4), any::<bool>())
        .prop_filter("small", |(d, _)| (2..=40).contains(&d.iter().map(|&x| x as u32).product::<u32>()))
        .prop_map(|(dims, wrap)| Grid::new(&dims, wrap).unwrap().into());
    let tree = (2u16..4, 1u8..4).prop_map(|(arity, levels)| FatTree::new(arity, levels).unwrap().into());
    let others = ["clos:2,3,5", "clos:1,1,1", "cayley:13:1,5", "cayley:s3:213,321", "cayley:3x4:1.1,0.1"];
    let other = prop::sample::select(others.to_vec()).prop_map(|text| text.parse().unwrap());
    let ways = prop::sample::select(vec![Routing::Minimal, Routing::Valiant, Routing::UpDown]);
    let fits = |(graph, routing): (graph::Graph, Routing)| {
        let graph: AnyTopology = Graph::of("graph", "random", &graph.text()).unwrap().into();
        Some(graph.with_routing(routing).unwrap()).filter(|graph| graph.classes().count() <= VCS_MAX.into())
    };
    let graph = (graph::graphs(20), ways).prop_filter_map("not too many classes", fits);
    let looking = prop::sample::select(vec![
        ("dragonfly:1,3,9", Routing::Ugal),
        ("dragonfly:2,1,1", Routing::Ugal),
        ("dragonfly:2,2,5", Routing::Par),
        ("dragonfly:2,1,5", Routing::UgalG),
        ("dragonfly:1,3,9", Routing::UgalG),
        ("hyperx:3x4,2", Routing::Ugal),
        ("hyperx:3x4,2", Routing::Adaptive),
        ("torus:4x5", Routing::Adaptive),
        ("mesh:3x2x4", Routing::Adaptive),
    ])
    .prop_map(|(text, routing)| text.parse::<AnyTopology>().unwrap().with_routing(routing).unwrap());
    prop_oneof![4 => grid, 2 => tree, 2 => other, 4 => graph, 3 => looking]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_number_of_threads_changes_nothing(
        shape in shape(),
        half_vcs in half_vcs(),
        flits in prop::sample::select(vec![1u16, 2, 9]),
        switching in prop::sample::select(vec![
            (Switching::CutThrough, 12),
            (Switching::Wormhole { hold: false }, 3),
            (Switching::Wormhole { hold: true }, 3),
        ]),
        seed in any::<u64>(),
    ) {
        let adaptive = shape.routing() == Routing::Adaptive;
        let (switching, buffer_flits) = if adaptive { (Switching::CutThrough, 12) } else { switching };
        let vcs = shape.classes().count().max(2 * half_vcs as u32) as u8;
        let g = Generic { vcs, buffer_flits, packet_flits_max: flits, cycle: 1000, switching, ..Generic::default() };
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let alone = run(&config, 1, seed, flits);
        prop_assert!(alone.trace.len() > 100 && alone.deliveries.is_sorted_by_key(|d| (d.tail, d.dst)));
        for threads in [2, 3] {
            prop_assert_eq!(&run(&config, threads, seed, flits), &alone);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]

    #[test]
    fn nor_in_the_angara_profile(
        dims in prop::collection::vec(1u16..6, 1..4).prop_filter("small", |d| (2..=40).contains(&d.iter().product::<u16>())),
        wrap in any::<bool>(),
        slots in 2u16..5,
        channels in 1u8..3,
        coarse in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let base = Angara { slots, channels, ..Angara::default() };
        let flit = Rate { num: 1000, den: 1 };
        let p = match coarse {
            true => Angara { router: 1000, link: 1, credit: 1, flit_link: flit, flit_internal: flit, ..base },
            false => base,
        };
        let shape = Grid::new(&dims, wrap).unwrap().into();
        let config = Setup { shape, profile: Profile::Angara(p), seed, faults: Vec::new(), sets: Vec::new() };
        let alone = run(&config, 1, seed, 18);
        prop_assert!(alone.trace.len() > 100 && alone.deliveries.is_sorted_by_key(|d| (d.tail, d.dst)));
        for threads in [2, 3] {
            prop_assert_eq!(&run(&config, threads, seed, 18), &alone);
        }
    }
}

#[test]
fn nor_where_links_and_nodes_are_down_from_the_beginning() {
    let network = |shape: &str, faults: &[&str]| Setup {
        shape: shape.parse().unwrap(),
        profile: Profile::Angara(Angara::default()),
        seed: 1,
        faults: faults.iter().map(|f| f.to_string()).collect(),
        sets: Vec::new(),
    };
    for (shape, faults) in [
        ("torus:4x4", &["link 0,0 +X down", "node 2,1 down"][..]),
        ("mesh:3x3", &["link 1,0 +Y down @0ps"]),
        ("torus:3x5x2", &["node 1,1,1 down", "link 0,2,0 -Y down", "link 2,2,0 +X down"]),
    ] {
        let config = network(shape, faults);
        let alone = run(&config, 1, 7, 18);
        let dead = faults.iter().any(|f| f.starts_with("node"));
        assert!(alone.deliveries.len() > 500 && alone.lost.is_empty() != dead, "{shape}");
        for threads in [2, 3] {
            assert_eq!(run(&config, threads, 7, 18), alone, "{shape}, {threads} threads");
        }
    }
    for fault in ["corrupt=1%", "link 0,0 +X corrupt=1%", "link 0,0 +X down @1us"] {
        let refused = Network::with_threads(&network("torus:4x4", &[fault]), 2).err().unwrap().to_string();
        assert!(refused.contains(fault) && refused.contains("give 1"), "{refused}");
    }
}

#[test]
fn more_threads_than_routers_are_as_good_as_one() {
    let config = Setup {
        shape: "torus:2".parse().unwrap(),
        profile: Profile::Generic(Generic::default()),
        seed: 1,
        faults: Vec::new(),
        sets: Vec::new(),
    };
    assert_eq!(run(&config, 8, 3, 1), run(&config, 1, 3, 1));
}

/// Traces of one instant have no order between parts.
fn sorted(mut seen: Seen) -> Seen {
    seen.trace.sort();
    seen
}

#[test]
fn several_processes_see_together_what_one_sees() {
    let generic = |shape: &str, switching, faults: &[&str]| {
        let g = Generic { vcs: 4, buffer_flits: 12, packet_flits_max: 9, cycle: 1000, switching, ..Generic::default() };
        let faults = faults.iter().map(|f| f.to_string()).collect();
        Setup { shape: shape.parse().unwrap(), profile: Profile::Generic(g), seed: 5, faults, sets: Vec::new() }
    };
    let angara = |shape: &str, faults: &[&str]| {
        let profile = Profile::Angara(Angara { channels: 2, ..Angara::default() });
        Setup { profile, ..generic(shape, Switching::CutThrough, faults) }
    };
    let worm = |hold| Switching::Wormhole { hold };
    for config in [
        generic("torus:4x4", Switching::CutThrough, &[]),
        generic("fat-tree:3,2", Switching::CutThrough, &[]),
        generic("mesh:3x4x2", worm(false), &[]),
        generic("clos:2,3,5", worm(true), &[]),
        angara("torus:3x4", &[]),
        angara("mesh:5x2x2", &["link 0,0,0 +X down", "node 2,1,1 down"]),
    ] {
        let flits = if matches!(config.profile, Profile::Angara(_)) { 18 } else { 9 };
        let alone = sorted(run(&config, 1, 3, flits));
        assert!(alone.deliveries.len() > 500, "{}", config.shape);
        for processes in [1, 2, 3, 4] {
            assert_eq!(run_among(&config, processes, 3, flits), alone, "{}, {processes} processes", config.shape);
        }
    }
    let few = in_memory(17).remove(16);
    let refused = Network::among(&angara("torus:4x4", &[]), few).err().unwrap().to_string();
    assert!(refused.contains("17") && refused.contains("16 parts"), "{refused}");
}

#[test]
fn nobody_injects_for_another_process() {
    let profile = Profile::Angara(Angara::default());
    let config = Setup { shape: "torus:3x3".parse().unwrap(), profile, seed: 1, faults: Vec::new(), sets: Vec::new() };
    let own: Vec<_> =
        in_memory(4).into_iter().map(|peers| Network::among(&config, peers).unwrap().own_endpoints()).collect();
    assert_eq!(own, [0..2, 2..4, 4..6, 6..9]);
}
