//! Starting the PEs' processes and taking them down, with everything they started themselves.

use super::exec::Exec;
use super::forward::{Chunk, Input, pump};
use super::remote::signal_frame;
use abi::launch::Launch;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Kind and contents of what is sent to an agent.
pub(crate) type Frame = (u8, Vec<u8>);

/// The program every PE runs.
pub(crate) struct Program {
    /// Its file.
    pub(crate) file: PathBuf,
    /// Its `argv`, from `argv[0]` on.
    pub(crate) argv: Vec<OsString>,
    /// Environment: on top of this process's own, or the whole of it where `directory` is given.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Where to run it, if not here.
    pub(crate) directory: Option<PathBuf>,
    /// Put the PE's number before each line of output.
    pub(crate) label: bool,
}

/// Where a process runs.
enum Running {
    /// Here; the process id is also its process group.
    Here(Pid),
    /// On the host of this name.
    There(String),
}

/// What became of a process.
#[derive(Debug)]
pub(crate) enum End {
    /// It ended.
    Exit(ExitStatus),
    /// It could not be started.
    NotStarted(String),
    /// Its host does not answer any more.
    Lost(String),
}

/// The processes of a job.
pub(crate) struct Processes {
    running: BTreeMap<u32, Running>,
    /// Agents on other hosts, which take frames, and the tasks that pass them on.
    hosts: Vec<(mpsc::Sender<Frame>, AbortHandle)>,
    waits: JoinSet<(u32, End)>,
    pumps: JoinSet<()>,
}

impl Processes {
    /// Nothing yet.
    pub(crate) fn new() -> Processes {
        Processes { running: BTreeMap::new(), hosts: Vec::new(), waits: JoinSet::new(), pumps: JoinSet::new() }
    }

    /// Starts PE `launch.pe`. It leads a process group of its own, so that its children die with it. Returns the
    /// pipe to its standard input, if `input` asks for one.
    pub(crate) fn spawn(
        &mut self,
        program: &Program,
        launch: &Launch,
        cores: Option<&[usize]>,
        input: Input,
        outputs: (&mpsc::Sender<Chunk>, &mpsc::Sender<Chunk>),
    ) -> std::io::Result<Option<ChildStdin>> {
        let exec = Exec { death: Signal::KILL, cores, file: &program.file, argv: &program.argv };
        let mut command = Command::from(exec.command());
        if let Some(directory) = &program.directory {
            command.env_clear().current_dir(directory);
        }
        command
            .envs(program.env.iter().map(|(k, v)| (k, v)))
            .envs(launch.to_env())
            .stdin(match input {
                Input::Inherit => Stdio::inherit(),
                Input::Copy => Stdio::piped(),
                Input::Nothing => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child: Child = command.spawn()?;
        let pe = launch.pe;
        let label = program.label.then(|| format!("[{pe}] "));
        let (out, err) = (child.stdout.take().expect("piped above"), child.stderr.take().expect("piped above"));
        self.pumps.spawn(pump(out, outputs.0.clone(), pe, label.clone()));
        self.pumps.spawn(pump(err, outputs.1.clone(), pe, label));
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
            self.running.insert(pe, Running::Here(pid));
        }
        let stdin = child.stdin.take();
        self.waits.spawn(async move {
            // Waiting for a child of ours cannot fail unless someone else reaped it; take that as a kill.
            (pe, End::Exit(child.wait().await.unwrap_or_else(|_| ExitStatusExt::from_raw(9))))
        });
        Ok(stdin)
    }

    /// An agent that starts processes on another host.
    pub(crate) fn add_host(&mut self, frames: mpsc::Sender<Frame>, writer: AbortHandle) {
        self.hosts.push((frames, writer));
    }

    /// PE `pe` runs on another host until `end` says what became of it.
    pub(crate) fn expect(&mut self, pe: u32, host: String, end: impl Future<Output = End> + Send + 'static) {
        self.running.insert(pe, Running::There(host));
        self.waits.spawn(async move { (pe, end.await) });
    }

    /// Output that is waited for at the end.
    pub(crate) fn pump(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.pumps.spawn(task);
    }

    /// The next PE that ended; `None` when all have. May be cancelled.
    pub(crate) async fn next_end(&mut self) -> Option<(u32, End)> {
        let (pe, end) = self.waits.join_next().await?.expect("waiting does not panic");
        self.running.remove(&pe);
        Some((pe, end))
    }

    /// All processes have ended.
    pub(crate) fn all_done(&self) -> bool {
        self.waits.is_empty()
    }

    /// PEs that still run.
    pub(crate) fn still_running(&self) -> Vec<u32> {
        self.running.keys().copied().collect()
    }

    /// Sends a signal to every PE that still runs and its process group.
    pub(crate) async fn signal(&self, signal: Signal) {
        for running in self.running.values() {
            if let Running::Here(pid) = running {
                let _ = kill_process_group(*pid, signal);
            }
        }
        for (host, _) in &self.hosts {
            // An agent that is gone has ended its processes; one that does not listen will, with its stream.
            let _ = host.try_send(signal_frame(signal));
        }
    }

    /// Nothing more is sent to the agents, not even what they have not taken yet; each ends what it has started.
    pub(crate) fn release_hosts(&mut self) {
        self.hosts.drain(..).for_each(|(_, writer)| writer.abort());
    }

    /// Nobody waits any more for what still runs, here (`None`) and on other hosts.
    pub(crate) fn give_up(&mut self) -> BTreeMap<Option<String>, Vec<u32>> {
        self.waits.abort_all();
        self.pumps.abort_all();
        let mut left: BTreeMap<Option<String>, Vec<u32>> = BTreeMap::new();
        for (pe, running) in std::mem::take(&mut self.running) {
            let host = if let Running::There(host) = running { Some(host) } else { None };
            left.entry(host).or_default().push(pe);
        }
        left
    }

    /// Waits until all output has been handed to the writers.
    pub(crate) async fn drained(&mut self) {
        while self.pumps.join_next().await.is_some() {}
    }
}

/// Kills every process that descends from this one, except `spare` (the private daemon): what PEs
/// left behind. As a child subreaper this process inherits their orphans, so all are found.
pub(crate) fn kill_descendants(spare: Option<u32>) {
    let me = std::process::id();
    // A process can fork while the list is read; repeat until a pass finds nothing new.
    for _ in 0..100 {
        let parents = parents();
        let mine = |mut pid: u32| {
            while let Some(&parent) = parents.get(&pid) {
                if Some(pid) == spare {
                    return false;
                }
                if parent == me {
                    return true;
                }
                pid = parent;
            }
            false
        };
        let victims: Vec<u32> = parents.keys().copied().filter(|&p| mine(p)).collect();
        if victims.is_empty() {
            return;
        }
        for pid in victims.into_iter().filter_map(|p| Pid::from_raw(p as i32)) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
        std::thread::yield_now();
    }
}

/// Parent of each live process (zombies left out).
fn parents() -> HashMap<u32, u32> {
    let mut out = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return out };
    for pid in entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // After the command name in parentheses: state, parent.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|p| p.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent)
            && state != "Z"
        {
            out.insert(pid, parent);
        }
    }
    out
}

/// Makes room for two pipes and a process handle per PE.
pub(crate) fn raise_file_limit(pes: u32) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(pes) * 4 + 64;
    if limit.current.is_some_and(|c| c < wanted) {
        let current = limit.maximum.map_or(wanted, |m| m.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    }
}
