//! Placements are placements, cost no more than the linear one, and small ones are the best there are.

use super::*;
use angara_fabric::Outage;
use angara_fabric::rng::splitmix;
use angara_net::torus::Shape;
use proptest::prelude::*;

fn shape(text: &str) -> Shape {
    text.parse().unwrap()
}

fn all(shape: Shape) -> Vec<NodeId> {
    (0..shape.nodes() as NodeId).collect()
}

/// Sparse traffic that a seed decides.
fn drawn(processes: u32, pairs: u64, seed: u64) -> Traffic {
    let draw = |i: u64, side: u64| splitmix(seed, 3 * i + side);
    let one = |i| {
        let process = |side| (draw(i, side) % u64::from(processes)) as u32;
        (process(0), process(1), 1 + draw(i, 2) % 1000)
    };
    Traffic::new(processes, (0..pairs).map(one)).unwrap()
}

/// Neighbours of a grid exchange a thousand bytes each; processes are numbered as `seed` shuffles them.
fn stencil(grid: Shape, seed: u64) -> Traffic {
    let number = sites::shuffled(grid.nodes(), seed, 99);
    let links = angara_net::Link::all(grid);
    let pair = |link: angara_net::Link| {
        let to = grid.neighbour(link.node, link.dir).unwrap();
        (number[link.node as usize], number[to as usize], 1000)
    };
    Traffic::new(grid.nodes() as u32, links.map(pair)).unwrap()
}

/// The fewest hop-bytes of all placements, one process per node.
fn optimum(traffic: &Traffic, shape: Shape) -> u64 {
    fn go(traffic: &Traffic, shape: &Shape, nodes: &mut Vec<NodeId>, so_far: u64, best: &mut u64) {
        if so_far >= *best {
            return;
        }
        let p = nodes.len() as u32;
        if p == traffic.processes() {
            *best = so_far;
            return;
        }
        let free: Vec<NodeId> = (0..shape.nodes() as NodeId).filter(|node| !nodes.contains(node)).collect();
        for node in free {
            let way = |q: u32| u64::from(shape.distance(node, nodes[q as usize]));
            let placed = traffic.peers(p).iter().filter(|peer| peer.process < p);
            let more: u64 = placed.map(|peer| peer.both() * way(peer.process)).sum();
            nodes.push(node);
            go(traffic, shape, nodes, so_far + more, best);
            nodes.pop();
        }
    }
    let mut best = u64::MAX;
    go(traffic, &shape, &mut Vec::new(), 0, &mut best);
    best
}

#[test]
fn few_processes_get_the_best_placement() {
    let (mut tried, mut reached) = (0, 0);
    for seed in 0..60 {
        for (torus, processes) in [("4x2", 7), ("3x3", 6), ("7", 7), ("mesh:4x2", 6), ("2x2x2", 7), ("9", 5)] {
            let traffic = drawn(processes, 12, seed);
            let sites = Sites::new(shape(torus), &[], all(shape(torus)), 1).unwrap();
            let found = map(&traffic, &sites, Effort::seeded(seed)).unwrap();
            let least = optimum(&traffic, shape(torus));
            assert!(found.cost.hop_bytes >= least, "{torus}, seed {seed}: {:?} is below {least}", found.cost);
            tried += 1;
            reached += u64::from(found.cost.hop_bytes == least);
        }
    }
    assert!(reached * 100 >= tried * 95, "the best placement was found in {reached} of {tried} cases");
}

#[test]
fn a_shuffled_stencil_is_put_in_order() {
    for (grid, torus) in [("4x4", "4x4"), ("4x4x2", "4x4x2"), ("8x4", "8x4")] {
        let traffic = stencil(shape(grid), 5);
        let sites = Sites::new(shape(torus), &[], all(shape(torus)), 1).unwrap();
        let linear = cost(&traffic, &sites, &sites.linear(traffic.processes()).unwrap()).unwrap();
        let found = map(&traffic, &sites, Effort::seeded(1)).unwrap();
        assert!(linear.hop_bytes > traffic.bytes() * 3 / 2, "{linear:?}");
        assert!(found.cost.hop_bytes <= traffic.bytes() * 11 / 10, "{grid} on {torus}: {:?}", found.cost);
        assert!(found.cost.link_bytes < linear.link_bytes, "{:?}", found.cost);
    }
}

#[test]
fn a_thousand_processes_come_much_closer() {
    let traffic = stencil(shape("32x32"), 5);
    let sites = Sites::new(shape("16x8x8"), &[], all(shape("16x8x8")), 1).unwrap();
    let linear = cost(&traffic, &sites, &sites.linear(1024).unwrap()).unwrap();
    let found = map(&traffic, &sites, Effort::seeded(1)).unwrap();
    assert!(found.cost.hop_bytes * 3 < linear.hop_bytes, "{:?}, linear {linear:?}", found.cost);
}

#[test]
fn the_busiest_link_is_relieved_where_that_costs_no_hop_bytes() {
    let mut relieved = 0;
    for seed in 0..40 {
        // With weights that are all equal many swaps cost nothing.
        let pairs: Vec<_> = drawn(16, 40, seed).pairs().iter().map(|&(from, to, _)| (from, to, 100)).collect();
        let traffic = Traffic::new(16, pairs).unwrap();
        let sites = Sites::new(shape("4x4"), &[], all(shape("4x4")), 1).unwrap();
        let mut search = local_search::Search::new(&traffic, &sites, Effort::seeded(seed));
        let (before, after) = search.before_and_after();
        let cost = |nodes: &[NodeId]| cost(&traffic, &sites, nodes).unwrap();
        let (before, after) = (cost(&before), cost(&after));
        assert!(after.hop_bytes <= before.hop_bytes && after.link_bytes <= before.link_bytes, "seed {seed}");
        relieved += u64::from(after.link_bytes < before.link_bytes);
    }
    assert!(relieved > 5, "{relieved} of 40");
}

#[test]
fn several_processes_of_a_node_need_no_link() {
    let traffic = Traffic::new(4, [(0, 3, 100), (1, 2, 100)]).unwrap();
    let sites = Sites::new(shape("4"), &[], vec![1, 3], 2).unwrap();
    assert_eq!(sites.linear(4).unwrap(), [1, 1, 3, 3]);
    let found = map(&traffic, &sites, Effort::seeded(1)).unwrap();
    assert_eq!((found.cost.hop_bytes, found.cost.link_bytes, found.cost.link), (0, 0, None));
    assert!(found.nodes[0] == found.nodes[3] && found.nodes[1] == found.nodes[2], "{:?}", found.nodes);
}

#[test]
fn detours_count_as_long_as_they_are() {
    // On a ring of six that is cut, nodes 0 and 5 are five hops apart.
    let cut = angara_net::Link { node: 0, dir: "-X".parse().unwrap() };
    let dead = [Outage::Link(cut)];
    let sites = Sites::new(shape("6"), &dead, all(shape("6")), 1).unwrap();
    let traffic = Traffic::new(2, [(0, 1, 10)]).unwrap();
    assert_eq!(cost(&traffic, &sites, &[0, 5]).unwrap().hop_bytes, 50);
    assert_eq!(map(&traffic, &sites, Effort::seeded(1)).unwrap().cost.hop_bytes, 10);
}

#[test]
fn sites_that_are_none_are_refused() {
    let sites = |nodes: &[NodeId], dead: &[Outage]| Sites::new(shape("4"), dead, nodes.to_vec(), 1).unwrap_err();
    assert_eq!(sites(&[4], &[]), MappingError::NoNode(4));
    assert_eq!(sites(&[1, 2, 1], &[]), MappingError::Twice(1));
    assert_eq!(sites(&[1, 2], &[Outage::Node(2)]), MappingError::Dead(2));
    assert_eq!(sites(&[0, 2], &[Outage::Node(1), Outage::Node(3)]), MappingError::Unreachable(0, 2));
    let traffic = drawn(3, 5, 1);
    let few = Sites::new(shape("4"), &[], vec![0, 1], 1).unwrap();
    let e = map(&traffic, &few, Effort::seeded(1)).unwrap_err();
    assert_eq!(e, MappingError::TooMany { processes: 3, nodes: 2, ppn: 1 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn placements_keep_to_the_places_and_never_cost_more_than_the_linear_one(
        torus in prop::sample::select(vec!["4x2x2", "5x3", "mesh:4x4", "12", "8x5x4"]),
        ppn in 1u32..4,
        share in 1u64..=100,
        density in 1u64..8,
        seed in any::<u64>(),
    ) {
        let shape = shape(torus);
        let nodes: Vec<NodeId> = all(shape).into_iter().filter(|&n| !splitmix(seed, n.into()).is_multiple_of(4)).collect();
        prop_assume!(!nodes.is_empty());
        let processes = (nodes.len() as u64 * u64::from(ppn) * share).div_ceil(100) as u32;
        let traffic = drawn(processes, density * u64::from(processes), seed);
        let sites = Sites::new(shape, &[], nodes.clone(), ppn).unwrap();
        let effort = Effort { seed, terms: 200_000 };
        let found = map(&traffic, &sites, effort).unwrap();
        prop_assert_eq!(found.nodes.len(), processes as usize);
        for node in &found.nodes {
            prop_assert!(nodes.contains(node));
            prop_assert!(found.nodes.iter().filter(|other| *other == node).count() <= ppn as usize);
        }
        let linear = cost(&traffic, &sites, &sites.linear(processes).unwrap()).unwrap();
        prop_assert!(!linear.is_below(&found.cost), "{:?}, linear {:?}", found.cost, linear);
        prop_assert_eq!(cost(&traffic, &sites, &found.nodes).unwrap(), found.cost);
        prop_assert_eq!(map(&traffic, &sites, effort).unwrap(), found);
    }
}
