//! Looking at jobs that span several hosts: timelines, captures, and the page.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::{Running, Test, tools};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Events of a timeline that was not compressed.
fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a timeline");
    serde_json::from_str(&text).expect("one list of events")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What `angara trace summary` says of a timeline, which it reads strictly.
fn summary(test: &Test, file: &Path) -> String {
    let mut command = test.angara(["trace", "summary"]);
    command.arg(file);
    test.run(command).success().stdout
}

/// Directories for notes that agents of this test have left.
fn left(place: &Path) -> Vec<String> {
    let names = std::fs::read_dir(place).expect("readable").flatten();
    names.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name.contains(".calls-")).collect()
}

/// A cluster of two hosts, whose agents have `TMPDIR` for their notes. The second one is inside of `words`.
fn two<'t>(test: &'t Test, place: &Path, words: &[&str]) -> Cluster<'t> {
    std::fs::create_dir(place).expect("ours");
    let variable = format!("TMPDIR={}", place.display());
    let mut cluster = Cluster::prepare(test, "4x2", Hosts::loopback(2), "dead-after = \"10s\"", &[]);
    for (host, words) in [(0, &[][..]), (1, words)] {
        cluster.spawn_inside(host, &[&["env", &variable], words].concat());
    }
    cluster.wait_up();
    cluster
}

/// The timeline of a ring of 8 PEs over two hosts is whole, and nothing in it comes before its cause by more than it says.
fn check_ring(test: &Test, cluster: &Cluster<'_>, file: &Path) {
    let ring = tools::compile("examples/c/ring.c");
    let trace = file.to_str().expect("text");
    test.run(cluster.run(&["--timeout", "100", "-n", "8", "--trace", trace], &ring)).success();
    let events = events(file);
    let of = |event: &Value| event["pid"].as_u64().expect("a PE") as usize;
    let tracks: Vec<&Value> = events.iter().filter(|e| e["name"] == "process_name").collect();
    assert_eq!(tracks.len(), 8);
    let mut errors = [0.0; 8];
    for track in tracks {
        let args = &track["args"];
        let there = args["host"] == "h1";
        assert_eq!(args["clock_error"].is_number(), there, "{track}");
        if there {
            errors[of(track)] = number(&args["clock_error"]);
        }
    }
    assert_eq!(errors.iter().filter(|error| **error > 0.0).count(), 4, "{errors:?}");
    let calls = |name: &'static str| events.iter().filter(move |e| e["ph"] == "X" && e["name"] == name);
    let waits: Vec<&Value> = calls("shmem_long_wait_until").collect();
    assert_eq!(waits.len(), 160, "20 rounds of 8 PEs");
    for wait in &waits {
        assert_eq!(wait["args"]["woken_by"], (of(wait) + 7) as u64 % 8, "{wait}");
    }
    let ends = |phase: &str| events.iter().filter(|e| e["ph"] == *phase).collect::<Vec<_>>();
    let (from, to) = (ends("s"), ends("f"));
    assert_eq!((from.len(), to.len()), (160, 160));
    let end = |call: &Value| number(&call["ts"]) + number(&call["dur"]);
    // Times of one host have one clock. Rounding to nanoseconds adds a little.
    let bound =
        |a: usize, b: usize| if (errors[a] > 0.0) == (errors[b] > 0.0) { 0.0 } else { errors[a] + errors[b] } + 0.002;
    for (from, to) in from.iter().zip(&to) {
        assert!(number(&from["ts"]) <= number(&to["ts"]), "{from} {to}");
        let bound = bound(of(from), of(to));
        let mut ends = waits.iter().filter(|wait| of(wait) == of(to)).map(|wait| end(wait));
        let fits = |end: f64| end <= number(&to["ts"]) + 0.002 && number(&from["ts"]) <= end + bound;
        assert!(ends.any(fits), "{from} began behind the wait that it ended by more than {bound} us");
    }
    // Nobody leaves a barrier before the last has come.
    let barriers: Vec<&Value> = calls("shmem_barrier_all").collect();
    assert!(barriers.len() >= 8 && barriers.len() % 8 == 0, "{}", barriers.len());
    for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
        let row = |pe| barriers.iter().filter(move |call| of(call) == pe);
        for (left, came) in row(a).zip(row(b)) {
            assert!(end(left) + bound(a, b) >= number(&came["ts"]), "{left} {came} {}", bound(a, b));
        }
    }
    let text = summary(test, file);
    assert!(text.contains("other hosts may be wrong by up to") && !text.contains("not complete"), "{text}");
}

#[test]
fn a_timeline_has_the_pes_of_all_hosts() {
    let test = Test::new("cluster-look-timeline");
    let (place, file) = (test.file("notes"), test.file("ring.json"));
    let cluster = two(&test, &place, &[]);
    check_ring(&test, &cluster, &file);
    assert_eq!(left(&place), [""; 0], "what PEs wrote is gone");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn times_of_another_host_are_put_on_our_clock() {
    const SHIFTED: [&str; 4] = ["unshare", "--time", "--monotonic", "100000"];
    let tried = Command::new(SHIFTED[0]).args(&SHIFTED[1..]).arg("true").output();
    if !tried.is_ok_and(|done| done.status.success()) {
        eprintln!("not tried: this machine lets us make no time namespace");
        return;
    }
    let test = Test::new("cluster-look-clocks");
    let (place, file) = (test.file("notes"), test.file("ring.json"));
    let cluster = two(&test, &place, &SHIFTED);
    check_ring(&test, &cluster, &file);
    cluster.shutdown();
    test.assert_clean();
}

/// A job whose PEs wait, and what notes of it there are on the hosts.
fn waiting(test: &Test, cluster: &Cluster<'_>, place: &Path, file: &Path) -> Running {
    let steps = tools::compile("tests/c/steps.c");
    let mut command = cluster.run(&["-n", "8", "--trace", file.to_str().expect("text")], &steps);
    command.stdin(Stdio::piped());
    let job = test.spawn(command);
    job.expect_line("ready 8");
    assert_eq!(left(place).len(), 1, "on the other host");
    job
}

#[test]
fn notes_elsewhere_go_with_a_launcher_that_is_killed() {
    let test = Test::new("cluster-look-killed");
    let (place, file) = (test.file("notes"), test.file("steps.json"));
    let cluster = two(&test, &place, &[]);
    let job = waiting(&test, &cluster, &place, &file);
    job.signal(Signal::KILL);
    job.wait(PATIENCE);
    assert!(poll_until(|| left(&place).is_empty()), "left: {:?}", left(&place));
    cluster.shutdown();
}

#[test]
fn a_host_that_is_lost_is_missing_in_the_timeline() {
    let test = Test::new("cluster-look-lost");
    let (place, file) = (test.file("notes"), test.file("steps.json"));
    let mut cluster = two(&test, &place, &[]);
    let job = waiting(&test, &cluster, &place, &file);
    let daemon = cluster.take(1);
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    let done = job.wait(PATIENCE);
    assert_eq!(done.code(), 1, "{done}");
    let missing =
        "the timeline is not complete: 4 PEs have noted no call; host h1: what its PEs have noted has not come";
    assert!(done.stderr.contains(missing), "{done}");
    assert_eq!(events(&file).iter().filter(|e| e["name"] == "process_name").count(), 4);
    assert!(summary(&test, &file).contains("not complete"));
    cluster.shutdown();
}
