//! Placements found from reports: a program whose partners are far apart runs again with them as neighbours.

use angara_net::torus::Shape;
use angara_tests::{Test, tools};
use serde_json::Value;
use std::path::Path;

const PES: u32 = 16;
const TORUS: &str = "4x4";

/// The report of a run in virtual time with this placement.
fn report(test: &Test, map: &str, name: &str) -> Value {
    let file = test.file(name);
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "-n", &PES.to_string()]);
    command.args(["--torus", TORUS, "--map", map, "--report"]).arg(&file);
    command.arg("--").arg(tools::compile("tests/c/virtual_time/far.c"));
    test.run(command).success();
    read(&file)
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("a report")).expect("JSON")
}

fn placement(report: &Value) -> Vec<u32> {
    serde_json::from_value(report["placement"].clone()).expect("nodes")
}

/// Payload bytes times hops of what the program puts, and the most hops between two PEs of which one does. The library
/// itself sends a few words between others.
fn way(report: &Value) -> (u64, u32) {
    let shape: Shape = TORUS.parse().expect("a torus");
    let placement = placement(report);
    let (mut hop_bytes, mut farthest) = (0, 0);
    for pair in report["pairs"].as_array().expect("rows").iter().filter(|pair| pair[2] == "put") {
        let number = |column: usize| pair[column].as_u64().expect("a number");
        let hops = shape.distance(placement[number(0) as usize], placement[number(1) as usize]);
        // There and back.
        hop_bytes += (number(6) + number(9)) * u64::from(hops);
        farthest = farthest.max(hops);
    }
    (hop_bytes, farthest)
}

fn ended(report: &Value) -> u64 {
    let pes = report["virtual_time"]["pes"].as_array().expect("PEs").iter();
    pes.map(|pe| pe["end"].as_u64().expect("a time")).max().expect("a PE")
}

#[test]
fn partners_become_neighbours_and_the_program_ends_earlier() {
    let test = Test::new("mapping");
    let linear = report(&test, "linear", "linear.json");
    let by = format!("auto:{}", test.file("linear.json").display());
    let auto = report(&test, &by, "auto.json");
    assert_eq!((way(&linear).1, way(&auto).1), (4, 1), "{:?}", placement(&auto));
    assert!(way(&auto).0 * 3 < way(&linear).0, "{:?} and {:?}", way(&linear), way(&auto));
    assert!(ended(&auto) < ended(&linear), "{} and {} ps", ended(&linear), ended(&auto));
    assert_eq!(auto["options"]["map"], Value::from(by));

    // The same as a file.
    let places = test.file("places.txt");
    let mut command = test.angara(["alloc", "map", "--torus", TORUS, "--json", "--traffic"]);
    command.arg(test.file("linear.json")).arg("--write").arg(&places);
    let found: Value = serde_json::from_str(&test.run(command).success().stdout).expect("JSON");
    let [first, .., last] = &found["placements"].as_array().expect("rows")[..] else { panic!("{found}") };
    let hops = |row: &Value| row["hops_per_byte"].as_f64().expect("a number");
    assert!((hops(first) - 4.0).abs() < 0.01 && (hops(last) - 1.0).abs() < 0.01, "{found}");
    assert!(last["simulated_ns"].as_f64() < first["simulated_ns"].as_f64(), "{found}");
    let again = report(&test, &format!("file:{}", places.display()), "again.json");
    assert_eq!(placement(&again), placement(&auto));
    test.assert_clean();
}

#[test]
fn recordings_and_matrices_say_the_same() {
    let test = Test::new("mapping-recording");
    let recording = test.file("far.rec");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "-n", "16", "--torus"]);
    command.args([TORUS, "--record"]).arg(&recording).arg("--").arg(tools::compile("tests/c/virtual_time/far.c"));
    test.run(command).success();
    let matrix = test.file("far.txt");
    let lines: String = (0..PES).map(|pe| format!("{pe} {} 81920\n", pe ^ 10)).collect();
    std::fs::write(&matrix, lines).expect("written");
    for file in [recording, matrix] {
        let mut command = test.angara(["alloc", "map", "--torus", TORUS, "--traffic"]);
        let done = test.run({
            command.arg(&file);
            command
        });
        let text = done.success().stdout;
        let hops = |name: &str| {
            let row = text.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
            row.split_whitespace().find(|word| word.contains('.') && word.len() == 5).expect("hops").to_string()
        };
        assert_eq!((hops("linear"), hops("auto")), ("4.000".into(), "1.000".into()), "{text}");
    }
    test.assert_clean();
}

#[test]
fn files_that_do_not_fit_are_refused_before_anything_starts() {
    let test = Test::new("mapping-refused");
    let file = test.file("matrix.txt");
    std::fs::write(&file, "0 5 1\n5 0 0\n1 0 0\n").expect("written");
    let shown = file.display();
    let run = |map: &str| {
        let mut command = test.angara(["run", "-n", "2", "--map", map, "--", "true"]);
        test.run({
            command.env("COLUMNS", "200");
            command
        })
    };
    for (map, said) in [
        (format!("auto:{shown}"), format!("{shown}:1: a matrix of 3 processes, not 2; give one of 2, or -n 3")),
        ("auto:/nonexistent/r.json".into(), "/nonexistent/r.json: No such file".into()),
        ("auto".into(), "auto needs a report of an earlier run, such as auto:out.json".into()),
    ] {
        let done = run(&map);
        assert!(done.status.code() == Some(2) && done.stderr.contains(&said), "{map}: {done}");
    }
    let alloc = |args: &[&str]| {
        let mut command = test.angara(["alloc", "map"]);
        command.args(args).arg("--traffic").arg(&file);
        test.run(command)
    };
    for (args, said) in [
        (&["--torus", "2"][..], "a matrix of 3 processes, and there is room for 2; give more nodes"),
        (&["--torus", "4", "--nodes", "0-2,9"], "--nodes 0-2,9: `9` is no range of nodes of 4 (0 to 3)"),
        (&["--torus", "4", "--nodes", "0,1,x"], "`x` is no range of nodes of 4"),
        (&["--torus", "4", "--nodes", "0,1,1"], "--nodes: node 1 is named twice"),
        (&["--torus", "6", "--nodes", "0,2,3", "--fault", "node 2 down"], "--nodes: node 2 is out of service"),
    ] {
        let done = alloc(args);
        assert!(done.status.code() == Some(2) && done.stderr.contains(said), "{args:?}: {done}");
    }
    test.assert_clean();
}
