//! A stand-in for an MPI launcher: it speaks PMI-1 as MPICH's does.

use crate::process::{Running, Test};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

type Store = Arc<Mutex<BTreeMap<String, String>>>;

/// The launcher of one job.
pub struct Launcher {
    pes: usize,
    store: Store,
    all: Arc<Barrier>,
    servers: Vec<JoinHandle<()>>,
}

impl Launcher {
    /// Of so many processes.
    pub fn new(pes: usize) -> Launcher {
        Launcher { pes, store: Store::default(), all: Arc::new(Barrier::new(pes)), servers: Vec::new() }
    }

    /// Starts process `pe`.
    pub fn start(&mut self, test: &Test, pe: usize, mut command: Command) -> Running {
        let (mine, theirs) = UnixStream::pair().expect("a socket pair");
        fcntl_setfd(&theirs, FdFlags::empty()).expect("a descriptor that processes inherit");
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.env("PMI_RANK", pe.to_string()).env("PMI_SIZE", self.pes.to_string());
        let running = test.spawn(command);
        // Only the process holds its end now, so that the server notices when it has gone.
        drop(theirs);
        let (store, all) = (self.store.clone(), self.all.clone());
        self.servers.push(std::thread::spawn(move || serve(mine, store, all)));
        running
    }

    /// Waits until all processes have closed their ends.
    pub fn finish(self) {
        self.servers.into_iter().for_each(|s| s.join().expect("the stand-in serves until the end"));
    }
}

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
