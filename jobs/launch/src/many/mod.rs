//! Many runs in virtual time: one on each core, as a run alone needs no more.

pub mod seeds;

use crate::run::absent::{IN_DOUBT, WENT_ON};
use angara_control::cores::Cores;
use angara_control::daemon;
use angara_control::error::Failed;
use angara_control::exec::Exec;
use angara_control::install;
use angara_control::signals::{Signals, Wish};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::task::JoinSet;

/// How long runs that are no longer wanted may take to end.
const END: Duration = Duration::from_secs(10);

/// A run that has ended.
pub struct Done {
    /// Which of them it was.
    pub index: usize,
    /// How it ended, as an exit code.
    /// Its exit code.
    pub code: u8,
    output: File,
}

impl Done {
    /// True if it went on without a PE, or its times rest on a guess, so that it may not be repeatable.
    pub fn is_in_doubt(&mut self) -> bool {
        self.output().lines().any(|line| line.starts_with(WENT_ON) || line.starts_with(IN_DOUBT))
    }

    /// All that it wrote to its standard output and error, as far as it is text.
    pub fn output(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.output.seek(SeekFrom::Start(0)).and_then(|_| self.output.read_to_end(&mut bytes));
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) => format!("(its output cannot be read: {e})\n"),
        }
    }
}

/// The exit code of a command that was ended by a signal, after it has shown what was done.
pub struct Ended {
    /// Its exit code.
    pub code: u8,
}

/// Runs `angara` with each of `all` as its arguments, and hands over each run that has ended, in the order in which they
/// began; stops when told to. Ctrl-C ends the runs, too: those that had ended by themselves are handed over, even where one
/// before them had not.
pub fn run(all: &[Vec<OsString>], mut done: impl FnMut(Done) -> ControlFlow<()>) -> Result<Option<Ended>, Failed> {
    daemon::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let mut free = Cores::here().allowed;
        let (mut running, mut pids, mut begun, mut told) = (JoinSet::new(), BTreeMap::new(), 0, 0);
        let mut waiting: Vec<Done> = Vec::new();
        let ended = loop {
            while begun < all.len()
                && let Some(core) = free.pop()
            {
                let index = begun;
                let (mut child, output) = start(&all[index], core)?;
                pids.extend(child.id().and_then(|pid| Pid::from_raw(pid as i32)).map(|pid| (index, pid)));
                begun += 1;
                running.spawn(async move { (index, core, child.wait().await, output) });
            }
            let next = tokio::select! {
                next = running.join_next() => next,
                wish = signals.next() => match wish {
                    Wish::End(signal) => break Some(Ended { code: 128 + signal as u8 }),
                    Wish::Stop => continue,
                },
            };
            let Some(Ok((index, core, status, output))) = next else { break None };
            free.push(core);
            pids.remove(&index);
            waiting.push(Done { index, code: status.map_or(1, code_of), output });
            let mut flow = ControlFlow::Continue(());
            while flow.is_continue()
                && let Some(at) = waiting.iter().position(|d| d.index == told)
            {
                told += 1;
                flow = done(waiting.swap_remove(at));
            }
            if flow.is_break() {
                break None;
            }
        };
        for pid in pids.values() {
            let _ = kill_process(*pid, Signal::TERM);
        }
        // They clean up after themselves.
        let _ = tokio::time::timeout(END, async { while running.join_next().await.is_some() {} }).await;
        if ended.is_some() {
            waiting.sort_by_key(|d| d.index);
            let _ = waiting.into_iter().try_for_each(done);
        }
        Ok(ended)
    })
}

fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

/// Starts a run on a core. What it writes goes to anonymous memory: it is shown only of some.
fn start(args: &[OsString], core: usize) -> Result<(tokio::process::Child, File), Failed> {
    let failed = |e: std::io::Error| {
        Failed::runtime(format!("cannot start a run: {e}"), "check the limits of processes and memory (ulimit -a)")
    };
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let output = File::from(rustix::fs::memfd_create("angara-run", flags).map_err(|e| failed(e.into()))?);
    let argv: Vec<OsString> = std::iter::once("angara".into()).chain(args.iter().cloned()).collect();
    let file = install::bin_dir()?.join("angara");
    let exec = Exec { death: Signal::TERM, cores: Some(&[core]), foreground: false, file: &file, argv: &argv };
    let mut command = tokio::process::Command::from(exec.command());
    let to = |file: &File| file.try_clone().map(Stdio::from).map_err(failed);
    // Ctrl-C is ours alone, and then theirs by the signal for a dead launcher.
    command.stdin(Stdio::null()).stdout(to(&output)?).stderr(to(&output)?).process_group(0);
    Ok((command.spawn().map_err(failed)?, output))
}
