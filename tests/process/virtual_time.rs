//! Programs in virtual time: their own clocks tell the network's exact times, two runs are equal, and whoever waits for
//! ever is told at once.

use angara_tests::{Finished, Rng, Test, tools};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of the chip (docs/explain/model.md): injection and ejection, a hop.
const ENDS: f64 = 600.0;
const HOP: f64 = 129.0;
/// A packet's second and third flit on the slower of link and core: 6400/3 ps each.
const FLITS: f64 = 2.0 * 6400.0 / 3000.0;

fn program(name: &str) -> PathBuf {
    tools::compile(&format!("tests/c/virtual_time/{name}.c"))
}

fn virtually(test: &Test, args: &[&str], program: &str) -> Command {
    virtually_as(test, args, self::program(program))
}

fn virtually_as(test: &Test, args: &[&str], program: PathBuf) -> Command {
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(program);
    command
}

fn run(args: &[&str], program: &str) -> Finished {
    let test = Test::new("virtual");
    let done = test.run(virtually(&test, args, program));
    test.assert_clean();
    done
}

#[test]
fn a_word_takes_as_long_as_the_chip_says() {
    for (pes, torus, hops, call) in
        [("2", "8", 1, 1.0), ("3", "8", 2, 1.0), ("5", "8", 4, 1.0), ("2", "2", 1, 0.0), ("6", "4x2", 2, 50.0)]
    {
        let done = run(&["-n", pes, "--torus", torus, "--call-cost", &call.to_string()], "pingpong").success();
        let took: f64 = done.stdout.trim().parse::<f64>().expect("a number") / 1000.0;
        // The look at the clock at the end is a part of it: 25 ns in 2,000 ways, and the rounding of each packet.
        let wanted = ENDS + f64::from(hops) * HOP + FLITS + call;
        assert!((took - wanted).abs() < 0.25, "{pes} PEs on {torus}: {took} ns, not {wanted}");
    }
}

/// Links between two nodes of a torus.
fn hops(torus: &[u64], a: u64, b: u64) -> u64 {
    let (mut a, mut b, mut hops) = (a, b, 0);
    for size in torus {
        let apart = (a % size).abs_diff(b % size);
        hops += apart.min(size - apart);
        (a, b) = (a / size, b / size);
    }
    hops
}

#[test]
fn a_ping_pong_takes_what_the_formula_says_on_any_machine() {
    let test = Test::new("virtual-formula");
    let file = test.file("report.json");
    let mut dice = Rng::for_test("virtual_time", 16);
    for _ in 0..24 {
        let torus: &[u64] = [&[8][..], &[5, 3], &[4, 4, 2], &[4, 2, 2, 2], &[3, 3, 4]][dice.below(5) as usize];
        let text = torus.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        let (pes, seed) = ((2 + dice.below(7)).to_string(), dice.below(1000));
        let (hop, rate, call) = (60 + dice.below(240), 2 + dice.below(20), dice.below(51));
        let args = [
            format!("--torus={text}"),
            format!("--map=random:{seed}"),
            format!("--set=hop={hop}ns,flight=20ns,link={rate}GB/s"),
            format!("--call-cost={call}"),
            format!("--report={}", file.display()),
        ];
        let args: Vec<&str> = ["-n", &pes].into_iter().chain(args.iter().map(String::as_str)).collect();
        let two_words = tools::compile_with("tests/c/virtual_time/pingpong.c", &["-DWORDS=2"]);
        let done = test.run(virtually_as(&test, &args, two_words)).success();
        let took: f64 = done.stdout.trim().parse::<f64>().expect("a number") / 1000.0;
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).expect("a report")).expect("JSON");
        let placement: Vec<u64> = serde_json::from_value(report["placement"].clone()).expect("nodes");
        let hops = hops(torus, placement[0], placement[placement.len() - 1]);
        // A flit is 16 bytes; the chip's own moves 8 GB/s.
        let flit = (16.0 / rate as f64).max(2.0);
        let wanted = ENDS + (hops * hop) as f64 + 2.0 * flit + call as f64;
        assert!((took - wanted).abs() < 0.5, "{args:?}, {hops} hops: {took} ns, not {wanted}");
    }
    test.assert_clean();
}

#[test]
fn two_runs_are_equal_whatever_else_the_machine_does() {
    let args = ["-n", "12", "--torus", "3x2x2", "--map", "random:3"];
    let first = run(&args, "busy").success().stdout;
    assert_eq!(first.lines().count(), 12, "{first}");
    for busy in [0, 3] {
        let test = Test::new("virtual-busy");
        let mut hogs: Vec<_> = (0..busy)
            .map(|_| test.command("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().expect("sh"))
            .collect();
        let again = test.run(virtually(&test, &args, "busy")).success().stdout;
        hogs.iter_mut().for_each(|hog| {
            hog.kill().expect("it runs");
            hog.wait().expect("it was ours");
        });
        assert_eq!(again, first, "beside {busy} hogs");
    }
}

#[test]
fn whoever_looks_in_a_loop_sees_what_comes() {
    for way in 0..16 {
        let test = Test::new("virtual-spin");
        let mut command = virtually(&test, &["-n", "2"], "spin");
        command.arg(way.to_string());
        let done = test.run(command).success();
        let took: u64 = done.stdout.trim().parse().unwrap_or_else(|_| panic!("way {way}: {done}"));
        // A microsecond of sleep, a way through the network, a look; a lock is handed over in three.
        assert!((1_600..if way == 15 { 5_000 } else { 2_700 }).contains(&took), "way {way}: {took} ns");
        test.assert_clean();
    }
}

/// How often PEs of a run stopped, as it says.
fn stops(pes: &str, pattern: &str, rounds: u64) -> u64 {
    let test = Test::new("virtual-stops");
    let mut command = test.angara(["run", "--timeout", "200", "--clock", "virtual", "-n", pes, "--"]);
    command.arg(program("patterns")).args([pattern, &rounds.to_string()]);
    stops_of(&test.run(command).success())
}

fn stops_of(done: &Finished) -> u64 {
    let said = done.stderr.split_once("PEs have stopped ").and_then(|(_, rest)| rest.split_once(" times"));
    said.and_then(|(n, _)| n.parse().ok()).unwrap_or_else(|| panic!("{done}"))
}

#[test]
fn a_pe_stops_only_for_what_it_waits_for() {
    const PES: u64 = 8;
    for (pattern, per_round) in
        [("pingpong", 1), ("put_quiet", 1), ("get", 1), ("halo", 2), ("barrier", 1), ("allreduce", 6), ("gather", 1)]
    {
        let several = |rounds| stops(&PES.to_string(), pattern, rounds);
        let more = several(300) - several(100);
        assert!(more <= 200 * PES * per_round, "{pattern}: {more} stops in 200 rounds of {PES} PEs");
    }
}

#[test]
fn who_waits_long_beside_threads_looks_less_often() {
    let test = Test::new("virtual-threads");
    let mut command = test.angara(["run", "--timeout", "200", "--clock", "virtual", "-n", "2", "--"]);
    command.arg(program("patient"));
    let done = test.run(command).success();
    let waited: u64 = done.stdout.trim().parse().expect("milliseconds");
    assert_eq!(waited, 1000, "{done}");
    // A look every 50 ns would be 20 million.
    assert!(stops_of(&done) < 120_000, "{done}");
    test.assert_clean();
}

#[test]
fn more_than_adapter_and_queues_hold_is_done_all_the_same() {
    let done = run(&["-n", "2"], "flood").success();
    assert_eq!(done.stdout, "65536\n65536\n");
}

#[test]
fn sleeping_takes_virtual_time_and_children_have_real_time() {
    let done = run(&["-n", "2"], "sleep").success();
    let (said, child) = done.stdout.trim().split_once('\n').expect("two lines");
    assert!(said.starts_with("50 looks, 5.000 s, 17672256"), "{said}");
    let child: u64 = child.parse().expect("seconds");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(now.abs_diff(child) < 1000, "{child} is not about {now}");
}

#[test]
fn sleeps_that_cannot_be_are_errors() {
    let done = run(&["-n", "1"], "far_sleep").success();
    assert_eq!(done.stdout, "answered 0 after 2 s\n999 1, 10 1, thread 1, coarse 1, boottime 0, timer 1\n");
    let slept = |seconds: &'static str| {
        let test = Test::new("virtual-far-sleep");
        let mut command = virtually(&test, &["-n", "1"], "far_sleep");
        command.arg(seconds);
        let done = test.run(command);
        test.assert_clean();
        done
    };
    assert_eq!(slept("2000000").success().stdout, "slept 2000000 s\n");
    // It was cut to 2,305,843 s.
    for seconds in ["2305844", "2147483647"] {
        let done = slept(seconds).failure(&["virtual time ends after 26 days (2305843 s)"]);
        assert!(done.stdout.is_empty(), "{done}");
    }
}

#[test]
fn whoever_computes_for_ever_is_told_from_those_who_wait_for_it() {
    let test = Test::new("virtual-endless");
    let mut command = test.angara(["run", "-n", "3", "--clock", "virtual", "--timeout", "2"]);
    command.arg("--").arg(program("endless"));
    let done = test.run(command);
    assert_eq!(done.code(), 124, "{done}");
    for part in ["PE 1 did not wait", "PE 0 waited for", "PE 2 waited for", "shmem_barrier_all: all PEs to enter"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    test.assert_clean();
}

#[test]
fn a_deadlock_is_told_at_once_with_what_everybody_waits_for() {
    let done = run(&["-n", "3"], "deadlock");
    assert_eq!(done.code(), 1, "{done}");
    for part in ["deadlock at ", "shmem_long_wait_until", "== 5 (it is 0)", "shmem_barrier_all: all PEs to enter"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
}

#[test]
fn broken_links_cost_time_and_dead_nodes_are_told() {
    let took = |fault: &str| {
        let fault = if fault.is_empty() { vec![] } else { vec!["--fault", fault] };
        let done = run(&[&["-n", "2", "--torus", "8"][..], &fault].concat(), "pingpong").success();
        done.stdout.trim().parse::<f64>().expect("a number") / 1000.0
    };
    // The way back is whole; the way there leads around the ring.
    let around = took("link 0 +X down") - took("");
    assert!(around > 2.0 * HOP, "{around} ns more");
    assert_eq!(took("link 0 +X corrupt=5%"), took("link 0 +X corrupt=5%"));
    assert!(took("link 0 +X corrupt=5%") > took(""));
    // It comes when about half of the 1,000 rounds are done, at the same point of every run.
    let half = took("link 0 +X down @730us");
    assert!(half > took("") + 0.3 * around && half < took("") + 0.7 * around, "{half}");
    assert_eq!(half, took("link 0 +X down @730us"));
    assert_eq!(took(""), took("link 0 +X down @1s"));
    let done = run(&["-n", "2", "--torus", "4", "--fault", "node 1 down"], "pingpong");
    assert!(done.code() == 1 && done.stderr.contains("unreachable"), "{done}");
}

#[test]
fn what_makes_times_real_or_runs_differ_is_said() {
    let test = Test::new("virtual-said");
    let mut command = test.angara(["run", "-n", "2", "--clock", "virtual", "--", "env", "-u", "LD_PRELOAD"]);
    command.arg(program("deadlock"));
    let done = test.run(command);
    assert!(done.code() == 1 && done.stderr.contains("the program's own clocks tell real time"), "{done}");
    let mut command = test.angara(["run", "-n", "2", "--clock", "virtual", "--"]);
    command.arg(tools::compile_with("tests/c/openshmem/threads.c", &["-pthread"]));
    let done = test.run(command).success();
    assert!(done.stderr.contains("so two runs may differ"), "{done}");
    test.assert_clean();
}

#[test]
fn libraries_that_the_user_preloads_are_kept_behind_the_clock() {
    let test = Test::new("virtual-preload");
    let preloads = |option: &[&str], here: Option<&str>| {
        let mut command = virtually(&test, &[&["-n", "1"], option].concat(), "preloaded");
        command.envs(here.map(|library| ("LD_PRELOAD", library)));
        let said = test.run(command).success().stdout;
        let (before, after) = said.trim_end_matches('\n').split_once(" then ").unwrap_or_else(|| panic!("{said}"));
        let ours = before.split(':').next().unwrap_or_default();
        assert!(ours.ends_with("/libangara_clock.so"), "{said}");
        let others = before[ours.len()..].trim_start_matches(':').to_owned();
        // What the program starts has the others alone.
        assert_eq!(others, after, "{said}");
        others
    };
    assert_eq!(preloads(&[], None), "");
    assert_eq!(preloads(&[], Some("libm.so.6")), "libm.so.6");
    assert_eq!(preloads(&["-x", "LD_PRELOAD=libm.so.6"], None), "libm.so.6");
    assert_eq!(preloads(&["-x", "LD_PRELOAD=libm.so.6:libdl.so.2"], Some("libutil.so.1")), "libm.so.6:libdl.so.2");
    assert_eq!(preloads(&["-x", "LD_PRELOAD="], Some("libm.so.6")), "");
    test.assert_clean();
}

#[test]
fn what_contradicts_virtual_time_is_refused() {
    for (args, why) in [
        (&["--path", "direct"][..], "--path direct cannot be had in virtual time"),
        (&["--runtime-dir", "/tmp"], "--runtime-dir cannot be had in virtual time"),
        (&["--call-cost", "-1"], "give nanoseconds"),
    ] {
        let done = run(&[&["-n", "2"], args].concat(), "deadlock");
        assert!(done.code() == 2 && done.stderr.contains(why), "{done}");
    }
    let test = Test::new("virtual-refused");
    let mut command = test.angara(["run", "-n", "2", "--call-cost", "5", "--"]);
    command.arg(program("deadlock"));
    let done = test.run(command);
    assert!(done.code() == 2 && done.stderr.contains("--call-cost is for virtual time"), "{done}");
    test.assert_clean();
}

#[test]
fn the_end_of_a_job_has_a_time() {
    // PE 1 ends it at 0.1 s; nothing of the others happens after that, and their alarms do not ring.
    for _ in 0..4 {
        let done = run(&["-n", "3"], "ends_early");
        assert_eq!(done.code(), 7, "{done}");
        assert_eq!(done.stdout, "PE 2 woke at 50 ms\n", "{done}");
        assert_eq!(done.stderr.lines().count(), 1, "{done}");
        assert!(done.stderr.contains("PE 1 called shmem_global_exit(7)"), "{done}");
    }
}

#[test]
fn a_thread_that_sleeps_takes_no_time_of_the_others_and_is_due_when_it_has_slept() {
    let test = Test::new("virtual-watchdog");
    for (mode, code, wanted) in [
        ("0", 0, "PE 0: 10.03 ms\nPE 1: 10.03 ms\n"),
        // When a new thread begins to sleep is the system's choice, and some microseconds of a round; so is
        // which PE has done first.
        ("1", 0, "PE 0: 20.0x ms\nPE 1: 20.0x ms\n"),
        ("2", 5, "PE 0 waits in vain after 3000 ms\n"),
    ] {
        for _ in 0..5 {
            let mut command = virtually(&test, &["-n", "2"], "watchdog");
            command.arg(mode);
            let done = test.run(command);
            let mut said = done.stdout.clone();
            if mode == "1" {
                (0..10).for_each(|last| said = said.replace(&format!("20.0{last}"), "20.0x"));
                let mut lines: Vec<&str> = said.split_inclusive('\n').collect();
                lines.sort_unstable();
                said = lines.concat();
            }
            assert_eq!((done.code(), said.as_str()), (code, wanted), "{mode}: {done}");
            assert!(!done.stderr.contains("deadlock"), "{mode}: {done}");
        }
    }
    test.assert_clean();
}
