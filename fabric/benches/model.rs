//! Cost of the network model in host time.

use fabric::model::traffic::{Process, Schedule, Workload, measure, uniform};
use fabric::model::{Config, Generic, Network, Profile, TrafficClass};

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstats");
    text.split_whitespace().next().and_then(|w| w.parse().ok()).expect("first word is nanoseconds")
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let case = args.get(1).map(|s| s.as_str()).unwrap_or("big");
    let (shape, flits, load, warm, cycles) = match case {
        "big" => ("torus:32x32x32", 1, 0.05, 150, 250),
        "small" => ("torus:8x8x8", 1, 0.3, 500, 4000),
        "long" => ("torus:8x8x8", 32, 0.3, 500, 20000),
        "tree" => ("fat-tree:8,3", 1, 0.3, 500, 4000),
        s if s.contains(':') => {
            let l: f64 = args[2].parse().unwrap();
            let c: u64 = args[3].parse().unwrap();
            (s, 1, l, c / 4, c)
        }
        _ => return,
    };
    let profile =
        Generic { vcs: 4, buffer_flits: if flits > 1 { 64 } else { 8 }, packet_flits_max: flits, ..Generic::default() };
    let mut net = Network::new(&Config {
        shape: shape.parse().unwrap(),
        profile: Profile::Generic(profile),
        seed: 1,
        faults: Vec::new(),
    })
    .unwrap();
    println!("idle {} B/node", net.memory_bytes() / net.routers());
    let workload = Workload {
        pattern: uniform(net.endpoints()),
        process: Process::Bernoulli,
        lengths: vec![(flits, 1.0)],
        load,
        seed: 2,
        class: TrafficClass::Request,
        adaptive: false,
    };
    let start = cpu_ns();
    let m = measure(&mut net, workload, Schedule { warmup: warm, measure: cycles, drain_max: 2000 }, true);
    let s = (cpu_ns() - start) as f64 / 1e9;
    let c = net.counters();
    println!(
        "{case}: latency {:.3} routers {:.3} hops {} {:.2} s CPU {:.2} M hops/s {:.2} M flits/s, {} MB",
        m.latency,
        m.routers,
        c.packet_hops,
        s,
        c.packet_hops as f64 / s / 1e6,
        c.flit_hops as f64 / s / 1e6,
        net.memory_bytes() >> 20
    );
}
