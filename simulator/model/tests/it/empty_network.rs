//! The generic router without load: the latency of its parameters, exactly, whatever the shape.

use angara_model::{Generic, Injection, Network, Profile, Setup, Switching};

fn network(topology: &str, flits: u16, buffer: u16, switching: Switching) -> Network {
    let profile = Generic { buffer_flits: buffer, packet_flits_max: flits, switching, ..Generic::default() };
    let profile = Profile::Generic(profile);
    Network::new(&Setup { shape: topology.parse().unwrap(), profile, seed: 1, faults: Vec::new(), sets: Vec::new() })
        .unwrap()
}

const WORMHOLES: [Switching; 2] = [Switching::Wormhole { hold: false }, Switching::Wormhole { hold: true }];

#[test]
fn an_empty_network_takes_four_cycles_per_router() {
    let all = [(Switching::CutThrough, 16), (WORMHOLES[0], 7), (WORMHOLES[1], 7)];
    for topology in [
        "torus:8x8x8",
        "mesh:5x3",
        "fat-tree:4,3",
        "torus:4x4x4x4",
        "clos:4,8,16",
        "cayley:13:1,5",
        "dragonfly:2,1,1",
        "hyperx:4x4,4",
    ] {
        for (flits, (switching, buffer)) in [1, 5, 16].into_iter().flat_map(|f| all.map(|s| (f, s))) {
            let mut net = network(topology, flits, buffer, switching);
            let n = net.endpoints() as u32;
            for (i, (src, dst)) in (0..40).map(|i| (i * 7919 % n, i * 104_729 % n)).enumerate() {
                let at = net.now() + 1000 * net.cycle();
                net.inject(Injection { src, dst, flits, at, tag: i as u64, ..Injection::default() });
                net.run_until_idle();
                let d = net.poll_delivery().unwrap();
                assert_eq!(
                    (d.tail - at) / net.cycle(),
                    4 * d.routers as u64 + 2 + flits as u64 - 1,
                    "{topology} {src}→{dst} {switching:?}"
                );
            }
            net.check_idle().unwrap();
        }
    }
}

/// From router 0 by the link to group 1, which is router 0's, to router 1 of that group; and to a neighbour.
#[test]
fn links_of_a_dragonfly_take_their_cycles() {
    for (switching, (dst, routers, links)) in [Switching::CutThrough, WORMHOLES[0]]
        .into_iter()
        .flat_map(|s| [(2, 2, 10), (8, 2, 100), (10, 3, 110)].map(|d| (s, d)))
    {
        let mut net = network("dragonfly:2", 4, 16, switching);
        net.inject(Injection { src: 0, dst, flits: 4, at: 0, tag: 0, ..Injection::default() });
        net.run_until_idle();
        let cycles = net.poll_delivery().unwrap().tail / net.cycle();
        // Four cycles per router count one for each link.
        assert_eq!(cycles, 4 * routers + 2 + 3 + links - (routers - 1), "to {dst}, {switching:?}");
        net.check_idle().unwrap();
    }
}

/// A credit is back after seven cycles, so B flits pass in seven cycles.
#[test]
fn small_buffers_slow_a_worm_down() {
    for (buffer, switching) in (1..=7).flat_map(|b| WORMHOLES.map(|s| (b, s))) {
        let mut net = network("torus:8", 70, buffer, switching);
        net.inject(Injection { src: 0, dst: 3, flits: 70, at: 0, tag: 0, ..Injection::default() });
        net.run_until_idle();
        let cycles = net.poll_delivery().unwrap().tail / net.cycle();
        let lower = 69 / buffer as u64 * 7;
        assert!((lower..lower + 40).contains(&cycles), "{buffer} flits, {switching:?}: {cycles} cycles");
        net.check_idle().unwrap();
    }
}
