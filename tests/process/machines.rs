//! Machine files: what they say reaches the network, and what is wrong in them is named.

use angara_tests::{Finished, Test, tools};
use std::collections::BTreeMap;

/// Nanoseconds of the chip (docs/reference/machines.md): a hop, injection and ejection, a phase of a barrier.
const HOP: f64 = 129.0;
const ENDS: f64 = 600.0;
const PHASE: f64 = 10.0;

fn run(args: &[&str]) -> Finished {
    let test = Test::new("machines");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(tools::compile("tests/c/virtual_time/costs.c"));
    let done = test.run(command);
    test.assert_clean();
    done
}

/// Nanoseconds by what took them.
fn costs(args: &[&str]) -> BTreeMap<String, f64> {
    let done = run(args).success();
    let line = |line: &str| {
        let (name, ns) = line.rsplit_once(' ').expect("a name and a number");
        (name.to_string(), ns.parse().expect("nanoseconds"))
    };
    done.stdout.lines().map(line).collect()
}

/// The part by which a value is off.
fn off(value: f64, wanted: f64) -> f64 {
    (value / wanted - 1.0).abs()
}

#[test]
fn barriers_and_streams_take_what_the_papers_say() {
    // Routes of at most 1, 3 and 5 hops. Paper 001: K phases for half a barrier, 2K for a whole one.
    for (pes, torus, k) in [("2", "2", 1.0), ("8", "2x2x2", 3.0), ("32", "4x2x2x2", 5.0)] {
        // A call and its post belong to no barrier.
        let costs = costs(&["-n", pes, "--torus", torus, "--call-cost", "0"]);
        let (whole, half) = (2.0 * k * (HOP + PHASE) + ENDS, k * (HOP + PHASE) + ENDS);
        assert!(off(costs["barrier"], whole) < 0.005, "{} and {whole}", costs["barrier"]);
        // To synchronise completes no puts, so that half a barrier does.
        for what in ["half-barrier", "sync", "team sync"] {
            assert!(off(costs[what], half) < 0.005, "{what}: {} and {half}", costs[what]);
        }
        // No read flushes what the barrier flushes by itself: it costs less than two more trips.
        assert!(costs["put and barrier"] < whole + ENDS + HOP, "{}", costs["put and barrier"]);
        // 16 of 18 flits at 7.5 GB/s, and the trip of the flush.
        let bandwidth = f64::from(1 << 20) / (costs["stream"] - costs["put and quiet"]);
        assert!(off(bandwidth, 6.667) < 0.01, "{bandwidth} GB/s");
    }
}

#[test]
fn values_of_a_machine_reach_programs_by_file_and_by_option() {
    let test = Test::new("machine-file");
    let file = test.file("fast.toml");
    std::fs::write(&file, "torus = \"8\"\n[network]\nhop = \"60ns\"\nflight = \"20ns\"\nlink = \"15GB/s\"\n")
        .expect("a file");
    let file = file.to_str().expect("a path of UTF-8");
    let plain = costs(&["-n", "2", "--torus", "8"]);
    let fast = costs(&["-n", "2", "--machine", file]);
    assert_eq!(fast, costs(&["-n", "2", "--torus", "8", "--set", "hop=60ns,flight=20ns", "--set", "link=15GB/s"]));
    assert!((plain["barrier"] - fast["barrier"] - 2.0 * (HOP - 60.0)).abs() < 1.0);
    // Now the core is the slower one: 16 of 18 flits at 8 GB/s.
    let bandwidth = f64::from(1 << 20) / (fast["stream"] - fast["put and quiet"]);
    assert!(off(bandwidth, 8.0 * 16.0 / 18.0) < 0.01, "{bandwidth} GB/s");

    let of = |set: &str| costs(&["-n", "2", "--torus", "8", "--set", set]);
    // As many packets are under way as a link needs.
    for rate in [128.0, 400.0] {
        let fast = of(&format!("link={rate}GB/s,core={rate}GB/s"));
        let bandwidth = f64::from(1 << 20) / (fast["stream"] - fast["put and quiet"]);
        assert!(off(bandwidth, rate * 16.0 / 18.0) < 0.02, "{bandwidth} GB/s at {rate}");
    }
    let capped = of("link=128GB/s,core=128GB/s,slots=16");
    let bandwidth = f64::from(1 << 20) / (capped["stream"] - capped["put and quiet"]);
    assert!(off(bandwidth, 20.4 * 16.0 / 18.0) < 0.02, "{bandwidth} GB/s with 16 slots");
    let oracle = of("quiet=delivered");
    assert!(off(plain["put and quiet"] - oracle["put and quiet"], ENDS + HOP) < 0.03, "{oracle:?}");
    let dma = of("dma-start=2us");
    assert!((dma["stream"] - plain["stream"] - 2000.0).abs() < 1.0 && dma["get"] == plain["get"], "{dma:?}");
    let read = of("host-read=200ns");
    for what in ["get", "fetch-add", "put and quiet"] {
        assert!((read[what] - plain[what] - 200.0).abs() < 1.0, "{what}: {read:?}");
    }
    let adaptive = of("routing=adaptive");
    assert!(adaptive["put and quiet"] > plain["put and quiet"] + ENDS, "{adaptive:?}");

    let near = |set: &str| costs(&["-n", "2", "--ppn", "2", "--torus", "8", "--set", set]);
    let (adapter, memory) = (near("same-node=adapter"), near("same-node=memory,memory-latency=80ns"));
    assert!(adapter["get"] > 2.0 * ENDS && memory["get"] < 100.0, "{adapter:?} {memory:?}");
}

#[test]
fn ports_feed_all_links_of_a_node_at_once() {
    let test = Test::new("ports");
    let program = tools::compile("tests/c/virtual_time/all_links.c");
    let time = |ports: &str, neighbours: &str| -> f64 {
        let set = format!("link=50GB/s,core=50GB/s,{ports}");
        let args =
            ["run", "--quiet", "--timeout", "200", "--clock", "virtual", "-n", "27", "--torus", "3x3x3", "--set"];
        let mut command = test.angara(args);
        command.arg(set).arg("--").arg(&program).arg(neighbours);
        let done = test.run(command).success();
        done.stdout.trim().parse().expect("nanoseconds")
    };
    let one = time("ports=1", "1");
    assert!(off(time("ports=6", "6"), one) < 0.01, "six links take as long as one");
    assert!(off(time("ports=3", "6"), 2.0 * one) < 0.05, "two links for each port");
    assert!(time("ports=1", "6") > 5.5 * one);
    assert!(time("ports=6,port-rate=25GB/s", "6") > 1.8 * one, "a port has a rate of its own");
    test.assert_clean();
}

/// Links that carried puts in a job on a torus with rings of two nodes, in which all put to all.
fn used(test: &Test, options: &[&str]) -> Vec<String> {
    let program = tools::compile("tests/c/traffic.c");
    let report = test.file("report.json");
    let mut command = test.angara(["run", "--quiet", "--timeout", "100", "-n", "8", "--torus", "4x2", "--report"]);
    command.arg(&report).args(options).arg("--").arg(program);
    test.run(command).success();
    let text = std::fs::read_to_string(report).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let links = report["links"].as_array().expect("links").iter().filter(|link| link["load"]["put"].is_object());
    links.map(|link| link["dir"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn balanced_routes_use_both_cables_of_a_ring_of_two_nodes() {
    let test = Test::new("machine-routes");
    for engine in [&["--clock", "virtual"][..], &["--path", "ring"], &[]] {
        let of = |set: &str| used(&test, &[engine, &["--set", set]].concat());
        let (parity, balanced) = (of("routes=parity"), of("routes=balanced"));
        let has = |all: &[String], dir: &str| all.iter().any(|link| link == dir);
        assert!(has(&parity, "+Y") && !has(&parity, "-Y"), "{engine:?}: {parity:?}");
        assert!(has(&balanced, "+Y") && has(&balanced, "-Y"), "{engine:?}: {balanced:?}");
    }
    let large = ["run", "-n", "2", "--torus", "16x16x8", "--set", "routes=balanced", "true"];
    let refused = test.run(test.angara(large));
    assert_eq!(refused.code(), 2, "{refused}");
    assert!(refused.stderr.contains("routes=balanced on 16x16x8") && refused.stderr.contains("1024"), "{refused}");
    test.assert_clean();
}

#[test]
fn a_machine_is_printed_as_a_file_that_is_read_again() {
    let test = Test::new("machine-print");
    let printed = test.run(test.angara(["machine", "angara-k1", "--set", "hop=100ns"])).success();
    assert!(printed.stdout.contains("torus = \"3x3x4\"") && printed.stdout.contains("hop = \"100ns\""), "{printed}");
    let file = test.file("copy.toml");
    std::fs::write(&file, &printed.stdout).expect("a file");
    let again = test.run(test.angara(["machine", file.to_str().expect("UTF-8")])).success();
    assert_eq!(again.stdout, printed.stdout);
    let sim = ["sim", "run", "--machine", file.to_str().expect("UTF-8"), "--workload", "all-to-all:64", "--json"];
    let of_file = test.run(test.angara(sim)).success();
    let shipped = ["sim", "run", "--machine", "angara-k1", "--workload", "all-to-all:64", "--json"];
    assert_ne!(of_file.stdout, test.run(test.angara(shipped)).success().stdout, "shorter hops");
    test.assert_clean();
}

#[test]
fn mistakes_in_machines_are_named() {
    let test = Test::new("machine-mistakes");
    let file = test.file("bad.toml");
    std::fs::write(&file, "torus = \"4\"\n\n[network]\nhopp = \"1ns\"\n").expect("a file");
    let bad = file.to_str().expect("UTF-8");
    for (args, parts) in [
        (&["--machine", bad][..], &["bad.toml:4", "unknown key `hopp` in [network]", "injection, ejection, hop"][..]),
        (&["--machine", "missing.toml"], &["cannot read missing.toml"]),
        (&["--machine", "cray"], &["unknown machine `cray`", "desmos (4x2x2x2), angara-k1 (3x3x4)"]),
        (&["--set", "hop=fast"], &["hop = `fast`", "such as 129ns"]),
        (&["--set", "hop=70ns,flight=80ns"], &["hop = 70ns contains flight = 80ns"]),
        (&["--set", "speed=1"], &["unknown key `speed`"]),
        (&["--runtime-dir", "/tmp", "--set", "hop=100ns"], &["has its own machine, not hop=100ns"]),
    ] {
        let done = test.run(test.angara([&["run", "-n", "2"][..], args, &["true"]].concat()));
        assert!(done.code() == 2 && parts.iter().all(|part| done.stderr.contains(part)), "{args:?}: {done}");
        if !args.contains(&"--runtime-dir") {
            let done = {
                let mut fabricd = test.command(tools::tool("fabricd"));
                fabricd.arg("--check-config").args(args);
                test.run(fabricd)
            };
            assert!(done.code() == 2 && parts.iter().all(|part| done.stderr.contains(part)), "{args:?}: {done}");
        }
    }
    test.assert_clean();
}
