//! Sweeps of simulations: ended and gone on with, and run by several processes at once.

use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Finished, Test};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const TEXT: &str = "topology = \"torus:8x8\"\nrouter = \"generic\"\nwarmup = 100\ncycles = 30000\n[sweep]\n\
    load = [0.05, 0.06, 0.07, 0.08, 0.09, 0.10, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18]\n";

/// Files that do not depend on who simulated what.
const FILES: [&str; 7] =
    ["sweep.csv", "sweep.json", "latency.svg", "throughput.svg", "latency.dat", "throughput.gp", "points.jsonl"];

/// A sweep file.
fn scene(name: &str) -> Test {
    let test = Test::new(name);
    write(&test, TEXT);
    test
}

/// [`FILES`] as one process makes them, which is asked once.
fn whole(test: &Test) -> &'static [Vec<u8>] {
    static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        test.run(sweep(test, "whole")).success();
        FILES.map(|name| std::fs::read(test.file("whole").join(name)).expect("a file")).into()
    })
}

fn write(test: &Test, text: &str) {
    std::fs::write(test.file("s.toml"), text).expect("scratch file");
}

fn sweep(test: &Test, out: &str) -> Command {
    test.angara(["sim", "sweep", "s.toml", "--out", out])
}

/// Names in `out/parts` that end in `ending`.
fn names(test: &Test, out: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(test.file(out).join("parts")).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name.ends_with(ending)).collect()
}

fn finished(test: &Test, out: &str) -> usize {
    names(test, out, ".json").len().saturating_sub(1)
}

fn assert_whole(test: &Test, out: &str) {
    for (name, whole) in FILES.iter().zip(whole(test)) {
        let made = std::fs::read(test.file(out).join(name)).expect("a file");
        assert!(made == *whole, "{name} is the same to the byte");
    }
    let left: Vec<PathBuf> =
        std::fs::read_dir(test.file(out)).expect("a directory").map(|e| e.expect("it").path()).collect();
    let is_left = |path: &PathBuf| {
        path.ends_with("parts") || path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'))
    };
    assert!(!left.iter().any(is_left), "{left:?}");
}

/// Starts a sweep and ends it, by a signal, when it has two points.
fn end(test: &Test, out: &str, signal: Signal) -> Finished {
    let running = test.spawn(sweep(test, out));
    assert!(poll_until(|| finished(test, out) > 1), "points are kept: {}", running.so_far());
    running.signal(signal);
    running.wait(PATIENCE)
}

#[test]
fn a_sweep_that_a_batch_system_ends_gives_its_claims_back() {
    let test = scene("sweep-terminated");
    let done = end(&test, "parts", Signal::TERM);
    assert!(done.code() == 143 && done.stderr.contains("the same command goes on with them"), "{done}");
    assert_eq!(names(&test, "parts", ".claim"), [""; 0]);
    test.run(sweep(&test, "parts")).success();
    assert_whole(&test, "parts");
    test.assert_clean();
}

#[test]
fn a_sweep_that_was_ended_goes_on() {
    let test = scene("sweep-ended");
    let done = end(&test, "parts", Signal::INT);
    assert!(done.code() == 130 && done.stderr.contains("the same command goes on with them"), "{done}");
    assert_eq!(names(&test, "parts", ".claim"), [""; 0], "claims are given back");
    let kept = finished(&test, "parts");
    let done = test.run(test.angara(["sim", "merge", "parts"]));
    assert!(done.code() == 2 && done.stderr.contains(&format!("{} of 14 points are missing", 14 - kept)), "{done}");
    write(&test, &TEXT.replace("0.05", "0.04"));
    let done = test.run(sweep(&test, "parts"));
    assert!(done.code() == 2 && done.stderr.contains("points of another sweep: s.toml:6 is `load = [0.04,"), "{done}");
    write(&test, TEXT);
    let done = test.run(sweep(&test, "parts")).success();
    assert!(done.stderr.contains(&format!("{kept} of 14 points were finished before")), "{done}");
    assert_whole(&test, "parts");
    test.assert_clean();
}

#[test]
fn many_processes_make_the_files_of_one_even_if_some_are_killed() {
    let test = scene("sweep-many");
    let start = || -> Vec<Running> { (0..4).map(|_| test.spawn(sweep(&test, "many"))).collect() };
    let mut running = start();
    // Each has a point; two are killed while they simulate.
    let enough = || finished(&test, "many") > 1 && names(&test, "many", ".process").len() == 4;
    assert!(poll_until(enough), "they share the points: {}", running[0].so_far());
    for killed in running.drain(..2) {
        killed.signal(Signal::KILL);
        assert_eq!(killed.wait(PATIENCE).code(), 137);
    }
    let done: Vec<Finished> = running.into_iter().map(|r| r.wait(PATIENCE).success()).collect();
    let tables = done.iter().filter(|d| d.stdout.contains("accepted_flits_per_node_cycle")).count();
    assert_eq!(tables, 1, "one process prints the results: {done:?}");
    assert_whole(&test, "many");

    // Those that come late have nothing to do, whatever the others left.
    let mut late = sweep(&test, "many");
    late.env("SLURM_ARRAY_TASK_COUNT", "9").env("SLURM_ARRAY_TASK_ID", "8");
    let done = test.run(late).success();
    assert_eq!(done.stdout, "all 14 points were finished before; results are in many\n");
    std::fs::remove_file(test.file("many").join("sweep.csv")).expect("it was there");
    test.run(test.angara(["sim", "merge", "many"])).success();
    assert_whole(&test, "many");
    test.assert_clean();
}

#[test]
fn a_sweep_of_which_every_process_was_killed_goes_on() {
    let test = scene("sweep-killed");
    for round in 1..=3 {
        let running: Vec<Running> = (0..2).map(|_| test.spawn(sweep(&test, "killed"))).collect();
        assert!(poll_until(|| finished(&test, "killed") > round), "round {round}: {}", running[0].so_far());
        for one in running {
            one.signal(Signal::KILL);
            one.wait(PATIENCE);
        }
    }
    let kept = finished(&test, "killed");
    let mut command = sweep(&test, "killed");
    command.arg("--no-wait");
    let done = test.run(command).success();
    assert!(done.stderr.contains(&format!("{kept} of 14 points were finished before")), "{done}");
    assert_whole(&test, "killed");
    test.assert_clean();
}
