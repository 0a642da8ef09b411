//! The control plane: start-up, the table of jobs, shutdown.
//!
//! Everything here runs on one thread, so the table is a `RefCell`; no borrow is held across an
//! `await`.

use crate::adapter_socket;
use crate::agree::Agreement;
use crate::config::{Options, Ready};
use crate::control;
use crate::create::Reservation;
use crate::dataplane::{self, Handle, Notice};
use crate::impair::{Change, Favour};
use crate::job::{Endpoints, Job, random_key};
use crate::limits;
use crate::runtime_dir::{self, DirError, RuntimeDir};
use crate::seqpacket::Listener;
use crate::service::{self, Herald};
use crate::span::{Answer, Ask, Span, Tell};
use crate::streams::Streams;
use abi::msg::{BarrierReport, Event, Report, Status, Wait};
use abi::torus::NodeId;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::rc::Rc;
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

/// The table of jobs and all it takes to serve requests.
pub(crate) struct Daemon {
    pub(crate) options: Options,
    pub(crate) hosted: Vec<NodeId>,
    pub(crate) data: Handle,
    pub(crate) jobs: RefCell<BTreeMap<u32, Job>>,
    pub(crate) stop: Notify,
    /// The reason to stop is that the cluster goes on without this host.
    pub(crate) expelled: Cell<bool>,
    /// The other hosts, if this daemon is one of a cluster.
    pub(crate) span: Option<Span>,
    /// Cuts of trunks that other hosts have asked for and that are made in a moment.
    pub(crate) cuts: RefCell<Vec<(Favour, Change)>>,
    pub(crate) streams: Streams,
    /// What the hosts have agreed on.
    pub(crate) agreement: Agreement,
    /// Jobs being made.
    pub(crate) reservations: RefCell<BTreeMap<u32, Reservation>>,
    pub(crate) endpoints: RefCell<Endpoints>,
    pub(crate) next_job: Cell<u32>,
    pub(crate) next_generation: Cell<u16>,
    pub(crate) next_core: Cell<usize>,
    connections: Cell<usize>,
    /// Someone asked for a job, granted or not.
    pub(crate) had_jobs: Cell<bool>,
    pub(crate) cores: usize,
    /// Another one at every start: seconds since 1970.
    pub(crate) epoch: u64,
    pub(crate) started: Instant,
}

impl Daemon {
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

    /// Ends a job that was created here, on every host.
    pub(crate) async fn end_job_everywhere(&self, id: u32) {
        let hosts = self.jobs.borrow().get(&id).map_or_else(Vec::new, |j| j.hosts.clone());
        self.tell_closed(id, &hosts);
        self.end_job(id).await;
    }

    /// Tells other hosts that a job that was made here is over.
    pub(crate) fn tell_closed(&self, id: u32, hosts: &[u16]) {
        if let Some(job) = self.jobs.borrow_mut().get_mut(&id) {
            job.card.over = true;
        }
        if let Some(span) = &self.span {
            span.tell(hosts, &Tell::Close(id, self.agreement.promised()));
        }
    }

    /// Ends all jobs because this daemon ends. Why is told before anybody can notice what becomes of the PEs.
    async fn end_all_jobs(&self, why: &str) {
        let ids: Vec<(u32, bool)> = self.jobs.borrow().iter().map(|(id, j)| (*id, j.home.is_none())).collect();
        for (id, mine) in ids {
            if mine {
                if let Some(job) = self.jobs.borrow().get(&id) {
                    job.tell(Event::DaemonEnds { job: id, reason: why.into() });
                }
                self.end_job_everywhere(id).await;
            } else {
                // Without a PE here the job can do without this host.
                self.leave_job(id, &format!("its daemon {why}"));
                self.end_job(id).await;
            }
        }
    }

    /// Tells the owner of a job what happened to one of its PEs here, wherever it is, and all hosts of the job.
    pub(crate) fn spread(&self, id: u32, event: Event) {
        let jobs = self.jobs.borrow();
        let Some(job) = jobs.get(&id) else { return };
        if let Some(span) = &self.span {
            span.tell(&job.hosts, &Tell::Event(event.clone()));
        }
        job.tell(event);
    }

    /// What PEs of a job have been waiting for, on all hosts.
    pub(crate) async fn all_waits(&self, id: u32) -> Option<Vec<Wait>> {
        let mut all = self.waits(id)?;
        if let Some(span) = &self.span {
            let hosts = self.jobs.borrow().get(&id)?.hosts.clone();
            for host in hosts {
                if let Ok(Answer::Waits(waits)) = span.ask(host, Ask::Waits(id)).await {
                    all.extend(waits);
                }
            }
        }
        all.sort_by_key(|w| w.pe);
        Some(all)
    }

    /// Traffic of a job so far, on all hosts.
    pub(crate) async fn full_report(&self, id: u32) -> Option<Report> {
        let mut all = self.report(id).await?;
        if let Some(span) = &self.span {
            let hosts = self.jobs.borrow().get(&id)?.hosts.clone();
            for host in hosts {
                match span.ask(host, Ask::Report(id)).await {
                    Ok(Answer::Report(part)) => crate::merge::merge(&mut all, *part, span.name(host)),
                    Ok(_) => all.notes.push(format!("host {} gave no traffic", span.name(host))),
                    Err(f) => all.notes.push(format!("traffic of host {} is missing: {}", span.name(host), f.message)),
                }
            }
        }
        Some(all)
    }

    /// What PEs of a job here have been waiting for; `None` if there is no such job.
    pub(crate) fn waits(&self, id: u32) -> Option<Vec<Wait>> {
        let jobs = self.jobs.borrow();
        let memory = &jobs.get(&id)?.memory;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let wait = |pe: usize| {
            let (since, what) = memory.sync.note(pe).read()?;
            Some(Wait { pe: pe as u32, seconds: now.saturating_sub(since) as f64 * 1e-9, what })
        };
        Some((0..memory.pes).filter(|pe| memory.here[*pe]).filter_map(wait).collect())
    }

    /// Traffic of a job so far, as this host has counted it; `None` if there is no such job.
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
            nodes: self.span.as_ref().map_or(self.hosted.len(), |s| s.nodes_up()) as u32,
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
        let owned: Vec<u32> = {
            let jobs = self.jobs.borrow();
            jobs.iter().filter(|(_, j)| j.home.is_none() && j.owner.connection == connection).map(|j| *j.0).collect()
        };
        for id in owned {
            tracing::info!(job = id, "its control connection closed");
            self.end_job_everywhere(id).await;
        }
        self.connections.set(self.connections.get() - 1);
        if self.options.private && self.connections.get() == 0 && self.had_jobs.get() {
            self.stop.notify_one();
        }
    }

    fn take_notice(self: &Rc<Self>, notice: Notice) {
        match notice {
            Notice::ChannelError { job: id, pe, reason } => {
                if let Some(job) = self.jobs.borrow_mut().get_mut(&id) {
                    if job.card.over {
                        // A host was lost, which says it all.
                        return;
                    }
                    job.notes.push(format!("PE {pe}: {reason}"));
                }
                self.spread(id, Event::ChannelError { job: id, pe, reason });
            }
            Notice::Trunk(word) => self.take_word(word),
            Notice::GaveUp(link, since) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move { daemon.report_link(&link, since).await });
            }
            Notice::Due(fault) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move {
                    if let Err(f) = daemon.change_faults(&fault, None).await {
                        tracing::warn!(fault, why = f.message, "a fault whose time has come is not in force");
                    }
                });
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
    let mut signals = start("cannot catch signals", Signals::new(options.private, options.cluster.is_some()))?;
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
    let herald = Rc::new(start("cannot start what tells the service manager", Herald::new())?);
    herald.ready(format!("{} of {} nodes of {}", line.nodes, line.shape.nodes(), line.shape));
    tokio::task::spawn_local(herald.clone().watchdog(data.clone()));
    tokio::task::spawn_local(daemon.clone().agree());
    ready(&line);
    let result = loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::End => break Ok(()),
                Wish::Reload => {
                    // Who signals reads the answer in the log.
                    let daemon = daemon.clone();
                    tokio::task::spawn_local(async move { drop(daemon.reload_keys().await) });
                }
            },
            () = daemon.stop.notified() => break if daemon.expelled.get() { Err(RunError::Expelled) } else { Ok(()) },
            _ = &mut data_ended => break Err(RunError::DataPlane),
            Some(notice) = incoming.recv() => daemon.take_notice(notice),
        }
    };
    herald.stopping();
    daemon
        .end_all_jobs(match &result {
            Ok(()) => "was shut down",
            Err(RunError::Expelled) => "did not follow an agreement of its cluster, which goes on without it",
            Err(_) => "failed; see its log",
        })
        .await;
    data.stop();
    // An error is a panic of that thread, which the panic hook has printed.
    let _ = thread.join();
    drop(dir);
    herald.finish();
    tracing::info!("ended");
    result
}

impl Daemon {
    fn new(options: Options, data: Handle) -> Daemon {
        // Differs from start to start: packets of an earlier life must not be taken for those of a job.
        let random = random_key().ok().and_then(|k| u64::from_str_radix(&k[..16], 16).ok());
        let life = random.unwrap_or_else(|| std::process::id().into());
        Daemon {
            hosted: options.hosted(),
            cuts: RefCell::default(),
            span: options.cluster.clone().map(|member| Span::new(member, data.clone(), life)),
            streams: Streams::default(),
            agreement: Agreement::new(&options.faults),
            reservations: RefCell::default(),
            next_generation: Cell::new(life as u16),
            options,
            data,
            jobs: RefCell::default(),
            stop: Notify::new(),
            expelled: Cell::new(false),
            endpoints: RefCell::default(),
            next_job: Cell::new(1),
            next_core: Cell::new(0),
            connections: Cell::new(0),
            had_jobs: Cell::new(false),
            cores: limits::cores(),
            epoch: std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs()),
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

/// What a signal asks for.
enum Wish {
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

    async fn next(&mut self) -> Wish {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Wish::End,
                _ = self.hangup.recv() => return if self.keys { Wish::Reload } else { Wish::End },
                _ = self.interrupt.recv() => if !self.private { return Wish::End },
            }
        }
    }
}
