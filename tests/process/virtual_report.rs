//! Reports of virtual time: where it went, who waited for whom, and the path that decided when all was done.

use angara_tests::{Test, tools};
use serde_json::Value;
use std::path::Path;

/// Picoseconds of the chip (docs/explain/model.md): injection and ejection, a hop, a packet's second and third flit.
const ENDS: u64 = 600_000;
const HOP: u64 = 129_000;
const FLITS: u64 = 2 * 6_400_000 / 3_000;

/// The report of a run in virtual time, as it is in the file and read.
fn report(test: &Test, args: &[&str], program: &Path) -> (String, Value) {
    let file = test.file("report.json");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "--report"]);
    command.arg(&file).args(args).arg("--").arg(program);
    test.run(command).success();
    let text = std::fs::read_to_string(&file).expect("a report");
    let report = serde_json::from_str(&text).expect("JSON");
    (text, report)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The row of a list that begins with these cells.
fn row<'a>(report: &'a Value, list: &str, begin: &[Value]) -> &'a [Value] {
    let rows = report[list].as_array().expect("rows").iter().map(|row| row.as_array().expect("cells"));
    let mut found = rows.filter(|row| row.starts_with(begin));
    found.next().unwrap_or_else(|| panic!("no row {begin:?} in {}", report[list]))
}

/// What a path is the sum of.
const PARTS: [&str; 7] = ["compute", "software", "other", "data", "answers", "barriers", "trees"];

#[test]
fn a_relay_is_the_path_of_its_run() {
    const PES: u64 = 6;
    let test = Test::new("virtual-path");
    let program = tools::compile("tests/c/virtual_time/relay.c");
    let (text, report) = report(&test, &["-n", "6", "--torus", "8"], &program);
    let times = &report["virtual_time"];
    let path = &times["path"];
    let ended = times["pes"].as_array().expect("PEs").iter().map(|pe| number(&pe["end"])).max();
    assert_eq!((number(&path["from"]), Some(number(&path["end"]))), (0, ended));
    assert_eq!(PARTS.iter().map(|part| number(&path[part])).sum::<u64>(), number(&path["end"]), "{path}");
    // Each PE computes on the path, and each hands its word on over a hop.
    // A run that went on past the post is divided in proportion.
    assert!(number(&path["compute"]).abs_diff(1_000_000 * (1..=PES).sum::<u64>()) <= PES * 1_000, "{path}");
    let messages = (PES - 1) * (ENDS + HOP + FLITS);
    assert!(number(&path["data"]).abs_diff(messages) < 1_000, "{path}");
    assert_eq!(number(&path["pes"]), PES);
    for pe in 0..PES {
        let wanted =
            |row: &&Value| row["why"] == "run" && row["pe"] == pe && number(&row["ps"]) >= 1_000_000 * (pe + 1);
        assert!(path["most"].as_array().expect("rows").iter().any(|row| wanted(&row)), "{path}");
        assert_eq!(number(&times["pes"][pe as usize]["compute"]), 1_000_000 * (pe + 1));
        // Routines: calls, picoseconds, bytes.
        assert_eq!(row(&report, "routines", &[pe.into(), "shmemx_compute".into()])[2..], [1, 1_000_000 * (pe + 1), 0]);
        if pe + 1 < PES {
            assert_eq!(row(&report, "routines", &[pe.into(), "shmem_long_p".into()])[2..], [1, 1_000, 8]);
            // The wait for the word began when the PE left the barrier, and is all that it waited in that routine.
            let waited = number(&row(&report, "waits", &[(pe + 1).into(), pe.into()])[3]);
            let routine = number(&row(&report, "routines", &[(pe + 1).into(), "shmem_long_wait_until".into()])[3]);
            assert!(routine > 0 && waited >= routine, "{waited} {routine}");
        }
    }
    // Whoever enters the last barrier late is whom all the others waited for.
    assert!(number(&row(&report, "waits", &[0.into(), (PES - 1).into()])[3]) > 15_000_000);
    // What links carried by time is what they carried.
    for link in report["link_times"].as_array().expect("rows") {
        let by_time: u64 = link["flits"].as_array().expect("times").iter().map(number).sum();
        let all = report["links"].as_array().expect("links");
        let same = all.iter().find(|l| l["node"] == link["node"] && l["dir"] == link["dir"]).expect("the same link");
        let load = same["load"].as_object().expect("classes");
        assert_eq!(by_time, load.values().map(|load| number(&load["flits"])).sum::<u64>(), "{link}");
    }
    assert!(text.contains("\n  \"routines\": [\n    [0,\""), "{text}");
    test.assert_clean();
}

#[test]
fn reports_of_two_runs_are_equal_to_the_byte_and_are_shown() {
    let test = Test::new("virtual-report");
    let program = tools::compile("tests/c/virtual_time/busy.c");
    let args = ["-n", "12", "--torus", "3x2x2", "--map", "random:3", "--compute", "fixed:300"];
    let first = report(&test, &args, &program).0;
    for _ in 0..3 {
        assert_eq!(report(&test, &args, &program).0, first);
    }
    let shown = |args: &[&str]| {
        let mut command = test.angara([&["report"][..], args].concat());
        command.arg(test.file("report.json")).env("COLUMNS", "100");
        test.run(command)
    };
    let text = shown(&["--all"]).success().stdout;
    for part in ["Critical path", "its last steps", "Waiting for whom", "Routines", "shmem_", "Links by time"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    for (what, head) in [
        ("pes", "pe,end_ps,"),
        ("waits", "pe,for_pe,"),
        ("routines", "pe,routine,"),
        ("links", "link,from_ps,"),
        ("path", "why,pe,"),
    ] {
        let text = shown(&["--csv", what]).success().stdout;
        assert!(text.starts_with(head) && text.lines().count() > 1, "{text}");
    }
    let file = test.file("report.json");
    let mut real = test.angara(["run", "--quiet", "-n", "2", "--timeout", "200", "--report"]);
    real.arg(&file).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(real).success();
    let done = shown(&["--csv", "pes"]);
    assert!(done.code() == 2 && done.stderr.contains("--clock virtual"), "{done}");
    test.assert_clean();
}

#[test]
fn whoever_comes_last_to_a_tree_is_whom_others_waited_for() {
    let test = Test::new("virtual-trees");
    let program = tools::compile("tests/c/virtual_time/late.c");
    for collectives in ["tree", "p2p"] {
        let (_, report) = report(&test, &["-n", "4", "--torus", "2x2", "--collectives", collectives], &program);
        let path = &report["virtual_time"]["path"];
        assert!(number(&path["compute"]) == 50_000_000, "{collectives}: {path}");
        if collectives == "tree" {
            assert!(number(&row(&report, "waits", &[0.into(), 2.into()])[3]) > 49_000_000, "{}", report["waits"]);
            assert!(number(&path["trees"]) > 0, "{path}");
        }
    }
    test.assert_clean();
}
