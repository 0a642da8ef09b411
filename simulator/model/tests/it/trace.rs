//! Events of a traced packet.

use angara_model::{Generic, Injection, Network, Profile, Setup, Stage};

#[test]
fn a_traced_packet_tells_its_whole_way_and_links_count() {
    let shape = "torus:4x4".parse().unwrap();
    let mut net = Network::new(&Setup {
        shape,
        profile: Profile::Generic(Generic::default()),
        seed: 1,
        faults: Vec::new(),
        sets: Vec::new(),
    })
    .unwrap();
    net.count_links();
    net.inject(Injection { src: 0, dst: 5, flits: 1, at: 0, tag: 7, traced: true, ..Injection::default() });
    net.inject(Injection { src: 5, dst: 0, flits: 1, at: 0, tag: 8, ..Injection::default() });
    net.run_until_idle();
    let events = net.take_trace();
    assert!(events.iter().all(|e| e.tag == 7) && net.take_trace().is_empty());
    let cycles: Vec<_> = events.iter().map(|e| (e.time / net.cycle(), e.router, e.stage)).collect();
    let hop = |at: u64, router, last| {
        let leaves = if last { Stage::Ejected } else { Stage::LinkEntered };
        let stages = [(0, Stage::Arrived), (0, Stage::ChannelGranted), (1, Stage::SwitchGranted), (2, leaves)];
        stages.map(|(after, stage)| (at + after, router, stage))
    };
    let mut expected = vec![(0, 0, Stage::Created), (0, 0, Stage::Injected)];
    expected.extend(hop(2, 0, false));
    expected.extend(hop(6, 1, false));
    expected.extend(hop(10, 5, true));
    expected.push((14, 5, Stage::Delivered));
    assert_eq!(cycles, expected);
    let flits = |router| (0..5).map(|port| net.link_load(router, port).flits).collect::<Vec<_>>();
    assert_eq!((flits(0), flits(1)), (vec![1, 0, 0, 0, 1], vec![0, 0, 1, 0, 0]));
    assert_eq!((flits(5), flits(4)), (vec![0, 1, 0, 0, 1], vec![0, 0, 0, 1, 0]));
}
