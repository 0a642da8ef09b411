//! Jobs whose processes an MPI launcher starts: a stand-in that speaks PMI-1 as MPICH's does, and MPICH's
//! own `mpiexec.hydra` where it is installed.

use angara_tests::{Test, process::PATIENCE, tools};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
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

#[test]
fn mpiexec_starts_a_job_and_a_failing_pe_ends_it() {
    if !tools::have("mpiexec.hydra") {
        println!("skipped: no mpiexec.hydra (Debian: apt-get install mpich)");
        return;
    }
    let test = Test::new("hydra");
    let start = |program: &std::path::Path, argument: &str| {
        let mut command = test.command("mpiexec.hydra");
        command.args(["-n", "4"]).arg(program).arg(argument);
        test.run(command)
    };
    let done = start(&tools::compile("tests/c/openshmem/collectives.c"), "").success();
    assert!(done.stdout.contains(" passed"), "{done}");
    let done = start(&tools::compile("tests/c/openshmem/errors.c"), "no-such-pe");
    assert_ne!(done.code(), 0, "{done}");
    assert!(done.stderr.contains("PE 4 does not exist"), "{done}");
    test.wait_gone(PATIENCE).expect("nothing is left");
    test.assert_clean();
}
