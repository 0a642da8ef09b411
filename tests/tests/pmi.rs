//! Jobs whose processes an MPI launcher starts: a stand-in that speaks PMI-1 as MPICH's does, and, where they
//! are installed, MPICH's own `mpiexec.hydra` and those that speak PMIx: Open MPI's `mpirun` and `prterun`.

use angara_tests::{Test, process::PATIENCE, tools};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

type Store = Arc<Mutex<BTreeMap<String, String>>>;

/// The launcher's side of one process, until that finalizes or closes.
fn serve(stream: UnixStream, store: Store, all: Arc<Barrier>) {
    let mut to = stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let word = |key: &str| {
            let found = line.split_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_default().to_string()
        };
        let answer = match word("cmd").as_str() {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_0".into(),
            "put" => {
                store.lock().expect("nobody panics").insert(word("key"), word("value"));
                "cmd=put_result rc=0 msg=success".into()
            }
            "barrier_in" => {
                all.wait();
                "cmd=barrier_out".to_string()
            }
            "get" => match store.lock().expect("nobody panics").get(&word("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found".into(),
            },
            "finalize" => "cmd=finalize_ack".into(),
            other => format!("cmd={other}_unknown rc=-1"),
        };
        if writeln!(to, "{answer}").is_err() {
            return;
        }
    }
}

#[test]
fn processes_of_a_pmi_launcher_are_one_job() {
    const PES: usize = 5;
    let program = tools::compile("tests/c/openshmem/collectives.c");
    let test = Test::new("pmi");
    let (store, all) = (Store::default(), Arc::new(Barrier::new(PES)));
    let mut running = Vec::new();
    let mut servers: Vec<JoinHandle<()>> = Vec::new();
    for pe in 0..PES {
        let (mine, theirs) = UnixStream::pair().expect("a socket pair");
        fcntl_setfd(&theirs, FdFlags::empty()).expect("a descriptor that processes inherit");
        let mut command = test.command(&program);
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.env("PMI_RANK", pe.to_string()).env("PMI_SIZE", PES.to_string());
        command.env("ANGARA_OPTIONS", "--torus 2x3");
        running.push(test.spawn(command));
        // Only the process holds its end now, so that the server notices when it has gone.
        drop(theirs);
        let (store, all) = (store.clone(), all.clone());
        servers.push(std::thread::spawn(move || serve(mine, store, all)));
    }
    let said: Vec<String> = running.into_iter().map(|r| r.wait(PATIENCE).success().stdout).collect();
    assert_eq!(said.iter().filter(|s| s.contains(" passed")).count(), 1, "{said:?}");
    servers.into_iter().for_each(|s| s.join().expect("the stand-in serves until the end"));
    test.wait_gone(PATIENCE).expect("the job's keeper and its daemon leave with the job");
    test.assert_clean();
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
