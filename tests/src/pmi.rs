//! A stand-in for an MPI launcher: it speaks PMI-1 as MPICH's does.

use crate::process::{Running, Test};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

type Store = Arc<Mutex<BTreeMap<String, String>>>;

/// The launcher of one job.
pub struct Launcher {
    pes: usize,
    /// No other job's: libraries name memory after it that all processes of this machine share.
    name: String,
    store: Store,
    all: Arc<Barrier>,
    servers: Vec<JoinHandle<()>>,
}

impl Launcher {
    /// Of N processes.
    pub fn new(pes: usize) -> Launcher {
        // Each is a node of its own.
        let mapping = ("PMI_process_mapping".into(), format!("(vector,(0,{pes},1))"));
        let store = Store::new(Mutex::new(BTreeMap::from([mapping])));
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stand_in_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Launcher { pes, name, store, all: Arc::new(Barrier::new(pes)), servers: Vec::new() }
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
        let (name, pes, store, all) = (self.name.clone(), self.pes, self.store.clone(), self.all.clone());
        self.servers.push(std::thread::spawn(move || serve(mine, &name, pes, store, all)));
        running
    }

    /// Waits until all processes have closed their ends.
    pub fn finish(mut self) {
        self.servers.drain(..).for_each(|s| s.join().expect("the stand-in serves until the end"));
    }
}

impl Drop for Launcher {
    /// Removes what ranks of MPICH leave that are killed: each node's shared memory, named after the job's name (by FNV-1a).
    fn drop(&mut self) {
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
        let hash = self.name.bytes().fold(2_166_136_261, step);
        for node in 0..self.pes {
            // Most often there is none.
            let _ = std::fs::remove_file(format!("/dev/shm/mpich_shm_{hash:x}_{node}"));
        }
    }
}

/// The launcher's side of one process, until that finalizes or closes.
fn serve(stream: UnixStream, name: &str, pes: usize, store: Store, all: Arc<Barrier>) {
    let mut to = stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let word = |key: &str| {
            let found = line.split_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_default().to_string()
        };
        let answer = match word("cmd").as_str() {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0".into(),
            "get_appnum" => "cmd=appnum appnum=0 rc=0".into(),
            "get_universe_size" => format!("cmd=universe_size size={pes} rc=0"),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={name}"),
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
