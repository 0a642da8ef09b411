//! One run of a launcher that is measured: what it printed, and how long it took.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a launcher may take to end its processes when told to.
const GRACE: Duration = Duration::from_secs(5);

/// Returns what `command` printed, and how long it took from launch to exit; or why it is not done.
pub(super) fn run(mut command: Command, limit: Duration) -> Result<(String, Duration), String> {
    let started = Instant::now();
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    let (text, errors, ended) = finish(child, limit).map_err(|e| format!("cannot start a thread: {e}"))?;
    let took = started.elapsed();
    match ended {
        None => Err(format!("not done after {} s", limit.as_secs())),
        Some(status) if !status.success() => {
            let line = errors.lines().find(|l| !l.trim().is_empty()).unwrap_or("nothing on standard error");
            Err(format!("{status}: {line}"))
        }
        Some(_) => Ok((text, took)),
    }
}

type Reader = std::thread::JoinHandle<String>;

/// Reads what `child` prints until it ends; a child that outlives `limit` is ended, and has no status.
fn finish(mut child: Child, limit: Duration) -> std::io::Result<(String, String, Option<std::process::ExitStatus>)> {
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                // A pipe that breaks ends the text; the exit status tells the rest.
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|p| Box::new(p) as _));
    let errors = read(child.stderr.take().map(|p| Box::new(p) as _));
    let unread = out.is_err() || errors.is_err();
    let status = if unread { None } else { wait(&mut child, limit) };
    if status.is_none() {
        signal(&child, rustix::process::Signal::TERM);
        if wait(&mut child, GRACE).is_none() {
            signal(&child, rustix::process::Signal::KILL);
            let _ = child.wait();
        }
    }
    let text = |reader: Reader| reader.join().unwrap_or_default();
    Ok((text(out?), text(errors?), status))
}

/// The launcher and its processes are one process group.
fn signal(child: &Child, signal: rustix::process::Signal) {
    // The group may be gone already.
    let _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(child), signal);
}

fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let pidfd =
        rustix::process::pidfd_open(rustix::process::Pid::from_child(child), rustix::process::PidfdFlags::empty());
    if let Ok(pidfd) = pidfd {
        let mut fds = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        let timeout = rustix::event::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
        // An interrupted wait counts as over: the status below decides.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }
    child.try_wait().ok().flatten()
}
