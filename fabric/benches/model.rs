//! Cost of the network model in host time, under uniform Bernoulli traffic.

use fabric::model::rng::{Purpose, Stream, below};
use fabric::model::{Config, Generic, Network, Packet, Profile};

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstats");
    text.split_whitespace().next().and_then(|w| w.parse().ok()).expect("first word is nanoseconds")
}

/// Cycles the calendar of sources covers; later packets are looked at again.
const CALENDAR: u64 = 1024;
/// Cycles between two looks at the network: enough for it to work on one part of itself after the other.
const STEP: u64 = 16;

/// Endpoints that create a packet to anybody with a fixed probability per cycle.
struct Sources {
    flits: u16,
    /// ln(1 - probability).
    log_quiet: f64,
    /// Cycle of every endpoint's next packet, and packets so far.
    next: Vec<(u64, u64)>,
    calendar: Vec<Vec<u32>>,
}

impl Sources {
    fn new(endpoints: usize, flits: u16, load: f64) -> Sources {
        let mut sources = Sources {
            flits,
            log_quiet: (-load / flits as f64).ln_1p(),
            next: vec![(0, 0); endpoints],
            calendar: vec![Vec::new(); CALENDAR as usize],
        };
        for e in 0..endpoints as u32 {
            sources.draw(e, 0);
            sources.file(e, 0);
        }
        sources
    }
    /// The next packet of `e` is at or after `from`.
    fn draw(&mut self, e: u32, from: u64) {
        let (_, drawn) = self.next[e as usize];
        let bits = Stream::new(2, e as u64, Purpose::Arrival).at(drawn);
        let unit = ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.next[e as usize] = (from + (unit.ln() / self.log_quiet) as u64, drawn + 1);
    }
    fn file(&mut self, e: u32, now: u64) {
        let at = self.next[e as usize].0.min(now + CALENDAR - 1);
        self.calendar[(at % CALENDAR) as usize].push(e);
    }
    /// Injects what is created in `cycle`.
    fn fill(&mut self, net: &mut Network, cycle: u64) {
        for e in std::mem::take(&mut self.calendar[(cycle % CALENDAR) as usize]) {
            let (at, drawn) = self.next[e as usize];
            if at == cycle {
                let bits = Stream::new(2, e as u64, Purpose::Destination).at(drawn);
                let dst = below(bits, self.next.len() as u64) as u32;
                let at = at * net.cycle();
                net.inject(Packet { src: e, dst, flits: self.flits, at, ..Packet::default() });
                self.draw(e, cycle + 1);
            }
            self.file(e, cycle + 1);
        }
    }
}

/// Mean latency in cycles and mean routers of what arrives in the `cycles` after `warm`.
fn measure(net: &mut Network, mut sources: Sources, warm: u64, cycles: u64) -> (f64, f64) {
    let (mut packets, mut latency, mut routers) = (0u64, 0u64, 0u64);
    let mut now = 0;
    while now < warm + cycles {
        let until = now + STEP;
        (now..until).for_each(|cycle| sources.fill(net, cycle));
        net.advance(until * net.cycle() - 1);
        while let Some(d) = net.poll_delivery() {
            if now >= warm {
                packets += 1;
                latency += d.tail - d.at;
                routers += d.routers as u64;
            }
        }
        now = until;
    }
    let mean = |sum: u64| sum as f64 / packets.max(1) as f64;
    (mean(latency) / net.cycle() as f64, mean(routers))
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
    let sources = Sources::new(net.endpoints(), flits, load);
    let start = cpu_ns();
    let (latency, routers) = measure(&mut net, sources, warm, cycles);
    let s = (cpu_ns() - start) as f64 / 1e9;
    let c = net.counters();
    println!(
        "{case}: latency {:.3} routers {:.3} hops {} {:.2} s CPU {:.2} M hops/s {:.2} M flits/s, {} MB",
        latency,
        routers,
        c.packet_hops,
        s,
        c.packet_hops as f64 / s / 1e6,
        c.flit_hops as f64 / s / 1e6,
        net.memory_bytes() >> 20
    );
}
