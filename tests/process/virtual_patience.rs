//! Virtual time with PEs that do not come back to the library: after patience the others go on without them, and they
//! are named with their line.

use angara_tests::{Finished, Test, tools};
use std::process::Command;

/// The command that runs a way of waiting on two PEs.
fn absent(test: &Test, args: &[&str], way: &str) -> Command {
    let program = tools::compile_with("tests/c/virtual_time/absent.c", &["-g", "-O1"]);
    let mut command = test.angara(["run", "-n", "2", "--clock", "virtual"]);
    command.args(args).arg("--").arg(program).arg(way);
    match way {
        "pipe" => {
            let fifo = test.file("fifo");
            let made = test.command("mkfifo").arg(&fifo).status().expect("mkfifo runs");
            assert!(made.success(), "{made}");
            command.arg(fifo)
        }
        "memory" => command.arg(format!("/angara-test-{}", std::process::id())),
        _ => command.arg("nothing"),
    };
    command
}

/// That a run says which PE it went on without, what that did, and where.
fn assert_told(done: &Finished, does: &str, place: &str) {
    let named = format!("angara: PE 0 {does} at absent.c:");
    for part in [&named[..], place, "the others go on without it, so another run may differ (--patience)"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    assert!(done.stderr.contains("for a time: another one may differ"), "{done}");
}

#[test]
fn whoever_waits_outside_the_library_is_left_alone_and_comes_back() {
    for (way, does, place) in [
        ("spin", "computes", "(spin_on_symmetric_memory)"),
        ("pipe", "sleeps", "(sleep_in_a_pipe)"),
        ("memory", "computes", "(share_memory)"),
    ] {
        let test = Test::new("virtual-absent");
        let report = test.file("report.json");
        let patience = ["--timeout", "100", "--patience", "0.3", "--report", report.to_str().expect("text")];
        let done = test.run(absent(&test, &patience, way)).success();
        assert_eq!(done.stdout, "done\n", "{way}: {done}");
        match way {
            // Either may be the first to have its turn, and to miss it.
            "memory" => assert!(done.stderr.contains(place), "{done}"),
            _ => assert_told(&done, does, place),
        }
        let report = std::fs::read_to_string(&report).expect("a report");
        assert!(report.contains("which did not come back: another run may differ"), "{way}: {report}");
        test.assert_clean();
    }
}

#[test]
fn whoever_computes_for_ever_is_named_with_its_line_when_the_time_is_over() {
    let test = Test::new("virtual-absent");
    let done = test.run(absent(&test, &["--patience", "0.3", "--timeout", "3"], "compute"));
    assert_eq!(done.code(), 124, "{done}");
    assert_told(&done, "computes", "(compute)");
    for part in ["PE 0 did not wait", "PE 1 waited for", "shmem_barrier_all: all PEs to enter"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    test.assert_clean();
}

#[test]
fn nobody_is_left_alone_where_nothing_else_can_happen_or_patience_has_no_end() {
    for (patience, way) in [("never", "compute"), ("0.1", "alone")] {
        let test = Test::new("virtual-patient");
        let done = test.run(absent(&test, &["--patience", patience, "--timeout", "2"], way));
        assert!(done.code() == 124 && !done.stderr.contains("go on without"), "{way}: {done}");
        test.assert_clean();
    }
}

#[test]
fn a_strict_run_fails_if_another_one_may_differ() {
    let test = Test::new("virtual-strict");
    for (way, code) in [("spin", 1), ("stop", 0)] {
        let done = test.run(absent(&test, &["--timeout", "100", "--patience", "0.3", "--strict"], way));
        assert!(done.code() == code && done.stdout == "done\n", "{way}: {done}");
        assert_eq!(done.stderr.contains("because of --strict"), code == 1, "{way}: {done}");
    }
    test.assert_clean();
}

#[test]
fn a_stopped_pe_is_waited_for() {
    let test = Test::new("virtual-stopped");
    let done = test.run(absent(&test, &["--timeout", "100", "--patience", "0.2"], "stop")).success();
    assert!(done.stdout == "done\n" && !done.stderr.contains("go on without"), "{done}");
    test.assert_clean();
}

#[test]
fn among_many_runs_those_that_may_differ_are_marked() {
    let test = Test::new("virtual-absent-many");
    let program = tools::compile_with("tests/c/virtual_time/absent.c", &["-g", "-O1"]);
    let json = test.file("table.json");
    let mut command = test.angara(["whatif", "-n", "2", "--torus", "2", "--run", "--patience 0.3 --timeout 100"]);
    command.arg("--json").arg(&json).arg("--").arg(&program).args(["spin", "nothing"]);
    let done = test.run(command).success();
    assert!(
        done.stdout.contains("* went on without a PE for a time, or its times rest on a guess: another run may differ"),
        "{done}"
    );
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("a file")).expect("JSON");
    assert!(rows.len() == 1 && rows[0]["differs"] == true, "{rows:?}");
    for (seeds, way, says) in [("1..2", "spin", true), ("1..1", "stop", false)] {
        let args = ["--timeout", "100", "--patience", "0.3", "--seeds", seeds];
        let done = test.run(absent(&test, &args, way)).success();
        assert_eq!(done.stdout.contains("another run may differ with 1"), says, "{way}: {done}");
    }
    test.assert_clean();
}

#[test]
fn what_is_no_patience_is_refused() {
    let test = Test::new("virtual-patience");
    for (args, why) in [
        (&["--clock", "virtual", "--patience", "0"][..], "such as 30 or 0.5"),
        (&["--patience", "3"], "--patience is for virtual time"),
        (&["--strict"], "--strict is for virtual time"),
    ] {
        let mut command = test.angara(["run", "-n", "1"]);
        command.args(args).args(["--", "true"]);
        let done = test.run(command);
        assert!(done.code() == 2 && done.stderr.contains(why), "{done}");
    }
}
