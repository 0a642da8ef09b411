//! Cost of the network model: `cargo bench -p angara-model`.
//!
//! Processor time says how fast it is here and now and differs from run to run; the number of
//! instructions does not, and is guarded. For every case below the bench counts instructions per
//! packet-hop with callgrind and fails if they are more than 10 % off the recorded budget: above it something got
//! slower, below it the budget is out of date. Without valgrind it says so and only shows times.

use angara_fabric::rng::{Purpose, Stream, below};
use angara_model::{Angara, Generic, Injection, Network, Profile, Setup, Switching};
use std::process::ExitCode;

struct Case {
    name: &'static str,
    shape: &'static str,
    angara: bool,
    wormhole: bool,
    /// Virtual channels (generic).
    vcs: u8,
    flits: u16,
    adaptive: bool,
    load: f64,
    /// Cycles measured.
    cycles: u64,
    /// Instructions per packet-hop, sources included, as counted with rustc 1.95 on x86-64.
    budget: f64,
}

const CASES: [Case; 9] = [
    generic("generic-8^3", "torus:8x8x8", 1, 0.3, 4_000, 650.0),
    Case { vcs: 16, ..generic("generic-8^3-16-channels", "torus:8x8x8", 1, 0.3, 4_000, 890.0) },
    Case { vcs: 16, ..generic("generic-tree-16-channels", "fat-tree:8,3", 1, 0.3, 4_000, 1_750.0) },
    generic("generic-8^3-long", "torus:8x8x8", 32, 0.3, 20_000, 890.0),
    Case { wormhole: true, ..generic("wormhole-8^3-long", "torus:8x8x8", 32, 0.35, 5_000, 12_000.0) },
    generic("generic-tree", "fat-tree:8,3", 1, 0.3, 4_000, 670.0),
    generic("generic-32^3", "torus:32x32x32", 1, 0.05, 100, 590.0),
    angara("angara-8^3-dor", false, 960.0),
    angara("angara-8^3-adaptive", true, 1040.0),
];

const fn generic(name: &'static str, shape: &'static str, flits: u16, load: f64, cycles: u64, budget: f64) -> Case {
    Case { name, shape, angara: false, wormhole: false, vcs: 4, flits, adaptive: false, load, cycles, budget }
}

const fn angara(name: &'static str, adaptive: bool, budget: f64) -> Case {
    Case {
        name,
        shape: "torus:8x8x8",
        angara: true,
        wormhole: false,
        vcs: 4,
        flits: 18,
        adaptive,
        load: 0.15,
        cycles: 8_000,
        budget,
    }
}

/// Cycles before those counted.
const WARMUP: u64 = 100;
/// CPU time of this thread, so that other programs on the machine do not count.
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
    adaptive: bool,
    /// ln(1 - probability).
    log_quiet: f64,
    /// Cycle of every endpoint's next packet, and packets so far.
    next: Vec<(u64, u64)>,
    calendar: Vec<Vec<u32>>,
}

impl Sources {
    fn new(endpoints: usize, case: &Case) -> Sources {
        let flits = case.flits;
        let mut sources = Sources {
            flits,
            adaptive: case.adaptive,
            log_quiet: (-case.load / flits as f64).ln_1p(),
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
                let (flits, adaptive) = (self.flits, self.adaptive);
                net.inject(Injection { src: e, dst, flits, adaptive, at, ..Injection::default() });
                self.draw(e, cycle + 1);
            }
            self.file(e, cycle + 1);
        }
    }
}

/// Simulates `case` for 1/`part` of its cycles; packet-hops.
fn simulate(case: &Case, part: u64) -> u64 {
    let (switching, buffer) = match (case.wormhole, case.flits) {
        (true, _) => (Switching::Wormhole { hold: false }, 8),
        (false, 9..) => (Switching::CutThrough, 64),
        (false, _) => (Switching::CutThrough, 8),
    };
    let packet_flits_max = case.flits;
    let generic = Generic { vcs: case.vcs, buffer_flits: buffer, packet_flits_max, switching, ..Generic::default() };
    let profile = if case.angara { Profile::Angara(Angara::default()) } else { Profile::Generic(generic) };
    let shape = case.shape.parse().expect("a shape");
    let mut net =
        Network::new(&Setup { shape, profile, seed: 1, faults: Vec::new(), sets: Vec::new() }).expect("a network");
    let mut sources = Sources::new(net.endpoints(), case);
    let mut now = 0;
    while now < WARMUP + case.cycles / part {
        (now..now + STEP).for_each(|cycle| sources.fill(&mut net, cycle));
        now += STEP;
        net.advance(now * net.cycle() - 1);
        while net.poll_delivery().is_some() {}
    }
    net.counters().packet_hops
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [what, name, part] = &words[..]
        && what == "simulate"
    {
        let case = CASES.iter().find(|c| c.name == name).expect("one of the cases");
        println!("{}", simulate(case, part.parse().expect("a number")));
        return ExitCode::SUCCESS;
    }
    let valgrind = angara_callgrind::is_here();
    if !valgrind {
        println!("no valgrind here: instructions are not counted and no budget is checked");
    }
    let mut kept = true;
    for case in &CASES {
        let start = cpu_ns();
        let hops = simulate(case, 1);
        let ns = (cpu_ns() - start) as f64 / hops as f64;
        print!("{:<24} {ns:>7.1} ns/packet-hop {:>6.1} M flit-hops/s", case.name, 1e3 / ns * case.flits as f64);
        if valgrind {
            kept &= angara_callgrind::keeps(case.name, case.budget);
        } else {
            println!();
        }
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
