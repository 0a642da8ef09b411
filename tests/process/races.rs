//! `angara run --check=races` and `oshcc --check-races`: races are found, their mended twins are silent.

use angara_tests::users::set_mode;
use angara_tests::{Test, tools};
use std::path::Path;

const ENGINES: [&[&str]; 3] = [&["--path", "direct"], &["--path", "ring"], &["--clock", "virtual"]];
/// Races of `tests/c/races/calls.c`, and what is said of each.
const CALLS: [(&str, &str, &str); 12] = [
    ("increment", "shmem_long_g at calls.c", "shmem_long_p at calls.c"),
    ("no_quiet", "PE 0 shmem_long_put at calls.c", "PE 1 shmem_long_get at calls.c"),
    ("no_fence", "PE 0 shmem_long_put at calls.c", "PE 1 shmem_long_put at calls.c"),
    ("no_barrier", "shmem_long_get at calls.c", "shmem_long_put at calls.c"),
    ("source_reused", "shmem_long_put_nbi at calls.c", "shmem_long_get at calls.c"),
    ("two_puts", "shmem_long_p at calls.c", "writes the same 8 bytes"),
    ("atomic_and_put", "PE 0 shmem_long_atomic_add at calls.c", "PE 1 shmem_long_p at calls.c"),
    ("wait_on_two", "shmem_long_p at calls.c", "of PE 2"),
    ("get_read_early", "shmem_long_get_nbi at calls.c", "shmem_long_put at calls.c"),
    ("work_reused", "shmem_long_sum_to_all at calls.c", "with a work array that"),
    ("one_side_locks", "PE 1 shmem_long_", "static+"),
    ("early_signal", "PE 0 shmem_long_put_nbi at calls.c", "PE 1 shmem_long_put at calls.c"),
];
/// Races of `tests/c/races/accesses.c`.
const ACCESSES: [(&str, &str, &str); 7] = [
    ("read_early", "shmem_long_p at accesses.c", "(read_early) reads"),
    ("source_stored", "shmem_long_put_nbi at accesses.c", "private memory"),
    ("get_used_early", "shmem_long_get_nbi at accesses.c", "(get_used_early) reads"),
    ("plain_flag", "PE 0 shmem_long_p at accesses.c", "PE 1 at accesses.c"),
    ("array_rewritten", "shmem_long_get at accesses.c", "(array_rewritten) writes"),
    ("copied", "shmem_long_put at accesses.c", "(copied) reads"),
    ("by_pointer", "(by_pointer) writes", "heap+0x"),
];

/// Runs `program` with the name of a race, on three PEs.
fn check(test: &Test, engine: &[&str], program: &Path, race: &str) -> angara_tests::process::Finished {
    let mut command = test.angara(["run", "-q", "-n", "3", "--timeout", "60", "--check=races"]);
    command.args(engine).arg("--").arg(program).arg(race);
    test.run(command)
}

/// Each race is found with both of its lines, and not where it is mended.
fn found_and_silent(test: &Test, engine: &[&str], source: &str, flags: &[&str], races: &[(&str, &str, &str)]) {
    let program = tools::compile_with(source, flags);
    let mended = tools::compile_with(source, &[flags, &["-DFIXED"]].concat());
    for (race, one, other) in races {
        let done = check(test, engine, &program, race);
        let said = |line: &str| line.starts_with("angara: race: ") && line.contains(one) && line.contains(other);
        assert!(done.stderr.lines().any(said), "{race} on {engine:?}: no {one}, {other} in {done}");
        assert_eq!(done.code(), 1, "{race}: {done}");
        let done = check(test, engine, &mended, race).success();
        assert_eq!(done.stderr, "", "{race} mended, on {engine:?}: {done}");
    }
}

#[test]
fn races_of_calls_are_found_with_both_lines() {
    let test = Test::new("races-calls");
    for engine in ENGINES {
        found_and_silent(&test, engine, "tests/c/races/calls.c", &["-g"], &CALLS);
    }
    test.assert_clean();
}

/// True if oshcc has a compiler that can do it.
fn has_gcc(test: &Test) -> bool {
    let mut command = test.command(tools::tool("oshcc"));
    command.args(["--check-races", "--show"]);
    let can = test.run(command).code() == 0;
    if !can {
        eprintln!("note: no gcc here, so no loads and stores are looked at");
    }
    can
}

#[test]
fn races_of_loads_and_stores_are_found_where_gcc_has_compiled_them() {
    let test = Test::new("races-accesses");
    if has_gcc(&test) {
        found_and_silent(&test, ENGINES[0], "tests/c/races/accesses.c", &["--check-races"], &ACCESSES);
    }
    test.assert_clean();
}

#[test]
fn programs_without_races_are_silent() {
    let test = Test::new("races-none");
    let own: &[&str] = if has_gcc(&test) { &["--check-races"] } else { &["-g"] };
    let small: [(&str, &[&str]); 6] = [
        ("fft", &["32"]),
        ("gups", &["200"]),
        ("heat2d", &["32", "20"]),
        ("isort", &["2000"]),
        ("matmul", &["32"]),
        ("ring", &[]),
    ];
    let examples = small.map(|(name, args)| (format!("examples/c/{name}.c"), own, args));
    // These look on purpose at what others write meanwhile, so only their calls are checked.
    let calls =
        ["amo", "collectives", "extensions", "lives", "many", "order", "overlap", "rma", "sync", "teams", "threads"]
            .map(|name| (format!("tests/c/openshmem/{name}.c"), ["-g"].as_slice(), [].as_slice()));
    for (source, flags, args) in examples.into_iter().chain(calls) {
        let mut command = test.angara(["run", "-q", "-n", "4", "--timeout", "100", "--check=races", "--"]);
        command.arg(tools::compile_with(&source, flags)).args(args);
        let done = test.run(command).success();
        assert!(!done.stderr.contains("race"), "{source}: {done}");
    }
    test.assert_clean();
}

#[test]
fn a_job_that_fails_keeps_its_code_and_a_timeline_is_written_beside() {
    let test = Test::new("races-both");
    let program = tools::compile_with("tests/c/races/calls.c", &["-g"]);
    let done = check(&test, &[], &program, "no such race");
    assert_eq!(done.code(), 2, "{done}");
    let out = test.file("notes");
    std::fs::create_dir(&out).expect("a directory");
    let trace = out.join("t.json");
    let engine = ["--trace", trace.to_str().expect("text")];
    let done = check(&test, &engine, &program, "two_puts");
    assert!(done.code() == 1 && done.stderr.contains("angara: race: "), "{done}");
    assert!(std::fs::read_to_string(&trace).expect("a timeline").contains("shmem_long_p"));
    let left: Vec<_> = std::fs::read_dir(&out).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(left, ["t.json"], "notes of calls are gone");
    test.assert_clean();
}

#[test]
fn what_cannot_be_checked_is_said() {
    let test = Test::new("races-refused");
    let program = tools::compile_with("tests/c/races/calls.c", &["-g"]);
    let refused = |args: &[&str], parts: &[&str]| {
        let mut command = test.angara(["run", "-n", "2"]);
        command.args(args).arg("--").arg(&program);
        let done = test.run(command);
        assert_eq!(done.code(), 2, "{done}");
        assert!(parts.iter().all(|part| done.stderr.contains(part)), "{parts:?}: {done}");
    };
    refused(&["--check=all"], &["'all'", "calls, races"]);
    refused(
        &["--check=races", "--cluster", "/nowhere"],
        &["--check=races", "clocks of several hosts", "leave --cluster out"],
    );
    let mut command = test.angara(["run", "-n", "2", "--check=races", "--"]);
    command.arg(&program).env("TMPDIR", "/nowhere");
    let done = test.run(command);
    assert!(done.code() != 0 && done.stderr.contains("/nowhere") && done.stderr.contains("TMPDIR"), "{done}");
    let other = test.file("other-cc");
    std::fs::write(&other, "#!/bin/sh\n[ \"$1\" != -dumpspecs ]\n").expect("a script");
    set_mode(&other, 0o755);
    let mut command = test.command(tools::tool("oshcc"));
    command.args(["--check-races", "x.c"]).env("OSHCC_CC", &other);
    let done = test.run(command);
    assert!(done.code() == 2 && done.stderr.contains("needs gcc") && done.stderr.contains("OSHCC_CC=gcc"), "{done}");
    test.assert_clean();
}
