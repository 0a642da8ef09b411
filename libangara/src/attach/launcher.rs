//! Start-up under the launchers of MPI: `mpiexec` of MPICH and its kin, `mpirun` of Open MPI, `prterun`, `srun`.
//!
//! Such a launcher starts the processes and offers them a place to exchange short texts. It knows nothing
//! of fabricd, so PE 0 has `angara` create the job and publishes where it is; the others read that and
//! attach. `angara` stays until PE 0 has gone, as `angara run` would, and then ends the job.
//!
//! If the job's options name a cluster, the processes are on several hosts, and it is the launcher that decided
//! who is where: each asks the daemon beside it which host that is, and PE 0 places the PEs accordingly.

use super::connection::reach;
use super::key_space::{KeySpace, failed};
use super::{pmi, pmix};
use crate::error::{Error, Result};
use angara_protocol::launch::{CONTROL_SOCKET, Launch, LaunchError, default_runtime_dir};
use angara_protocol::msg::{Line, Reply, Request};
use angara_protocol::trust::is_privileged;
use rustix::net::SocketType;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Key of where the job is, published by PE 0.
const JOB_KEY: &str = "angara-job";
/// Start of the key of a process's host.
const HOST_KEY: &str = "angara-host";
/// Options of the job, as in its `run::host`.
const ENV_OPTIONS: &str = "ANGARA_OPTIONS";
/// How long the daemon beside a process may take to say which host this is.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Exit status of PE 0 when its job was ended from outside.
const ENDED: libc::c_int = 1;

/// Standard input of the `angara` that keeps the job: it ends the job when this closes, with the process.
static KEEPER: Mutex<Option<ChildStdin>> = Mutex::new(None);
/// This process has said goodbye, or rests: what becomes of the job is not its business.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Finds the job: PE 0 has `create` make it for all processes on these hosts, and tells the others. `host` is
/// this process's, in a job on a cluster.
pub(crate) fn join(
    space: &mut dyn KeySpace,
    host: Option<String>,
    create: impl FnOnce(u32, &[String]) -> Result<Launch>,
) -> Result<Launch> {
    let (pe, pes) = space.place();
    if pe >= pes {
        return Err(failed(format!("the launcher says that this is process {pe} of {pes}")));
    }
    let hosts = match &host {
        Some(host) => gather(space, host)?,
        None => Vec::new(),
    };
    // An error of PE 0 is told to the others, who would wait for ever.
    let created = if pe == 0 { Some(create(pes, &hosts)) } else { None };
    if let Some(created) = &created {
        let text = match created {
            // Elsewhere the daemon has another directory.
            Ok(launch) if host.is_some() => encode(&Launch { runtime_dir: PathBuf::new(), ..launch.clone() }),
            Ok(launch) => encode(launch),
            Err(_) => "none".into(),
        };
        space.publish(JOB_KEY, &text)?;
    }
    space.fence()?;
    let launch = match created {
        Some(created) => created?,
        None => {
            let text = space.read(0, JOB_KEY)?;
            decode(&text, pe, pes).ok_or_else(|| failed("PE 0 could not create the job; see its message"))?
        }
    };
    space.leave()?;
    Ok(launch)
}

/// Tells PE 0 (and nobody else) the hosts of all.
fn gather(space: &mut dyn KeySpace, own: &str) -> Result<Vec<String>> {
    let (pe, pes) = space.place();
    let key = |pe| format!("{HOST_KEY}-{pe}");
    space.publish(&key(pe), own)?;
    space.fence()?;
    match pe {
        0 => (0..pes).map(|pe| space.read(pe, &key(pe))).collect(),
        _ => Ok(Vec::new()),
    }
}

/// Name of this host in the cluster that the job's options name, if they do: the daemon beside this process knows.
fn own_host() -> Result<Option<String>> {
    let options = std::env::var(ENV_OPTIONS).unwrap_or_default();
    if !options.split_whitespace().any(|word| word == "--cluster" || word.starts_with("--cluster=")) {
        return Ok(None);
    }
    let dir = default_runtime_dir();
    let mut stream = UnixStream::from(reach(&dir, CONTROL_SOCKET, SocketType::STREAM)?);
    let ask = || -> std::io::Result<String> {
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        writeln!(stream, "{}", serde_json::to_string(&Request::Cluster)?)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let line = ask().map_err(|source| Error::Connect { path: dir.join(CONTROL_SOCKET), source })?;
    match serde_json::from_str(&line) {
        Ok(Line::Reply(Reply::Cluster(cluster))) => Ok(Some(cluster.host)),
        Ok(Line::Reply(Reply::Error(failure))) => Err(Error::Refused(failure)),
        _ => Err(Error::Daemon(format!("gave no answer about its cluster: {line}"))),
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
    let runtime_dir = match bytes? {
        // A job on several hosts: each process finds the daemon of its own.
        bytes if bytes.is_empty() => default_runtime_dir(),
        bytes => PathBuf::from(OsString::from_vec(bytes)),
    };
    Some(Launch { runtime_dir, job, key: key.into(), pe, pes })
}

/// The place in a job that an MPI launcher gives this process; `None` if there is no such launcher.
/// Creates the job if this is PE 0. To be called once.
///
/// # Errors
/// Where this program has rights that its launcher need not have: what a launcher says decides what is started and
/// with whom memory is shared.
pub fn launch() -> Result<Option<Launch>> {
    let named = ["PMI_FD", "PMIX_NAMESPACE"].into_iter().find(|name| std::env::var_os(name).is_some());
    match named {
        None => return Ok(None),
        Some(name) if is_privileged() => return Err(LaunchError::Privileged(name).into()),
        Some(_) => {}
    }
    if let Some(mut space) = pmi::Pmi::from_env()? {
        return join(&mut space, own_host()?, create).map(Some);
    }
    match pmix::Pmix::from_env()? {
        Some(mut space) => join(&mut space, own_host()?, create).map(Some),
        None => Ok(None),
    }
}

/// Tells whether the end of the job ends this process from now on.
pub(crate) fn takes_part(on: bool) {
    LEFT.store(!on, Ordering::Release);
}

/// Has `angara` create a job of `pes` PEs, on these hosts if there are any.
fn create(pes: u32, hosts: &[String]) -> Result<Launch> {
    let angara = angara_program().ok_or_else(|| {
        failed("no `angara` beside this library nor in PATH to create the job; set ANGARA_BIN to its directory")
    })?;
    let cannot = |e: std::io::Error| failed(format!("cannot start {}: {e}", angara.display()));
    let mut child = Command::new(&angara)
        .arg(angara_protocol::modes::HOST)
        .arg(pes.to_string())
        .arg(hosts.join(","))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let keeper = child.stdin.take();
    let mut line = String::new();
    let mut output = child.stdout.take().map(BufReader::new);
    if let Some(output) = &mut output {
        // Nothing to read means that it failed, and said why.
        let _ = output.read_line(&mut line);
    }
    // The one that keeps the job is its child; this one has ended.
    let _ = child.wait();
    *KEEPER.lock().unwrap_or_else(|e| e.into_inner()) = keeper;
    let launch = decode(line.trim(), 0, pes);
    let launch = launch.ok_or_else(|| failed(format!("{} could not create the job", angara.display())))?;
    if let Some(output) = output {
        watch(output)?;
    }
    Ok(launch)
}

/// Ends this process, and so by its launcher the others, when the keeper has gone before it: the job was ended
/// or the daemon died, and PEs that reach each other directly would not notice.
fn watch(mut output: BufReader<ChildStdout>) -> Result<()> {
    let wait_for_end = move || {
        let mut rest = Vec::new();
        // The keeper says nothing more, so this returns when it has ended.
        let _ = output.read_to_end(&mut rest);
        if !LEFT.load(Ordering::Acquire) {
            angara_protocol::complain!("angara: PE 0: the job was ended, or its daemon died; so this process ends");
            // SAFETY: ends the process without running anything of the program's.
            unsafe { libc::_exit(ENDED) };
        }
    };
    let all = signals(libc::SIG_BLOCK, None)?;
    let started = std::thread::Builder::new().name("angara-keeper".into()).spawn(wait_for_end);
    signals(libc::SIG_SETMASK, Some(all))?;
    started.map(drop).map_err(|source| Error::System { what: "cannot start a thread", source })
}

/// Changes the calling thread's signal mask (without `mask`: by every signal) and returns the old one: signals
/// of the program are for its own threads, and a new thread inherits the mask.
fn signals(how: libc::c_int, mask: Option<libc::sigset_t>) -> Result<libc::sigset_t> {
    // SAFETY: plain data, filled in below.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: plain data, filled in below.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    match mask {
        Some(mask) => set = mask,
        // SAFETY: writes to a set of ours.
        None => drop(unsafe { libc::sigfillset(&raw mut set) }),
    }
    // SAFETY: both sets live until it returns.
    match unsafe { libc::pthread_sigmask(how, &raw const set, &raw mut old) } {
        0 => Ok(old),
        code => Err(Error::System { what: "cannot block signals", source: std::io::Error::from_raw_os_error(code) }),
    }
}

/// `angara`: in `ANGARA_BIN`, beside the library or program that holds this code, in `../bin`, in `../angara/bin` (where
/// packages of Debian have it, seen from their libraries), in `PATH`.
fn angara_program() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("ANGARA_BIN").map(PathBuf::from).into_iter().collect();
    // SAFETY: plain data, filled in by dladdr with a string that lives as long as the module.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: plain data, filled in by dladdr with a string that lives as long as the module.
    if unsafe { libc::dladdr(angara_program as *const libc::c_void, &raw mut info) } != 0 && !info.dli_fname.is_null() {
        // SAFETY: plain data, filled in by dladdr with a string that lives as long as the module.
        let file = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
        let file = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes()));
        if let Some(dir) = file.canonicalize().ok().and_then(|f| f.parent().map(Path::to_path_buf)) {
            places.push(dir.clone());
            places.push(dir.join("../bin"));
            places.push(dir.join("../angara/bin"));
        }
    }
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.into_iter().map(|dir| dir.join("angara")).find(|f| f.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::JobId;

    #[test]
    fn places_are_read_back() {
        let job = Launch { runtime_dir: "/tmp/a b=c".into(), job: JobId::new(7), key: "0f".repeat(16), pe: 2, pes: 3 };
        assert_eq!(decode(&encode(&job), 2, 3), Some(job));
        // Without a directory: the daemon of the process's own host.
        let own = decode("7:0f:", 0, 1).expect("valid");
        assert_eq!(own.runtime_dir, default_runtime_dir());
        for bad in ["x:y:z", "1:k:2", "1:k", "", "none", "1:k:\u{e9}"] {
            assert_eq!(decode(bad, 0, 1), None, "{bad}");
        }
    }
}
