//! One load point of the network model, with its speed: the quickest way to compare a change.
//!
//! `cargo run --release -p angara-fabric --example model_load -- torus:8x8x8 --load 0.3 --buffer 8 --length 1`

use fabric::model::traffic::{Process, Schedule, Workload, measure, uniform};
use fabric::model::{Angara, Config, Generic, Network, Profile, TrafficClass};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, default: &str| -> String {
        args.iter()
            .position(|a| a == name)
            .and_then(|i| args.get(i + 1).cloned())
            .unwrap_or_else(|| default.to_string())
    };
    let length: u16 = value("--length", "1").parse()?;
    let vcs = value("--vcs", "4").parse()?;
    let buffer = value("--buffer", "8").parse()?;
    let generic = value("--router", "generic") == "generic";
    let profile = if generic {
        Profile::Generic(Generic { vcs, buffer_flits: buffer, packet_flits_max: length, ..Generic::default() })
    } else {
        Profile::Angara(Angara::default())
    };
    let shape = args.first().ok_or("give a topology such as torus:8x8x8")?.parse()?;
    let seed = value("--seed", "1").parse()?;
    let mut net = Network::new(&Config { shape, profile, seed, faults: Vec::new() })?;
    let idle = net.memory_bytes() / net.endpoints();
    let workload = Workload {
        pattern: uniform(net.endpoints()),
        process: if value("--process", "bernoulli") == "bernoulli" { Process::Bernoulli } else { Process::Poisson },
        lengths: vec![(length, 1.0)],
        load: value("--load", "0.3").parse()?,
        seed,
        class: TrafficClass::Request,
        adaptive: value("--routing", "dor") == "adaptive",
    };
    let schedule = Schedule {
        warmup: value("--warmup", "2000").parse()?,
        measure: value("--cycles", "10000").parse()?,
        drain_max: value("--drain", "5000").parse()?,
    };
    let started = Instant::now();
    let m = measure(&mut net, workload, schedule, generic);
    // Processor time where the system tells it (first field of schedstat, nanoseconds): the
    // machine may be busy with other things.
    let busy = std::fs::read_to_string("/proc/self/schedstat").ok();
    let busy = busy.and_then(|s| s.split(' ').next()?.parse::<f64>().ok()).map(|ns| ns / 1e9);
    let wall = busy.unwrap_or(started.elapsed().as_secs_f64());
    let c = net.counters();
    println!(
        "latency {:.2}±{:.2} accepted {:.4} offered {:.4} routers {:.3} saturated {}  {:.2} M packet-hops/s {:.1} M flit-hops/s  {:.2} s of processor  {idle} B/node idle, {:.1} MB",
        m.latency,
        m.latency_error,
        m.accepted,
        m.offered,
        m.routers,
        m.saturated,
        c.packet_hops as f64 / wall / 1e6,
        c.flit_hops as f64 / wall / 1e6,
        wall,
        net.memory_bytes() as f64 / 1e6,
    );
    Ok(())
}
