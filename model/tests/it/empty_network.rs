//! The generic router without load: the latency of its parameters, exactly, whatever the shape.

use angara_model::{Generic, Injection, Network, Profile, Setup};

fn network(topology: &str, flits: u16, buffer: u16) -> Network {
    let profile = Generic { vcs: 4, buffer_flits: buffer, packet_flits_max: flits, ..Generic::default() };
    let profile = Profile::Generic(profile);
    Network::new(&Setup { shape: topology.parse().unwrap(), profile, seed: 1, faults: Vec::new() }).unwrap()
}

#[test]
fn an_empty_network_takes_four_cycles_per_router() {
    for topology in ["torus:8x8x8", "mesh:5x3", "fat-tree:4,3", "torus:4x4x4x4", "clos:4,8,16", "cayley:13:1,5"] {
        for flits in [1, 5, 16] {
            let mut net = network(topology, flits, 16);
            let n = net.endpoints() as u32;
            for (i, (src, dst)) in (0..40).map(|i| (i * 7919 % n, i * 104_729 % n)).enumerate() {
                let at = net.now() + 1000 * net.cycle();
                net.inject(Injection { src, dst, flits, at, tag: i as u64, ..Injection::default() });
                net.run_until_idle();
                let d = net.poll_delivery().unwrap();
                assert_eq!(
                    (d.tail - at) / net.cycle(),
                    4 * d.routers as u64 + 2 + flits as u64 - 1,
                    "{topology} {src}→{dst}"
                );
            }
            net.check_idle().unwrap();
        }
    }
}
