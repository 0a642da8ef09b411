//! From options to a daemon that serves, and its end.

use crate::config::{Options, Ready};
use crate::daemon::Daemon;
use crate::jobs::inside::{self, Inside};
use crate::limits;
use crate::machine::Real;
use crate::runtime_dir::{self, DirError, RuntimeDir};
use crate::service::{self, Notifier};
use crate::sockets::seqpacket::Listener;
use crate::sockets::{adapter, control};
use crate::web::{self, ListenError};
use angara_abi::shm::{Source, can_seal_writes};
use angara_cluster::check::narrow_paths;
use angara_plane::Notice;
use angara_protocol::launch::private_parents;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// How long a private daemon waits for the run that started it to connect.
const PRIVATE_GRACE: Duration = Duration::from_secs(10);

/// The line that says the sockets are ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Started {
    /// Process.
    pub pid: u32,
    /// Where the sockets are.
    pub runtime_dir: PathBuf,
    /// Shape of the network.
    pub shape: angara_net::torus::Shape,
    /// Nodes hosted.
    pub nodes: usize,
    /// URL of the page, without a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// Where metrics are served: a URL, or `unix:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

/// Why the daemon ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The runtime directory cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The page or the metrics cannot be served.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Could not start.
    #[error("{what}: {error}")]
    Start {
        /// The attempt.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// No memory can be shared here.
    #[error("memfd_create: {0}; use a kernel, sandbox or container that allows it (`angara doctor`)")]
    NoSharedMemory(io::Error),
    /// What programs may only read they could write.
    #[error("this kernel has no F_SEAL_FUTURE_WRITE, which keeps users apart; use Linux 5.1 or later, or `angara run`")]
    NoSeal,
    /// The data plane ended by itself.
    #[error("the data plane ended by itself; all jobs were ended. Please report this with the log")]
    DataPlane,
    /// The cluster goes on without this host.
    #[error("this daemon did not follow an agreement of its cluster, which goes on without it; start it again")]
    Expelled,
}

impl RunError {
    /// Exit status of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Dir(DirError::Busy { .. }) => 3,
            _ => 1,
        }
    }
}

fn start<T>(what: &'static str, r: io::Result<T>) -> Result<T, RunError> {
    r.map_err(|error| RunError::Start { what, error })
}

/// Runs the daemon until it is told to stop.
pub fn run(options: Options) -> Result<(), RunError> {
    run_with(options, |_| {})
}

/// As [`run`]; `ready` is called when clients can connect.
pub fn run_with(options: Options, ready: impl FnOnce(&Started)) -> Result<(), RunError> {
    run_around(options, None, ready)
}

/// As [`run_with`], with PEs in this process.
pub fn run_around(options: Options, inside: Option<Inside>, ready: impl FnOnce(&Started)) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = start("cannot start the control plane", runtime)?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(options, inside, ready))
}

/// The two sockets: those of the service manager, which also decided who may connect, or new ones for
/// our own user.
fn listen(dir: &RuntimeDir, handed: Option<service::Sockets>) -> io::Result<(Listener, UnixListener)> {
    if let Some(sockets) = handed {
        return Ok((Listener::new(sockets.adapter)?, UnixListener::from_std(sockets.control)?));
    }
    let sockets = (Listener::bind(&dir.adapter())?, UnixListener::bind(dir.control())?);
    dir.close_to_others()?;
    Ok(sockets)
}

/// Checks that this system has what shared memory takes.
fn require_memory(private: bool) -> Result<(), RunError> {
    start("memory cannot be shared", angara_abi::require_pages())?;
    if !angara_abi::wait::register() {
        tracing::warn!("membarrier is not available; sleeping processes are woken by a 1 ms timeout instead");
    }
    if !can_seal_writes().map_err(RunError::NoSharedMemory)? {
        if !private {
            return Err(RunError::NoSeal);
        }
        tracing::warn!(
            "this kernel has no F_SEAL_FUTURE_WRITE: the programs of this run could write what they may only read"
        );
    }
    Ok(())
}

async fn serve(options: Options, inside: Option<Inside>, ready: impl FnOnce(&Started)) -> Result<(), RunError> {
    limits::raise_descriptor_limit();
    require_memory(options.private)?;
    let handed = start("cannot take over the service manager's sockets", service::sockets())?;
    let dir = RuntimeDir::claim(&options.runtime_dir, handed.is_some())?;
    runtime_dir::sweep(&private_parents());
    let mut signals = start("cannot catch signals", Signals::new(options.private, options.cluster.is_some()))?;
    let (adapter, control) = start("cannot listen", listen(&dir, handed))?;
    let (notices, mut incoming) = mpsc::unbounded_channel();
    let mut config = start("cannot start the data plane", options.plane())?;
    let (source, wishes) = match inside {
        Some(Inside { coroutines, arena, wishes }) => {
            config.coroutines = Some(coroutines);
            (Source::Arena(arena), Some(wishes))
        }
        None => (Source::Files, None),
    };
    let plane = angara_plane::start(config, move |notice| drop(notices.send(notice)));
    let plane = start("cannot start the data plane", plane)?;
    let data = plane.handle.clone();
    let daemon = Rc::new(Daemon::new(options, data.clone(), Box::new(Real)).with_memory(source));
    if let Some(wishes) = wishes {
        tokio::task::spawn_local(inside::serve(daemon.clone(), wishes));
    }
    if let Some(messages) = &daemon.cluster.messages {
        for (host, why) in narrow_paths(&messages.member.cluster, messages.me) {
            tracing::error!(host = messages.name(host), why, "no trunk");
            messages.expect_nothing_of(host, why);
        }
    }
    let looks = web::bind(&daemon, &dir)?;
    looks.serve(&daemon);
    let line = announcement(&daemon);
    tokio::task::spawn_local(control::listen(daemon.clone(), control));
    tokio::task::spawn_local(adapter::listen(daemon.clone(), adapter));
    if daemon.options.private {
        tokio::task::spawn_local(watch_grace(daemon.clone()));
    }
    start("cannot say that the daemon is ready", say_ready(daemon.options.ready, &line))?;
    tracing::info!(shape = %line.shape, nodes = line.nodes, dir = %line.runtime_dir.display(), "ready");
    let notifier = Rc::new(start("cannot start what tells the service manager", Notifier::new())?);
    notifier.ready(format!("{} of {} nodes of {}", line.nodes, line.shape.nodes(), line.shape));
    tokio::task::spawn_local(notifier.clone().watchdog(data.clone()));
    tokio::task::spawn_local(daemon.clone().lead_changes());
    if let Some(limit) = daemon.options.virtual_time.and_then(|time| time.patience.0) {
        tokio::task::spawn_local(daemon.clone().watch_patience(limit));
    }
    ready(&line);
    let result = until_end(&daemon, &mut signals, &mut incoming).await;
    notifier.stopping();
    daemon
        .end_all_jobs(
            match &result {
                Ok(()) => "was shut down",
                Err(RunError::Expelled) => "did not follow an agreement of its cluster, which goes on without it",
                Err(_) => "failed; see its log",
            },
            &mut incoming,
        )
        .await;
    plane.stop();
    if let Some(socket) = daemon.served.borrow().socket.as_ref() {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(socket);
    }
    drop(dir);
    notifier.finish();
    tracing::info!("ended");
    result
}

/// Does what signals and notices of the data plane ask for, until the daemon is to end.
async fn until_end(
    daemon: &Rc<Daemon>,
    signals: &mut Signals,
    incoming: &mut mpsc::UnboundedReceiver<Notice>,
) -> Result<(), RunError> {
    loop {
        tokio::select! {
            signalled = signals.next() => match signalled {
                Signalled::End => return Ok(()),
                Signalled::Reload => {
                    // Who signals reads the answer in the log.
                    let daemon = daemon.clone();
                    tokio::task::spawn_local(async move { drop(daemon.reload_keys().await) });
                }
            },
            () = daemon.stop.notified() => {
                return if daemon.cluster.expelled.get() { Err(RunError::Expelled) } else { Ok(()) };
            }
            notice = incoming.recv() => match notice {
                Some(notice) => daemon.take_notice(notice),
                None => return Err(RunError::DataPlane),
            },
        }
    }
}

/// Ends a private daemon whose run never came.
async fn watch_grace(daemon: Rc<Daemon>) {
    tokio::time::sleep(PRIVATE_GRACE).await;
    if daemon.is_unused() {
        tracing::info!("no run connected within {PRIVATE_GRACE:?}");
        daemon.stop.notify_one();
    }
}

fn say_ready(how: Ready, line: &Started) -> io::Result<()> {
    let text = format!("{}\n", serde_json::to_string(line)?);
    match how {
        Ready::Silent => Ok(()),
        Ready::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()
        }
        // Opening it through /proc keeps the inherited descriptor's owner unquestioned.
        Ready::Fd(n) => {
            let mut file = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{n}"))?;
            file.write_all(text.as_bytes())
        }
    }
}

/// Returns what is said when everything is ready.
fn announcement(daemon: &Daemon) -> Started {
    Started {
        pid: std::process::id(),
        runtime_dir: daemon.options.runtime_dir.clone(),
        shape: daemon.options.shape,
        nodes: daemon.hosted.len(),
        web: daemon.served.borrow().web.clone(),
        metrics: daemon.served.borrow().metrics.clone(),
    }
}

/// What a signal asks for.
enum Signalled {
    End,
    Reload,
}

/// Signals to the daemon. A private one leaves Ctrl-C to the launcher, which gets it too; one of a cluster reads its
/// keys again on SIGHUP.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    private: bool,
    keys: bool,
}

impl Signals {
    fn new(private: bool, keys: bool) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            private,
            keys,
        })
    }

    async fn next(&mut self) -> Signalled {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Signalled::End,
                _ = self.hangup.recv() => return if self.keys { Signalled::Reload } else { Signalled::End },
                _ = self.interrupt.recv() => if !self.private { return Signalled::End },
            }
        }
    }
}
