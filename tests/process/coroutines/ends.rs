//! How PEs end that are coroutines, well and otherwise: exit status and message are those of processes, and name the place.

use super::{COROUTINES, PROCESSES, Result, compile, run};
use angara_tests::Test;
use std::path::Path;

const ENDINGS: &str = "tests/c/virtual_time/endings.c";

fn both(program: &Path, options: &[&str], how: &str) -> [Result; 2] {
    [PROCESSES, COROUTINES].map(|pes_as| {
        let test = Test::new("coroutines-ends");
        let done = run(&test, pes_as, options, program, &[how]);
        test.assert_clean();
        Result::of(&done)
    })
}

/// A way to end, the exit status, and what is said.
const SAME: [(&str, i32, &[&str]); 10] = [
    ("well", 0, &[]),
    ("handler", 0, &[]),
    ("exit", 7, &["PE 3 on node (1,1) exited with code 7; the job was ended"]),
    ("return", 3, &["PE 3 on node (1,1) exited with code 3; the job was ended"]),
    ("_Exit", 1, &["PE 3 "]),
    ("exit-0", 1, &["PE 3 "]),
    ("global-exit", 5, &["PE 3 called shmem_global_exit(5)"]),
    ("global-exit-0", 0, &[]),
    (
        "mistake",
        1,
        &["PE 3 (node 1,1): shmem_long_p: the address 0x", "is not symmetric", "[called at endings.c:52 (last)]"],
    ),
    ("deadlock", 1, &["deadlock at ", "== 1 (it is 0)", "[called at endings.c:"]),
];

#[test]
fn programs_end_as_processes_do() {
    let program = compile(ENDINGS);
    for (how, code, wanted) in SAME {
        let [process, coroutine] = both(&program, &["-n", "4"], how);
        assert_eq!(coroutine.code, code, "{how}: {coroutine:?}");
        let said = coroutine.stderr.join("\n");
        for part in wanted {
            assert!(said.contains(part), "{how}: no `{part}` in {said}");
        }
        let [process, coroutine] = match how {
            "deadlock" => [process, coroutine].map(Result::without_first),
            _ => [process, coroutine],
        };
        assert_eq!(process, coroutine, "{how}");
    }
}

#[test]
fn a_deadlock_is_told_by_the_first_pe() {
    let test = Test::new("coroutines-deadlock");
    let done = run(&test, COROUTINES, &["-n", "4"], &compile(ENDINGS), &["deadlock"]);
    let first = done.stderr.lines().find(|line| line.contains("deadlock at ")).unwrap_or_default();
    assert!(first.contains("PE 0 (node 0,0)"), "{done}");
    test.assert_clean();
}

/// A way to crash, the exit status, and what one line more says than that of processes.
const CRASHES: [(&str, i32, &str); 5] = [
    ("segv", 139, "PE 2 crashed at endings.c:32 (last): signal 11, address 0x…"),
    ("call", 139, "PE 2 crashed at endings.c:34 (last): signal 11, address 0x…"),
    ("abort", 134, "PE 2 crashed at endings.c:36 (last): it was aborted"),
    ("assert", 134, "PE 2 crashed at endings.c:38 (last): it was aborted"),
    ("deep", 139, "PE 2 crashed at endings.c:1"),
];

#[test]
fn a_crash_ends_the_job_and_names_the_line() {
    let program = compile(ENDINGS);
    for (how, code, line) in CRASHES {
        let [process, mut coroutine] = both(&program, &["-n", "3"], how);
        assert_eq!(coroutine.code, code, "{how}: {coroutine:?}");
        if how == "deep" {
            let remedy = "(deep): its stack was too small; give it more by `ulimit -s`";
            assert!(coroutine.stderr.iter().any(|said| said.ends_with(remedy)), "{coroutine:?}");
        }
        let before = coroutine.stderr.len();
        coroutine.stderr.retain(|said| !said.starts_with(&format!("angara: {line}")));
        assert_eq!(coroutine.stderr.len() + 1, before, "{how}: no `{line}` in {coroutine:?}");
        assert_eq!(process, coroutine, "{how}");
    }
}

#[test]
fn a_pe_that_never_comes_back_ends_the_job_after_patience() {
    let test = Test::new("coroutines-spin");
    let done = run(&test, COROUTINES, &["-n", "3", "--patience", "1"], &compile(ENDINGS), &["spin"]);
    assert_eq!(done.code(), 1, "{done}");
    for part in ["PE 2 at endings.c:", " (spin", "did not come back to the library for 1 s", "--pes-as processes"] {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    test.assert_clean();
}

/// Mistakes that the library finds, and those that only a closer look does.
#[test]
fn mistakes_are_told_as_those_of_processes() {
    let program = compile("tests/c/openshmem/errors.c");
    for how in [
        "before-init",
        "no-such-pe",
        "negative-pe",
        "not-symmetric",
        "past-the-heap",
        "misaligned",
        "wait-on-local",
        "bad-comparison",
        "bad-free",
        "put-constant",
        "put-constants",
        "add-constant",
        "lock-constant",
        "bad-stride",
        "bad-root",
        "bad-team",
        "bad-context",
        "not-held",
        "global-exit",
    ] {
        let [process, coroutine] = both(&program, &["-n", "3"], how).map(Result::without_first);
        assert_ne!(coroutine.code, 0, "{how}: {coroutine:?}");
        assert_eq!(process, coroutine, "{how}");
    }
    for how in ["overrun", "freed", "overlap", "other-routine", "other-arguments", "no-such-pe"] {
        let [process, coroutine] = both(&program, &["-n", "3", "--check"], how).map(Result::without_first);
        assert_eq!(coroutine.code, 1, "{how}: {coroutine:?}");
        assert!(coroutine.stderr.iter().any(|line| line.contains("[called at errors.c:")), "{how}: {coroutine:?}");
        assert_eq!(process, coroutine, "{how}");
    }
}
