//! Programs recorded in virtual time, and replayed by the simulator: every PE ends at the same picosecond.

use angara_tests::{Test, tools};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Options of a run, beside those that each has.
type Options = [&'static str];

/// Runs a program in virtual time; its recording, and when each PE ended by the run's report.
fn record(test: &Test, options: &Options, program: &Path) -> (PathBuf, Vec<u64>) {
    let (recording, report) = (test.file("run.atr"), test.file("run.json"));
    let mut angara = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "--heap", "16M"]);
    angara.args(options).arg("--record").arg(&recording).arg("--report").arg(&report);
    angara.arg("--").arg(program);
    test.run(angara).success();
    let report: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    let pes = report["virtual_time"]["pes"].as_array().expect("times of PEs");
    (recording, pes.iter().map(|pe| pe["end"].as_u64().expect("an end")).collect())
}

/// Replays a recording with further options.
fn replay(test: &Test, recording: &Path, options: &[&str]) -> Value {
    let mut sim = test.angara(["sim", "run", "--json", "--workload"]);
    sim.arg(format!("trace:{}", recording.display())).args(options);
    serde_json::from_str(&test.run(sim).success().stdout).expect("JSON")
}

fn ends(replayed: &Value) -> Vec<u64> {
    let pes = replayed["pes"].as_array().expect("PEs");
    pes.iter().map(|pe| pe["end_ps"].as_u64().expect("an end")).collect()
}

/// A program, and the options with which it is recorded.
const PROGRAMS: [(&str, &Options); 5] = [
    ("tests/c/virtual_time/pingpong.c", &["-n", "2"]),
    ("examples/c/heat2d.c", &["-n", "8", "--ppn", "2", "--torus", "2x2", "--set", "link=5GB/s"]),
    ("tests/c/openshmem/collectives.c", &["-n", "6", "--torus", "3x2"]),
    ("tests/c/openshmem/sync.c", &["-n", "4", "--barrier", "tree"]),
    ("tests/c/openshmem/amo.c", &["-n", "4", "--ppn", "2", "--seed", "3"]),
];

#[test]
fn recorded_programs_end_at_the_same_picosecond_when_they_are_replayed() {
    let test = Test::new("virtual-record");
    for (source, options) in PROGRAMS {
        let (recording, ended) = record(&test, options, &tools::compile(source));
        let replayed = replay(&test, &recording, &[]);
        assert_eq!(ends(&replayed), ended, "{source}");
        assert_eq!(replayed["equal"], true, "{source}");
    }
    test.assert_clean();
}

#[test]
fn a_recorded_program_takes_longer_on_a_slower_network() {
    let test = Test::new("virtual-record-slower");
    let (recording, ended) = record(&test, &["-n", "2"], &tools::compile("tests/c/virtual_time/pingpong.c"));
    let slower = ends(&replay(&test, &recording, &["--set", "injection=2us"]));
    assert!(slower.iter().zip(&ended).all(|(slower, ended)| *slower > 2 * ended), "{slower:?}, {ended:?}");
    // The way is longer on a larger torus only if the PEs are further apart.
    assert_eq!(ends(&replay(&test, &recording, &["--topology", "torus:4x4x4"])), ended);
    test.assert_clean();
}

/// What the simulator says of a schedule or recording on a fat tree: the time at the end.
fn time_in_a_tree(test: &Test, workload: &str) -> u64 {
    let mut sim = test.angara(["sim", "run", "--json", "--workload", workload]);
    // A recording has a seed of its own.
    sim.args(["--topology", "fat-tree:4,2", "--seed", "7"]);
    let json: Value = serde_json::from_str(&test.run(sim).success().stdout).expect("JSON");
    let ranks = json["ranks"].as_array().expect("ranks");
    assert!(!ranks.is_empty() && ranks.iter().all(|rank| rank["end_ps"].as_u64() > Some(0)), "{json}");
    ranks.iter().filter_map(|rank| rank["end_ps"].as_u64()).max().expect("a rank")
}

#[test]
fn a_recorded_program_runs_in_a_fat_tree_and_as_a_schedule() {
    let test = Test::new("virtual-record-tree");
    let program = tools::compile("examples/c/heat2d.c");
    let (recording, _) = record(&test, &["-n", "8", "--collectives", "p2p"], &program);
    let recorded = time_in_a_tree(&test, &format!("trace:{}", recording.display()));
    for (name, binary) in [("heat.goal", &[][..]), ("heat.bin", &["--binary"])] {
        let schedule = test.file(name);
        let mut goal = test.angara(["sim", "goal"]);
        goal.arg(&recording).arg("--out").arg(&schedule).args(binary);
        test.run(goal).success();
        assert_eq!(time_in_a_tree(&test, &format!("goal:{}", schedule.display())), recorded, "{name}");
    }
    test.assert_clean();
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_refused() {
    let test = Test::new("virtual-record-bad");
    let program = tools::compile("tests/c/virtual_time/pingpong.c");
    let mut wall = test.angara(["run", "-n", "2", "--record", "x.atr", "--"]);
    wall.arg(&program);
    let done = test.run(wall);
    assert!(done.code() == 2 && done.stderr.contains("add --clock virtual"), "{done}");
    let (recording, _) = record(&test, &["-n", "2"], &program);
    let bytes = std::fs::read(&recording).expect("a recording");
    let other = |name: &str, bytes: &[u8]| {
        let file = test.file(name);
        std::fs::write(&file, bytes).expect("a file");
        file
    };
    let mut future = bytes.clone();
    future[8] = 7;
    for (file, wanted) in [
        (other("cut.atr", &bytes[..bytes.len() - 9]), "the file ends before the recording does"),
        (other("text.atr", b"a text that is no recording"), "offset 0: `a text t` is no recording"),
        (other("future.atr", &future), "offset 8: format 7, and this angara reads format 1"),
        (test.file("missing.atr"), "No such file"),
    ] {
        let sim = test.angara(["sim", "run", "--workload", &format!("trace:{}", file.display())]);
        let done = test.run(sim);
        assert!(done.code() == 2 && done.stderr.contains(wanted), "{wanted}: {done}");
        assert!(done.stderr.contains(&file.display().to_string()), "{done}");
    }
    test.assert_clean();
}
