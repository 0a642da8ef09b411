//! Timelines of calls: what waited for what, what they survive, and what is refused.

use angara_abi::FLIT_BYTES;
use angara_tests::process::Finished;
use angara_tests::{Test, tools};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// `angara run --trace` of `program` with these options and arguments.
fn trace(test: &Test, file: &Path, options: &[&str], program: &Path, args: &[&str]) -> Finished {
    let mut command = test.angara(["run", "--quiet", "--timeout", "100", "--trace"]);
    command.arg(file).args(options).arg("--").arg(program).args(args);
    test.run(command)
}

fn ring() -> std::path::PathBuf {
    tools::compile("examples/c/ring.c")
}

/// Events of a timeline that was not compressed.
fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a timeline");
    serde_json::from_str(&text).expect("one list of events")
}

/// The timeline in `file` is one, and all is there that belongs to it; returns what is said of it.
fn summary(test: &Test, file: &Path) -> String {
    let mut command = test.angara(["trace", "summary"]);
    command.arg(file);
    test.run(command).success().stdout
}

fn calls<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == "X" && event["name"] == name)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn every_wait_names_the_pe_that_ended_it() {
    const PES: u64 = 3;
    let test = Test::new("timeline-ring");
    let file = test.file("ring.json");
    for options in [&["-n", "3"][..], &["-n", "3", "--path", "ring"], &["-n", "3", "--clock", "virtual"]] {
        trace(&test, &file, options, &ring(), &[]).success();
        let events = events(&file);
        let waits: Vec<&Value> = calls(&events, "shmem_long_wait_until").collect();
        assert_eq!(waits.len(), 60, "20 rounds of 3 PEs");
        for wait in &waits {
            let (me, args) = (wait["pid"].as_u64().expect("a PE"), &wait["args"]);
            assert_eq!(args["woken_by"], (me + PES - 1) % PES, "{wait}");
            assert!(number(&args["put_at"]) <= number(&wait["ts"]) + number(&wait["dur"]), "{wait}");
        }
        // Every wait has an arrow, from a put of the PE that ended it.
        let ends = |phase: &str| events.iter().filter(|e| e["ph"] == *phase).collect::<Vec<_>>();
        let (from, to) = (ends("s"), ends("f"));
        assert_eq!((from.len(), to.len()), (60, 60));
        for (from, to) in from.iter().zip(&to) {
            assert_eq!(from["id"], to["id"]);
            assert_eq!((from["pid"].as_u64().expect("a PE") + 1) % PES, to["pid"]);
            let at = (from["pid"].clone(), from["ts"].clone());
            assert!(calls(&events, "shmem_long_p").any(|put| (put["pid"].clone(), put["ts"].clone()) == at), "{from}");
        }
        for name in ["shmem_init", "shmem_barrier_all", "shmem_finalize"] {
            assert_eq!(calls(&events, name).count(), 3, "{name}");
        }
        let text = summary(&test, &file);
        for part in ["shmem_long_wait_until", "Late senders", "Critical path"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("not complete"), "{text}");
    }
    let left = std::fs::read_dir(file.parent().expect("a directory")).expect("readable").count();
    assert_eq!(left, 1, "what PEs wrote is gone");
}

#[test]
fn who_came_late_is_named() {
    let test = Test::new("timeline-late");
    let (file, program) = (test.file("late.json"), tools::compile("tests/c/timeline.c"));
    trace(&test, &file, &["-n", "4"], &program, &[]).success();
    let events = events(&file);
    let wait = calls(&events, "shmem_signal_wait_until").next().expect("PE 0 waits");
    assert_eq!((&wait["pid"], &wait["args"]["woken_by"]), (&0.into(), &1.into()), "{wait}");
    let last = calls(&events, "shmem_barrier_all").filter(|call| call["args"]["last"] == 3).count();
    assert!(last >= 4, "all of the second barrier's calls, at least");
    // A put with a signal is a call that has three more in it.
    assert_eq!(calls(&events, "shmem_long_put_signal").count(), 4);
    let text = summary(&test, &file);
    let row = text.lines().skip_while(|line| !line.starts_with("Late senders")).nth(2).expect("a row");
    assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["1", "0", "1"], "{text}");
}

#[test]
fn every_track_of_calls_has_a_name() {
    let test = Test::new("timeline-threads");
    let file = test.file("threads.json");
    trace(&test, &file, &["-n", "2"], &tools::compile("tests/c/openshmem/threads.c"), &[]).success();
    let events = events(&file);
    let mut tracks: BTreeMap<(u64, u64), Option<&str>> = BTreeMap::new();
    let track = |event: &Value| (event["pid"].as_u64().expect("a PE"), event["tid"].as_u64().expect("a thread"));
    for event in events.iter().filter(|event| event["name"] == "thread_name") {
        assert_eq!(event["ph"], "M", "{event}");
        let twice = tracks.insert(track(event), event["args"]["name"].as_str());
        assert_eq!(twice, None, "named twice: {event}");
    }
    let calling: std::collections::BTreeSet<(u64, u64)> =
        events.iter().filter(|event| event["ph"] == "X").map(track).collect();
    // Main and four more of each PE.
    assert!((0..2).all(|pe| calling.iter().filter(|(pid, _)| *pid == pe).count() >= 5), "{calling:?}");
    assert_eq!(tracks.keys().copied().collect::<std::collections::BTreeSet<_>>(), calling);
    for ((pe, thread), name) in tracks {
        assert_eq!(name, Some(&format!("thread {thread}")[..]), "PE {pe}");
    }
    test.assert_clean();
}

/// Loads of links in a timeline, by name: times in us and MB/s.
fn loads(events: &[Value]) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut tracks: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "C") {
        assert_eq!((event["pid"].as_u64(), event["tid"].as_u64()), (Some(4), Some(0)), "behind 4 PEs: {event}");
        let name = event["name"].as_str().expect("a link").to_string();
        tracks.entry(name).or_default().push((number(&event["ts"]), number(&event["args"]["MB/s"])));
    }
    for (link, load) in &tracks {
        assert!(load.windows(2).all(|two| two[0].0 <= two[1].0), "{link}: {load:?}");
        assert!(load.iter().all(|(_, load)| *load >= 0.0) && load.last().is_some_and(|(_, last)| *last == 0.0));
        assert!(load.iter().any(|(_, load)| *load > 0.0), "{link} has carried something: {load:?}");
    }
    tracks
}

#[test]
fn the_hottest_links_have_tracks() {
    let test = Test::new("timeline-links");
    let (file, report) = (test.file("links.json"), test.file("report.json"));
    let report_option = report.to_str().expect("text");
    for path in ["ring", "direct"] {
        let options = ["-n", "4", "--torus", "4", "--path", path, "--trace-links=3", "--report", report_option];
        trace(&test, &file, &options, &ring(), &[]).success();
        let events = events(&file);
        let tracks = loads(&events);
        assert_eq!(tracks.len(), 3, "{tracks:?}");
        let names = events.iter().filter(|e| e["name"] == "process_name").map(|e| e["args"]["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["PE 0", "PE 1", "PE 2", "PE 3", "links"]);
        // No link carries what the report does not know of: the time before the first call is cut off, nothing is added.
        let flits = flits(&report);
        for (link, load) in &tracks {
            let carried = integral(load) / FLIT_BYTES as f64;
            assert!(carried <= flits[link] as f64 * 1.001 + 1.0, "{path} {link}: {carried} of {}", flits[link]);
        }
        summary(&test, &file);
    }
}

/// Bytes that a link has carried by its track.
fn integral(load: &[(f64, f64)]) -> f64 {
    load.windows(2).map(|two| (two[1].0 - two[0].0) * two[0].1).sum()
}

/// Flits of every link in a report.
fn flits(report: &Path) -> BTreeMap<String, u64> {
    let report: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    let links = report["links"].as_array().expect("links");
    let flits = |link: &Value| link["load"].as_object().expect("classes").values().map(|l| l["flits"].as_u64()).sum();
    let name = |link: &Value| format!("{}{}", link["node"], link["dir"].as_str().expect("a direction"));
    links.iter().map(|link| (name(link), Option::expect(flits(link), "numbers"))).collect()
}

#[test]
fn in_virtual_time_tracks_have_every_flit_and_two_runs_the_same() {
    let test = Test::new("timeline-virtual-links");
    let (files, report) = (["a.json", "b.json"].map(|name| test.file(name)), test.file("report.json"));
    for file in &files {
        let report = report.to_str().expect("text");
        let options = ["-n", "4", "--torus", "4", "--clock", "virtual", "--trace-links", "--report", report];
        trace(&test, file, &options, &ring(), &[]).success();
    }
    let tracks = loads(&events(&files[0]));
    let flits = flits(&report);
    assert_eq!(tracks.keys().collect::<Vec<_>>(), flits.keys().collect::<Vec<_>>(), "fewer than 16 links");
    for (link, load) in &tracks {
        let (carried, all) = (integral(load) / FLIT_BYTES as f64, flits[link] as f64);
        assert!((carried - all).abs() < 0.01 * all, "{link}: {carried} of {all}");
    }
    let [a, b] = files.map(|file| std::fs::read(file).expect("a timeline"));
    assert!(a == b, "they differ");
}

#[test]
fn tracks_of_links_need_a_timeline() {
    let test = Test::new("timeline-links-alone");
    let mut command = test.angara(["run", "-n", "2", "--trace-links", "--"]);
    command.arg(ring());
    let done = test.run(command);
    assert_eq!(done.code(), 2, "{}", done.stderr);
    done.failure(&["--trace <"]);
    let mut command = test.angara(["run", "-n", "2", "--trace", "x.json", "--trace-links=0", "--"]);
    command.arg(ring());
    test.run(command).failure(&["from 1 to 1024"]);
}

#[test]
fn two_runs_in_virtual_time_write_the_same_timeline() {
    let test = Test::new("timeline-virtual");
    let files = ["a.json.gz", "b.json.gz"].map(|name| test.file(name));
    for file in &files {
        trace(&test, file, &["-n", "4", "--clock", "virtual"], &ring(), &[]).success();
    }
    let [a, b] = files.map(|file| std::fs::read(file).expect("a timeline"));
    assert!(a == b, "they differ");
    assert!(a.starts_with(&[0x1f, 0x8b]), "compressed");
}

#[test]
fn a_full_disk_ends_the_notes_and_not_the_job() {
    let test = Test::new("timeline-full");
    let (file, program) = (test.file("full.json"), tools::compile("tests/c/timeline.c"));
    // Room for one piece of a PE's file, and none for a second one.
    let limit = ["-n", "2", "--wrap", "0", "bash -c 'ulimit -f 900; exec \"$0\" \"$@\"'"];
    let done = trace(&test, &file, &limit, &program, &["20000"]);
    assert_eq!(done.stderr.matches("calls are no longer noted").count(), 1, "{}", done.stderr);
    done.success();
    let puts = calls(&events(&file), "shmem_long_p").count();
    assert!((1000..20000).contains(&puts), "{puts}");
    assert!(summary(&test, &file).contains("not complete"));
}

#[test]
fn what_a_killed_pe_has_done_is_there() {
    let test = Test::new("timeline-killed");
    let (file, program) = (test.file("killed.json"), tools::compile("tests/c/timeline.c"));
    let done = trace(&test, &file, &["-n", "3"], &program, &["die"]);
    assert_eq!(done.code(), 128 + 9, "{}", done.stderr);
    let events = events(&file);
    assert!(calls(&events, "shmem_barrier_all").any(|call| call["pid"] == 2), "of the one that was killed, too");
    summary(&test, &file);
}

#[test]
fn what_cannot_be_noted_is_refused() {
    let test = Test::new("timeline-refused");
    let nowhere = test.file("nowhere/x.json");
    let refused = |done: Finished, parts: &[&str]| {
        assert_eq!(done.code(), 2, "{}", done.stderr);
        done.failure(parts);
    };
    refused(trace(&test, &nowhere, &["-n", "2"], &ring(), &[]), &["nowhere/x.json", "directory you can write to"]);
    let mut command = test.angara(["run", "-n", "2", "--check=races", "--cluster", "cluster.toml", "--"]);
    command.arg(ring());
    refused(test.run(command), &["--check=races", "clocks of several hosts"]);
    let other = test.file("other.json");
    std::fs::write(&other, "[\n{\"ph\":\"X\"}\n]\n").expect("written");
    let mut command = test.angara(["trace", "summary"]);
    command.arg(&other);
    refused(test.run(command), &["line 2", "angara run --trace"]);
}
