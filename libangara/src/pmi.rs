//! Start-up under the launchers of MPI: `mpiexec` of MPICH and its kin, `srun --mpi=pmi2`.
//!
//! Such a launcher starts the processes and offers each of them, on a descriptor named in `PMI_FD`,
//! a place to exchange short texts (PMI-1: lines of `key=value` words). It knows nothing of fabricd, so
//! PE 0 has `angara` create the job and publishes where it is; the others read that and attach.
//! `angara` stays until PE 0 has gone, as `angara run` would, and then ends the job.

use crate::error::{Error, Result};
use abi::launch::Launch;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// First argument of `angara` that makes it create a job and keep it, as in its `run::host`.
const HOST_MODE: &str = "__host";
/// Key of the one text published.
const KEY: &str = "angara-job";

/// Standard input of the `angara` that keeps the job: it ends the job when this closes, with the process.
static KEEPER: Mutex<Option<std::process::ChildStdin>> = Mutex::new(None);

fn failed(what: impl Into<String>) -> Error {
    Error::Launcher(what.into())
}

/// A conversation with the launcher.
struct Pmi<S: Read + Write> {
    stream: BufReader<S>,
}

impl<S: Read + Write> Pmi<S> {
    /// Sends a line, checks that the answer is `cmd=expected` without an error, and returns its words.
    fn ask(&mut self, line: &str, expected: &str) -> Result<Vec<(String, String)>> {
        let lost = |e: std::io::Error| failed(format!("the launcher's PMI connection is lost ({e})"));
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).map_err(lost)?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).map_err(lost)?;
        let words: Vec<(String, String)> = answer
            .split_whitespace()
            .filter_map(|w| w.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let of = |key: &str| words.iter().find(|w| w.0 == key).map(|w| w.1.as_str());
        if of("cmd") != Some(expected) || of("rc").is_some_and(|rc| rc != "0") {
            let answer = answer.trim();
            return Err(failed(format!("the launcher answers `{answer}` to `{line}`, where `cmd={expected}` is due")));
        }
        Ok(words)
    }

    fn value(&mut self, line: &str, expected: &str, key: &str) -> Result<String> {
        let words = self.ask(line, expected)?;
        let found = words.into_iter().find(|w| w.0 == key).map(|w| w.1);
        found.ok_or_else(|| failed(format!("the launcher's answer to `{line}` has no `{key}`")))
    }

    /// Finds the job: PE 0 has `create` make it and tells the others.
    fn join(&mut self, pe: u32, pes: u32, create: impl FnOnce() -> Result<Launch>) -> Result<Launch> {
        self.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let name = self.value("cmd=get_my_kvsname", "my_kvsname", "kvsname")?;
        // An error of PE 0 is told to the others, who would wait for ever.
        let created = if pe == 0 { Some(create()) } else { None };
        if let Some(created) = &created {
            let text = match created {
                Ok(launch) => encode(launch),
                Err(_) => "none".into(),
            };
            self.ask(&format!("cmd=put kvsname={name} key={KEY} value={text}"), "put_result")?;
        }
        self.ask("cmd=barrier_in", "barrier_out")?;
        let launch = match created {
            Some(created) => created?,
            None => {
                let text = self.value(&format!("cmd=get kvsname={name} key={KEY}"), "get_result", "value")?;
                let all = || failed("PE 0 could not create the job; see its message");
                decode(&text, pe, pes).ok_or_else(all)?
            }
        };
        // Nothing more is exchanged; a launcher takes a process that ends without this for crashed.
        self.ask("cmd=finalize", "finalize_ack")?;
        Ok(launch)
    }
}

/// Job, key and directory without blanks.
fn encode(launch: &Launch) -> String {
    let hex: String = launch.runtime_dir.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    format!("{}:{}:{hex}", launch.job, launch.key)
}

fn decode(text: &str, pe: u32, pes: u32) -> Option<Launch> {
    let mut parts = text.splitn(3, ':');
    let (job, key, hex) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if hex.len() % 2 != 0 {
        return None;
    }
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
    Some(Launch { runtime_dir: PathBuf::from(OsString::from_vec(bytes?)), job, key: key.into(), pe, pes })
}

/// The place in a job a PMI launcher gives this process; `None` if there is no such launcher. Creates
/// the job if this is PE 0. To be called once.
pub fn launch() -> Result<Option<Launch>> {
    let number = |name: &'static str| -> Result<Option<u32>> {
        match std::env::var(name) {
            Err(_) => Ok(None),
            Ok(text) => text.parse().map(Some).map_err(|_| failed(format!("{name} is {text:?}, which is no number"))),
        }
    };
    let (Some(fd), Some(pe), Some(pes)) = (number("PMI_FD")?, number("PMI_RANK")?, number("PMI_SIZE")?) else {
        return Ok(None);
    };
    if pe >= pes {
        return Err(failed(format!("PMI_RANK is {pe} of PMI_SIZE {pes}")));
    }
    // SAFETY: asks about a descriptor.
    if unsafe { libc::fcntl(fd as RawFd, libc::F_GETFD) } < 0 {
        return Err(failed(format!("PMI_FD is {fd}, which is not open in this process")));
    }
    // SAFETY: the launcher opened the descriptor for this conversation, which ends here; MPI in the
    // same process would need it too, but a process is started by one library only.
    let stream = unsafe { File::from_raw_fd(fd as RawFd) };
    Pmi { stream: BufReader::new(stream) }.join(pe, pes, || create(pes)).map(Some)
}

/// Has `angara` create a job of `pes` PEs.
fn create(pes: u32) -> Result<Launch> {
    let angara = angara_program().ok_or_else(|| {
        failed("no `angara` beside this library nor in PATH to create the job; set ANGARA_BIN to its directory")
    })?;
    let cannot = |e: std::io::Error| failed(format!("cannot start {}: {e}", angara.display()));
    let mut child = Command::new(&angara)
        .arg(HOST_MODE)
        .arg(pes.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let keeper = child.stdin.take();
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        // Nothing to read means that it failed, and said why.
        let _ = BufReader::new(out).read_line(&mut line);
    }
    // The one that keeps the job is its child; this one has ended.
    let _ = child.wait();
    *KEEPER.lock().unwrap_or_else(|e| e.into_inner()) = keeper;
    decode(line.trim(), 0, pes).ok_or_else(|| failed(format!("{} could not create the job", angara.display())))
}

/// `angara`: in `ANGARA_BIN`, beside the library or program that holds this code, in `../bin`, in `PATH`.
fn angara_program() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("ANGARA_BIN").map(PathBuf::from).into_iter().collect();
    // SAFETY: plain data, filled in by dladdr with a string that lives as long as the module.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::dladdr(angara_program as *const libc::c_void, &raw mut info) } != 0 && !info.dli_fname.is_null() {
        // SAFETY: as above.
        let file = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
        let file = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes()));
        if let Some(dir) = file.canonicalize().ok().and_then(|f| f.parent().map(Path::to_path_buf)) {
            places.push(dir.clone());
            places.push(dir.join("../bin"));
        }
    }
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.into_iter().map(|dir| dir.join("angara")).find(|f| f.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier};

    fn job() -> Launch {
        Launch { runtime_dir: "/tmp/a b=c".into(), job: 7, key: "0f".repeat(16), pe: 0, pes: 3 }
    }

    /// A launcher's side for one process, with a store and a barrier that all share.
    fn serve(stream: UnixStream, store: Arc<Mutex<BTreeMap<String, String>>>, all: Arc<Barrier>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                return lines;
            }
            let word = |key: &str| {
                let word = line.split_whitespace().find_map(|w| w.strip_prefix(&format!("{key}=")));
                word.unwrap_or_default().to_string()
            };
            let answer = match word("cmd").as_str() {
                "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0".into(),
                "put" => {
                    store.lock().unwrap().insert(word("key"), word("value"));
                    "cmd=put_result rc=0 msg=success".into()
                }
                "barrier_in" => {
                    all.wait();
                    "cmd=barrier_out".to_string()
                }
                "get" => match store.lock().unwrap().get(&word("key")) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found".into(),
                },
                "finalize" => "cmd=finalize_ack".into(),
                other => panic!("{other}"),
            };
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            lines.push(line);
        }
    }

    fn start(create: fn() -> Result<Launch>) -> Vec<(Result<Launch>, Vec<String>)> {
        let (store, all) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(Barrier::new(3)));
        let processes: Vec<_> = (0..3)
            .map(|pe| {
                let (mine, theirs) = UnixStream::pair().unwrap();
                let (store, all) = (store.clone(), all.clone());
                let server = std::thread::spawn(move || serve(theirs, store, all));
                let client = std::thread::spawn(move || Pmi { stream: BufReader::new(mine) }.join(pe, 3, create));
                (client, server)
            })
            .collect();
        processes.into_iter().map(|(client, server)| (client.join().unwrap(), server.join().unwrap())).collect()
    }

    #[test]
    fn everybody_learns_where_the_job_is() {
        for (pe, (launch, lines)) in start(|| Ok(job())).into_iter().enumerate() {
            assert_eq!(launch.unwrap(), Launch { pe: pe as u32, ..job() });
            assert!(lines[0].starts_with("cmd=init ") && lines.last().unwrap() == "cmd=finalize\n", "{lines:?}");
        }
    }

    #[test]
    fn a_job_that_cannot_be_created_fails_everywhere() {
        let results = start(|| Err(failed("no daemon")));
        assert!(results[0].0.as_ref().unwrap_err().to_string().contains("no daemon"));
        for (launch, _) in &results[1..] {
            assert!(launch.as_ref().unwrap_err().to_string().contains("PE 0 could not create the job"));
        }
    }

    #[test]
    fn an_answer_that_is_none_is_named() {
        let (mine, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut theirs = theirs;
            theirs.write_all(b"cmd=response_to_init rc=-1\n").unwrap();
            theirs
        });
        let error = Pmi { stream: BufReader::new(mine) }.join(1, 2, || unreachable!()).unwrap_err().to_string();
        assert!(error.contains("rc=-1") && error.contains("cmd=response_to_init` is due"), "{error}");
        drop(server.join());
        assert_eq!(decode("x:y:z", 0, 1), None);
        assert_eq!(decode("1:k:2", 0, 1), None);
    }
}
