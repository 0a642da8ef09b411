//! Starting the PEs' processes and taking them down, with everything they started themselves.

use super::forward::{Chunk, Input, pump};
use super::frames::{Frame, signal_frame};
use super::program::Program;
use super::terminal::{self, Terminal};
use super::wrap;
use crate::mpi::Told;
use crate::mpi::mpirun;
use crate::mpi::rank_end::RankEnd;
use crate::mpi::relay::{Away, Offer, Relays};
use crate::mpi::server::Server;
use angara_control::exec::Exec;
use angara_protocol::launch::Launch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PipeFlags;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, setrlimit,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Where a process runs.
enum Running {
    /// Here; the process id is also its process group.
    Here(Pid),
    /// On the host of this name.
    There(String),
    /// Here, started by the process that stands for PE 0.
    With,
    /// In the process of all PEs.
    Inside,
}

/// What became of a process, or what its launcher is to know of it.
#[derive(Debug)]
pub enum End {
    Exit(ExitStatus),
    /// It could not be started.
    NotStarted(String),
    /// Its host does not answer any more.
    Lost(String),
    /// What has started all of them ended.
    Together(ExitStatus),
    /// It ended the job by way of MPI, with a status and a reason.
    Aborted(i32, String),
    /// It has left MPI, and others wait for it.
    LeftMpi,
    /// It asked for more processes, in vain.
    WantsMore,
    /// It is the first to use MPI, and goes on.
    EntersMpi,
}

/// The processes of a job.
pub struct Processes {
    running: BTreeMap<u32, Running>,
    /// Agents on other hosts, which take frames, and the tasks that pass them on.
    hosts: Vec<(mpsc::Sender<Frame>, AbortHandle)>,
    waits: JoinSet<(u32, End)>,
    /// Seen to have ended, but not yet told.
    ended: VecDeque<(u32, End)>,
    pumps: JoinSet<()>,
    /// One pipe for the outputs of all, and one for their errors, until all have started.
    together: Option<[OwnedFd; 2]>,
    /// The terminal, if it is for one of them.
    terminal: Option<Terminal>,
    /// What those of them that use MPI ask for its rules.
    mpi: Option<Server>,
    /// The same, where the launcher is on another host.
    away: Option<Away>,
    /// Ends of pipes that processes will open which another process starts.
    held: Vec<OwnedFd>,
}

impl Processes {
    /// Nothing yet; `terminal` is for one that is to come.
    pub fn new(terminal: Option<Terminal>) -> Processes {
        Processes {
            running: BTreeMap::new(),
            hosts: Vec::new(),
            waits: JoinSet::new(),
            ended: VecDeque::new(),
            pumps: JoinSet::new(),
            together: None,
            terminal,
            mpi: None,
            away: None,
            held: Vec::new(),
        }
    }

    /// Those that are started from now on find a launcher of MPI.
    pub fn offer_mpi(&mut self, server: Server) {
        self.mpi = Some(server);
    }

    /// A process has used MPI, and asked this launcher for its rules.
    pub fn in_mpi(&self) -> bool {
        self.mpi.as_ref().is_some_and(Server::entered)
    }

    /// The same, where the launcher is on another host.
    pub fn offer_mpi_of(&mut self, away: Away) {
        self.away = Some(away);
    }

    /// Those that an agent is about to start find a launcher of MPI, if there is one: what the agent has to know of it, and what
    /// takes its frames. They answer by frames of `kind`.
    pub fn offer_mpi_there(&mut self, pes: &[u32], kind: u8, frames: &mpsc::Sender<Frame>) -> Option<(Offer, Relays)> {
        let server = self.mpi.as_mut()?;
        Some(server.there(pes, (kind, frames.downgrade()), &mut self.pumps))
    }

    /// What the launcher's server of MPI says to a process here.
    pub fn told_by_mpi(&mut self, frame: &[u8]) {
        if let Some(away) = &mut self.away {
            away.take(frame);
        }
    }

    /// A process's end of its stream to the server of MPI, wherever that is.
    fn mpi_end(&mut self, pe: u32) -> std::io::Result<Option<RankEnd>> {
        match (&mut self.mpi, &mut self.away) {
            (Some(server), _) => server.rank(pe).map(Some),
            (None, Some(away)) => {
                let (end, task) = away.rank(pe)?;
                self.pumps.spawn(task);
                Ok(Some(end))
            }
            (None, None) => Ok(None),
        }
    }

    /// All that are started from now on write into the same two pipes. What they write one after the other, as in virtual time,
    /// comes out in this order.
    pub fn write_together(&mut self, outputs: (&mpsc::Sender<Chunk>, &mpsc::Sender<Chunk>)) -> std::io::Result<()> {
        let (out, out_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (err, err_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        for (from, to) in [(out, outputs.0), (err, outputs.1)] {
            let from = tokio::net::unix::pipe::Receiver::from_owned_fd(from)?;
            self.pumps.spawn(pump(from, to.clone(), 0, None));
        }
        self.together = Some([out_end, err_end]);
        Ok(())
    }

    /// No more will be started: what [`Processes::write_together`] made closes with the last of them.
    pub fn all_started(&mut self) {
        self.together = None;
    }

    /// Starts PE `launch.pe`. It leads a process group of its own, so that its children die with it. Returns the
    /// pipe to its standard input, if `input` asks for one.
    pub fn spawn(
        &mut self,
        program: &Program,
        launch: &Launch,
        cores: Option<&[usize]>,
        input: Input,
        outputs: (&mpsc::Sender<Chunk>, &mpsc::Sender<Chunk>),
    ) -> std::io::Result<Option<ChildStdin>> {
        let pe = launch.pe;
        let (file, argv) = wrap::command(&program.wraps, pe, &program.file, &program.argv);
        // Inherited by this one alone: nothing else is started meanwhile.
        let end = self.mpi_end(pe)?;
        let mut terminal = self.terminal.as_mut().filter(|t| t.pe == pe);
        let foreground = terminal.is_some();
        let exec = Exec { death: Signal::KILL, cores, foreground, file: &file, argv: &argv };
        let mut command = Command::from(exec.command());
        if let Some(directory) = &program.directory {
            command.env_clear().current_dir(directory);
        }
        command
            .envs(program.env.iter().map(|(k, v)| (k, v)))
            .envs(launch.to_env())
            .stdin(match input {
                Input::Inherit | Input::Debug => Stdio::inherit(),
                Input::Copy => Stdio::piped(),
                Input::Nothing => Stdio::null(),
            })
            .process_group(0);
        match &self.together {
            _ if input == Input::Debug => {}
            Some([out, err]) => {
                command.stdout(out.try_clone()?).stderr(err.try_clone()?);
            }
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        command.envs(end.iter().flat_map(|end| end.variables.iter().map(|(k, v)| (k, v))));
        let mut child: Child = command.spawn()?;
        drop(end.map(|end| end.stream));
        let label = program.label.then(|| format!("[{pe}] "));
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            self.pumps.spawn(pump(out, outputs.0.clone(), pe, label.clone()));
            self.pumps.spawn(pump(err, outputs.1.clone(), pe, label));
        }
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
            self.running.insert(pe, Running::Here(pid));
            if let Some(terminal) = &mut terminal {
                terminal.started(pid);
            }
        }
        let stdin = child.stdin.take();
        self.waits.spawn(async move {
            // Waiting for a child of ours cannot fail unless someone else reaped it; take that as a kill.
            (pe, End::Exit(child.wait().await.unwrap_or_else(|_| ExitStatusExt::from_raw(9))))
        });
        Ok(stdin)
    }

    /// Starts `mpirun`, which starts all PEs of `launch`, each on these cores. Returns the standard input of PE 0, if it is to
    /// be copied.
    pub fn spawn_together(
        &mut self,
        mpirun: &Path,
        program: &Program,
        launch: &Launch,
        cores: Option<Vec<Vec<usize>>>,
        outputs: (&mpsc::Sender<Chunk>, &mpsc::Sender<Chunk>),
    ) -> std::io::Result<Option<ChildStdin>> {
        let mut numbers = Vec::new();
        if let Some(ends) = self.together.take() {
            // The same two for all, open until they have opened them.
            numbers = vec![[ends[0].as_raw_fd(), ends[1].as_raw_fd()]; launch.pes as usize];
            self.held.extend(ends);
        }
        for pe in numbers.len() as u32..launch.pes {
            let label = program.label.then(|| format!("[{pe}] "));
            let mut pipe = |to: &mpsc::Sender<Chunk>| -> std::io::Result<i32> {
                let (from, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                let from = tokio::net::unix::pipe::Receiver::from_owned_fd(from)?;
                self.pumps.spawn(pump(from, to.clone(), pe, label.clone()));
                self.held.push(end);
                Ok(self.held[self.held.len() - 1].as_raw_fd())
            };
            numbers.push([pipe(outputs.0)?, pipe(outputs.1)?]);
        }
        let (file, argv, variables) = mpirun::command(mpirun, program, launch, numbers, cores);
        let exec = Exec { death: Signal::KILL, cores: None, foreground: false, file: &file, argv: &argv };
        let mut command = Command::from(exec.command());
        command.envs(variables).process_group(0);
        command.stdin(match Input::here() {
            Input::Copy => Stdio::piped(),
            Input::Nothing => Stdio::null(),
            _ => Stdio::inherit(),
        });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            // What it says itself is no PE's.
            self.pumps.spawn(pump(out, outputs.0.clone(), u32::MAX, None));
            self.pumps.spawn(pump(err, outputs.1.clone(), u32::MAX, None));
        }
        self.running.extend((1..launch.pes).map(|pe| (pe, Running::With)));
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
            self.running.insert(0, Running::Here(pid));
        }
        let stdin = child.stdin.take();
        self.waits.spawn(async move {
            (0, End::Together(child.wait().await.unwrap_or_else(|_| ExitStatusExt::from_raw(9))))
        });
        Ok(stdin)
    }

    /// An agent that starts processes on another host.
    pub fn add_host(&mut self, frames: mpsc::Sender<Frame>, writer: AbortHandle) {
        self.hosts.push((frames, writer));
    }

    /// PE `pe` runs on another host until `end` says what became of it.
    pub fn expect(&mut self, pe: u32, host: String, end: impl Future<Output = End> + Send + 'static) {
        self.running.insert(pe, Running::There(host));
        self.waits.spawn(async move { (pe, end.await) });
    }

    /// PE `pe` runs in the process of all PEs, until `end` says what became of it.
    pub fn expect_inside(&mut self, pe: u32, end: impl Future<Output = End> + Send + 'static) {
        self.running.insert(pe, Running::Inside);
        self.waits.spawn(async move { (pe, end.await) });
    }

    /// Output that is waited for at the end.
    pub fn pump(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.pumps.spawn(task);
    }

    /// The next PE that ended; `None` when all have. May be cancelled.
    pub async fn next_end(&mut self) -> Option<(u32, End)> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        let Processes { waits, mpi, .. } = self;
        let told = async {
            match mpi {
                Some(server) => server.told().await,
                None => std::future::pending().await,
            }
        };
        let (pe, end) = tokio::select! {
            ended = waits.join_next() => ended?.expect("waiting does not panic"),
            told = told => return Some(said(told)),
        };
        self.forget(pe);
        Some((pe, end))
    }

    fn forget(&mut self, pe: u32) {
        self.running.remove(&pe);
        if pe == 0 {
            self.running.retain(|_, running| !matches!(running, Running::With));
            self.held.clear();
        }
        self.terminal.take_if(|t| t.pe == pe);
    }

    /// Another process has started them, and still runs.
    pub fn by_mpirun(&self) -> bool {
        !self.held.is_empty()
    }

    /// The process that has the terminal.
    pub fn has_terminal(&self) -> Option<Pid> {
        self.terminal.as_ref().and_then(Terminal::group)
    }

    /// Stops the job and this process, as a shell's Ctrl-Z does, until they are continued.
    pub async fn stop(&mut self) {
        self.signal(Signal::STOP).await;
        if let Some(terminal) = &mut self.terminal {
            terminal.take();
        }
        // Ctrl-Z for a PE that has the terminal went to it alone.
        terminal::stop_here(self.terminal.is_some());
        // Here again after `fg` or SIGCONT.
        if let Some(terminal) = &mut self.terminal {
            terminal.give();
        }
        self.signal(Signal::CONT).await;
    }

    /// All processes have ended.
    pub fn all_done(&self) -> bool {
        self.waits.is_empty() && self.ended.is_empty()
    }

    /// PEs that still run.
    pub fn still_running(&self) -> Vec<u32> {
        self.running.keys().copied().collect()
    }

    /// Sends a signal to every PE that still runs and its process group.
    pub async fn signal(&mut self, signal: Signal) {
        // The number of one that has been waited for may be anybody's.
        while let Some(ended) = self.waits.try_join_next() {
            let (pe, end) = ended.expect("waiting does not panic");
            self.forget(pe);
            self.ended.push_back((pe, end));
        }
        let with = self.by_mpirun();
        for running in self.running.values() {
            match running {
                Running::Here(pid) if with => signal_together(*pid, signal),
                Running::Here(pid) => drop(kill_process_group(*pid, signal)),
                _ => {}
            }
        }
        for (host, _) in &self.hosts {
            // An agent that is gone has ended its processes; one that does not listen will, with its stream.
            let _ = host.try_send(signal_frame(signal));
        }
    }

    /// Nothing more is sent to the agents, not even what they have not taken yet; each ends what it has started.
    pub fn release_hosts(&mut self) {
        self.hosts.drain(..).for_each(|(_, writer)| writer.abort());
    }

    /// Nobody waits any more for what still runs, here (`None`) and on other hosts.
    pub fn give_up(&mut self) -> BTreeMap<Option<String>, Vec<u32>> {
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
    pub async fn drained(&mut self) {
        self.held.clear();
        while self.pumps.join_next().await.is_some() {}
    }
}

/// Sends a signal to the process that has started all PEs. They are in groups of their own: it ends them, but it does not stop
/// them, and has something to say about every signal that it passes on.
fn signal_together(starter: Pid, signal: Signal) {
    if !matches!(signal, Signal::STOP | Signal::CONT) {
        let _ = kill_process_group(starter, signal);
        return;
    }
    let number = starter.as_raw_pid() as u32;
    for pid in descendants(number, None).into_iter().chain([number]).filter_map(|pid| Pid::from_raw(pid as i32)) {
        if signal == Signal::STOP || is_stopped(pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

/// Returns what the server of MPI tells, as the end of a PE.
fn said(told: Told) -> (u32, End) {
    match told {
        Told::Abort(pe, status, why) => (pe, End::Aborted(status, why)),
        Told::Left(pe) => (pe, End::LeftMpi),
        Told::Spawn(pe) => (pe, End::WantsMore),
        Told::Entered(pe) => (pe, End::EntersMpi),
    }
}

/// Killed processes end within this time, but for those whom a disk keeps.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Kills every process that descends from this one, except `spare` (the private daemon): what PEs
/// left behind. As a child subreaper this process inherits their orphans, so all are found.
pub fn kill_descendants(spare: Option<u32>) {
    let until = Instant::now() + KILLED_WITHIN;
    // A process can fork while the list is read; repeat until a pass finds nothing new.
    while Instant::now() < until {
        let found = descendants(std::process::id(), spare);
        if found.is_empty() {
            return;
        }
        let hold = |pid: u32| Some((pid, pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?));
        let held: Vec<_> = found.into_iter().filter_map(hold).collect();
        // The number of one that ended meanwhile may be anybody's; what is held now is looked at once more.
        let still = descendants(std::process::id(), spare);
        for (pid, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            let _ = pidfd_send_signal(process, Signal::KILL);
            // Until it has ended: beside other work that takes a while, and another look would find it again.
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], left.as_ref());
            let _ = rustix::process::waitpid(Pid::from_raw(*pid as i32), rustix::process::WaitOptions::NOHANG);
        }
    }
}

/// Processes below `me`, without `spare` and what is below that.
pub fn descendants(me: u32, spare: Option<u32>) -> Vec<u32> {
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
    parents.keys().copied().filter(|&p| mine(p)).collect()
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

/// Makes room for two pipes, a stream of MPI's and a process handle per PE.
pub fn raise_file_limit(pes: u32) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(pes) * 5 + 64;
    if limit.current.is_some_and(|c| c < wanted) {
        let current = limit.maximum.map_or(wanted, |m| m.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    }
}
