//! The ring path is a network, not a copy: packets cross every link of their route and are counted
//! there, corrupted ones are sent again, dead links are avoided, and nothing moves while the data
//! plane stands still. And both paths report the same traffic for the same program.

use angara_abi::account::{Class, Load};
use angara_abi::job::Barrier;
use angara_net::torus::Direction;
use angara_protocol::msg::{LinkReport, Report};
use angara_tests::daemon::Daemon;
use angara_tests::process::PATIENCE;
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

/// Classes a program causes itself; `sync` is the library's own traffic and differs by engine.
const PROGRAM: [Class; 3] = [Class::Put, Class::Get, Class::Amo];

fn run(test: &Test, args: &[&str], program: &Path, rest: &[&str]) -> (Finished, Report) {
    let file = test.file("report.json");
    let mut command = test.angara(["run", "--timeout", "200", "--report"]);
    command.arg(&file).args(args).arg("--").arg(program).args(rest);
    let done = test.run(command).success();
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("no report: {e}; {done}"));
    let report = serde_json::from_str(&text).unwrap_or_else(|e| panic!("report is not as documented: {e}\n{text}"));
    (done, report)
}

fn traffic() -> std::path::PathBuf {
    tools::compile("tests/c/traffic.c")
}

fn sum(links: &[LinkReport], class: Class) -> Load {
    let mut all = Load::default();
    links.iter().filter_map(|l| l.load.get(&class)).for_each(|l| all.add(*l));
    all
}

/// Returns what the pairs of a report put on links: each packet counts once per hop.
fn times_hops(report: &Report, class: Class) -> Load {
    let scale = |l: Load, n: u64| Load { packets: l.packets * n, flits: l.flits * n, bytes: l.bytes * n };
    let mut all = Load::default();
    for p in report.pairs.iter().filter(|p| p.class == class) {
        let node = |pe: u32| report.placement[pe as usize];
        let hops = u64::from(report.shape.distance(node(p.from), node(p.to)));
        all.add(scale(p.traffic.out, hops));
        all.add(scale(p.traffic.back, hops));
    }
    all
}

type Links = BTreeMap<(u32, Direction, Class), Load>;

/// Traffic of the program's own classes by link, without idle ones.
fn by_link(report: &Report) -> Links {
    let mut out = BTreeMap::new();
    for link in &report.links {
        for class in PROGRAM {
            if let Some(load) = link.load.get(&class).filter(|l| **l != Load::default()) {
                out.insert((link.node, link.dir, class), *load);
            }
        }
    }
    out
}

#[test]
fn counters_of_all_links_sum_to_hops_times_flits() {
    let program = traffic();
    let networks: [&[&str]; 4] = [
        &["-n", "8", "--torus", "2x2x2"],
        &["-n", "6", "--torus", "5x3", "--map", "random:3"],
        &["-n", "5", "--mesh", "3x3"],
        &["-n", "8", "--torus", "4", "--ppn", "2"],
    ];
    for network in networks {
        let test = Test::new("hops");
        let (_, report) = run(&test, &[network, &["--path", "ring"]].concat(), &program, &[]);
        for class in PROGRAM {
            let (links, hops) = (sum(&report.links, class), times_hops(&report, class));
            assert!(hops.flits > 0, "{network:?}: no {class:?} traffic at all");
            assert_eq!(links, hops, "{network:?} {class:?}: links on the left, hops × pairs on the right");
        }
        test.assert_clean();
    }
}

fn same_on_both_paths(program: &Path, rest: &[&str], network: &[&str]) {
    let test = Test::new("same");
    let (_, direct) = run(&test, &[network, &["--path", "direct"]].concat(), program, rest);
    let (_, ring) = run(&test, &[network, &["--path", "ring"]].concat(), program, rest);
    let (direct, ring) = (by_link(&direct), by_link(&ring));
    let shown = program.display();
    assert!(!ring.is_empty(), "{shown} {network:?}: no traffic");
    for key in direct.keys().chain(ring.keys()) {
        let (d, r) = (direct.get(key), ring.get(key));
        assert_eq!(d, r, "{shown} {network:?}: link {} {} class {:?}, direct left, ring right", key.0, key.1, key.2);
    }
    test.assert_clean();
}

#[test]
fn every_barrier_of_the_adapters_runs_on_the_ring_path() {
    let test = Test::new("network-barriers");
    let program = tools::compile("examples/c/ring.c");
    for family in Barrier::ALL.into_iter().filter(|b| b.by_adapter()) {
        let name = serde_json::to_value(family).unwrap();
        let network = ["-n", "7", "--torus", "2x2x2", "--path", "ring", "--barrier", name.as_str().unwrap()];
        let (_, report) = run(&test, &network, &program, &[]);
        let b = report.barriers;
        assert_eq!((b.family, b.early, b.unfinished, b.late), (family, 0, 0, 0));
        assert!(b.left > 0 && b.left % 7 == 0, "{family:?}: {} exits of 7 nodes", b.left);
    }
}

#[test]
fn scattered_pes_of_a_large_torus_do_not_wait_for_all_nodes_between_them() {
    let test = Test::new("network-scattered");
    let program = tools::compile("tests/c/barriers.c");
    let network = ["-n", "8", "--torus", "16x16x16", "--map", "random:1", "--path", "ring"];
    let (done, report) = run(&test, &network, &program, &["200"]);
    assert!(done.stdout.contains("200 barriers"), "{done}");
    let b = report.barriers;
    assert_eq!((b.family, b.early, b.unfinished, b.late), (Barrier::Tree, 0, 0, 0));
    assert!(b.left >= 8 * 200 && b.left % 8 == 0, "{} exits of 8 nodes", b.left);
    test.assert_clean();
}

#[test]
fn heat2d_reports_the_same_links_on_both_paths() {
    same_on_both_paths(&tools::compile("examples/c/heat2d.c"), &[], &["-n", "8", "--torus", "2x2x2"]);
    same_on_both_paths(&tools::compile("examples/c/heat2d.c"), &[], &["-n", "12", "--machine", "angara-k1"]);
}

#[test]
fn isort_reports_the_same_links_on_both_paths() {
    same_on_both_paths(&tools::compile("examples/c/isort.c"), &[], &["-n", "8", "--torus", "4x2"]);
    same_on_both_paths(&tools::compile("examples/c/isort.c"), &[], &["-n", "16", "--torus", "4x2", "--ppn", "2"]);
}

#[test]
fn every_operation_reports_the_same_links_on_both_paths() {
    same_on_both_paths(&traffic(), &[], &["-n", "7", "--torus", "3x3", "--map", "random:1"]);
}

#[test]
fn an_impaired_link_repairs_and_results_stay_right() {
    let test = Test::new("corrupt");
    let network = ["-n", "8", "--torus", "4x2", "--path", "ring"];
    let fault = ["--fault", "link 0,0 +X corrupt=5% dup=10% reorder=10% delay=3us rate=100M"];
    let (_, report) = run(&test, &[&network[..], &fault].concat(), &traffic(), &[]);
    for link in &report.links {
        let bad = link.node == 0 && link.dir == Direction::ALL[0];
        assert_eq!(link.crc_errors > 0, bad, "CRC errors of {link:?}");
        assert_eq!(link.replays > 0, bad, "replays of {link:?}");
        assert_eq!(link.duplicates > 0, bad, "packets sent twice of {link:?}");
        assert_eq!(link.reordered > 0, bad, "packets overtaken of {link:?}");
    }
    assert!(report.links.iter().any(|l| l.node == 0 && l.dir == Direction::ALL[0]), "the link is in the report");
    // Replays are repairs, not traffic: the program's packets are counted once.
    for class in PROGRAM {
        assert_eq!(sum(&report.links, class), times_hops(&report, class));
    }
    test.assert_clean();
}

#[test]
fn with_a_seed_the_same_packets_of_a_program_suffer_whatever_happened_before() {
    let test = Test::new("fault-seed");
    let daemon = Daemon::start(&test, &["--torus", "4"]);
    let say = |spec: &str| {
        daemon.control().fault(spec).unwrap_or_else(|e| panic!("{spec}: {}", e.message));
    };
    let mut before = (0, 0);
    // What the link counts while the program runs: damaged packets and doubled ones.
    let mut suffered = |what: &str| {
        say("all clear");
        say(&format!("link 0 +X {what}"));
        let (_, report) = run(&test, &["-n", "2", "--path", "ring"], &traffic(), &[]);
        let link = report.links.iter().find(|l| l.node == 0 && l.dir == Direction::ALL[0]).expect("the link was used");
        let now = (link.crc_errors, link.duplicates);
        let earlier = std::mem::replace(&mut before, now);
        (now.0 - earlier.0, now.1 - earlier.1)
    };
    let first = suffered("drop=4% dup=6% seed=7");
    assert!(first.0 > 0 && first.1 > 0, "{first:?}");
    let other = suffered("drop=4% dup=6% seed=8");
    assert_ne!(first, other);
    suffered("corrupt=10%");
    assert_eq!(first, suffered("drop=4% dup=6% seed=7"));
    assert_eq!(other, suffered("seed=8 dup=6% drop=4%"));
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_dead_link_is_avoided() {
    let test = Test::new("dead-link");
    let network = ["-n", "8", "--torus", "4x2", "--path", "ring"];
    let (_, healthy) = run(&test, &network, &traffic(), &[]);
    let (_, detour) = run(&test, &[&network[..], &["--fault", "link 0,0 +X down"]].concat(), &traffic(), &[]);
    let on = |r: &Report| by_link(r).into_iter().filter(|(k, _)| k.0 == 0 && k.1 == Direction::ALL[0]).count();
    assert!(on(&healthy) > 0, "the healthy network uses the link");
    assert_eq!(on(&detour), 0, "the dead link carried traffic");
    for class in PROGRAM {
        let (before, after) = (sum(&healthy.links, class), sum(&detour.links, class));
        assert!(after.flits >= before.flits, "{class:?}: {after:?} after, {before:?} before");
        let pairs = |r: &Report| {
            let mut all = Load::default();
            r.pairs.iter().filter(|p| p.class == class).for_each(|p| all.add(p.traffic.out));
            all
        };
        assert_eq!(pairs(&healthy), pairs(&detour), "the program did the same");
    }
    test.assert_clean();
}

#[test]
fn a_link_that_dies_under_load_costs_time_but_no_data() {
    let program = tools::compile("tests/c/churn.c");
    for (collectives, barrier) in [("auto", "auto"), ("p2p", "dissemination"), ("tree", "multiphase")] {
        let test = Test::new("dies");
        let mut command = test.angara(["run", "-n", "8", "--torus", "4x2", "--path", "ring", "--timeout", "200"]);
        command.args(["--collectives", collectives, "--barrier", barrier]);
        command.args(["--fault", "link 0,0 +X down @150ms", "--fault", "link 2,1 -X down @300ms"]);
        command.args(["--fault", "link 1,0 +Y corrupt=2%"]).arg("--").arg(&program).arg("0.8");
        let done = test.run(command).success();
        assert!(done.stdout.contains("churned"), "{done}");
        test.assert_clean();
    }
}

/// A job that does what it is told, on a daemon of its own.
struct Stepper {
    // Order matters: the job goes before the daemon.
    job: angara_tests::Running,
    input: ChildStdin,
    daemon: Daemon,
    test: Test,
}

impl Stepper {
    fn start(name: &str, network: &[&str], run: &[&str]) -> Stepper {
        Stepper::start_with(name, network, run, &[])
    }
    fn start_with(name: &str, network: &[&str], run: &[&str], words: &[&str]) -> Stepper {
        let test = Test::new(name);
        let daemon = Daemon::start(&test, network);
        let program = tools::compile("tests/c/steps.c");
        let mut command = test.angara(["run", "--timeout", "200"]);
        command.args(run).arg("--").arg(program).args(words).stdin(Stdio::piped());
        let mut job = test.spawn(command);
        let input = job.take_stdin();
        job.expect_line("ready");
        Stepper { job, input, daemon, test }
    }
    fn tell(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).and_then(|()| self.input.write_all(b"\n")).expect("the job reads");
    }
    fn step(&mut self, line: &str, answer: &str) {
        self.tell(line);
        self.job.expect_line(answer);
    }
    fn finish(mut self) {
        self.tell("quit");
        self.job.wait(PATIENCE).success();
        self.daemon.shutdown();
        self.test.assert_clean();
    }
    fn fault(&self, spec: &str) {
        self.daemon.control().fault(spec).unwrap_or_else(|e| panic!("{spec}: {}", e.message));
    }
}

#[test]
fn a_slow_link_is_slow_for_programs() {
    let mut s = Stepper::start("slow-link", &["--torus", "4"], &["-n", "4", "--path", "ring"]);
    s.fault("link 0 +X delay=30ms");
    // However loaded the machine is, less than the delay it cannot take.
    let began = Instant::now();
    s.step("put 1 5", "put 1 5");
    s.step("get 1 0", "get 1 = 5");
    assert!(began.elapsed() >= Duration::from_millis(30), "{:?} over a link of 30 ms", began.elapsed());
    s.fault("link 0 +X delay=0ns");
    s.fault("node 1 rate=1M");
    s.step("block 1 100000", "block 1 whole");
    assert_eq!(s.daemon.control().status().faults, ["node 1 rate=1M"]);
    s.fault("node 1 clear");
    s.step("put 1 6", "put 1 6");
    s.finish();
}

#[test]
fn stopping_the_data_plane_stops_ring_traffic() {
    let mut s = Stepper::start("stopped-ring", &["--torus", "2x2"], &["-n", "4", "--path", "ring"]);
    s.step("put 3 7", "put 3 7");
    s.daemon.process.process().stop();
    s.tell("put 3 8");
    // Nothing can arrive however long we look; a moment is enough to notice a shortcut.
    assert!(!s.job.has_line("put 3 8", Duration::from_millis(700)), "a put completed without the data plane");
    s.daemon.process.signal(Signal::CONT);
    s.job.expect_line("put 3 8");
    s.step("get 3 0", "get 3 = 8");
    s.finish();
}

#[test]
fn stopping_the_data_plane_does_not_stop_direct_traffic() {
    let mut s = Stepper::start("stopped-direct", &["--torus", "2x2"], &["-n", "4", "--path", "direct"]);
    s.daemon.process.process().stop();
    s.step("put 3 8", "put 3 8");
    s.step("add 3 5", "add 3 5");
    s.step("get 3 0", "get 3 = 13");
    s.step("block 2 100000", "block 2 whole");
    s.daemon.process.signal(Signal::CONT);
    s.finish();
}

#[test]
fn with_every_route_dead_a_put_fails_and_names_itself() {
    for path in ["ring", "direct"] {
        // A PE that waits inside the library would be told, too, and might be the first to say so.
        let mut s = Stepper::start_with("no-route", &["--torus", "4"], &["-n", "4", "--path", path], &["outside"]);
        s.step("put 2 5", "put 2 5");
        // Node 2 of a ring of four hangs on two cables.
        for link in ["link 1 +X down", "link 2 +X down", "link 2 -X down", "link 3 -X down"] {
            s.fault(link);
        }
        s.tell("put 2 6");
        let Stepper { job, daemon, test, input } = s;
        let done = job.wait(PATIENCE);
        drop(input);
        let done = done.failure(&["shmem_long_p", "unreachable", "PE 2", "node 2"]);
        assert!(!done.stdout.contains("put 2 6"), "{path}: the put claims to have worked: {done}");
        daemon.shutdown();
        test.assert_clean();
    }
}

#[test]
fn mending_a_link_brings_the_short_route_back() {
    let mut s = Stepper::start("mended", &["--torus", "4"], &["-n", "4", "--path", "ring"]);
    let carried = |s: &Stepper| {
        let mut control = s.daemon.control();
        let job = control.status().jobs[0].job;
        by_link(&control.report(job))
            .into_iter()
            .filter(|(k, _)| k.0 == 0 && k.1 == Direction::ALL[0])
            .map(|(_, l)| l.packets)
            .sum::<u64>()
    };
    s.fault("link 0 +X down");
    let before = carried(&s);
    s.step("put 1 5", "put 1 5");
    assert_eq!(carried(&s), before, "a dead link carried a put");
    s.daemon.control().fault("all clear").expect("cleared");
    s.step("put 1 6", "put 1 6");
    assert!(carried(&s) > before, "after mending, the short route stays unused");
    s.step("get 1 0", "get 1 = 6");
    s.finish();
}
