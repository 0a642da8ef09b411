//! Cost of the network in host time: `cargo bench -p angara-fabric`.
//!
//! Prints nanoseconds per packet-hop (adapter work included) for loads the live daemon sees:
//! one operation at a time, and bursts from every node. Figures to compare on one machine, no test.

use angara_abi::account::Class;
use angara_abi::desc::{Place, Region};
use angara_abi::packet::Vc;
use angara_fabric::{Config, Effect, Fabric, InjectError, JobSlot, Op, Port, Source};

/// The only job.
const JOB: JobSlot = JobSlot::new(0);

/// CPU time of this thread, so that other programs on the machine do not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstats");
    text.split_whitespace().next().and_then(|w| w.parse().ok()).expect("first word is nanoseconds")
}

fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

/// Polls everything; returns delivered writes.
fn drain(fabric: &mut Fabric) -> u64 {
    let mut writes = 0;
    while let Some(effect) = fabric.poll_effect() {
        match effect {
            Effect::Write { data, .. } => {
                std::hint::black_box(fabric.payload(data));
                writes += 1;
            }
            Effect::Fetch { token, len, .. } => fabric.supply(token, &[0; 32768][..len as usize]),
            _ => {}
        }
    }
    while fabric.poll_completion().is_some() {}
    writes
}

/// Prints and returns nanoseconds per packet.
fn show(what: &str, start: u64, packets: u64, hops: u64) -> f64 {
    let ns = (cpu_ns() - start) as f64;
    let (p, h) = (ns / packets as f64, if hops > 0 { ns / hops as f64 } else { 0.0 });
    println!("{what:<58} {p:>8.1} ns/packet {h:>8.1} ns/packet-hop");
    p
}

/// One write at a time from node 0 to a node `hops` away; nanoseconds per write.
fn single(shape: &str, to: u32, bytes: usize) -> f64 {
    let mut fabric = Fabric::new(Config::new(shape.parse().expect("shape"))).expect("fabric");
    let ports: Vec<Port> = (0..fabric.shape().nodes() as u32).map(|node| Port { node, endpoint: 0 }).collect();
    fabric.open_job(JOB, &ports).expect("job");
    let data = vec![1; bytes];
    let hops = fabric.hops(0, to).expect("reachable") as u64;
    let rounds = 200_000;
    let start = cpu_ns();
    for i in 0..rounds {
        let (to, place, source) = (ports[to as usize], heap(0), Source::Inline(&data));
        let op = Op::Write { to, place, source, vc: Vc::Request, adaptive: false };
        fabric.inject(ports[0], JOB, Class::Put, op, 0, i).expect("idle port");
        fabric.run_free();
        drain(&mut fabric);
    }
    show(&format!("{shape}: one {bytes}-byte write, {hops} hops"), start, rounds, rounds * hops)
}

/// Where the writes of a burst go.
#[derive(Clone, Copy, PartialEq)]
enum To {
    Anywhere,
    /// The node itself: adapters only.
    Self_,
}

/// Every node posts `burst` writes, then everything runs to the end. Nanoseconds per write, and hops of one.
fn bursts(shape: &str, burst: u32, bytes: usize, payload: bool, to: To) -> (f64, f64) {
    let config = Config { payload, ..Config::new(shape.parse().expect("shape")) };
    let mut fabric = Fabric::new(config).expect("fabric");
    let n = fabric.shape().nodes() as u32;
    let ports: Vec<Port> = (0..n).map(|node| Port { node, endpoint: 0 }).collect();
    fabric.open_job(JOB, &ports).expect("job");
    let data = vec![1; bytes];
    let (mut packets, mut hops, mut dice) = (0u64, 0u64, 1u64);
    let start = cpu_ns();
    while packets < 400_000 {
        for from in 0..n {
            for _ in 0..burst {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let to = if to == To::Self_ { from } else { (dice >> 33) as u32 % n };
                let source = if payload { Source::Inline(&data) } else { Source::Length(bytes as u32) };
                let op = Op::Write { to: ports[to as usize], place: heap(0), source, vc: Vc::Request, adaptive: false };
                match fabric.inject(ports[from as usize], JOB, Class::Put, op, 0, 0) {
                    Ok(()) => hops += fabric.hops(from, to).expect("reachable") as u64,
                    Err(InjectError::Busy) => continue,
                    Err(e) => panic!("{e}"),
                }
                packets += 1;
            }
        }
        fabric.run_free();
        drain(&mut fabric);
    }
    let carries = if payload { "" } else { " (no payload)" };
    let whom = if to == To::Self_ { " to itself" } else { "" };
    let what = format!("{shape}: {burst} x {bytes}-byte writes per node{whom}{carries}");
    (show(&what, start, packets, hops), hops as f64 / packets as f64)
}

/// One port reads `bytes` at a time.
fn reads(bytes: u32) {
    let mut fabric = Fabric::new(Config::new("2x2x2".parse().expect("shape"))).expect("fabric");
    let ports = [Port { node: 0, endpoint: 0 }, Port { node: 7, endpoint: 0 }];
    fabric.open_job(JOB, &ports).expect("job");
    let rounds = 40_000_000 / (bytes as u64 + 2000);
    let start = cpu_ns();
    let mut packets = 0;
    for i in 0..rounds {
        let op = Op::Read { to: ports[1], remote: heap(0), local: heap(0), len: bytes };
        fabric.inject(ports[0], JOB, Class::Get, op, 0, i).expect("idle port");
        loop {
            fabric.run_free();
            let writes = drain(&mut fabric);
            packets += writes + 1;
            if fabric.poll_timeout().is_none() {
                break;
            }
        }
    }
    show(&format!("2x2x2: one {bytes}-byte read, 3 hops"), start, packets, packets * 3);
}

/// Writes of one fabric to another over a boundary link, frames handed over as they are.
fn crossing(burst: u64, bytes: usize) {
    let part = |node: u32| {
        let mut fabric = Fabric::new(Config { owned: Some(vec![node]), ..Config::new("2".parse().expect("shape")) })
            .expect("fabric");
        let ports = [0, 1].map(|node| Port { node, endpoint: 0 });
        fabric.open_job(JOB, &ports).expect("job");
        fabric
    };
    let (mut parts, data, rounds) = ([part(0), part(1)], vec![1; bytes], 200_000 / burst);
    let links = parts[0].boundary_links();
    let (from, to) = (Port { node: 0, endpoint: 0 }, Port { node: 1, endpoint: 0 });
    let start = cpu_ns();
    for _ in 0..rounds {
        for i in 0..burst {
            let source = Source::Inline(&data);
            let op = Op::Write { to, place: heap(0), source, vc: Vc::Request, adaptive: false };
            parts[0].inject(from, JOB, Class::Put, op, 0, i).expect("an idle port");
        }
        while parts.iter().any(|f| f.in_flight().0 > 0 || f.poll_timeout().is_some()) {
            for i in [0, 1] {
                parts[i].run_free();
                drain(&mut parts[i]);
                for link in &links {
                    while let Some((time, frame)) = parts[i].poll_transmit(*link) {
                        parts[1 - i].handle_frame(*link, time, frame).expect("a frame of the other part");
                    }
                }
            }
        }
    }
    let what = format!("2: {burst} x {bytes}-byte writes to another fabric");
    show(&what, start, rounds * burst, rounds * burst);
}

/// Cost of one more hop, for a write alone and for one in a burst: the time that is not spent in adapters.
fn marginal() {
    let (near, far) = (single("16x1x1", 1, 8), single("16x1x1", 8, 8));
    println!("{:<58} {:>45.1} ns/packet-hop", "  one more hop of a write alone", (far - near) / 7.0);
    let (own, _) = bursts("4x4x4", 16, 8, true, To::Self_);
    let (all, hops) = bursts("4x4x4", 16, 8, true, To::Anywhere);
    println!("{:<58} {:>45.1} ns/packet-hop", "  one more hop in a burst", (all - own) / hops);
}

fn main() {
    // `marginal` and `crossing` run only that part, for profilers.
    let asked = |part: &str| std::env::args().any(|word| word == part);
    if asked("marginal") {
        return marginal();
    }
    if asked("crossing") {
        return crossing(16, 8);
    }
    for (to, bytes) in [(0, 8), (1, 8), (7, 8), (7, 256)] {
        single("2x2x2", to, bytes);
    }
    marginal();
    for (burst, bytes) in [(1, 8), (16, 8), (16, 256)] {
        crossing(burst, bytes);
    }
    for burst in [1, 16] {
        bursts("2x2x2", burst, 8, true, To::Anywhere);
    }
    bursts("4x4x4", 1, 8, true, To::Anywhere);
    bursts("4x4x4", 16, 256, true, To::Anywhere);
    bursts("16x16x16", 4, 256, false, To::Anywhere);
    reads(8);
    reads(30_000);
}
