//! Starting the PEs' processes and taking them down, with everything they started themselves.

use super::exec::Exec;
use super::forward::{Input, Output, copy_input, pump};
use super::options::{Plan, RunArgs};
use abi::launch::Launch;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit};
use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// The processes of a job.
pub(crate) struct Processes {
    /// Process id of each PE, which is also its process group; `None` once it ended.
    running: Vec<Option<Pid>>,
    waits: JoinSet<(u32, std::io::Result<ExitStatus>)>,
    pumps: JoinSet<()>,
}

impl Processes {
    /// Nothing yet.
    pub(crate) fn new() -> Processes {
        Processes { running: Vec::new(), waits: JoinSet::new(), pumps: JoinSet::new() }
    }

    /// Starts PE `launch.pe`. It leads a process group of its own, so that its children die with it.
    pub(crate) fn spawn(
        &mut self,
        args: &RunArgs,
        plan: &Plan,
        launch: &Launch,
        cores: Option<&[usize]>,
        outputs: (&Output, &Output),
    ) -> std::io::Result<()> {
        let exec = Exec { death: Signal::KILL, cores, file: &plan.program, argv: &args.command };
        let mut command = Command::from(exec.command());
        let input = if launch.pe == 0 { Input::here() } else { Input::Nothing };
        command
            .envs(launch.to_env())
            .envs(plan.env.iter().map(|(k, v)| (k, v)))
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
        let label = args.label.then(|| format!("[{pe}] "));
        if let Some(stdin) = child.stdin.take() {
            tokio::spawn(copy_input(stdin));
        }
        let (out, err) = (child.stdout.take().expect("piped above"), child.stderr.take().expect("piped above"));
        self.pumps.spawn(pump(out, outputs.0.lines.clone(), pe, label.clone()));
        self.pumps.spawn(pump(err, outputs.1.lines.clone(), pe, label));
        self.running.push(child.id().and_then(|id| Pid::from_raw(id as i32)));
        self.waits.spawn(async move { (pe, child.wait().await) });
        Ok(())
    }

    /// The next PE that ended; `None` when all have. May be cancelled.
    pub(crate) async fn next_exit(&mut self) -> Option<(u32, ExitStatus)> {
        let (pe, status) = self.waits.join_next().await?.expect("waiting does not panic");
        self.running[pe as usize] = None;
        // Waiting for a child of ours cannot fail unless someone else reaped it; take that as a kill.
        Some((pe, status.unwrap_or_else(|_| std::os::unix::process::ExitStatusExt::from_raw(9))))
    }

    /// All processes have ended.
    pub(crate) fn all_done(&self) -> bool {
        self.waits.is_empty()
    }

    /// PEs that still run.
    pub(crate) fn still_running(&self) -> Vec<u32> {
        (0..self.running.len() as u32).filter(|&pe| self.running[pe as usize].is_some()).collect()
    }

    /// Sends a signal to every PE that still runs and its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.running.iter().flatten() {
            let _ = kill_process_group(*pid, signal);
        }
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
