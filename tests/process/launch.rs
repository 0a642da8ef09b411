//! The launcher with ordinary programs: input, output, exit codes, signals, and nothing left behind.
//! What OpenSHMEM programs do under it is tested beside this.

use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, ignored, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `angara run -q` with `options`, then `sh -c script`.
fn shell(test: &Test, options: &[&str], script: &str) -> Command {
    let mut command = test.angara([&["run", "-q"], options, &["--", "sh", "-c", script]].concat());
    command.stdin(Stdio::null());
    command
}

#[test]
fn standard_input_goes_to_pe_0_only() {
    let test = Test::new("input");
    let mut command = shell(&test, &["-n", "3", "--label"], "wc -c");
    command.stdin(Stdio::piped());
    let mut run = test.spawn(command);
    run.take_stdin().write_all(&[7; 100_000]).expect("PE 0 reads it");
    let done = run.wait(PATIENCE).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 100000", "[1] 0", "[2] 0"]);
    test.assert_clean();
}

#[test]
fn lines_stay_whole_and_outputs_apart() {
    let test = Test::new("lines");
    let script = r#"i=0; while [ $i -lt 300 ]; do printf %s "$ANGARA_PE"; printf '%s\n' "$ANGARA_PE"; echo e$ANGARA_PE >&2; i=$((i+1)); done; printf end"#;
    let done = test.run(shell(&test, &["-n", "4"], script)).success();
    for pe in 0..4 {
        assert_eq!(done.stdout.lines().filter(|l| *l == format!("{pe}{pe}")).count(), 300);
        assert_eq!(done.stderr.lines().filter(|l| *l == format!("e{pe}")).count(), 300);
    }
    assert_eq!(done.stdout.lines().filter(|l| *l == "end").count(), 4);
    assert_eq!(done.stdout.lines().count(), 4 * 301);
    test.assert_clean();
}

#[test]
fn megabytes_without_a_newline_arrive_whole() {
    let test = Test::new("binary");
    let done = test.run(shell(&test, &["-n", "1"], "head -c 5000000 /dev/zero; echo done >&2")).success();
    assert_eq!(done.stdout.len(), 5_000_000);
    test.assert_clean();
}

#[test]
fn the_environment_names_the_place_and_what_x_set() {
    let test = Test::new("env");
    let script = r#"echo "$ANGARA_PE/$ANGARA_NPES $A $ANGARA_TIMEOUT"; test -S "$ANGARA_RUNTIME_DIR/adapter.sock""#;
    let done = test.run(shell(&test, &["-np", "2", "-x", "A=b c", "--timeout", "50"], script)).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/2 b c 50", "1/2 b c 50"]);
    test.assert_clean();
}

#[test]
fn oshrun_is_angara_run() {
    let test = Test::new("oshrun");
    let mut command = test.command(tools::tool("oshrun"));
    command.args(["-np", "2", "sh", "-c", "exit 5"]);
    let done = test.run(command).failure(&["exited with code 5", "private"]);
    assert_eq!(done.code(), 5, "{done}");
    test.assert_clean();
}

#[test]
fn the_first_failing_pe_is_named_and_ends_the_others() {
    let test = Test::new("first");
    let script = r#"test "$ANGARA_PE" = 2 && exit 9; exec sleep 1000"#;
    let done = test.run(shell(&test, &["-n", "8"], script)).failure(&["PE 2 on node (0,1,0) exited with code 9"]);
    assert_eq!(done.code(), 9, "{done}");
    test.assert_clean();
}

#[test]
fn what_pes_leave_running_is_ended_with_the_job() {
    let test = Test::new("orphans");
    let script = "setsid sleep 1000 & (trap '' TERM HUP; sleep 1000 & sleep 1000) & exit 0";
    test.run(shell(&test, &["-n", "2"], script)).success();
    test.assert_clean();
}

#[test]
fn every_signal_ends_the_job_and_a_second_one_at_once() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if ignored(signal) {
            eprintln!(
                "note: {signal:?} is ignored here (nohup, or a shell's background), as it then is by the launcher"
            );
            continue;
        }
        let test = Test::new("signal");
        let run = test.spawn(shell(&test, &["-n", "3"], "echo up; exec sleep 1000"));
        run.expect_line("up");
        run.signal(signal);
        let done = run.wait(PATIENCE);
        assert_eq!(done.code(), code, "{done}");
        test.assert_clean();
    }
    if ignored(Signal::INT) {
        return;
    }
    let test = Test::new("stubborn");
    let script = "trap '' TERM INT HUP; echo up; while :; do sleep 1000; done";
    let run = test.spawn(shell(&test, &["-n", "3"], script));
    run.expect_line("up");
    run.signal(Signal::INT);
    run.signal(Signal::INT);
    assert_eq!(run.wait(PATIENCE).code(), 130);
    test.assert_clean();
}

#[test]
fn a_killed_launcher_takes_pes_and_private_daemon_with_it() {
    let test = Test::new("killed");
    let run = test.spawn(shell(&test, &["-n", "3"], "echo up; exec sleep 1000"));
    run.expect_line("up");
    run.signal(Signal::KILL);
    assert_eq!(run.wait(PATIENCE).code(), 137);
    test.assert_clean();
}

#[test]
fn a_killed_daemon_is_reported_and_ends_the_job() {
    let test = Test::new("daemon");
    let run = test.spawn(shell(&test, &["-n", "3"], "echo up; exec sleep 1000"));
    run.expect_line("up");
    assert!(poll_until(|| test.named("fabricd").len() == 1));
    test.named("fabricd")[0].signal(Signal::KILL);
    let done = run.wait(PATIENCE).failure(&["daemon", "SIGKILL"]);
    assert_eq!(done.code(), 1, "{done}");
    test.assert_clean();
}

#[test]
fn a_reader_that_leaves_ends_the_job_quietly() {
    let test = Test::new("pipe");
    let mut command = test.command("sh");
    let line = format!("{} run -q -n 2 yes | head -n 3", tools::tool("angara").display());
    command.args(["-c", &line]);
    let done = test.run(command).success();
    assert_eq!(done.stdout, "y\ny\ny\n");
    assert_eq!(done.stderr, "");
    test.assert_clean();
}

#[test]
fn affinity_follows_the_rule() {
    let test = Test::new("bind");
    let cores = |options: &[&str]| {
        let done = test.run(shell(&test, options, "grep Cpus_allowed_list /proc/self/status")).success();
        done.stdout.lines().filter_map(|l| l.split_whitespace().last().map(String::from)).collect::<Vec<_>>()
    };
    let own = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let own = own.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("listed").trim().to_string();
    assert_eq!(cores(&["-n", "2", "--bind", "none"]), [own.clone(), own]);
    for list in cores(&["-n", "3", "--bind", "core"]) {
        assert!(list.parse::<u32>().is_ok(), "one core, not {list}");
    }
    test.assert_clean();
}

#[test]
fn a_shared_daemon_serves_several_runs_and_stays() {
    let test = Test::new("shared");
    let daemon = angara_tests::daemon::Daemon::start(&test, &["--torus", "2x2"]);
    let pid = daemon.status().pid.to_string();
    let done = test.run(test.angara(["run", "-n", "3", "true"])).success();
    assert!(done.stderr.contains("using the daemon") && done.stderr.contains(&pid), "{done}");
    let done = test.run(test.angara(["run", "-n", "3", "--torus", "3", "true"])).success();
    assert!(done.stderr.contains("private") && done.stderr.contains("not 3"), "{done}");
    let done = test.run(test.angara(["status"])).success();
    assert!(done.stdout.contains(&format!("pid {pid}")) && done.stdout.contains("torus 2x2"), "{done}");
    test.run(test.angara(["fault", "link", "0,0", "+X", "down"])).success();
    let done = test.run(test.angara(["status", "--json"])).success();
    assert!(done.stdout.contains("0,0 +X"), "{done}");
    test.run(test.angara(["fault", "all", "clear"])).success();
    let done = test.run(test.angara(["fault", "list"])).success();
    assert_eq!(done.stdout.trim(), "no faults");
    test.run(test.angara(["shutdown"])).success();
    test.assert_clean();
    drop(daemon);
}

#[test]
fn a_program_finds_the_library_of_its_launcher_where_it_has_lost_its_own() {
    let test = Test::new("moved");
    let (source, program) = (test.file("hello.c"), test.file("hello"));
    let text = "#include <shmem.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(void) { shmem_init();\n\
                printf(\"%d of %d %s\\n\", shmem_my_pe(), shmem_n_pes(), getenv(\"LD_LIBRARY_PATH\"));\n\
                shmem_finalize(); return 0; }\n";
    std::fs::write(&source, text).expect("scratch file");
    // As if its directory had been moved away: nothing in it says where the library is.
    let lib = tools::profile_dir();
    let mut command = test.command("cc");
    command.arg("-o").arg(&program).arg(&source).arg("-I").arg(lib.join("include")).arg("-L").arg(lib);
    command.arg("-lsma");
    test.run(command).success();
    let run = |options: &[&str]| {
        let mut command = test.angara([&["run", "-q", "-n", "2"], options].concat());
        command.arg(&program).env_remove("LD_LIBRARY_PATH");
        let done = test.run(command).success();
        let mut lines: Vec<String> = done.stdout.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    };
    let lib = lib.display();
    assert_eq!(run(&[]), [format!("0 of 2 {lib}"), format!("1 of 2 {lib}")]);
    // What the user has said comes first, and stays as it is if it is enough.
    assert_eq!(run(&["-x", "LD_LIBRARY_PATH=/elsewhere"])[0], format!("0 of 2 /elsewhere:{lib}"));
    let enough = format!("LD_LIBRARY_PATH=/elsewhere:{lib}");
    assert_eq!(run(&["-x", &enough])[0], format!("0 of 2 /elsewhere:{lib}"));
    test.assert_clean();
}

/// Shorter than a launcher waits for an answer, and much longer than it needs where it does not wait for one.
const NO_ANSWER: Duration = Duration::from_secs(45);

#[test]
fn limits_and_signals_end_a_run_whose_daemon_is_stopped() {
    let test = Test::new("stopped");
    // Its own daemon stops while the program runs, and answers nothing at the end.
    for (options, signal, code) in
        [(&["-n", "2", "--timeout", "3"][..], None, 124), (&["-n", "2"], Some(Signal::TERM), 143)]
    {
        let run = test.spawn(shell(&test, options, "echo runs; exec sleep 1000"));
        run.expect_line("runs");
        test.named("fabricd")[0].stop();
        signal.into_iter().for_each(|signal| run.signal(signal));
        assert_eq!(run.wait(NO_ANSWER).code(), code, "{options:?}");
        test.assert_clean();
    }
    // A daemon that was there before does not answer at the beginning.
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    daemon.pid().stop();
    let dir = daemon.dir().to_str().expect("text");
    for (options, signal, code) in [(&["--timeout", "2"][..], None, 124), (&[], Some(Signal::INT), 130)] {
        let run = test.spawn(shell(&test, &[&["-n", "2", "--runtime-dir", dir], options].concat(), "echo never"));
        let launcher = run.process();
        let connected = || std::fs::read_dir(format!("/proc/{}/fd", launcher.pid)).is_ok_and(|fds| fds.count() > 6);
        assert!(poll_until(connected), "the launcher does not start\n{}", run.so_far());
        signal.into_iter().for_each(|signal| run.signal(signal));
        let done = run.wait(NO_ANSWER);
        assert_eq!(done.code(), code, "{done}");
        assert!(done.stdout.is_empty() && (signal.is_some() || done.stderr.contains("no daemon answered")), "{done}");
    }
    daemon.pid().signal(Signal::CONT);
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    daemon.shutdown();
    test.assert_clean();
}
