//! What the control plane knows: jobs, users, other hosts, and the way to the data plane.
//!
//! Everything here runs on one thread, so tables are `RefCell`s; no borrow is held across an `await`. What a daemon
//! does stands in the rooms beside, each with an `impl Daemon` of its own.

use crate::ask::ask;
use crate::config::Options;
use crate::failure::failure;
use crate::faults::ledger::Ledger;
use crate::hosts::cluster::Cluster;
use crate::hosts::messages::HostMessages;
use crate::jobs::table::Jobs;
use crate::machine::Machine;
use crate::users::usage::{UserConnection, Users, is_operator};
use crate::watch::watcher::Watcher;
use crate::web::served::Served;
use angara_abi::JobId;
use angara_abi::shm::Source;
use angara_net::fault::Command as FaultCommand;
use angara_net::torus::NodeId;
use angara_plane::{Command, Handle, Notice};
use angara_protocol::msg::{Event, Failure, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the control plane knows, in tables with owners of their own: jobs, the cluster, users.
pub(crate) struct Daemon {
    pub(crate) options: Options,
    pub(crate) hosted: Vec<NodeId>,
    /// The way to the data plane.
    pub(crate) data: Handle,
    /// Where memory of jobs comes from.
    pub(crate) source: Source,
    pub(crate) jobs: Jobs,
    pub(crate) cluster: Cluster,
    /// Users, and what they may have.
    pub(crate) users: Users,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) cores: usize,
    connections: Cell<usize>,
    pub(crate) stop: Notify,
    /// For observers.
    pub(crate) watcher: Watcher,
    /// Where the page and the metrics are served.
    pub(crate) served: RefCell<Served>,
    /// Another one at every start: seconds since 1970.
    pub(crate) start: u64,
    pub(crate) started: Instant,
    /// Where faults come from.
    pub(crate) ledger: Ledger,
}

impl Daemon {
    pub(crate) fn new(options: Options, data: Handle, machine: Box<dyn Machine>) -> Daemon {
        // Differs from start to start: packets of an earlier life must not be taken for those of a job.
        let random = machine.random().map(|bytes| u64::from_le_bytes(*bytes.first_chunk().expect("16 bytes")));
        let life = random.unwrap_or_else(|_| std::process::id().into());
        let messages = options.cluster.clone().map(|member| HostMessages::new(member, data.clone(), life));
        Daemon {
            hosted: options.hosted(),
            jobs: Jobs::new(life),
            cluster: Cluster::new(messages, &options.faults),
            users: Users::new(options.limits),
            ledger: Ledger::new(&options.faults, &options.shape),
            options,
            data,
            source: Source::Files,
            cores: machine.cores(),
            machine,
            connections: Cell::new(0),
            stop: Notify::new(),
            watcher: Watcher::new(),
            served: RefCell::default(),
            start: std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs()),
            started: Instant::now(),
        }
    }

    /// The same, with memory of jobs from somewhere else.
    pub(crate) fn with_memory(self, source: Source) -> Daemon {
        Daemon { source, ..self }
    }

    /// Answer to a status request.
    pub(crate) async fn status(&self) -> Status {
        let asked = ask(&self.data, Command::Status).await;
        let (faults, virtual_time, sets) = asked.unwrap_or_default();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            abi: angara_abi::ABI_VERSION,
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            shape: self.options.shape,
            nodes: self.cluster.messages.as_ref().map_or(self.hosted.len(), |s| s.nodes_up()) as u32,
            nodes_here: self.hosted.len() as u32,
            nodes_without_set: sets.nodes_without as u32,
            data_plane_cpu_s: self.data.cpu_seconds(),
            private: self.options.private,
            jobs: self.jobs.table.borrow().values().map(|job| job.status(&sets)).collect(),
            faults,
            violations: self.data.violations(),
            virtual_time,
            web: self.served.borrow().web.clone(),
            metrics: self.served.borrow().metrics.clone(),
        }
    }

    /// A job belongs to the user who created it; the superuser and the daemon's user may act too.
    pub(crate) fn check_owner(&self, uid: u32, id: JobId) -> Result<(), Failure> {
        let jobs = self.jobs.table.borrow();
        let job = jobs
            .get(&id)
            .ok_or_else(|| failure(format!("there is no job {id}"), "see `angara status` for the jobs that run"))?;
        match uid == job.uid || is_operator(uid) {
            true => Ok(()),
            false => Err(failure(
                format!("job {id} belongs to user {}, not to user {uid}", job.uid),
                "ask as the user who created it",
            )),
        }
    }

    /// A connection of user `uid` came; it counts until the result is dropped.
    pub(crate) fn enter(&self, uid: u32) -> Result<UserConnection, Failure> {
        let jobs = self.jobs.table.borrow();
        let pes = jobs.values().filter(|j| j.uid == uid).map(|j| j.memory.pes_here() as u64).sum();
        self.users.enter(uid, pes)
    }

    /// Has `log` write a line about what a user has caused, unless those are many already: then the next one says how
    /// many were left out.
    pub(crate) fn log_of(&self, uid: u32, log: impl FnOnce(u64)) {
        if let Some(left_out) = self.users.may_log(uid) {
            log(left_out);
        }
    }

    /// Nobody is connected, and nobody has asked for a job.
    pub(crate) fn is_unused(&self) -> bool {
        !self.jobs.had_jobs.get() && self.connections.get() == 0
    }

    /// A control connection came.
    pub(crate) fn connection_opened(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    /// A control connection went: its jobs end, and with it a private daemon.
    pub(crate) async fn connection_closed(&self, connection: u64) {
        let owned: Vec<JobId> = {
            let jobs = self.jobs.table.borrow();
            jobs.iter()
                .filter(|(_, j)| j.coordinator.is_none() && j.owner.connection == connection)
                .map(|j| *j.0)
                .collect()
        };
        for id in owned {
            tracing::debug!(job = id.number(), "its control connection closed");
            self.end_job_everywhere(id).await;
        }
        self.connections.set(self.connections.get() - 1);
        if self.options.private && self.connections.get() == 0 && self.jobs.had_jobs.get() {
            self.stop.notify_one();
        }
    }

    pub(crate) fn take_notice(self: &Rc<Self>, notice: Notice) {
        match notice {
            Notice::ChannelError { job: id, pe, reason } => {
                if let Some(job) = self.jobs.table.borrow_mut().get_mut(&id) {
                    self.log_of(job.uid, |left_out| {
                        let node = job.memory.entries.get(pe as usize).map(|e| e.node);
                        tracing::warn!(job = id.number(), pe, node, reason, left_out, "channel stopped");
                    });
                    if job.descriptor.over {
                        // A host was lost, which says it all.
                        return;
                    }
                    job.note(self.users.limits(), format!("PE {pe}: {reason}"));
                }
                self.spread(id, Event::ChannelError { job: id, pe, reason });
            }
            Notice::Patience { job, memory, turn, waited } => {
                tokio::task::spawn_local(self.clone().lose_patience(job, memory, turn, waited));
            }
            Notice::InVain { job } => self.lose_whoever_left(job),
            Notice::Trunk(word) => self.take_trunk_event(word),
            Notice::GaveUp(link, since) => {
                let daemon = self.clone();
                tokio::task::spawn_local(async move { daemon.report_link(link, since).await });
            }
            Notice::Due(fault) => {
                let (daemon, command) = (self.clone(), FaultCommand::set(fault, &self.options.shape));
                tokio::task::spawn_local(async move {
                    if let Err(f) = daemon.change_faults(&command, None).await {
                        tracing::warn!(
                            fault = command.text,
                            why = f.message,
                            "a fault whose time has come is not in force"
                        );
                    }
                });
            }
        }
    }
}
