//! Lives of a program: starting again after the last finalize, on every path; PEs that leave while others wait for
//! them; programs that end by shmem_global_exit; what is left when a program has ended.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::{Finished, Test, tools};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn lives() -> PathBuf {
    tools::compile("tests/c/openshmem/lives.c")
}

fn ends() -> PathBuf {
    tools::compile_with("tests/c/openshmem/ends.c", &["-pthread"])
}

fn passed(done: &Finished) {
    assert!(done.stdout.contains("lives passed"), "{done}");
}

#[test]
fn openshmem_starts_again_on_every_path_and_with_every_barrier() {
    let program = lives();
    let alone = Test::new("lives-solo");
    let mut command = alone.command(&program);
    passed(&alone.run({
        command.arg("20");
        command
    }));
    let runs: [&[&str]; 9] = [
        &["-n", "2"],
        &["-n", "7"],
        &["-n", "5", "--barrier", "dissemination"],
        &["-n", "5", "--barrier", "counter"],
        &["-n", "1", "--path", "ring"],
        &["-n", "3", "--path", "ring"],
        &["-n", "8", "--path", "ring", "--barrier", "dissemination"],
        &["-n", "4", "--path", "ring", "--collectives", "tree"],
        &["-n", "3", "--check"],
    ];
    for args in runs {
        let test = Test::new("lives");
        let mut command = test.angara(["run", "--timeout", "200", "--heap", "4M"]);
        command.args(args).arg("--").arg(&program).arg("20");
        let done = test.run(command).success();
        assert!(done.stdout.contains("lives passed"), "{args:?}: {done}");
        test.assert_clean();
    }
}

#[test]
fn openshmem_starts_again_across_hosts() {
    let program = lives();
    let test = Test::new("lives-cluster");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    for path in ["auto", "ring"] {
        let args = ["-n", "6", "--heap", "4M", "--timeout", "200", "--path", path];
        let mut command = cluster.run(&args, &program);
        command.arg("20");
        passed(&test.run(command).success());
        // One that exits on the other host, and one here.
        for what in ["leaves-early", "leaves"] {
            let mut command = cluster.run(&args, &program);
            command.args(["1", what]);
            stopped(&test.run(command), &format!("{path} {what}"));
        }
    }
    cluster.shutdown();
    test.assert_clean();
}

/// Bytes of anonymous memory, descriptors and threads of a process.
fn size(pid: i32) -> (u64, usize, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let value = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    (value("RssAnon:") << 10, fds, value("Threads:") as usize)
}

#[test]
fn a_thousand_lives_leave_nothing_behind() {
    let program = lives();
    for path in ["direct", "ring"] {
        let test = Test::new("lives-many");
        let daemon = Daemon::start(&test, &["--torus", "2x2"]);
        let run = |count: &str| {
            let mut command = test.angara(["run", "-n", "3", "--heap", "4M", "--timeout", "200", "--path", path, "--"]);
            command.env(angara_protocol::launch::ENV_RUNTIME_DIR, daemon.dir()).arg(&program).arg(count);
            passed(&test.run(command).success());
            assert!(poll_until(|| daemon.status().jobs.is_empty()), "the job is over");
        };
        run("100");
        let pid = daemon.status().pid as i32;
        let before = size(pid);
        run("1000");
        // It closes what it had for the job a moment after the job is over.
        let as_before = || {
            let after = size(pid);
            after.0 < before.0 + (2 << 20) && after.1 <= before.1 && after.2 <= before.2
        };
        assert!(poll_until(as_before), "{path}: bytes, descriptors, threads: {before:?}, then {:?}", size(pid));
        daemon.shutdown();
        test.assert_clean();
    }
}

/// PE 1 ended with a message that names PE 0, and PE 2 got an error.
fn stopped(done: &Finished, what: &str) {
    assert_eq!(done.code(), 1, "{what}: {done}");
    assert!(done.stderr.contains("shmem_init: cannot start again: PE 0 has exited"), "{what}: {done}");
    assert!(!done.stdout.contains("goes on"), "{what}: {done}");
}

#[test]
fn those_who_start_again_learn_that_a_pe_has_exited() {
    let program = lives();
    // In virtual time the job is over before all can say so.
    for way in &WAYS[..2] {
        for what in ["leaves-early", "leaves"] {
            let test = Test::new("lives-left");
            let mut command = test.angara(["run", "-n", "3", "--timeout", "200"]);
            command.args(*way).arg("--").arg(&program).args(["1", what]);
            stopped(&test.run(command), &format!("{} {what}", way[1]));
            test.assert_clean();
        }
    }
}

#[test]
fn what_is_called_after_finalize_is_named() {
    let source = r#"#include <shmem.h>
        int main(void) { shmem_init(); shmem_finalize(); return shmem_my_pe(); }"#;
    let test = Test::new("lives-after");
    let program = small(&test, source, &[]);
    let mut command = test.angara(["run", "-n", "2", "--"]);
    command.arg(program);
    let done = test.run(command);
    assert!(done.code() == 1 && done.stderr.contains("shmem_my_pe: called after shmem_finalize"), "{done}");
}

fn small(test: &Test, source: &str, flags: &[&str]) -> PathBuf {
    let (file, program) = (test.file("small.c"), test.file("small"));
    fs::write(&file, source).expect("written");
    let mut oshcc = test.command(tools::tool("oshcc"));
    oshcc.args(["-Wall", "-Werror", "-g"]).args(flags).arg(&file).arg("-o").arg(&program);
    test.run(oshcc).success();
    program
}

/// Where a program's end must be the same. One that computes for ever keeps others waiting in virtual time.
const WAYS: [&[&str]; 3] = [&["--path", "direct"], &["--path", "ring"], &["--clock", "virtual", "--patience", "1s"]];

/// A line about the run and its time, not about how it ended.
fn is_about_the_run(line: &str) -> bool {
    ["started a private fabricd", "virtual time: ", " of virtual time in "].iter().any(|text| line.contains(text))
}

fn end_run(args: &[&str], what: &[&str]) -> Finished {
    let program = ends();
    let test = Test::new("ends");
    let mut command = test.angara(["run", "--timeout", "200"]);
    command.args(args).arg("--").arg(&program).args(what);
    let done = test.run(command);
    test.assert_clean();
    done
}

#[test]
fn a_pe_that_leaves_while_others_wait_for_it_ends_the_job_with_one_message() {
    for way in WAYS {
        let path = way[1];
        for what in ["desert-barrier", "desert-wait", "desert-lock", "desert-finalize", "desert-team"] {
            let done = end_run(&[&["-n", "4"][..], way].concat(), &[what]);
            let message =
                "left the job without shmem_finalize (or MPI_Finalize) while others went on; the job was ended";
            assert_eq!(done.code(), 1, "{path} {what}: {done}");
            assert!(done.stderr.contains("PE 0 on node") && done.stderr.contains(message), "{path} {what}: {done}");
            let said = done.stderr.lines().filter(|l| !is_about_the_run(l)).count();
            assert_eq!(said, 1, "{path} {what}: {done}");
        }
        // It has ended its life as the others have not.
        let done = end_run(&[&["-n", "3"][..], way].concat(), &["mismatch"]);
        let message = "exited after shmem_finalize while others waited for it";
        assert!(done.code() == 1 && done.stderr.contains(message), "{path}: {done}");
    }
}

#[test]
fn all_pes_may_leave_without_finalize() {
    for way in WAYS {
        for what in ["desert-all", "old-style"] {
            end_run(&[&["-n", "4"][..], way].concat(), &[what]).success();
        }
    }
}

#[test]
fn a_pe_that_leaves_on_another_host_is_named() {
    let program = ends();
    let test = Test::new("ends-cluster");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    fs::write(test.file("swapped"), "2\n0\n3\n1\n").expect("written");
    let map = format!("file:{}", test.file("swapped").display());
    for map in ["linear", map.as_str()] {
        let mut command = cluster.run(&["-n", "4", "--map", map, "--heap", "4M", "--timeout", "200"], &program);
        command.arg("desert-barrier");
        let done = test.run(command);
        assert!(done.code() == 1 && done.stderr.contains("left the job without shmem_finalize"), "{map}: {done}");
        let mut command = cluster.run(&["-n", "4", "--map", map, "--heap", "4M", "--timeout", "200"], &program);
        command.arg("desert-all");
        test.run(command).success();
        let mut command = cluster.run(&["-n", "4", "--map", map, "--heap", "4M", "--timeout", "200"], &program);
        command.args(["exit", "9"]);
        global_exit(&test.run(command), 9, map);
    }
    cluster.shutdown();
    test.assert_clean();
}

/// All has been flushed: by the caller, by those who waited and by those who did not.
fn global_exit(done: &Finished, status: i32, what: &str) {
    assert_eq!(done.code(), status, "{what}: {done}");
    for line in ["handler of PE 0", "unflushed of PE 0", "unflushed of PE 1", "unflushed of PE 2", "unflushed of PE 3"]
    {
        assert_eq!(done.stdout.matches(line).count(), 1, "{what}: {line}: {done}");
    }
    assert!(!done.stdout.contains("not reached") && !done.stderr.contains("SIGTERM"), "{what}: {done}");
}

#[test]
fn global_exit_ends_the_caller_as_exit_does_and_flushes_the_others() {
    for way in WAYS {
        for what in ["exit", "exit-slow", "exit-in-handler", "exit-finalizing", "exit-thread", "exit-beside-exit"] {
            let done = end_run(&[&["-n", "4"][..], way].concat(), &[what, "9"]);
            global_exit(&done, 9, what);
            match what {
                "exit-slow" => assert!(done.stdout.contains("handled slowly by PE 0"), "{done}"),
                "exit-finalizing" => assert!(done.stdout.contains("finalized by a handler"), "{done}"),
                _ => {}
            }
        }
    }
    global_exit(&end_run(&["-n", "4"], &["exit", "0"]), 0, "success");
    global_exit(&end_run(&["-n", "4"], &["exit-waiting-handler", "9"]), 9, "a handler that waits");
    let done = end_run(&["-n", "4"], &["exit-threads"]);
    assert!([9, 10].contains(&done.code()) && done.stdout.contains("handler of PE 0"), "{done}");
    let done = end_run(&["-n", "4"], &["exit-all", "5"]);
    assert_eq!(done.code(), 5, "{done}");
    let alone = Test::new("ends-solo");
    let mut command = alone.command(ends());
    command.args(["exit", "6"]);
    let done = alone.run(command);
    assert!(done.code() == 6 && done.stdout.contains("handler of PE 0"), "{done}");
}

#[test]
fn one_cause_ends_a_job_and_gives_its_status() {
    // What one PE does, the exit code of the job, and what is said.
    let ends = [
        ("shmem_global_exit(41);", 41, "PE 2 called shmem_global_exit(41)"),
        ("_exit(0);", 1, "PE 2 on node (0,1) left the job without shmem_finalize"),
        ("_exit(5);", 5, "PE 2 on node (0,1) exited with code 5"),
        ("kill(getpid(), SIGKILL);", 137, "PE 2 on node (0,1) was killed by signal 9"),
        ("shmem_long_p(&flag, 1, 99);", 1, "shmem_long_p: PE 99 does not exist"),
    ];
    for (what, code, said) in ends {
        let test = Test::new("one-cause");
        let source = format!(
            "#include <shmem.h>\n#include <signal.h>\n#include <unistd.h>\nstatic long flag;\n\
             int main(void) {{ shmem_init(); if (shmem_my_pe() == 2) {{ {what} }}\n\
             for (;;) {{ shmem_long_p(&flag, 2, (shmem_my_pe() + 1) % 4); shmem_barrier_all(); }} }}\n"
        );
        let program = small(&test, &source, &[]);
        for way in WAYS {
            for round in 0..3 {
                let mut command = test.angara(["run", "--quiet", "-n", "4", "--torus", "2x2", "--timeout", "200"]);
                command.args(way).arg("--").arg(&program);
                let done = test.run(command);
                assert_eq!(done.code(), code, "{what} {way:?} round {round}: {done}");
                assert!(done.stderr.contains(said), "{what} {way:?} round {round}: {done}");
                // Others have nothing to say about it.
                let others = ["PE 0", "PE 1", "PE 3"].map(|pe| format!("angara: {pe}"));
                assert!(!others.iter().any(|pe| done.stderr.contains(pe)), "{what} {way:?} round {round}: {done}");
            }
        }
        test.assert_clean();
    }
}

#[test]
fn global_exit_does_not_wait_for_a_stream_that_is_being_read() {
    let test = Test::new("ends-stdin");
    let mut command = test.angara(["run", "-n", "5", "--timeout", "200", "--"]);
    command.arg(ends()).args(["exit", "9"]).stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let input = job.take_stdin();
    let done = job.wait(PATIENCE);
    drop(input);
    assert_eq!(done.code(), 9, "{done}");
}

#[test]
fn global_exit_runs_static_destructors() {
    if !tools::have("c++") {
        println!("skipped: no C++ compiler");
        return;
    }
    let test = Test::new("ends-cxx");
    let (program, file) = (test.file("destructors"), test.file("lines"));
    let mut command = Command::new(tools::tool("oshc++"));
    command.args(["-std=c++17", "-Wall", "-Werror", "-O1"]).arg(tools::root().join("tests/c/openshmem/destructors.cc"));
    let done = command.arg("-o").arg(&program).output().expect("oshc++ starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut command = test.angara(["run", "-n", "3", "--timeout", "200", "--"]);
    command.arg(&program).arg(&file);
    let done = test.run(command);
    assert!(done.code() == 7 && done.stdout.contains("unflushed line, destroyed\n"), "{done}");
    assert_eq!(fs::read_to_string(&file).expect("there"), "unflushed line in a file");
    test.assert_clean();
}

#[test]
fn compilers_know_that_global_exit_does_not_return() {
    let source = "#include <shmem.h>\nint f(int x) { if (x) return 1; shmem_global_exit(2); }\n\
                  int g(int x) { if (x) return 1; pshmem_global_exit(2); }\nint main(void) { return f(1) + g(1) - 2; }\n";
    for standard in ["-std=c99", "-std=c11", "-std=c17", "-std=gnu17"] {
        let test = Test::new("ends-noreturn");
        small(&test, source, &["-Wpedantic", "-Wreturn-type", standard]);
    }
}

#[test]
fn the_address_sanitizer_finds_nothing_lost() {
    let test = Test::new("asan");
    let flags = ["-fsanitize=address"];
    let file = test.file("probe.c");
    fs::write(&file, "int main(void) { return 0; }\n").expect("written");
    let mut probe = test.command("cc");
    probe.args(flags).arg(&file).arg("-o").arg(test.file("probe"));
    if test.run(probe).code() != 0 || test.run(test.command(test.file("probe"))).code() != 0 {
        println!("skipped: no address sanitizer here");
        return;
    }
    // A life that is over, one that is not, and a program that never finalizes.
    for end in ["shmem_finalize();", "shmem_finalize(); shmem_init(); shmem_finalize();", ""] {
        let source = format!(
            "#include <shmem.h>\nstatic long sum, mine = 1;\nint main(void) {{ shmem_init();\n\
             long *p = shmem_malloc(64); shmem_long_p(p, 1, 0); shmem_barrier_all();\n\
             shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1); {end} return 0; }}\n"
        );
        let program = small(&test, &source, &flags);
        for args in [&["--path", "direct"][..], &["--path", "ring"], &["--check"]] {
            let mut command = test.angara(["run", "-n", "2", "--heap", "4M", "--timeout", "200"]);
            command.args(args).arg("--").arg(&program);
            let done = test.run(command).success();
            assert!(!done.stderr.contains("Sanitizer"), "{args:?} {end}: {done}");
        }
        test.run(test.command(&program)).success();
    }
}
