//! Ranks of MPI in a domain, beside others there: two programs at a time, a process that writes nonsense, ranks that are killed.

use angara_tests::daemon::Daemon;
use angara_tests::mpi::{compile, in_domain, mpich};
use angara_tests::pmi::Launcher;
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::rng::Rng;
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::path::Path;
use std::process::Stdio;

/// A program under a launcher that does nothing when one of its ranks is lost.
struct Ranks {
    launcher: Launcher,
    running: Vec<Running>,
}

impl Ranks {
    fn start(test: &Test, daemon: &Daemon, path: &str, program: &Path, arguments: &[String], ranks: usize) -> Ranks {
        let mut launcher = Launcher::new(ranks);
        let start = |rank| {
            let mut command = in_domain(test, program, daemon.dir());
            command.args(arguments).env("ANGARA_DOMAIN", path).env("ANGARA_DOMAIN_PATH", path);
            launcher.start(test, rank, command)
        };
        let running = (0..ranks).map(start).collect();
        Ranks { launcher, running }
    }

    /// How each ended.
    fn wait(self) -> Vec<Finished> {
        let all = self.running.into_iter().map(|one| one.wait(PATIENCE)).collect();
        self.launcher.finish();
        all
    }

    /// All have done what `ring.c` does, and found nothing wrong.
    fn all_right(self) {
        let ranks = self.running.len();
        for (rank, done) in self.wait().into_iter().enumerate() {
            let line = format!("rank {rank} of {ranks} is PE -, 1 on its node");
            assert!(done.success().stdout.lines().any(|said| said == line), "`{line}` was not said");
        }
    }
}

/// The daemon has nothing left of the domain.
fn ends_clean(test: &Test, daemon: Daemon) {
    assert!(poll_until(|| daemon.status().jobs.is_empty()), "the domain stays without anybody in it");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn two_programs_in_one_domain_do_not_meet() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("domain-two");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let program = compile(&test, "ring", venv.join("bin/mpicc"));
    for path in ["auto", "ring"] {
        // Of different sizes, so that seats of one number are ranks of different ones, and one after the other, so that the
        // second sits where the first one of the round before sat.
        for _ in 0..2 {
            let both = [3, 4].map(|ranks| Ranks::start(&test, &daemon, path, &program, &["waits".into()], ranks));
            let taken = || daemon.status().jobs.iter().map(|job| job.attached).sum::<u32>();
            assert!(poll_until(|| taken() == 7), "{} seats of 7 are taken", taken());
            // That of the other path may still be there, empty.
            assert_eq!(daemon.status().jobs.iter().filter(|job| job.attached > 0).count(), 1, "one domain for both");
            for (ranks, number) in both.iter().zip([3, 4]) {
                for (rank, running) in ranks.running.iter().enumerate() {
                    running.expect_line(&format!("rank {rank} of {number} is PE -, 1 on its node"));
                }
            }
            let again = Ranks::start(&test, &daemon, path, &program, &["ends".into()], 4);
            again.all_right();
            both.iter().flat_map(|ranks| &ranks.running).for_each(|running| running.signal(Signal::TERM));
            for done in both.into_iter().flat_map(Ranks::wait) {
                assert_eq!(done.code(), 143, "{done}");
            }
        }
    }
    ends_clean(&test, daemon);
}

#[test]
fn nonsense_in_mailboxes_of_ranks_concerns_nobody() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("domain-hostile");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let program = compile(&test, "ring", venv.join("bin/mpicc"));
    for path in ["auto", "ring"] {
        let mut command = in_domain(&test, tools::example("mailbox_hostile"), daemon.dir());
        command.arg("domain").env("ANGARA_DOMAIN", path).env("ANGARA_DOMAIN_PATH", path);
        command.stdout(Stdio::piped());
        let hostile = test.spawn(command);
        hostile.expect_line("is hostile");
        for _ in 0..3 {
            Ranks::start(&test, &daemon, path, &program, &["ends".into()], 4).all_right();
        }
        hostile.signal(Signal::KILL);
        assert_eq!(hostile.wait(PATIENCE).code(), 128 + 9, "it was there until the end");
        // And those who sit where it sat.
        Ranks::start(&test, &daemon, path, &program, &["ends".into()], 4).all_right();
    }
    ends_clean(&test, daemon);
}

#[test]
fn when_a_rank_is_killed_at_any_moment_all_others_get_an_error() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("domain-killed");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let program = compile(&test, "killed", venv.join("bin/mpicc"));
    let mut rng = Rng::for_test("mpi_domain", 1);
    let rounds = std::env::var("MPI_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6);
    for round in 0..rounds {
        let (seed, victim) = (rng.u64(), rng.below(4) as usize);
        let path = ["auto", "ring"][round % 2];
        let arguments = [seed.to_string(), victim.to_string()];
        let all = Ranks::start(&test, &daemon, path, &program, &arguments, 4).wait();
        for (rank, done) in all.into_iter().enumerate() {
            let what = format!("seed {seed} victim {victim} path {path} rank {rank}");
            if rank == victim {
                assert_eq!(done.code(), 128 + 9, "{what}: {done}");
            } else {
                let done = done.success();
                let line = done.stdout.lines().find(|line| line.contains("got an error in a call of"));
                println!("{what}: {}", line.unwrap_or_else(|| panic!("{what}: no error: {done}")));
            }
        }
    }
    ends_clean(&test, daemon);
}

#[test]
fn a_domain_without_a_daemon_is_said_to_have_none() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("domain-none");
    let program = compile(&test, "ring", venv.join("bin/mpicc"));
    let dir = test.file("nowhere");
    let mut command = in_domain(&test, venv.join("bin/mpiexec"), &dir);
    command.args(["-n", "2"]).arg(&program);
    let done = test.run(command).failure(&["angara: the provider of libfabric cannot serve this process", "nowhere"]);
    assert_eq!(done.stderr.matches("cannot serve this process").count(), 1, "{done}");
    test.assert_clean();
}
