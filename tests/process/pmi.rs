//! Jobs whose processes an MPI launcher starts: a stand-in that speaks PMI-1 as MPICH's does, and, where they
//! are installed, MPICH's own `mpiexec.hydra` and those that speak PMIx: Open MPI's `mpirun` and `prterun`.

use angara_tests::pmi::Launcher;
use angara_tests::{Finished, Running, Test, process::PATIENCE, tools};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// Runs a program under the stand-in.
fn under_stand_in(test: &Test, program: &Path, arguments: &[&str]) -> Vec<Finished> {
    const PES: usize = 5;
    let mut launcher = Launcher::new(PES);
    let start = |pe| {
        let mut command = test.command(program);
        command.args(arguments).env("ANGARA_OPTIONS", "--torus 2x3");
        launcher.start(test, pe, command)
    };
    let running: Vec<Running> = (0..PES).map(start).collect();
    let done = running.into_iter().map(|r| r.wait(PATIENCE)).collect();
    launcher.finish();
    done
}

#[test]
fn processes_of_a_pmi_launcher_are_one_job_in_all_its_lives() {
    let programs: [(_, &[&str]); 2] = [("collectives.c", &[]), ("lives.c", &["20"])];
    for (source, arguments) in programs {
        let test = Test::new("pmi");
        let program = tools::compile(&format!("tests/c/openshmem/{source}"));
        let done = under_stand_in(&test, &program, arguments);
        let said: Vec<String> = done.into_iter().map(|d| d.success().stdout).collect();
        assert_eq!(said.iter().filter(|s| s.contains(" passed")).count(), 1, "{source}: {said:?}");
        left_clean(&test);
    }
}

/// Nothing is left of a job.
fn left_clean(test: &Test) {
    test.wait_gone(PATIENCE).expect("the job's keeper and its daemon leave with the job");
    test.assert_clean();
}

#[test]
fn a_pe_that_exits_under_a_pmi_launcher_is_named_by_those_who_start_again() {
    let program = tools::compile("tests/c/openshmem/lives.c");
    for what in ["leaves", "leaves-early"] {
        let test = Test::new("pmi-leaves");
        let done = under_stand_in(&test, &program, &["1", what, "0"]);
        assert_eq!(done[0].code(), 0, "{what}: {}", done[0]);
        for other in &done[1..] {
            assert!(other.code() == 1 && other.stderr.contains("PE 0 has exited"), "{what}: {other}");
        }
        left_clean(&test);
    }
}

#[test]
fn programs_end_under_a_pmi_launcher_as_elsewhere() {
    let program = tools::compile_with("tests/c/openshmem/ends.c", &["-pthread"]);
    let test = Test::new("pmi-ends");
    let done = under_stand_in(&test, &program, &["desert-barrier"]);
    let said: String = done.iter().map(|d| d.stderr.as_str()).collect();
    assert!(said.contains("PE 0 left the job without shmem_finalize"), "{said}");
    left_clean(&test);
    // One that does not wait for anybody either: it is told.
    let done = under_stand_in(&test, &program, &["exit", "0"]);
    assert!(done.iter().all(|d| d.code() == 0), "{done:?}");
    for (pe, done) in done.iter().enumerate().take(4) {
        assert!(done.stdout.contains(&format!("unflushed of PE {pe}")), "{done}");
    }
    assert!(done[0].stdout.contains("handler of PE 0"), "{}", done[0]);
    left_clean(&test);
}

/// A launcher that is installed, with the options it needs here.
fn launchers() -> Vec<Vec<&'static str>> {
    let mut found = Vec::new();
    if tools::have("mpiexec.hydra") {
        found.push(vec!["mpiexec.hydra"]);
    } else {
        println!("skipped: no mpiexec.hydra (Debian: apt-get install mpich)");
    }
    // `mpirun` alone may be anybody's.
    for name in ["mpirun.openmpi", "prterun"] {
        if tools::have(name) {
            found.push(vec![name, "--allow-run-as-root", "--oversubscribe"]);
        } else {
            println!("skipped: no {name} (Debian: apt-get install openmpi-bin for the first)");
        }
    }
    found
}

fn launch(test: &Test, launcher: &[&str], pes: &str, program: &Path, arguments: &[&str]) -> Command {
    let mut command = test.command(launcher[0]);
    command.args(&launcher[1..]).args(["-n", pes]).arg(program).args(arguments);
    command
}

#[test]
fn mpi_launchers_start_jobs_and_a_failing_pe_ends_them() {
    for launcher in launchers() {
        println!("{launcher:?}");
        let test = Test::new("launcher");
        let collectives = tools::compile("tests/c/openshmem/collectives.c");
        for options in ["", "--path ring --torus 2x2", "--collectives p2p"] {
            let mut command = launch(&test, &launcher, "4", &collectives, &[]);
            command.env("ANGARA_OPTIONS", options);
            let done = test.run(command).success();
            assert!(done.stdout.contains(" passed"), "{launcher:?} {options}: {done}");
        }
        let errors = tools::compile("tests/c/openshmem/errors.c");
        let done = test.run(launch(&test, &launcher, "4", &errors, &["no-such-pe"]));
        assert_ne!(done.code(), 0, "{launcher:?}: {done}");
        assert!(done.stderr.contains("PE 4 does not exist"), "{launcher:?}: {done}");
        // A job that cannot be created ends everywhere, with the reason.
        let mut command = launch(&test, &launcher, "4", &collectives, &[]);
        command.env("ANGARA_OPTIONS", "--torus 2");
        let done = test.run(command);
        assert_ne!(done.code(), 0, "{launcher:?}: {done}");
        assert!(done.stderr.contains("do not fit"), "{launcher:?}: {done}");
        test.wait_gone(PATIENCE).expect("nothing is left");
        test.assert_clean();
    }
}

#[test]
fn a_daemon_that_dies_ends_the_job_of_an_mpi_launcher() {
    for launcher in launchers() {
        for path in ["direct", "ring"] {
            println!("{launcher:?} {path}");
            let test = Test::new("launcher-daemon");
            let mut command = launch(&test, &launcher, "3", &tools::compile("tests/c/churn.c"), &["90"]);
            command.env("ANGARA_OPTIONS", format!("--path {path} --heap 4M"));
            let job = test.spawn(command);
            job.expect_line("churning");
            let daemon = test.named("fabricd");
            assert_eq!(daemon.len(), 1, "one private daemon: {daemon:?}");
            daemon[0].signal(Signal::KILL);
            let done = job.wait(PATIENCE);
            assert_ne!(done.code(), 0, "{launcher:?} {path}: {done}");
            assert!(done.stderr.contains("daemon"), "{launcher:?} {path}: {done}");
            test.wait_gone(PATIENCE).expect("nothing is left");
        }
    }
}

#[test]
fn a_pmix_launcher_without_its_library_is_named() {
    let test = Test::new("pmix-none");
    let mut command = test.command(tools::compile("tests/c/openshmem/collectives.c"));
    // A server that does not exist: either the library is missing, or it says that it reaches nobody.
    command.env("PMIX_NAMESPACE", "none").env("PMIX_RANK", "0");
    let done = test.run(command);
    assert_ne!(done.code(), 0, "{done}");
    assert!(done.stderr.contains("angara run"), "{done}");
    test.assert_clean();
}

/// How `environment.c` is started.
enum Start {
    Alone,
    Run,
    StandIn,
    Installed(Vec<&'static str>),
}

impl Start {
    fn all() -> Vec<Start> {
        let mut all = vec![Start::Alone, Start::Run, Start::StandIn];
        all.extend(launchers().into_iter().map(Start::Installed));
        all
    }

    /// Returns what one PE, or all of them, say with these variables: exit code, output, errors.
    fn say(&self, test: &Test, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
        let program = tools::compile("tests/c/openshmem/environment.c");
        let done = match self {
            Start::Alone => test.spawn({
                let mut command = test.command(&program);
                command.args(arguments).envs(variables.iter().copied());
                command
            }),
            Start::Run => test.spawn({
                let mut command = test.angara(["run", "-n", "2", "--timeout", "200", "--"]);
                command.arg(&program).args(arguments).envs(variables.iter().copied());
                command
            }),
            Start::StandIn => {
                let mut launcher = Launcher::new(1);
                let mut command = test.command(&program);
                command.args(arguments).envs(variables.iter().copied());
                let done = launcher.start(test, 0, command).wait(PATIENCE);
                launcher.finish();
                return (done.code(), done.stdout, done.stderr);
            }
            Start::Installed(launcher) => {
                let mut command = launch(test, launcher, "2", &program, arguments);
                command.envs(variables.iter().copied());
                test.spawn(command)
            }
        }
        .wait(PATIENCE);
        (done.code(), done.stdout, done.stderr)
    }

    fn heap(&self, test: &Test, variables: &[(&str, &str)]) -> u64 {
        let (code, out, err) = self.say(test, variables, &[]);
        let heap = out.lines().find_map(|l| l.strip_prefix("heap ")?.parse().ok());
        assert_eq!(code, 0, "{variables:?}: {out}{err}");
        heap.unwrap_or_else(|| panic!("{variables:?}: no heap in: {out}{err}"))
    }
}

#[test]
fn variables_of_the_specification_count_under_every_launcher() {
    let (new, old) = ("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE");
    for start in Start::all() {
        let test = Test::new("environment");
        for (variables, bytes) in [
            (&[(new, "3.1M")][..], 3250586u64),
            (&[(new, ".25G")], 1 << 28),
            (&[(old, "20mm")], 20 << 20),
            (&[(old, "1g"), (new, "2m")], 2 << 20),
            (&[(new, "0")], 0),
        ] {
            let heap = start.heap(&test, variables);
            // In whole pages, and in blocks of 16 bytes.
            assert!(heap + 16 >= bytes && heap < bytes + 4096, "{variables:?}: {heap}");
        }
        assert!(start.heap(&test, &[]) >= 1 << 20, "256 MiB, or what memory allows");
        for value in ["", "0", "yes"] {
            for prefix in ["SHMEM", "SMA"] {
                let says = |name: &str, arguments: &[&str], wanted: &str| {
                    let (_, out, err) = start.say(&test, &[(&format!("{prefix}_{name}"), value)], arguments);
                    assert!((out.clone() + &err).contains(wanted), "{prefix}_{name}={value}: {out}{err}");
                };
                says("VERSION", &[], ", OpenSHMEM 1.6");
                says("INFO", &[], "SHMEM_SYMMETRIC_SIZE  bytes of symmetric heap");
                says("DEBUG", &["freed"], "are not allocated: freed before, or never");
            }
        }
        for (name, value) in [(new, "20x"), (new, ""), (old, "-1")] {
            let (code, out, err) = start.say(&test, &[(name, value)], &[]);
            assert!(code != 0 && err.contains(&format!("{name}: `{value}` is not a size")), "{out}{err}");
            if let Start::Alone = start {
                assert!(code == 3 && out.contains("status 1"), "{out}{err}");
            }
        }
        test.wait_gone(PATIENCE).expect("nothing is left");
        test.assert_clean();
    }
}
