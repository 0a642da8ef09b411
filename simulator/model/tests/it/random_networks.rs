//! The model against brute-force simulators written from `docs/explain/model.md`: every packet's arrival
//! time and router count, exactly, on random small networks with random traffic. In the angara
//! profile also with links that corrupt, double, reorder, delay and slow down packets (with or without a seed of their own), and cables and nodes that
//! fail: which packets are dropped and when, and what every link counts.
//!
//! `PROPTEST_CASES=5000 cargo test --release -p angara-model random_networks::` tries more networks.

use angara_fabric::raw::channels_max;
use angara_fabric::{FlitTime, Params};
use angara_model::topology::VCS_MAX;
use angara_model::{
    Angara, AnyTopology, Generic, Injection, Network, Profile, Rate, Setup, Switching, Topology, TrafficClass, topology,
};
use angara_net::NodeSet;
use angara_oracle as oracle;
use oracle::angara::{Counts, Fate, Fault, How, Met};
use oracle::generic::dragonfly;
use oracle::generic::graph::{self, Way};
use oracle::generic::turns::Turns;
use oracle::random::{ROUTES, below, mix, word};
use oracle::{Grid, Received, Sent};
use proptest::prelude::*;

mod faults;

/// Half of a number of virtual channels: few, which wait for each other often, or up to as many as there may be.
fn half_vcs() -> impl Strategy<Value = u8> {
    prop_oneof![1u8..4, 1..=VCS_MAX / 2]
}

fn run_model(config: &Setup, sent: &[Sent], step: u64) -> Vec<Received> {
    run_model_in(config, sent, step, 1)
}

/// The same by several threads.
fn run_model_in(config: &Setup, sent: &[Sent], step: u64, threads: usize) -> Vec<Received> {
    let fate = fate_in(Network::with_threads(config, threads).unwrap(), &config.shape, sent, step);
    assert!(fate.dropped.is_empty(), "nothing is dropped without faults");
    fate.received
}

fn fate_in_model(config: &Setup, sent: &[Sent], step: u64) -> Fate {
    fate_in(Network::new(config).unwrap(), &config.shape, sent, step)
}

fn fate_in(mut net: Network, shape: &AnyTopology, sent: &[Sent], step: u64) -> Fate {
    let mut fate = Fate::default();
    // Packets may be handed in in any order between sources, at any time before they are due.
    let mut order: Vec<usize> = (0..sent.len()).collect();
    order.sort_by_key(|&i| (sent[i].at / step, mix(sent[i].src as u64), i));
    for i in order {
        let s = &sent[i];
        if s.at / step * step > net.now() + 1 {
            net.advance(s.at / step * step - 1);
            collect(&mut net, &mut fate);
        }
        let class = if s.request { TrafficClass::Request } else { TrafficClass::Response };
        let (flits, tag) = (s.flits as u16, i as u64);
        net.inject(Injection {
            src: s.src,
            dst: s.dst,
            flits,
            class,
            adaptive: s.adaptive,
            at: s.at,
            tag,
            traced: false,
        });
    }
    net.run_until_idle();
    collect(&mut net, &mut fate);
    net.check_idle().unwrap();
    fate.received.sort();
    fate.dropped.sort();
    if let AnyTopology::Grid(grid) = shape {
        for (node, port) in (0..net.routers() as u32).flat_map(|n| (0..2 * grid.ndims()).map(move |p| (n, p))) {
            let load = net.link_load(node, port as u8);
            let counts = Counts {
                wrong: load.crc_errors,
                repeated: load.replays,
                twice: load.duplicates,
                early: load.reordered,
            };
            if counts != Counts::default() {
                fate.links.push((node, port, counts));
            }
        }
    }
    fate
}

fn collect(net: &mut Network, fate: &mut Fate) {
    while let Some(d) = net.poll_delivery() {
        fate.received.push((d.tag as usize, d.tail, d.routers as u64));
    }
    while let Some(l) = net.poll_lost() {
        fate.dropped.push((l.tag as usize, l.time));
    }
}

/// Random packets: `gap` is the mean time between two of one source.
fn traffic(seed: u64, endpoints: u64, count: u64, lengths: &[u64], gap: u64, hot: bool) -> Vec<Sent> {
    let mut sent: Vec<Sent> = (0..count)
        .map(|i| {
            let r = |n: u64| mix(seed ^ mix(8 * i + n));
            let to_hot = hot && r(7) % 3 == 0;
            Sent {
                src: below(r(0), endpoints) as u32,
                dst: if to_hot { 0 } else { below(r(1), endpoints) as u32 },
                flits: lengths[below(r(2), lengths.len() as u64) as usize],
                at: 1 + below(r(3), gap * count / endpoints + 1),
                request: r(4) % 2 == 0,
                adaptive: r(5) % 2 == 0,
            }
        })
        .collect();
    sent.sort_by_key(|s| (s.at, s.src));
    sent
}

fn grid_shape() -> impl Strategy<Value = topology::Grid> {
    oracle::grid_shape().prop_map(|text| match text.parse() {
        Ok(AnyTopology::Grid(grid)) => grid,
        other => panic!("{text}: {other:?}"),
    })
}

/// Networks of all kinds for which 8 virtual channels are enough.
fn any_shape() -> impl Strategy<Value = AnyTopology> {
    let shape = |text: String| text.parse().ok().filter(|shape: &AnyTopology| shape.classes().count() <= 8);
    oracle::generic::any_shape().prop_filter_map("one network, not too wide", shape)
}

/// Least cycles of a link, and time at both ends, of half of all networks as BookSim has them.
fn slower() -> impl Strategy<Value = (u16, u64)> {
    prop_oneof![Just((1, 0)), (1u16..90, prop::sample::select(vec![0u64, 1, 999, 1000, 30_500]))]
}

/// A network of generic routers as the oracle knows it.
fn parameters(config: &Setup, sent: &[Sent]) -> oracle::generic::Parameters {
    parameters_of(oracle::generic::read(&config.shape.to_string()), config, sent)
}

fn parameters_of(net: Box<dyn oracle::generic::Net>, config: &Setup, sent: &[Sent]) -> oracle::generic::Parameters {
    let Profile::Generic(g) = &config.profile else { panic!("a network of the angara profile") };
    let mut sequence = vec![0; config.shape.endpoints()];
    let words = sent.iter().map(|s| {
        let n = &mut sequence[s.src as usize];
        *n += 1;
        word(config.seed, s.src as u64, ROUTES, *n - 1)
    });
    let words = words.collect();
    oracle::generic::Parameters {
        net,
        vcs: g.vcs.into(),
        buffer: g.buffer_flits.into(),
        link: g.link.into(),
        ends: g.ends,
        words,
        rates: Default::default(),
        rates_later: Vec::new(),
        changes: Vec::new(),
    }
}

/// A graph of the oracle as the model knows it, by its file.
fn graph_of(graph: &graph::Graph, way: Way) -> AnyTopology {
    let shape: AnyTopology = topology::Graph::of("graph", "random", &graph.text()).unwrap().into();
    let routing = match way {
        Way::Minimal => topology::Routing::Minimal,
        Way::Valiant => topology::Routing::Valiant,
        Way::UpDown => topology::Routing::UpDown,
    };
    shape.with_routing(routing).unwrap()
}

/// How packets of a dragonfly find their way, in the words of both.
fn dragonfly_way() -> impl Strategy<Value = (dragonfly::Way, topology::Routing)> {
    use topology::Routing;
    prop::sample::select(vec![
        (dragonfly::Way::Minimal, Routing::Minimal),
        (dragonfly::Way::Valiant, Routing::Valiant),
        (dragonfly::Way::Ugal, Routing::Ugal),
        (dragonfly::Way::UgalG, Routing::UgalG),
        (dragonfly::Way::Par, Routing::Par),
    ])
}

fn oracle_grid(grid: &topology::Grid) -> Grid {
    Grid { sizes: grid.dims().iter().map(|&d| d as u32).collect(), wrap: grid.wraps() }
}

/// As many as PROPTEST_CASES says, else `count`.
fn cases(count: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(count))
}

/// Where two fates differ.
fn differences(sent: &[Sent], got: &Fate, want: &Fate) -> String {
    let mut text = String::new();
    for i in 0..sent.len() {
        let of = |f: &Fate| {
            let received = f.received.iter().find(|r| r.0 == i).copied();
            (received, f.dropped.iter().find(|d| d.0 == i).copied())
        };
        if of(got) != of(want) {
            text += &format!("{:?}: {:?} in the model, {:?} in the oracle\n", sent[i], of(got), of(want));
        }
    }
    if got.links != want.links {
        text += &format!("links: {:?} in the model, {:?} in the oracle\n", got.links, want.links);
    }
    text
}

/// The same impairment, ended, and the command that ends it.
fn ended(how: How) -> (How, &'static str) {
    match how {
        How::Wrong(_) => (How::Wrong(0), "corrupt=0"),
        How::Twice(_) => (How::Twice(0), "dup=0"),
        How::Early(_) => (How::Early(0), "reorder=0"),
        How::Delay(_) => (How::Delay(0), "delay=0s"),
        How::Rate(_) => (How::Rate(0), "rate=0"),
        How::Seed(_) => (How::Seed(None), "seed=none"),
    }
}

/// Something that may befall packets, by a random number.
fn impairment(random: u64) -> (How, String) {
    let share = [0, 1_000, 20_000, 100_000, 250_000, 500_000, 950_000, 1_000_000][below(mix(random ^ 1), 8) as usize];
    let delay = [0, 1, 1_000, 64_000, 3_000_000][below(mix(random ^ 2), 5) as usize];
    let rate = [0, 20_000_000, 3_000_000_000, 7_499_999_999, 16_000_000_000, 90_000_000_000];
    let rate = rate[below(mix(random ^ 3), 6) as usize];
    let seed = mix(random ^ 4) >> 60;
    match below(random, 7) {
        0..2 => (How::Wrong(share), format!("corrupt={share}ppm")),
        2 => (How::Twice(share), format!("dup={share}ppm")),
        3 => (How::Early(share), format!("reorder={share}ppm")),
        4 => (How::Delay(delay), format!("delay={delay}ps")),
        5 => (How::Rate(rate), format!("rate={rate}")),
        _ => (How::Seed(Some(seed)), format!("seed={seed}")),
    }
}

/// Returns what goes wrong in a network, and the same in the model's words.
fn faults(grid: &Grid, seed: u64, count: u64, until: u64, coarse: bool) -> (Vec<(u64, Fault)>, Vec<String>) {
    let cables: Vec<(u32, usize)> = (0..grid.nodes())
        .flat_map(|node| (0..2 * grid.sizes.len()).map(move |port| (node, port)))
        .filter(|&(node, port)| {
            let (size, c) = (grid.sizes[port / 2], grid.coords(node)[port / 2]);
            size > 1 && (grid.wrap || if port % 2 == 0 { c + 1 < size } else { c > 0 })
        })
        .collect();
    let (mut list, mut texts) = (Vec::new(), Vec::new());
    let place = |node: u32| grid.coords(node).iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let direction = |port: usize| format!("{}{}", ["+", "-"][port % 2], ["X", "Y", "Z", "W"][port / 2]);
    let mut times: Vec<u64> = (0..count).map(|i| 1 + below(mix(seed ^ mix(64 * i)), until)).collect();
    times.sort_unstable();
    for (i, at) in times.into_iter().enumerate() {
        let r = |n: u64| mix(seed ^ mix(64 * i as u64 + n));
        let at = if coarse { at.div_ceil(1000) * 1000 } else { at };
        // Half of what happens happens to two cables, so that it comes together.
        let among = if below(r(4), 2) == 0 { cables.len() } else { cables.len().min(2) };
        let first = below(seed, cables.len() as u64);
        let index = (first + below(r(3), among as u64)) as usize % cables.len().max(1);
        let Some(&(node, port)) = cables.get(index) else { continue };
        let (how, effect) = impairment(r(2));
        let mut impair = |at: u64, how: How, effect: &str, all: bool| {
            if all {
                list.extend(cables.iter().map(|&(node, port)| (at, Fault::Impair { node, port, how })));
                texts.push(format!("{effect} @{at}ps"));
            } else {
                list.push((at, Fault::Impair { node, port, how }));
                texts.push(format!("link {} {} {effect} @{at}ps", place(node), direction(port)));
            }
        };
        match below(r(1), 8) {
            0..2 => {
                list.push((at, Fault::Cable { node, port }));
                texts.push(format!("link {} {} down @{at}ps", place(node), direction(port)));
            }
            2 => {
                list.push((at, Fault::Node(node)));
                texts.push(format!("node {} down @{at}ps", place(node)));
            }
            what => {
                impair(at, how, &effect, what > 5);
                if below(r(5), 2) == 0 {
                    let lasts = 1 + below(r(6), until);
                    let (end, effect) = ended(how);
                    impair(if coarse { (at + lasts).div_ceil(1000) * 1000 } else { at + lasts }, end, effect, what > 5);
                }
            }
        }
    }
    (list, texts)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn generic_router_agrees_with_the_oracle(
        shape in any_shape(),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 1, 2, 5, 16]),
        spare in 0u16..12,
        (link, ends) in slower(),
        load in 1u64..12,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let lengths: Vec<u64> = (1..=longest).collect();
        let vcs = shape.classes().count().max(2 * half_vcs as u32) as u8;
        let buffer_flits = longest as u16 + spare;
        let g = Generic { vcs, buffer_flits, packet_flits_max: longest as u16, cycle: 1000, link, ends, ..Generic::default() };
        let config = Setup { shape: shape.clone(), profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let endpoints = shape.endpoints() as u64;
        let sent = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let p = parameters(&config, &sent);
        let want = oracle::generic::run(&p, &sent, 1000);
        prop_assert_eq!(run_model(&config, &sent, 1000), want);
    }

    #[test]
    fn wormhole_switching_agrees_with_the_oracle(
        shape in any_shape(),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 2, 5, 16, 40]),
        buffer_flits in 1u16..9,
        hold in any::<bool>(),
        (link, ends) in slower(),
        load in 1u64..12,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let lengths: Vec<u64> = (1..=longest).collect();
        let vcs = shape.classes().count().max(2 * half_vcs as u32) as u8;
        let switching = Switching::Wormhole { hold };
        let packet_flits_max = longest as u16;
        let g = Generic { vcs, buffer_flits, packet_flits_max, cycle: 1000, switching, link, ends, ..Generic::default() };
        let config = Setup { shape: shape.clone(), profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let endpoints = shape.endpoints() as u64;
        let sent = traffic(seed, endpoints, 30 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let want = oracle::wormhole::run(&parameters(&config, &sent), hold, &sent, 1000);
        prop_assert_eq!(run_model(&config, &sent, 1000), want);
    }

    #[test]
    fn graphs_with_delays_agree_with_the_oracle(
        graph in graph::graphs(20),
        way in prop::sample::select(vec![Way::Minimal, Way::Valiant, Way::UpDown]),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..40,
        wormhole in prop::sample::select(vec![None, Some(false), Some(true)]),
        load in 1u64..12,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let shape = graph_of(&graph, way);
        let classes = shape.classes().count();
        prop_assume!(classes <= VCS_MAX.into());
        let vcs = classes.max(2 * half_vcs as u32) as u8;
        let switching = wormhole.map_or(Switching::CutThrough, |hold| Switching::Wormhole { hold });
        let buffer_flits = spare + if wormhole.is_none() { longest as u16 } else { 1 };
        let g = Generic { vcs, buffer_flits, packet_flits_max: longest as u16, cycle: 1000, switching, ..Generic::default() };
        let endpoints = shape.endpoints() as u64;
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let sent = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let p = parameters_of(graph.net(way), &config, &sent);
        let want = match wormhole {
            None => oracle::generic::run(&p, &sent, 1000),
            Some(hold) => oracle::wormhole::run(&p, hold, &sent, 1000),
        };
        prop_assert_eq!(run_model(&config, &sent, 1000), want);
    }

    #[test]
    fn adaptive_packets_agree_with_the_oracle(
        text in prop_oneof![
            3 => oracle::generic::grid::shapes(),
            1 => prop::sample::select(vec!["hyperx:4x3,2", "hyperx:2x3x3,1", "hyperx:5,3"]).prop_map(String::from),
        ],
        more_vcs in prop_oneof![0u8..4, 0..=VCS_MAX - 4],
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..20,
        load in 1u64..24,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let shape = text.parse::<AnyTopology>().unwrap().with_routing(topology::Routing::Adaptive).unwrap();
        let vcs = shape.classes().count().max(3) as u8 + more_vcs;
        let g = Generic { vcs, buffer_flits: spare + longest as u16, packet_flits_max: longest as u16, cycle: 1000,
                          ..Generic::default() };
        let endpoints = shape.endpoints() as u64;
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let sent = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let p = parameters_of(oracle::generic::read_adaptive(&text), &config, &sent);
        prop_assert_eq!(run_model(&config, &sent, 1000), oracle::generic::run(&p, &sent, 1000));
    }

    #[test]
    fn turn_models_agree_with_the_oracle(
        (columns, rows) in (1u16..6, 1u16..6),
        more in prop::sample::select(vec!["", ",c=2", ",x=2", ",c=2,x=2"]),
        (turns, routing) in prop::sample::select(vec![
            (Turns::WestFirst, topology::Routing::WestFirst),
            (Turns::OddEven, topology::Routing::OddEven),
        ]),
        vcs in 1u8..5,
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..20,
        load in 1u64..24,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let text = format!("mesh:{columns}x{rows}{more}");
        let shape = text.parse::<AnyTopology>().unwrap().with_routing(routing).unwrap();
        let g = Generic { vcs, buffer_flits: spare + longest as u16, packet_flits_max: longest as u16, cycle: 1000,
                          ..Generic::default() };
        let endpoints = shape.endpoints() as u64;
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let sent = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let p = parameters_of(oracle::generic::turns::of(&text, turns), &config, &sent);
        prop_assert_eq!(run_model(&config, &sent, 1000), oracle::generic::run(&p, &sent, 1000));
    }

    /// Most packets go to the next group: a decision by queues is worth something.
    #[test]
    fn dragonflies_agree_with_the_oracle(
        text in prop_oneof![
            (1u16..3, 1u16..8, 1u16..20).prop_map(|(p, local, global)| format!("{p},{local},{global}")),
            dragonfly::general(),
        ],
        (way, routing) in dragonfly_way(),
        more_vcs in prop_oneof![0u8..4, 0..=VCS_MAX - 4],
        threshold in prop::sample::select(vec![30u16, 0, 3, 100]),
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..100,
        wormhole in prop::sample::select(vec![None, Some(false), Some(true)]),
        load in 1u64..24,
        seed in any::<u64>(),
    ) {
        let shape = format!("dragonfly:{text}").parse::<AnyTopology>().unwrap().with_routing(routing).unwrap();
        let shape = shape.with_threshold(threshold).unwrap_or(shape);
        let vcs = shape.classes().count() as u8 + more_vcs;
        let switching = wormhole.map_or(Switching::CutThrough, |hold| Switching::Wormhole { hold });
        let buffer_flits = spare + longest as u16;
        let g = Generic { vcs, buffer_flits, packet_flits_max: longest as u16, cycle: 1000, switching, ..Generic::default() };
        let endpoints = shape.endpoints() as u64;
        let sizes = shape.layout().sizes;
        let config = Setup { shape, profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let mut sent = traffic(seed, endpoints, 15 * endpoints, &lengths, longest * 1000 * 6 / load, false);
        let group = sizes[0] * sizes[1];
        for s in sent.iter_mut().filter(|s| !mix(s.at).is_multiple_of(4)) {
            s.dst = (s.src / group * group + group + s.dst % group) % endpoints as u32;
        }
        let parameters = parameters_of(dragonfly::of(&text, way, threshold.into()), &config, &sent);
        let want = match wormhole {
            None => oracle::generic::run(&parameters, &sent, 1000),
            Some(hold) => oracle::wormhole::run(&parameters, hold, &sent, 1000),
        };
        prop_assert_eq!(run_model(&config, &sent, 1000), want);
    }

    #[test]
    fn angara_router_agrees_with_the_oracle(
        shape in grid_shape(),
        slots in 2u16..5,
        host in host(),
        load in 1u64..12,
        hot in any::<bool>(),
        escape in prop::sample::select(vec![1_000u64, 30_000, 64_000, 400_000]),
        age_limit in prop::sample::select(vec![1u8, 3, 64]),
        coarse in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // Coarse times make simultaneous events common.
        let defaults = host.over(Angara { slots, escape, age_limit, ..Angara::default() }, &shape);
        let p = if coarse {
            let flit = Rate { num: 1000, den: 1 };
            Angara { injection: 3000, ejection: 5000, router: 2000, link: 1000, credit: 1000, flit_link: flit,
                     flit_internal: flit, ..defaults }
        } else {
            defaults
        };
        let config = Setup { shape: shape.clone().into(), profile: Profile::Angara(p.clone()), seed, faults: Vec::new(), sets: Vec::new() };
        let endpoints = shape.endpoints() as u64 * p.channels as u64;
        let mut sent = traffic(seed, endpoints, 12 * endpoints.min(24), &[1, 2, 5, 18], 100_000 / load, hot);
        if coarse {
            sent.iter_mut().for_each(|s| s.at = s.at.div_ceil(1000) * 1000);
        }
        let want = oracle::angara::run(&oracle_grid(&shape), &p, &sent);
        prop_assert_eq!(run_model(&config, &sent, 1000), want);
    }

}

/// What the nodes of a network have besides their routers.
#[derive(Clone, Copy, Debug)]
enum Host {
    Endpoints(u8),
    /// Ports of the only endpoint, and their rate.
    Ports(u8, Option<FlitTime>),
}

fn host() -> impl Strategy<Value = Host> {
    let rates = [None, Some(FlitTime { num: 700, den: 1 }), Some(FlitTime { num: 2500, den: 1 })];
    prop_oneof![
        (1u8..3).prop_map(Host::Endpoints),
        (2u8..9, prop::sample::select(rates.to_vec())).prop_map(|(n, rate)| Host::Ports(n, rate)),
    ]
}

impl Host {
    fn over(self, chip: Angara, shape: &topology::Grid) -> Angara {
        match self {
            Host::Endpoints(channels) => Angara { channels, ..chip },
            Host::Ports(n, port_flit) => {
                let ports = n.min(channels_max(shape.ndims()) as u8);
                Angara { rest: Params { ports, port_flit, ..chip.rest }, ..chip }
            }
        }
    }
}

/// A network of the chip with faults at random times.
fn faulty() -> impl Strategy<Value = Faulty> {
    let network = (grid_shape(), 2u16..5, host(), prop::sample::select(vec![1u8, 3, 64]), any::<bool>());
    let traffic = (1u64..12, any::<bool>(), 1u64..10, any::<bool>(), any::<u64>());
    (network, traffic).prop_map(|((shape, slots, host, age_limit, coarse), (load, hot, count, divided, seed))| {
        let chip = host.over(Angara { slots, age_limit, ..Angara::default() }, &shape);
        let mut case = Faulty::new(shape, chip, load, hot, count, coarse, seed);
        if divided {
            case.divide(seed);
        }
        case
    })
}

fn agrees(case: &Faulty) -> Result<(), TestCaseError> {
    let (want, _) = case.fate_in_oracle();
    let got = fate_in_model(&case.config, &case.sent, 1000);
    prop_assert!(got == want, "{:?}\n{}", case.config.faults, differences(&case.sent, &got, &want));
    Ok(())
}

proptest! {
    #![proptest_config(cases(15))]

    #[test]
    fn angara_router_with_faults_agrees_with_the_oracle(case in faulty()) {
        agrees(&case)?;
    }
}

/// What takes the oracle minutes: `./test --part models`.
mod many {
    use super::*;

    proptest! {
        #![proptest_config(cases(150))]

        #[test]
        fn faults_agree_with_the_oracle(case in faulty()) {
            agrees(&case)?;
        }
    }
}

#[test]
fn the_oracle_knows_every_topology() {
    let forms = AnyTopology::forms();
    let kinds = forms.split(' ').filter_map(|form| form.trim_start_matches('(').split_once(':')).map(|form| form.0);
    for kind in kinds {
        assert!(oracle::generic::knows(kind), "{kind}: wire it by brute force in simulator/oracle/src/generic, too");
    }
}

/// A network that breaks and its traffic.
#[derive(Clone, Debug)]
struct Faulty {
    config: Setup,
    p: Angara,
    sent: Vec<Sent>,
    grid: Grid,
    faults: Vec<(u64, Fault)>,
}

impl Faulty {
    fn new(
        shape: topology::Grid,
        defaults: Angara,
        load: u64,
        hot: bool,
        count: u64,
        coarse: bool,
        seed: u64,
    ) -> Faulty {
        let p = if coarse {
            let flit = Rate { num: 1000, den: 1 };
            Angara {
                injection: 3000,
                ejection: 5000,
                router: 2000,
                link: 1000,
                credit: 1000,
                escape: 4000,
                flit_link: flit,
                flit_internal: flit,
                ..defaults
            }
        } else {
            defaults
        };
        let grid = oracle_grid(&shape);
        let endpoints = shape.endpoints() as u64 * p.channels as u64;
        let mut sent = traffic(seed, endpoints, 12 * endpoints.min(20), &[1, 2, 5, 18], 100_000 / load, hot);
        if coarse {
            sent.iter_mut().for_each(|s| s.at = s.at.div_ceil(1000) * 1000);
        }
        let until = sent.last().map_or(1, |s| s.at) + if coarse { 10_000 } else { 1_000_000 };
        let (faults, texts) = faults(&grid, seed, count, until, coarse);
        let config =
            Setup { shape: shape.into(), profile: Profile::Angara(p.clone()), seed, faults: texts, sets: Vec::new() };
        Faulty { config, p, sent, grid, faults }
    }
    fn fate_in_oracle(&self) -> (Fate, Met) {
        let sets: Vec<(Vec<u32>, Vec<u32>)> =
            self.config.sets.iter().map(|set| (set.nodes.clone(), set.transit.clone())).collect();
        oracle::angara::run_in_sets(&self.grid, &self.p, &self.sent, &self.faults, &sets, self.config.seed)
    }

    /// Divides the machine: two sets with ragged borders, some of whose nodes only pass packets on, and a rest.
    fn divide(&mut self, seed: u64) {
        let nodes = self.grid.nodes();
        let mut sets = vec![NodeSet::default(), NodeSet::default()];
        for node in 0..nodes {
            let draw = |n: u64| mix(seed ^ mix(u64::from(node) << 8 | n));
            let slab = 3 * node / nodes;
            let to = if below(draw(0), 8) == 0 { below(draw(1), 3) as u32 } else { slab };
            match sets.get_mut(to as usize) {
                Some(set) if below(draw(2), 6) == 0 => set.transit.push(node),
                Some(set) => set.nodes.push(node),
                None => {}
            }
        }
        sets.retain(|set| set.size() > 0);
        self.config.sets = sets;
    }
}

#[test]
fn sets_need_the_rules_about_parts() {
    let (mut delivered, mut dropped, mut out_of_order) = (0, 0, 0);
    for seed in 0..40u64 {
        let dims: Vec<u16> = [vec![4, 4], vec![3, 5], vec![6], vec![2, 3, 3], vec![4, 2, 2]][seed as usize % 5].clone();
        let shape = topology::Grid::new(&dims, seed % 3 != 0).unwrap();
        let mut case = Faulty::new(shape, Angara::default(), 6, seed % 2 == 0, seed % 4, seed % 4 == 0, mix(seed));
        case.divide(seed);
        let (fate, met) = case.fate_in_oracle();
        let got = fate_in_model(&case.config, &case.sent, 1000);
        assert!(got == fate, "seed {seed}: {:?}\n{}", case.config, differences(&case.sent, &got, &fate));
        delivered += fate.received.len();
        dropped += fate.dropped.len();
        out_of_order += met.out_of_order;
    }
    assert!(delivered > 1000 && dropped > 100 && out_of_order > 0, "{delivered} {dropped} {out_of_order}");
}

#[test]
fn random_faults_need_every_rule() {
    let mut all = Met::default();
    let mut dropped = 0;
    for seed in 0..60u64 {
        let dims: Vec<u16> = [vec![4, 4], vec![3, 5], vec![5], vec![2, 3, 3], vec![4, 2]][seed as usize % 5].clone();
        let shape = topology::Grid::new(&dims, seed % 3 != 0).unwrap();
        let case = Faulty::new(shape, Angara::default(), 6, seed % 2 == 0, 9, seed % 4 == 0, mix(seed));
        let (fate, met) = case.fate_in_oracle();
        let got = fate_in_model(&case.config, &case.sent, 1000);
        assert!(got == fate, "seed {seed}: {:?}\n{}", case.config.faults, differences(&case.sent, &got, &fate));
        all.add(&met);
        dropped += fate.dropped.len();
    }
    assert!(all.every_rule() && dropped > 0, "{all:?}, {dropped} dropped");
}
