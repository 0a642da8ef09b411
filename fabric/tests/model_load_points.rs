//! The generic router against an independent simulator at the same parameters.
//!
//! Every row of `data/reference_load_points.csv` is simulated and compared: mean latency or accepted
//! load within the row's tolerance, mean routers within one per cent, and the latency of an empty
//! network exactly 4R + 2 + (L-1) cycles.

use fabric::model::traffic::{Process, Schedule, Workload, measure, uniform};
use fabric::model::{Config, Generic, Network, Packet, Profile, TrafficClass};

struct Row {
    topology: String,
    flits: u16,
    buffer: u16,
    offered: f64,
    latency: bool,
    value: f64,
    tolerance: f64,
    routers: f64,
}

fn rows() -> Vec<Row> {
    include_str!("data/reference_load_points.csv")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with("topology"))
        .map(|l| {
            let f: Vec<&str> = l.split(',').collect();
            Row {
                topology: f[0].replace(';', ","),
                flits: f[1].parse().unwrap(),
                buffer: f[2].parse().unwrap(),
                offered: f[3].parse().unwrap(),
                latency: f[4] == "latency",
                value: f[5].parse().unwrap(),
                tolerance: f[6].parse().unwrap(),
                routers: f[7].parse().unwrap(),
            }
        })
        .collect()
}

fn network(topology: &str, flits: u16, buffer: u16) -> Network {
    let profile = Generic { vcs: 4, buffer_flits: buffer, packet_flits_max: flits, ..Generic::default() };
    Network::new(&Config { shape: topology.parse().unwrap(), profile: Profile::Generic(profile), seed: 1, faults: Vec::new() }).unwrap()
}

#[test]
#[ignore = "a minute of processor time when optimised: cargo test --release --test model_load_points -- --ignored"]
fn every_load_point_agrees_with_the_reference() {
    compare(|_| true);
}

#[test]
fn light_load_points_agree_with_the_reference() {
    compare(|row| row.latency && row.offered < 0.35 && (row.flits > 1 || row.topology != "torus:8x8x8"));
}

fn compare(wanted: impl Fn(&Row) -> bool) {
    let mut failures = Vec::new();
    for row in rows().into_iter().filter(wanted) {
        let mut net = network(&row.topology, row.flits, row.buffer);
        let workload = Workload {
            pattern: uniform(net.endpoints()),
            process: Process::Bernoulli,
            lengths: vec![(row.flits, 1.0)],
            load: row.offered,
            seed: 2,
            class: TrafficClass::Request,
            adaptive: false,
        };
        // The reference warmed up for 3,000 cycles and measured for 3,000 to 10,000.
        let measure_cycles = if row.flits > 1 { 6_000 } else { 2_000 };
        let schedule =
            Schedule { warmup: 3_000, measure: measure_cycles, drain_max: if row.latency { 4_000 } else { 0 } };
        let m = measure(&mut net, workload, schedule, true);
        let got = if row.latency { m.latency } else { m.accepted };
        let off = got / row.value - 1.0;
        let name = format!("{} L={} load {}", row.topology, row.flits, row.offered);
        println!("{name}: {got:.4}, reference {}, {:+.1} %", row.value, 100.0 * off);
        if off.abs() > row.tolerance || (row.latency && (m.routers / row.routers - 1.0).abs() > 0.01) {
            failures.push(format!("{name}: {got:.4} instead of {} (routers {:.3})", row.value, m.routers));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn an_empty_network_takes_four_cycles_per_router() {
    for topology in ["torus:8x8x8", "mesh:5x3", "fat-tree:4,3", "torus:4x4x4x4"] {
        for flits in [1, 5, 16] {
            let mut net = network(topology, flits, 16);
            let n = net.endpoints() as u32;
            for (i, (src, dst)) in (0..40).map(|i| (i * 7919 % n, i * 104_729 % n)).enumerate() {
                let at = net.now() + 1000 * net.cycle();
                net.inject(Packet { src, dst, flits, at, tag: i as u64, ..Packet::default() });
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
