//! `angara bench sim`: how fast and how large simulations are, beside what is demanded of them.
//!
//! Every row is a command line of `angara sim run`, run as a process of its own several times, so that its memory is its
//! own. Speed counts the processor time of that process, building the network included, so that other programs on the machine
//! hardly matter; only what two threads gain is wall-clock time. Beside each figure stands what the *same
//! run* says of the network: a simulator is fast only while it is right.

use angara_cli::shared::beside::SIM;
use angara_control::error::{self, Failed, say};
use angara_control::install;
use angara_control::report::table::Table;
use angara_fabric::{Config, Effect, Fabric, InjectError, JobSlot, Op, Port, Source};
use clap::Args;
use serde_json::{Value, json};
use std::process::Command;

/// Arguments of `angara bench sim`.
#[derive(Args)]
pub(crate) struct SimArgs {
    /// Repetitions of every measurement
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only rows whose name contains this, such as 'generic 8^3', '32^3', adaptive, idle, 'two threads' or live
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn failure(what: String) -> Failed {
    Failed::runtime(what, "")
}

/// What to take from a run.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    PacketHops,
    FlitHops,
    BytesPerNode,
    Megabytes,
    /// Wall-clock time with one thread over that with two.
    Gain,
}

impl Figure {
    fn unit(self) -> &'static str {
        match self {
            Figure::PacketHops => "M packet-hops/s",
            Figure::FlitHops => "M flit-hops/s",
            Figure::BytesPerNode => "B/node",
            Figure::Megabytes => "MB",
            Figure::Gain => "x",
        }
    }
    fn smaller_is_better(self) -> bool {
        matches!(self, Figure::BytesPerNode | Figure::Megabytes)
    }
}

/// What the same run must say of the network.
#[derive(Clone, Copy)]
enum Check {
    /// Mean latency of BookSim 2 at the same parameters, cycles, within this share.
    Reference(f64, f64),
    /// Mean latency between those of BookSim 2 at the next lower and higher load it was run with, cycles.
    Between(f64, f64),
    /// At least that of an empty network of `generic` routers, 4R + 2 + (L-1) cycles, and above it by this share at most.
    Empty(f64, f64),
    /// At least that of an empty network of `angara` routers carrying 18 flits, above it by this share at most, and all
    /// that is offered is carried.
    Angara(f64),
    /// The same outcome from both numbers of threads.
    Same,
    /// Nothing to compare.
    None,
}

struct Row {
    name: &'static str,
    flags: &'static str,
    figure: Figure,
    demand: f64,
    /// Published or measured elsewhere, of other simulators.
    others: &'static str,
    check: Check,
}

const GENERIC_8: &str = "--topology torus:8x8x8 --router generic --vcs 4 --deadlock dateline";
const GENERIC_32: &str = "--topology torus:32x32x32 --router generic --vcs 4 --buffer 8 --deadlock dateline --load 0.05 --warmup 150 --cycles 250";
const ANGARA_8: &str = "--topology torus:8x8x8 --router angara --length 18 --load 0.3 --warmup 2000 --cycles 150000";
const ANGARA_32: &str = "--topology torus:32x32x32 --router angara --length 18 --load 0.05 --warmup 3000 --cycles 1500";

/// BookSim 2 at the same parameters on one core of such a machine, and CAMINOS, million flit-hops per second.
const BOOKSIM_SMALL: &str = "BookSim 0.24, CAMINOS 1";
const BOOKSIM_LONG: &str = "BookSim 0.34 flit-hops, CAMINOS 1";
const BOOKSIM_LARGE: &str = "BookSim 0.06, CAMINOS 1";
const BYTES: &str = "BookSim 111000-150000, CAMINOS 9000-37000";

const ROWS: [Row; 12] = [
    Row {
        name: "generic 8^3, 1 flit, load 0.3",
        flags: "GENERIC_8 --buffer 8 --length 1 --load 0.3 --warmup 1000 --cycles 10000",
        figure: Figure::PacketHops,
        demand: 6.0,
        others: BOOKSIM_SMALL,
        check: Check::Between(30.73, 32.80),
    },
    Row {
        name: "generic 8^3, 1 flit, load 0.4",
        flags: "GENERIC_8 --buffer 8 --length 1 --load 0.4 --warmup 1000 --cycles 8000",
        figure: Figure::PacketHops,
        demand: 6.0,
        others: BOOKSIM_SMALL,
        check: Check::Reference(32.80, 0.03),
    },
    Row {
        name: "generic 8^3, 16 flits, load 0.3",
        flags: "GENERIC_8 --buffer 64 --length 16 --load 0.3 --warmup 3000 --cycles 30000",
        figure: Figure::FlitHops,
        demand: 6.0,
        others: BOOKSIM_LONG,
        check: Check::Reference(68.5806, 0.03),
    },
    Row {
        name: "generic 8^3, 32 flits, load 0.3",
        flags: "GENERIC_8 --buffer 64 --length 32 --load 0.3 --warmup 3000 --cycles 50000",
        figure: Figure::FlitHops,
        demand: 6.0,
        others: BOOKSIM_LONG,
        check: Check::Empty(32.0, 1.0),
    },
    Row {
        name: "generic 32^3, 1 flit, load 0.05",
        flags: GENERIC_32,
        figure: Figure::PacketHops,
        demand: 5.0,
        others: BOOKSIM_LARGE,
        check: Check::Empty(1.0, 0.03),
    },
    Row {
        name: "angara 8^3, 18 flits, load 0.3, dor",
        flags: "ANGARA_8 --routing dor",
        figure: Figure::FlitHops,
        demand: 100.0,
        others: "",
        check: Check::Angara(0.1),
    },
    Row {
        name: "angara 8^3, 18 flits, load 0.3, adaptive",
        flags: "ANGARA_8 --routing adaptive",
        figure: Figure::FlitHops,
        demand: 100.0,
        others: "",
        check: Check::Angara(0.1),
    },
    Row {
        name: "generic 32^3, idle",
        flags: "--topology torus:32x32x32 --router generic --vcs 4 --buffer 8 --load 0 --cycles-max 100",
        figure: Figure::BytesPerNode,
        demand: 4096.0,
        others: BYTES,
        check: Check::None,
    },
    Row {
        name: "angara 32^3, idle",
        flags: "--topology torus:32x32x32 --router angara --load 0 --cycles-max 100",
        figure: Figure::BytesPerNode,
        demand: 4096.0,
        others: BYTES,
        check: Check::None,
    },
    Row {
        name: "angara 32^3, load 0.05, memory in all",
        flags: ANGARA_32,
        figure: Figure::Megabytes,
        demand: 300.0,
        others: "",
        check: Check::Angara(0.03),
    },
    Row {
        name: "angara 32^3, load 0.05, two threads",
        flags: ANGARA_32,
        figure: Figure::Gain,
        demand: 1.6,
        others: "",
        check: Check::Same,
    },
    Row {
        name: "generic 32^3, load 0.05, two threads",
        flags: GENERIC_32,
        figure: Figure::Gain,
        demand: 1.0,
        others: "",
        check: Check::Same,
    },
];

/// Outcome of one process, and what it took.
struct Ran {
    outcome: Value,
    cpu_s: f64,
}

impl Ran {
    fn number(&self, key: &str) -> f64 {
        self.outcome[key].as_f64().unwrap_or(f64::NAN)
    }
    /// Everything that does not depend on the machine.
    fn result(&self) -> Value {
        let mut result = self.outcome.clone();
        if let Some(fields) = result.as_object_mut() {
            for measured in
                ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes", "threads"]
            {
                fields.remove(measured);
            }
        }
        result
    }
}

/// Processor time of children that have ended, s.
fn children_s() -> Result<f64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|e| failure(format!("/proc/self/stat: {e}")))?;
    // After the name, which is in parentheses: state is the first, cutime and cstime the 14th and 15th.
    let fields: Vec<u64> =
        stat.rsplit(')').next().unwrap_or("").split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Ok((fields[13] + fields[14]) as f64 / ticks)
}

fn flags(row: &Row) -> String {
    row.flags.replace("GENERIC_8", GENERIC_8).replace("ANGARA_8", ANGARA_8)
}

fn run(flags: &str, threads: u32) -> Result<Ran, Failed> {
    let angara = install::program_file(SIM.program)?;
    let before = children_s()?;
    let output = Command::new(angara)
        .args(["run", "--json", "--threads", &threads.to_string()])
        .args(flags.split_whitespace())
        .output()
        .map_err(|e| failure(format!("angara sim run: {e}")))?;
    let cpu_s = children_s()? - before;
    if !output.status.success() {
        return Err(failure(format!(
            "angara sim run {flags} --threads {threads}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let outcome = serde_json::from_slice(&output.stdout)
        .map_err(|e| failure(format!("angara sim run {flags}: its JSON: {e}")))?;
    Ok(Ran { outcome, cpu_s })
}

/// Returns what a row's run says of the network: words, and whether that is as it must be.
fn check(row: &Row, ran: &Ran, other: Option<&Ran>) -> (String, bool) {
    let (latency, routers) = (ran.number("packet_latency_cycles"), ran.number("mean_routers_visited"));
    match row.check {
        Check::Reference(cycles, within) => {
            let off = latency / cycles - 1.0;
            (format!("latency {latency:.2} cycles, BookSim {cycles:.2} ({:+.1} %)", 100.0 * off), off.abs() <= within)
        }
        Check::Between(low, high) => {
            let text = format!("latency {latency:.2} cycles, BookSim {low:.2} at load 0.2, {high:.2} at 0.4");
            (text, (low..=high).contains(&latency))
        }
        Check::Empty(flits, within) => {
            let empty = 4.0 * routers + 2.0 + flits - 1.0;
            let off = latency / empty - 1.0;
            let text = format!("latency {latency:.2} cycles, empty network {empty:.2} ({:+.1} %)", 100.0 * off);
            (text, (0.0..=within).contains(&off))
        }
        Check::Angara(within) => {
            // 300 ns in and out, 129 ns per link, the last flit 17 flit times after the first.
            let empty = 600.0 + 129.0 * (routers - 1.0) + 17.0 * 6.4 / 3.0;
            let ns = ran.number("packet_latency_ns");
            let accepted = ran.number("accepted_flits_per_node_cycle");
            let saturated = ran.outcome["saturated"] == true;
            let off = ns / empty - 1.0;
            let text = format!(
                "latency {ns:.0} ns, empty network {empty:.0} ({:+.1} %); accepts {accepted:.3}{}",
                100.0 * off,
                if saturated { ", saturated" } else { "" }
            );
            (text, !saturated && (0.0..=within).contains(&off))
        }
        Check::Same => {
            let same = other.is_some_and(|o| o.result() == ran.result());
            (format!("results {}", if same { "identical" } else { "DIFFER" }), same)
        }
        Check::None => (String::new(), true),
    }
}

/// Figures of all repetitions, and the check of the last.
fn measure(row: &Row, runs: u32) -> Result<(Vec<f64>, (String, bool)), Failed> {
    let flags = flags(row);
    let mut figures = Vec::new();
    let mut checked = (String::new(), true);
    for _ in 0..runs {
        let ran = run(&flags, 1)?;
        let other = if row.figure == Figure::Gain { Some(run(&flags, 2)?) } else { None };
        figures.push(match row.figure {
            Figure::PacketHops => ran.number("packet_hops") / ran.cpu_s / 1e6,
            Figure::FlitHops => ran.number("flit_hops") / ran.cpu_s / 1e6,
            Figure::BytesPerNode => ran.number("model_bytes") / 32_768.0,
            Figure::Megabytes => ran.number("peak_rss_bytes") / 1e6,
            Figure::Gain => ran.number("wall_s") / other.as_ref().map_or(f64::NAN, |o| o.number("wall_s")),
        });
        let now = check(row, &ran, other.as_ref());
        // One wrong repetition is enough.
        checked = if checked.1 { now } else { checked };
    }
    Ok((figures, checked))
}

/// Processor time of this thread, ns.
fn thread_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The only job.
const JOB: JobSlot = JobSlot::new(0);

/// A ring as live jobs use it, adapters, payload and effects included.
struct Live {
    ring: Fabric,
    ports: Vec<Port>,
}

impl Live {
    fn new(shape: &str) -> Result<Live, Failed> {
        let failed = |what: String| failure(format!("ring of {shape}: {what}"));
        let shape = shape.parse().map_err(|e| failed(format!("{e:?}")))?;
        let mut ring = Fabric::new(Config::new(shape)).map_err(|e| failed(e.to_string()))?;
        let ports: Vec<Port> = (0..shape.nodes() as u32).map(|node| Port { node, endpoint: 0 }).collect();
        ring.open_job(JOB, &ports).map_err(|e| failed(format!("{e:?}")))?;
        Ok(Live { ring, ports })
    }
    fn hops(&self, from: usize, to: usize) -> u64 {
        self.ring.hops(from as u32, to as u32).unwrap_or(0).into()
    }
    /// Posts a write of 8 bytes; false if the port is busy.
    fn post(&mut self, from: usize, to: usize) -> Result<bool, Failed> {
        let place = angara_abi::desc::Place { region: angara_abi::desc::Region::Heap, offset: 0 };
        let (to, source, vc) = (self.ports[to], Source::Inline(&[1; 8]), angara_abi::packet::Vc::Request);
        let op = Op::Write { to, place, source, vc, adaptive: false };
        match self.ring.inject(self.ports[from], JOB, angara_abi::account::Class::Put, op, 0, 0) {
            Ok(()) => Ok(true),
            Err(InjectError::Busy) => Ok(false),
            Err(e) => Err(failure(format!("a write on a ring: {e}"))),
        }
    }
    fn finish(&mut self) {
        self.ring.run_free();
        while let Some(effect) = self.ring.poll_effect() {
            if let Effect::Write { data, .. } = effect {
                std::hint::black_box(self.ring.payload(data));
            }
        }
        while self.ring.poll_completion().is_some() {}
    }
}

/// Bursts of 16 writes of every node of 4x4x4, to anybody or each to itself: nanoseconds and hops of a write.
fn live_burst(to_itself: bool) -> Result<(f64, f64), Failed> {
    let mut live = Live::new("4x4x4")?;
    let distance: Vec<u64> = (0..64 * 64).map(|i| live.hops(i / 64, i % 64)).collect();
    let (mut packets, mut hops, mut dice) = (0u64, 0u64, 1u64);
    let started = thread_ns();
    while packets < 300_000 {
        for (from, _) in (0..64).flat_map(|from| (0..16).map(move |i| (from, i))) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let to = if to_itself { from } else { (dice >> 33) as usize % 64 };
            if live.post(from, to)? {
                packets += 1;
                hops += distance[64 * from + to];
            }
        }
        live.finish();
    }
    Ok(((thread_ns() - started) as f64 / packets as f64, hops as f64 / packets as f64))
}

/// Nanoseconds of a write on an idle ring of 16 nodes, from the first to another.
fn live_alone(to: usize) -> Result<f64, Failed> {
    let mut live = Live::new("16x1x1")?;
    let writes = 100_000;
    let started = thread_ns();
    for _ in 0..writes {
        live.post(0, to)?;
        live.finish();
    }
    Ok((thread_ns() - started) as f64 / writes as f64)
}

/// What a packet's hop on a live ring costs: a name, and how to measure it.
type LiveRow = (&'static str, fn() -> Result<f64, Failed>);

const LIVE: [LiveRow; 3] = [
    ("live ring 4x4x4, 16 writes of 8 bytes per node", || live_burst(false).map(|(ns, hops)| ns / hops)),
    ("live ring, the same without adapters", || {
        let (own, (all, hops)) = (live_burst(true)?.0, live_burst(false)?);
        Ok((all - own) / hops)
    }),
    ("live ring, one more hop of a write alone", || Ok((live_alone(8)? - live_alone(1)?) / 7.0)),
];

fn digits(x: f64) -> String {
    if x >= 100.0 { format!("{x:.0}") } else { format!("{x:.2}") }
}

/// Measures and shows.
pub(crate) fn main(args: SimArgs) -> Result<u8, Failed> {
    let wanted = |name: &str| args.only.as_ref().is_none_or(|text| name.contains(text.as_str()));
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).chain(LIVE.map(|row| row.0)).collect();
    if !names.iter().any(|name| wanted(name)) {
        let what = format!("--only is {}: no row has this in its name", args.only.unwrap_or_default());
        return Err(Failed::usage(what, format!("there are {}", names.join("; "))));
    }
    let titles = ["run", ">median", ">lowest", ">highest", "unit", ">demand", "", "others", "the same run"];
    let mut table = Table::new(&titles);
    let mut rows = Vec::new();
    let mut all_met = true;
    let mut add = |name: &str,
                   flags: String,
                   figures: Vec<f64>,
                   unit: &str,
                   demand: f64,
                   less: bool,
                   others: &str,
                   checked: (String, bool)| {
        let mut sorted = figures;
        sorted.sort_by(f64::total_cmp);
        let (lowest, median, highest) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        let met = if less { median <= demand } else { median >= demand };
        let verdict = match (met, checked.1) {
            (true, true) => "met",
            (false, true) => "missed",
            (_, false) => "WRONG",
        };
        all_met &= met && checked.1;
        let sign = if less { "<=" } else { ">=" };
        let cells = [
            name.to_string(),
            digits(median),
            digits(lowest),
            digits(highest),
            unit.into(),
            format!("{sign} {}", digits(demand)),
            verdict.into(),
            others.into(),
            checked.0.clone(),
        ];
        table.row(&cells);
        rows.push(json!({"run": name, "flags": flags, "unit": unit, "median": median, "lowest": lowest,
            "highest": highest, "all": sorted, "demand": demand, "smaller_is_better": less, "verdict": verdict,
            "others": others, "check": checked.0, "check_met": checked.1}));
    };
    for row in ROWS.iter().filter(|row| wanted(row.name)) {
        angara_protocol::complain!("{} ...", row.name);
        let (figures, checked) = measure(row, args.runs)?;
        let (unit, less) = (row.figure.unit(), row.figure.smaller_is_better());
        add(row.name, flags(row), figures, unit, row.demand, less, row.others, checked);
    }
    for (name, figure) in LIVE.into_iter().filter(|(name, _)| wanted(name)) {
        let figures = (0..args.runs).map(|_| figure()).collect::<Result<Vec<_>, _>>()?;
        add(name, String::new(), figures, "ns/packet-hop", 60.0, true, "", (String::new(), true));
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&rows).expect("rows hold only numbers and names"))?;
    } else {
        say!("{} repetitions each; speed per second of processor time, two threads by the clock", args.runs)?;
        error::print(table.render())?;
    }
    Ok(u8::from(!all_met))
}
