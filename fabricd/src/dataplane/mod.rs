//! The data plane: one thread that owns the network and serves the injection channels.
//!
//! The control plane reaches it through [`Handle`]: closures that run on the data-plane thread
//! between two rounds. Everything else the two share is memory behind `Arc`.

mod effects;
mod engine;
mod faults;
mod job;
mod lane;
mod notice;
pub(crate) mod observe;
mod ports;
mod post;
mod registers;
mod serve;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod traffic;
mod trees;
mod trunks;
mod virtual_time;

pub(crate) use engine::Engine;
pub(crate) use job::Folded;
pub(crate) use notice::{Gauges, Notice};
pub(crate) use observe::watch::{LinkDetail, LinkFigures, Plane, TreeFigures};
pub(crate) use trunks::{TrunkEvent, TrunkFigures, Wires};

use crate::config::Options;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

/// Nice value of the thread.
const NICE: i32 = -3;

/// Tells whoever waits for a command that it is done. (A simulation takes its time over it.)
pub(crate) type Reply = Box<dyn FnOnce() + Send>;

type Call = Box<dyn FnOnce(&mut Engine) -> Option<Reply> + Send>;

/// Work for the data-plane thread.
pub(crate) enum Command {
    /// Run this between two rounds.
    Call(Call),
    /// End the thread.
    Stop,
}

/// The control plane's end.
#[derive(Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
    gauges: Arc<Gauges>,
}

/// The data-plane thread has ended.
#[derive(Debug, thiserror::Error)]
#[error("the data plane has stopped; see the daemon's log")]
pub(crate) struct Dead;

impl From<Dead> for angara_abi::msg::Failure {
    fn from(dead: Dead) -> angara_abi::msg::Failure {
        crate::failure::failure(dead.to_string(), "restart the daemon")
    }
}

/// Starts the thread. The receiver resolves when it has ended, whatever the reason.
pub(crate) fn start(
    options: &Options,
    notices: tokio_mpsc::UnboundedSender<Notice>,
) -> io::Result<(Handle, thread::JoinHandle<()>, oneshot::Receiver<()>)> {
    let (commands, receiver) = mpsc::channel();
    let wake = Arc::new(rustix::event::eventfd(
        0,
        rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
    )?);
    let gauges = Arc::new(Gauges::default());
    let wires = options.cluster.as_ref().map(|member| Wires::open(member, options.udp_engine)).transpose()?;
    let engine = Engine::new(options, wires, notices, wake.clone(), gauges.clone())?;
    let (ended, on_end) = oneshot::channel();
    let cores = options.cores.clone();
    let thread = thread::Builder::new().name("data-plane".into()).spawn(move || {
        // Dropped when this thread ends, also by a panic.
        let _ended: oneshot::Sender<()> = ended;
        pin(&cores);
        raise();
        engine.serve(&receiver);
    })?;
    Ok((Handle { commands, wake, gauges }, thread, on_end))
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

impl Handle {
    /// Runs `f` on the data-plane thread and returns what it returns.
    pub(crate) async fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<R, Dead> {
        let (tx, rx) = oneshot::channel();
        self.send(Command::Call(Box::new(move |engine| {
            let result = f(engine);
            // The asker may have given up; the work is done all the same.
            Some(Box::new(move || drop(tx.send(result))))
        })))?;
        rx.await.map_err(|_| Dead)
    }

    /// Runs `f` on the data-plane thread, some time.
    pub(crate) fn spawn(&self, f: impl FnOnce(&mut Engine) + Send + 'static) {
        // Fails only while the daemon ends.
        let _ = self.send(Command::Call(Box::new(move |engine| {
            f(engine);
            None
        })));
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        // Fails only if it has already ended.
        let _ = self.send(Command::Stop);
    }

    fn send(&self, command: Command) -> Result<(), Dead> {
        self.commands.send(command).map_err(|_| Dead)?;
        self.gauges.count_command();
        // Fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(self.wake.as_ref(), &1u64.to_ne_bytes());
        Ok(())
    }

    /// CPU seconds of the thread so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.gauges.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
    /// Violations by clients so far.
    pub(crate) fn violations(&self) -> u64 {
        self.gauges.violations.load(Ordering::Relaxed)
    }
}
