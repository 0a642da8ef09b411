//! An idle daemon sleeps: at most 1 % of a core, with and without a job that waits.

use angara_tests::daemon::Daemon;
use angara_tests::{Test, tools};
use std::process::Stdio;
use std::time::{Duration, Instant};

const WATCH: Duration = Duration::from_secs(3);
/// Share of a core an idle daemon may use.
const SHARE: f64 = 0.01;
/// Resolution of the kernel's own accounting, and a little for the status requests themselves.
const SLACK: f64 = 0.02;

/// CPU seconds of daemon and data plane over a few quiet seconds.
fn measure(daemon: &Daemon) -> (f64, f64, f64) {
    let begin = Instant::now();
    let cpu = || (daemon.pid().cpu().as_secs_f64(), daemon.status().data_plane_cpu_s);
    let before = cpu();
    assert!(!daemon.pid().wait_exit(WATCH), "the daemon ended by itself");
    let after = cpu();
    (after.0 - before.0, after.1 - before.1, begin.elapsed().as_secs_f64())
}

fn check(what: &str, daemon: &Daemon) {
    let (process, plane, seconds) = measure(daemon);
    println!("{what}: daemon {process:.3} s, data plane {plane:.4} s of CPU in {seconds:.2} s");
    assert!(plane <= SHARE * seconds + SLACK, "{what}: the data plane used {plane:.3} s in {seconds:.2} s");
    assert!(process <= SHARE * seconds + 2.0 * SLACK, "{what}: the daemon used {process:.3} s in {seconds:.2} s");
}

#[test]
fn an_idle_daemon_sleeps() {
    let test = Test::new("idle");
    let daemon = Daemon::start(&test, &["--torus", "4x2x2x2"]);
    daemon.status();
    check("no job", &daemon);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_daemon_whose_jobs_wait_sleeps() {
    let test = Test::new("idle-job");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2"]);
    let mut command = test.angara(["run", "-n", "4", "--path", "ring", "--timeout", "200", "--"]);
    command.arg(tools::compile("tests/c/steps.c")).stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let input = job.take_stdin();
    job.expect_line("ready");
    check("a waiting job", &daemon);
    drop(input);
    job.wait(angara_tests::process::PATIENCE).success();
    daemon.shutdown();
    test.assert_clean();
}
