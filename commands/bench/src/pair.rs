//! Two daemons on this machine that form one torus over UDP: what `--path udp` measures.

use super::compare::{UDP_BANDWIDTH, UDP_BANDWIDTH_SEALED, UDP_RELAYED, UDP_RELAYED_SEALED};
use angara_control::cores::Cores;
use angara_control::error::Failed;
use angara_launch::example::Temporary;
use angara_trunk::socket::floor::{self, Work};
use std::ffi::OsString;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the daemons may take to find each other.
const LIMIT: Duration = Duration::from_secs(20);
/// Their names.
const HOSTS: [&str; 2] = ["one", "two"];
/// Bytes of a datagram whose batches move fastest: what fits into a packet of 9000 bytes.
const SEGMENT: usize = 8_972;

/// Both daemons, and where they are. They end with it.
pub(super) struct Pair {
    daemons: Vec<Child>,
    dir: Temporary,
}

impl Pair {
    /// Starts daemons for a ring of `nodes` nodes, half of them on each.
    pub(super) fn start(bin: &Path, fabricd: &Path, nodes: u32) -> Result<Pair, Failed> {
        let dir = Temporary::new(&format!("bench-udp-{nodes}"))?;
        let hosts = HOSTS.iter().zip(["127.0.0.1", "127.0.0.2"]).map(|(name, address)| {
            // The port is free again when the daemon binds it.
            let port = UdpSocket::bind((address, 0)).and_then(|s| s.local_addr()).map(|a| a.port());
            Ok(format!("{name}={address}:{}", port.map_err(|e| cannot("bind a UDP socket", &e))?))
        });
        let hosts = hosts.collect::<Result<Vec<String>, Failed>>()?.join(",");
        let file = dir.0.join("cluster.toml");
        let angara = bin.join("angara");
        let mut init = Command::new(&angara);
        init.args(["cluster", "init", "--torus", &nodes.to_string(), "--hosts", &hosts, "--out"]).arg(&file);
        run(init, "angara cluster init")?;
        let mut pair = Pair { daemons: Vec::new(), dir };
        let cores = Cores::here().allowed;
        for (name, core) in HOSTS.iter().zip(cores.iter().rev().map(Some).chain(std::iter::repeat(None))) {
            let mut daemon = Command::new(fabricd);
            // A data plane each, and PEs elsewhere if there are cores left.
            if let Some(core) = core.filter(|_| cores.len() >= HOSTS.len()) {
                daemon.args(["--cores", &core.to_string()]);
            }
            daemon.arg("--cluster").arg(&file).args(["--host", name, "--runtime-dir"]).arg(pair.at(name));
            let log = std::fs::File::create(pair.dir.0.join(format!("{name}.log"))).map_err(|e| cannot("log", &e))?;
            let child = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
            pair.daemons.push(child.map_err(|e| cannot("start fabricd", &e))?);
        }
        let since = Instant::now();
        loop {
            let mut status = Command::new(&angara);
            status.args(["cluster", "status", "--interval", "0.1", "--runtime-dir"]).arg(pair.at(HOSTS[0]));
            match run(status, "angara cluster status") {
                Ok(text) if text.contains(" up ") => return Ok(pair),
                Ok(_) | Err(_) if since.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(50)),
                Ok(text) => {
                    let what = format!("two daemons did not find each other within {} s:\n{text}", LIMIT.as_secs());
                    return Err(Failed::runtime(what, "UDP between 127.0.0.1 and 127.0.0.2 must be possible"));
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.0.join(name)
    }

    /// Returns what `angara run` needs to start a job over both.
    pub(super) fn to_args(&self) -> Vec<OsString> {
        let (file, at) = (self.dir.0.join("cluster.toml"), self.at(HOSTS[0]));
        vec!["--cluster".into(), file.into(), "--runtime-dir".into(), at.into()]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // All are told before any is waited for.
        self.daemons.iter().for_each(tell);
        self.daemons.iter_mut().for_each(end);
    }
}

/// Asks a program to end.
fn tell(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    // One that has ended already needs no signal.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
}

/// Ends a program, if need be by force.
pub(super) fn end(child: &mut Child) {
    tell(child);
    let since = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && since.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns what plain UDP does here, in the form of the program that measures.
pub(super) fn floors() -> Result<String, Failed> {
    let (kind, here) = (angara_trunk::socket::SocketKind::Syscall, std::net::IpAddr::from([127, 0, 0, 1]));
    let mut text = String::new();
    for (work, echo, stream) in
        [(Work::None, UDP_RELAYED, UDP_BANDWIDTH), (Work::Sealed, UDP_RELAYED_SEALED, UDP_BANDWIDTH_SEALED)]
    {
        let relayed = floor::relayed(kind, here, work).map_err(|e| cannot("measure UDP", &e))?;
        let bandwidth = floor::bandwidth(kind, here, SEGMENT, work).map_err(|e| cannot("measure UDP", &e))?;
        text += &format!("sample ns {} {echo}\nsample GB/s {bandwidth} {stream}\n", relayed * 1e3);
    }
    Ok(text)
}

fn cannot(what: &str, e: &std::io::Error) -> Failed {
    Failed::runtime(format!("cannot {what}: {e}"), "see whether this machine allows it")
}

/// Output of a command that must succeed.
fn run(mut command: Command, name: &str) -> Result<String, Failed> {
    let done = command.stdin(Stdio::null()).output().map_err(|e| cannot(&format!("run {name}"), &e))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(Failed::runtime(format!("{name} failed: {}", String::from_utf8_lossy(&done.stderr).trim()), "see above"))
}
