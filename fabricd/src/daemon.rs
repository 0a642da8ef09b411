//! The control plane: start-up, the table of jobs, shutdown.
//!
//! Everything here runs on one thread, so the table is a `RefCell`; no borrow is held across an
//! `await`.

use crate::adapter_socket;
use crate::config::{Options, Ready};
use crate::control;
use crate::dataplane::{self, Handle, Notice};
use crate::job::{Endpoints, Job, Owner, PeState, Site, plan, random_key};
use crate::limits;
use crate::memory::JobMemory;
use crate::placement::failure;
use crate::runtime_dir::{self, DirError, RuntimeDir};
use crate::seqpacket::Listener;
use crate::service;
use abi::msg::{BarrierReport, Event, Failure, JobSpec, Path, Reply, Report, Status, Wait};
use abi::torus::NodeId;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

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
    pub shape: abi::torus::Shape,
    /// Nodes hosted.
    pub nodes: usize,
}

/// Why the daemon ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The runtime directory cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// Could not start.
    #[error("{what}: {error}")]
    Start {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// The data plane ended by itself.
    #[error("the data plane ended by itself; all jobs were ended. Please report this with the log")]
    DataPlane,
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

/// The table of jobs and all it takes to serve requests.
pub(crate) struct Daemon {
    pub(crate) options: Options,
    pub(crate) hosted: Vec<NodeId>,
    pub(crate) data: Handle,
    pub(crate) jobs: RefCell<BTreeMap<u32, Job>>,
    pub(crate) stop: Notify,
    endpoints: RefCell<Endpoints>,
    next_job: Cell<u32>,
    next_core: Cell<usize>,
    connections: Cell<usize>,
    /// Someone asked for a job, granted or not.
    had_jobs: Cell<bool>,
    cores: usize,
    started: Instant,
}

impl Daemon {
    /// Creates a job owned by a control connection.
    pub(crate) async fn create_job(&self, uid: u32, owner: Owner, spec: JobSpec) -> Result<Reply, Failure> {
        self.had_jobs.set(true);
        let slot = self.free_slot()?;
        let running = self.jobs.borrow().values().map(|j| j.memory.pes).sum();
        let site = Site {
            shape: self.options.shape,
            hosted: &self.hosted,
            channels: self.options.channels,
            memory_limit: self.options.memory_limit,
            running,
        };
        let plan = plan(&site, &spec, &mut self.endpoints.borrow_mut())?;
        let id = self.next_job.get();
        self.next_job.set(id.wrapping_add(1).max(1));
        let entries = plan.entries.clone();
        let give_back = || self.endpoints.borrow_mut().give_back(&entries);
        let system = |e: io::Error| {
            give_back();
            failure(
                format!("cannot create the memory of the job: {e}"),
                "free memory or descriptors, or start fewer PEs",
            )
        };
        let key = random_key().map_err(system)?;
        let ring_only = spec.path == Path::Ring;
        let memory = JobMemory::create(id, slot, &plan.geometry, plan.entries, ring_only).map_err(system)?;
        let memory = Arc::new(memory);
        let placement = memory.entries.iter().map(|e| e.node).collect();
        let pes = (0..memory.pes).map(|_| PeState::Waiting).collect();
        let core_offset = self.next_core.get() as u32;
        self.next_core.set((self.next_core.get() + memory.pes) % self.cores);
        tracing::info!(job = id, name = spec.name, pes = spec.pes, path = ?spec.path, uid, "job created");
        let created = Instant::now();
        let for_engine = memory.clone();
        let job = Job { key: key.clone(), uid, spec, memory, pes, owner, created, notes: Vec::new() };
        // Entered before the await so that the slot is taken.
        self.jobs.borrow_mut().insert(id, job);
        let opened = self.data.call(move |engine| engine.open_job(for_engine)).await;
        let refused = match opened {
            Ok(Ok(())) => return Ok(Reply::Job { job: id, key, placement, core_offset }),
            Ok(Err(why)) => why,
            Err(dead) => dead.to_string(),
        };
        self.end_job(id).await;
        Err(failure(
            format!("the network refused the job: {refused}"),
            "clear faults (`angara fault clear all`) or restart the daemon",
        ))
    }

    fn free_slot(&self) -> Result<u16, Failure> {
        let jobs = self.jobs.borrow();
        (0..fabric::JOBS_MAX as u16)
            .find(|s| jobs.values().all(|j| j.memory.slot != *s))
            .ok_or_else(|| failure("no job slot is free", "wait for another job to end"))
    }

    /// Ends a job: its processes are killed and everything it had is freed.
    pub(crate) async fn end_job(&self, id: u32) {
        let Some(job) = self.jobs.borrow().get(&id).map(|j| {
            j.set_ended();
            j.kill();
            j.memory.slot
        }) else {
            return;
        };
        if self.data.call(move |engine| engine.close_job(job)).await.is_err() {
            tracing::error!(job = id, "the data plane is gone; freeing the job without it");
        }
        if let Some(job) = self.jobs.borrow_mut().remove(&id) {
            self.endpoints.borrow_mut().give_back(&job.memory.entries);
            tracing::info!(job = id, "job ended");
        }
    }

    /// What PEs of a job have been waiting for; `None` if there is no such job.
    pub(crate) fn waits(&self, id: u32) -> Option<Vec<Wait>> {
        let jobs = self.jobs.borrow();
        let memory = &jobs.get(&id)?.memory;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let wait = |pe: usize| {
            let (since, what) = memory.sync.note(pe).read()?;
            Some(Wait { pe: pe as u32, seconds: now.saturating_sub(since) as f64 * 1e-9, what })
        };
        Some((0..memory.pes).filter_map(wait).collect())
    }

    /// Traffic of a job so far; `None` if there is no such job.
    pub(crate) async fn report(&self, id: u32) -> Option<Report> {
        let slot = self.jobs.borrow().get(&id)?.memory.slot;
        let (pairs, links, check, mut notes) = self
            .data
            .call(move |engine| engine.report(slot))
            .await
            .unwrap_or_else(|e| (vec![], vec![], Default::default(), vec![e.to_string()]));
        let jobs = self.jobs.borrow();
        let job = jobs.get(&id)?;
        notes.splice(0..0, job.notes.iter().cloned());
        Some(Report {
            job: id,
            name: job.spec.name.clone(),
            shape: self.options.shape,
            path: job.spec.path,
            placement: job.placement(),
            wall_s: job.created.elapsed().as_secs_f64(),
            pairs,
            links,
            barriers: BarrierReport {
                family: job.memory.page.geometry().map_or(job.spec.barrier, |g| g.barrier),
                left: check.left,
                early: check.early,
                unfinished: check.unfinished,
                late: check.late,
            },
            notes,
        })
    }

    /// Answer to a status request.
    pub(crate) async fn status(&self) -> Status {
        let faults = self.data.call(|engine| engine.faults()).await.unwrap_or_default();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            abi: abi::ABI_VERSION,
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            shape: self.options.shape,
            nodes: self.hosted.len() as u32,
            data_plane_cpu_s: self.data.cpu_seconds(),
            private: self.options.private,
            jobs: self.jobs.borrow().values().map(Job::status).collect(),
            faults,
            violations: self.data.violations(),
        }
    }

    /// A control connection came.
    pub(crate) fn connection_opened(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    /// A control connection went: its jobs end, and with it a private daemon.
    pub(crate) async fn connection_closed(&self, connection: u64) {
        let owned: Vec<u32> =
            self.jobs.borrow().iter().filter(|(_, j)| j.owner.connection == connection).map(|(&id, _)| id).collect();
        for id in owned {
            tracing::info!(job = id, "its control connection closed");
            self.end_job(id).await;
        }
        self.connections.set(self.connections.get() - 1);
        if self.options.private && self.connections.get() == 0 && self.had_jobs.get() {
            self.stop.notify_one();
        }
    }

    fn take_notice(&self, notice: Notice) {
        match notice {
            Notice::ChannelError { job, pe, reason } => {
                if let Some(job) = self.jobs.borrow_mut().get_mut(&job) {
                    job.notes.push(format!("PE {pe}: {reason}"));
                    job.tell(Event::ChannelError { job: job.memory.id, pe, reason });
                }
            }
        }
    }
}

/// Runs the daemon until it is told to stop.
pub fn run(options: Options) -> Result<(), RunError> {
    run_with(options, |_| {})
}

/// As [`run`]; `ready` is called when clients can connect.
pub fn run_with(options: Options, ready: impl FnOnce(&Started)) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = start("cannot start the control plane", runtime)?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(options, ready))
}

/// The two sockets: those of the service manager, which also decided who may connect, or new ones for
/// our own user.
fn listen(dir: &RuntimeDir, handed: Option<service::Sockets>) -> io::Result<(Listener, UnixListener)> {
    if let Some(sockets) = handed {
        return Ok((Listener::new(sockets.adapter)?, UnixListener::from_std(sockets.control)?));
    }
    let sockets = (Listener::bind(&dir.adapter())?, UnixListener::bind(dir.control())?);
    for path in [dir.adapter(), dir.control()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(sockets)
}

async fn serve(options: Options, ready: impl FnOnce(&Started)) -> Result<(), RunError> {
    limits::raise_descriptor_limit();
    if !abi::wait::register() {
        tracing::warn!("membarrier is not available; sleeping processes are woken by a 1 ms timeout instead");
    }
    let handed = start("cannot take over the service manager's sockets", service::sockets())?;
    let dir = RuntimeDir::claim(&options.runtime_dir, handed.is_some())?;
    runtime_dir::sweep(&runtime_dir::private_parents());
    let mut signals = start("cannot catch signals", Signals::new(options.private))?;
    let (adapter, control) = start("cannot listen", listen(&dir, handed))?;
    let (notices, mut incoming) = mpsc::unbounded_channel();
    let started = dataplane::start(&options, notices);
    let (data, thread, mut data_ended) = start("cannot start the data plane", started)?;
    let daemon = Rc::new(Daemon::new(options, data.clone()));
    let line = daemon.announcement();
    tokio::task::spawn_local(control::listen(daemon.clone(), control));
    tokio::task::spawn_local(adapter_socket::listen(daemon.clone(), adapter));
    if daemon.options.private {
        tokio::task::spawn_local(watch_grace(daemon.clone()));
    }
    start("cannot say that the daemon is ready", say_ready(daemon.options.ready, &line))?;
    tracing::info!(shape = %line.shape, nodes = line.nodes, dir = %line.runtime_dir.display(), "ready");
    service::ready(&format!("{} of {} nodes of {}", line.nodes, line.shape.nodes(), line.shape));
    tokio::task::spawn_local(service::watchdog(data.clone()));
    ready(&line);
    let result = loop {
        tokio::select! {
            () = signals.next() => break Ok(()),
            () = daemon.stop.notified() => break Ok(()),
            _ = &mut data_ended => break Err(RunError::DataPlane),
            Some(notice) = incoming.recv() => daemon.take_notice(notice),
        }
    };
    service::stopping();
    let ids: Vec<u32> = daemon.jobs.borrow().keys().copied().collect();
    for id in ids {
        daemon.end_job(id).await;
    }
    data.stop();
    // An error is a panic of that thread, which the panic hook has printed.
    let _ = thread.join();
    drop(dir);
    tracing::info!("ended");
    result
}

impl Daemon {
    fn new(options: Options, data: Handle) -> Daemon {
        Daemon {
            hosted: options.hosted(),
            options,
            data,
            jobs: RefCell::default(),
            stop: Notify::new(),
            endpoints: RefCell::default(),
            next_job: Cell::new(1),
            next_core: Cell::new(0),
            connections: Cell::new(0),
            had_jobs: Cell::new(false),
            cores: limits::cores(),
            started: Instant::now(),
        }
    }

    fn announcement(&self) -> Started {
        Started {
            pid: std::process::id(),
            runtime_dir: self.options.runtime_dir.clone(),
            shape: self.options.shape,
            nodes: self.hosted.len(),
        }
    }
}

/// Ends a private daemon whose run never came.
async fn watch_grace(daemon: Rc<Daemon>) {
    tokio::time::sleep(PRIVATE_GRACE).await;
    if !daemon.had_jobs.get() && daemon.connections.get() == 0 {
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

/// Signals that end the daemon. A private one leaves Ctrl-C to the launcher, which gets it too.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    private: bool,
}

impl Signals {
    fn new(private: bool) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            private,
        })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => return,
                _ = self.interrupt.recv() => if !self.private { return },
            }
        }
    }
}
