//! Symmetric global variables are shared memory mapped over the program's own pages. Children must
//! not write through it, and debuggers and core dumps must show it.

use angara_tests::process::PATIENCE;
use angara_tests::{Running, Test, tools};
use std::process::Stdio;

const PATHS: [&str; 2] = ["direct", "ring"];

#[test]
fn children_do_not_touch_the_globals_of_their_parent() {
    let program = tools::compile("tests/c/forks.c");
    for path in PATHS {
        let test = Test::new("fork");
        let mut command = test.angara(["run", "-n", "4", "--path", path, "--timeout", "200", "--"]);
        command.arg(&program);
        let done = test.run(command).success();
        assert!(done.stdout.contains("forks done"), "{done}");
        test.assert_clean();
    }
}

#[test]
fn a_single_pe_without_a_launcher_may_fork_too() {
    let test = Test::new("fork-solo");
    let done = test.run(test.command(tools::compile("tests/c/forks.c"))).success();
    assert!(done.stdout.contains("forks done"), "{done}");
    test.assert_clean();
}

#[test]
fn python_may_fork_and_use_multiprocessing() {
    if !tools::have("python3") {
        println!("skipped: no python3");
        return;
    }
    for path in PATHS {
        let test = Test::new("python");
        let mut command = test.angara(["run", "-n", "3", "--path", path, "--timeout", "200", "--", "python3"]);
        command.arg(tools::root().join("tests/python/forks.py")).arg(tools::tool("libsma.so"));
        let done = test.run(command).success();
        assert!(done.stdout.contains("python done"), "{done}");
        test.assert_clean();
    }
}

/// Starts `globals` on 3 PEs and waits until all values are in place.
fn globals(test: &Test) -> Running {
    let program = tools::compile_with("tests/c/globals.c", &["-g"]);
    let mut command = test.angara(["run", "-n", "3", "--timeout", "200", "--"]);
    command.arg(program).stdin(Stdio::piped());
    let job = test.spawn(command);
    job.expect_line("ready");
    job
}

/// Returns what gdb prints for the symmetric globals of PE `pe` of three.
fn values(pe: usize) -> [String; 3] {
    [format!("= {}", 31_415_000 + (pe + 2) % 3), "= 7000000".into(), "= 7002999".into()]
}

// A PE stopped inside the library is in a Rust frame, where C names would not be found.
const PRINT: [&str; 10] = [
    "-batch",
    "-nx",
    "-ex",
    "set language c",
    "-ex",
    "print marker",
    "-ex",
    "print table[0]",
    "-ex",
    "print table[2999]",
];

#[test]
fn gdb_and_a_core_dump_of_a_living_pe_show_the_globals() {
    if !tools::have("gdb") {
        println!("skipped: no gdb");
        return;
    }
    let test = Test::new("gdb");
    let mut job = globals(&test);
    let input = job.take_stdin();
    let program = tools::compile_with("tests/c/globals.c", &["-g"]);
    let name = program.file_name().and_then(|n| n.to_str()).expect("a file name");
    let pes = test.named(&name[..name.len().min(15)]);
    assert_eq!(pes.len(), 3, "three PEs: {pes:?}");
    for pe in &pes {
        let number = environment(pe.pid, "ANGARA_PE").parse().expect("a PE number");
        let core = test.file(&format!("core.{}", pe.pid));
        let mut live = test.command("gdb");
        live.args(PRINT).arg("-ex").arg(format!("generate-core-file {}", core.display()));
        live.arg("-p").arg(pe.pid.to_string());
        let live = test.run(live);
        if live.stderr.contains("ptrace: Operation not permitted") {
            println!("skipped: this machine does not allow gdb to attach");
            break;
        }
        let mut dead = test.command("gdb");
        dead.args(PRINT).arg(&program).arg(&core);
        let dead = test.run(dead);
        for value in values(number) {
            assert!(live.stdout.contains(&value), "PE {number}: no `{value}` in the living process: {live}");
            assert!(dead.stdout.contains(&value), "PE {number}: no `{value}` in the core dump: {dead}");
        }
    }
    drop(input);
    job.wait(PATIENCE).success();
    test.assert_clean();
}

fn environment(pid: i32, name: &str) -> String {
    let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let prefix = format!("{name}=");
    all.split(|&b| b == 0)
        .find_map(|v| std::str::from_utf8(v).ok()?.strip_prefix(&prefix).map(String::from))
        .unwrap_or_else(|| panic!("process {pid} has no {name}"))
}

#[test]
fn the_core_dump_of_a_crashed_pe_shows_the_globals() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !tools::have("gdb") || pattern.trim() != "core" {
        println!("skipped: no gdb, or core dumps go elsewhere ({})", pattern.trim());
        return;
    }
    let test = Test::new("core");
    let program = tools::compile_with("tests/c/globals.c", &["-g"]);
    let mut command = test.angara(["run", "-n", "3", "--timeout", "200", "--", "sh", "-c"]);
    command.arg("ulimit -c unlimited || exit 99; exec \"$0\" abort").arg(&program);
    let done = test.run(command);
    if done.code() == 99 {
        println!("skipped: core dumps are forbidden here");
        return;
    }
    let done = done.failure(&["PE 2", "SIGABRT"]);
    let core = std::fs::read_dir(test.file(""))
        .expect("scratch directory")
        .flatten()
        .map(|e| e.path())
        .find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("core")));
    let core = core.unwrap_or_else(|| panic!("no core file: {done}"));
    let mut gdb = test.command("gdb");
    gdb.args(PRINT).arg(&program).arg(&core);
    let shown = test.run(gdb);
    for value in values(2) {
        assert!(shown.stdout.contains(&value), "no `{value}` in the core dump: {shown}");
    }
    test.assert_clean();
}
