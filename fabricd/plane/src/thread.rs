//! The thread that a data plane runs on.

use crate::command::{Command, Handle};
use crate::config::Config;
use crate::notice::Notice;
use crate::plane::DataPlane;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Nice value of the thread.
const NICE: i32 = -3;

/// A data plane on a thread of its own.
pub struct Running {
    /// The way to it.
    pub handle: Handle,
    thread: JoinHandle<()>,
}

impl Running {
    /// Ends the thread and waits for it.
    pub fn stop(self) {
        // Fails only if it has already ended.
        let _ = self.handle.send(Command::Stop);
        // An error is a panic of that thread, which the panic hook has printed.
        let _ = self.thread.join();
    }
}

/// Starts a data plane on a thread of its own. `notices` is called there, and dropped when it ends, also by a panic.
pub fn start(config: Config, notices: impl FnMut(Notice) + Send + 'static) -> io::Result<Running> {
    let cores = config.cores.clone();
    let (handle, plane) = DataPlane::new(config, notices)?;
    let body = move || {
        pin(&cores);
        raise();
        plane.serve();
    };
    Ok(Running { handle, thread: Builder::new().name("data-plane".into()).spawn(body)? })
}

fn pin(cores: &[usize]) {
    if cores.is_empty() {
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    for &core in cores.iter().filter(|&&c| c < rustix::thread::CpuSet::MAX_CPU) {
        set.set(core);
    }
    if let Err(e) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(?cores, error = %e, "cannot bind the data plane; check --cores against `nproc`");
    }
}

/// Gives this thread about twice the share of a core that one PE has, if that is allowed (`LimitNICE=`). A PE that waits beside
/// it yields in vain until it has had its share, which the scheduler makes equal by default; the data plane has more to do
/// than to be waited for.
fn raise() {
    if let Err(e) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(error = %e, "the data plane keeps its priority");
    }
}
