//! One, two and three threads simulate the same network to the last bit: every delivery in the same
//! order, every counter, at every step.

use angara_fabric::rng::{below, mix};
use angara_model::topology::{FatTree, Grid, Routing};
use angara_model::{
    Angara, AnyTopology, Delivery, Generic, Injection, LinkLoad, Lost, Network, Profile, Rate, Setup, Switching,
    Totals, TraceEvent,
};
use proptest::prelude::*;

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
    let mut net = Network::with_threads(config, threads).unwrap();
    net.count_links();
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
        packets.into_iter().for_each(|p| net.inject(p));
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
    let looking = prop::sample::select(vec!["dragonfly:1,3,9", "dragonfly:2,1,1", "hyperx:3x4,2"])
        .prop_map(|text| text.parse::<AnyTopology>().unwrap().with_routing(Routing::Ugal).unwrap());
    prop_oneof![4 => grid, 2 => tree, 2 => other, 2 => looking]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_number_of_threads_changes_nothing(
        shape in shape(),
        half_vcs in 1u8..4,
        flits in prop::sample::select(vec![1u16, 2, 9]),
        switching in prop::sample::select(vec![
            (Switching::CutThrough, 12),
            (Switching::Wormhole { hold: false }, 3),
            (Switching::Wormhole { hold: true }, 3),
        ]),
        seed in any::<u64>(),
    ) {
        let (switching, buffer_flits) = switching;
        let vcs = shape.classes().count().max(2 * half_vcs as u32) as u8;
        let g = Generic { vcs, buffer_flits, packet_flits_max: flits, cycle: 1000, switching };
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new() };
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
        slots in 2u8..5,
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
        let config = Setup { shape, profile: Profile::Angara(p), seed, faults: Vec::new() };
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
    };
    assert_eq!(run(&config, 8, 3, 1), run(&config, 1, 3, 1));
}
