//! kill -9 of a PE, of the launcher and of the daemon at random moments, 50 times: the run ends
//! with an error that names the dead, nothing stays behind, and a job beside it never notices.

use angara_abi::account::Class;
use angara_protocol::msg::{Event, Path as JobPath};
use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::PATIENCE;
use angara_tests::{Finished, Rng, Running, Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

/// After a kill everything must be over within this time, far below the run's own `--timeout`.
const LIMIT: Duration = Duration::from_secs(120);

fn churn(test: &Test, rng: &mut Rng, runtime_dir: Option<&Path>) -> Running {
    let pes = rng.pick(&["2", "3", "4", "6"]);
    let path = rng.pick(&["auto", "ring"]);
    let barrier = rng.pick(&["auto", "multiphase", "dissemination"]);
    let mut command = test.angara(["run", "-n", pes, "--path", path, "--barrier", barrier, "--heap", "4M"]);
    if let Some(dir) = runtime_dir {
        command.env(angara_protocol::launch::ENV_RUNTIME_DIR, dir);
    }
    command.args(["--timeout", "500", "--"]).arg(tools::compile("tests/c/churn.c")).arg("90");
    test.spawn(command)
}

/// Lets a random time pass: sometimes the job has not started, sometimes it is in full swing.
fn random_moment(job: Running, rng: &mut Rng) -> Running {
    if rng.one_in(2) {
        job.expect_line("churning");
    }
    match job.try_wait(Duration::from_micros(rng.below(150_000))) {
        Err(job) => *job,
        Ok(done) => panic!("the job ended before anything was killed: {done}"),
    }
}

fn end(test: &Test, job: Running) -> Finished {
    let done = job.wait(LIMIT);
    assert!(!done.stderr.contains("panicked"), "{done}");
    test.assert_clean();
    done
}

/// A well-behaved job on the shared daemon that must not notice its neighbours' deaths.
struct Bystander {
    job: Running,
    input: ChildStdin,
    round: i64,
}

impl Bystander {
    fn start(test: &Test) -> Bystander {
        let mut command = test.angara(["run", "-n", "4", "--path", "ring", "--timeout", "500", "--"]);
        command.arg(tools::compile("tests/c/steps.c")).stdin(Stdio::piped());
        let mut job = test.spawn(command);
        let input = job.take_stdin();
        job.expect_line("ready");
        Bystander { job, input, round: 0 }
    }
    fn works(&mut self) {
        self.round += 1;
        let (pe, value) = (1 + self.round % 3, 1_000_000 + self.round);
        for (line, answer) in [
            (format!("put {pe} {value}"), format!("put {pe} {value}")),
            (format!("get {pe}"), format!("get {pe} = {value}")),
        ] {
            writeln!(self.input, "{line}").expect("the bystander reads");
            self.job.expect_line(&answer);
        }
    }
}

#[test]
fn a_killed_pe_ends_its_job_and_nobody_elses() {
    let mut rng = Rng::for_test("crash", 0x5eed_0001);
    let shared = Test::new("shared");
    let daemon = Daemon::start(&shared, &["--torus", "2x2x2"]);
    let mut bystander = Bystander::start(&shared);
    for round in 0..17 {
        let test = Test::new("kill-pe");
        let job = churn(&test, &mut rng, Some(daemon.dir()));
        job.expect_line("churning");
        let job = random_moment(job, &mut rng);
        let pes = test.named("churn");
        assert!(!pes.is_empty(), "round {round}: no PE found\n{}", job.so_far());
        let victim = &pes[rng.below(pes.len() as u64) as usize];
        victim.signal(Signal::KILL);
        let done = end(&test, job).failure(&["PE ", "SIGKILL"]);
        assert_eq!(done.code(), 128 + 9, "round {round}: the exit code is the PE's: {done}");
        bystander.works();
        let jobs = daemon.status().jobs;
        assert_eq!(jobs.len(), 1, "round {round}: the dead job is still there: {jobs:?}");
    }
    finish(daemon, bystander, &shared);
}

#[test]
fn a_killed_launcher_takes_its_job_along_and_nobody_elses() {
    let mut rng = Rng::for_test("crash", 0x5eed_0002);
    let shared = Test::new("shared");
    let daemon = Daemon::start(&shared, &["--torus", "2x2x2"]);
    let mut bystander = Bystander::start(&shared);
    for round in 0..17 {
        let test = Test::new("kill-launcher");
        // Every third round the job has a private daemon, which must go as well.
        let private = round % 3 == 0;
        let job = churn(&test, &mut rng, (!private).then_some(daemon.dir()));
        let job = random_moment(job, &mut rng);
        job.signal(Signal::KILL);
        assert_eq!(job.wait(LIMIT).code(), 128 + 9);
        if private {
            // A killed launcher cannot remove its private runtime directory if its daemon was not up yet,
            // but no process may stay.
            test.wait_gone(LIMIT).unwrap_or_else(|left| panic!("round {round}: {left}"));
        } else {
            test.assert_clean();
        }
        bystander.works();
        // The daemon learns of the death by its closed connection.
        let gone = angara_tests::process::poll_until(|| daemon.status().jobs.len() == 1);
        assert!(gone, "round {round}: the dead job is still there: {:?}", daemon.status().jobs);
    }
    finish(daemon, bystander, &shared);
}

fn finish(daemon: Daemon, mut bystander: Bystander, shared: &Test) {
    bystander.works();
    let mut control = daemon.control();
    let job = control.status().jobs[0].job;
    let report = control.report(job);
    let puts: u64 = report.pairs.iter().filter(|p| p.class == Class::Put).map(|p| p.traffic.ops).sum();
    assert!(puts >= bystander.round as u64, "the bystander's counters lost puts: {puts} of {}", bystander.round);
    drop(control);
    writeln!(bystander.input, "quit").expect("the bystander reads");
    bystander.job.wait(PATIENCE).success();
    daemon.shutdown();
    shared.assert_clean();
}

#[test]
fn a_killed_daemon_ends_its_jobs_with_an_error() {
    let mut rng = Rng::for_test("crash", 0x5eed_0003);
    for round in 0..16 {
        let shared = Test::new("shared");
        let test = Test::new("kill-daemon");
        // Half of the rounds with a daemon that was there before, half with a private one.
        let daemon = (round % 2 == 0).then(|| Daemon::start(&shared, &["--torus", "2x2x2"]));
        let job = churn(&test, &mut rng, daemon.as_ref().map(|d| d.dir()));
        job.expect_line("churning");
        let job = random_moment(job, &mut rng);
        match &daemon {
            Some(daemon) => daemon.process.signal(Signal::KILL),
            None => {
                let private = test.named("fabricd");
                assert_eq!(private.len(), 1, "round {round}: one private daemon: {private:?}");
                private[0].signal(Signal::KILL);
            }
        }
        end(&test, job).failure(&["daemon", "went away"]);
        if let Some(daemon) = daemon {
            // Its sockets lie there, as after any kill -9; a new daemon must take their place.
            drop(daemon);
            let next = Daemon::start(&shared, &["--torus", "2x2x2"]);
            assert!(next.status().jobs.is_empty());
            next.shutdown();
            shared.assert_clean();
        }
    }
}

#[test]
fn the_next_daemon_sweeps_up_after_killed_ones() {
    let test = Test::new("sweep");
    let mut rng = Rng::for_test("crash", 0x5eed_0005);
    let job = churn(&test, &mut rng, None);
    job.expect_line("churning");
    let private = test.named("fabricd");
    assert_eq!(private.len(), 1, "one private daemon: {private:?}");
    // Both at once, so that neither can clean up after the other.
    job.signal(Signal::STOP);
    private[0].signal(Signal::KILL);
    job.signal(Signal::KILL);
    assert_eq!(job.wait(LIMIT).code(), 128 + 9);
    test.wait_gone(LIMIT).expect("PEs die with their launcher");
    let parent = test.runtime_dir().parent().expect("a directory of the test").to_owned();
    let left = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(&parent).expect("there").flatten().map(|e| e.path());
        entries.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("angara-run-"))).collect()
    };
    let dirs = left();
    assert_eq!(dirs.len(), 1, "what the killed daemon could not remove: {dirs:?}");
    let start = || Daemon::start(&test, &["--torus", "2"]).shutdown();
    // It has just changed, and could belong to a daemon that is starting.
    start();
    assert_eq!(left(), dirs);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    let times = std::fs::FileTimes::new().set_modified(long_ago);
    std::fs::File::open(&dirs[0]).and_then(|dir| dir.set_times(times)).expect("ours");
    start();
    assert!(left().is_empty(), "{:?}", left());
    test.assert_clean();
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let mut rng = Rng::for_test("crash", 0x5eed_0004);
    for signal in [Signal::INT, Signal::TERM, Signal::INT, Signal::HUP] {
        let test = Test::new("interrupt");
        let job = churn(&test, &mut rng, None);
        let job = random_moment(job, &mut rng);
        job.signal(signal);
        let done = end(&test, job);
        assert_eq!(done.code(), 128 + signal.as_raw(), "the exit code names the signal: {done}");
    }
}

#[test]
fn who_owns_a_job_always_reads_why_the_daemon_ends() {
    let test = Test::new("daemon-last-words");
    // A daemon that closes with words still to be written loses some of N.
    for _ in 0..8 {
        let daemon = Daemon::start(&test, &["--torus", "4x4x2"]);
        let mut owners: Vec<_> = (0..32).map(|_| daemon.control()).collect();
        let jobs: Vec<_> = owners.iter_mut().map(|o| o.create(spec(1, JobPath::Direct)).expect("room").id).collect();
        daemon.process.signal(Signal::TERM);
        for (owner, id) in owners.iter_mut().zip(jobs) {
            owner.event(|e| matches!(e, Event::DaemonEnds { job, reason } if *job == id && reason == "was shut down"));
        }
        daemon.process.wait(PATIENCE).success();
    }
    test.assert_clean();
}
