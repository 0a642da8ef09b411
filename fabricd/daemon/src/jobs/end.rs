//! Jobs end: one here, one on every host, or all because the daemon does.

use crate::ask::ask;
use crate::daemon::Daemon;
use crate::hosts::protocol::Tell;
use angara_abi::JobId;
use angara_net::HostId;
use angara_plane::{Command, Notice};
use angara_protocol::msg::Event;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a daemon that ends waits for those to read why who have jobs here.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Daemon {
    /// Ends a job: its processes are killed and everything it had is freed.
    pub(crate) async fn end_job(&self, id: JobId) {
        let Some(memory) = self.jobs.table.borrow().get(&id).map(|j| {
            j.set_ended();
            j.kill();
            j.memory.clone()
        }) else {
            return;
        };
        let slot = memory.slot;
        if ask(&self.data, |reply| Command::CloseJob(slot, reply)).await.is_err() {
            tracing::error!(job = id.number(), "the data plane is gone; freeing the job without it");
        }
        // Somebody else may have ended it meanwhile, and its number be another job's by now.
        if !self.has_job(&memory) {
            return;
        }
        if let Some(job) = self.jobs.table.borrow_mut().remove(&id) {
            self.remember_end(id);
            self.jobs.endpoints.borrow_mut().give_back(&job.memory.entries);
            self.jobs.seats_changed.notify_waiters();
            self.log_of(job.uid, |left_out| tracing::info!(job = id.number(), left_out, "job ended"));
        }
    }

    /// Ends a job that was created here, on every host.
    pub(crate) async fn end_job_everywhere(&self, id: JobId) {
        let hosts = self.jobs.table.borrow().get(&id).map_or_else(Vec::new, |j| j.hosts.clone());
        self.tell_closed(id, &hosts);
        self.end_job(id).await;
    }

    /// Tells other hosts that a job that was made here is over.
    pub(crate) fn tell_closed(&self, id: JobId, hosts: &[HostId]) {
        if let Some(job) = self.jobs.table.borrow_mut().get_mut(&id) {
            job.descriptor.over = true;
        }
        if let Some(messages) = &self.cluster.messages {
            messages.tell(hosts, &Tell::Close(id, self.cluster.ballots.promised()));
        }
    }

    /// Ends all jobs because this daemon ends, and goes on listening to its engine until who is to know why does.
    pub(crate) async fn end_all_jobs(self: &Rc<Self>, why: &str, notices: &mut mpsc::UnboundedReceiver<Notice>) {
        let mut ended = pin!(self.end_jobs_saying(why));
        loop {
            tokio::select! {
                biased;
                () = &mut ended => return,
                Some(notice) = notices.recv() => self.take_notice(notice),
            }
        }
    }

    /// Why is told before anybody can notice what becomes of the PEs, and who reads has read it, other hosts have taken it,
    /// before connections and trunks close.
    async fn end_jobs_saying(&self, why: &str) {
        let ids: Vec<(JobId, bool)> =
            // Others go on in a domain, whoever has made it.
            self.jobs.table.borrow().iter().map(|(id, j)| (*id, j.coordinator.is_none() && !j.memory.open)).collect();
        let mut told = Vec::new();
        for (id, mine) in ids {
            if mine {
                if let Some(job) = self.jobs.table.borrow().get(&id) {
                    told.push(job.tell_last(Event::DaemonEnds { job: id, reason: why.into() }));
                }
                self.end_job_everywhere(id).await;
            } else {
                // Without a PE here the job can do without this host.
                self.leave_job(id, &format!("its daemon {why}"));
                self.end_job(id).await;
            }
        }
        let all = async {
            for written in told {
                // An error says that its reader has gone.
                let _ = written.await;
            }
            if let Some(messages) = &self.cluster.messages {
                messages.all_taken().await;
            }
        };
        if tokio::time::timeout(LAST_WORDS, all).await.is_err() {
            tracing::warn!("not everybody concerned has read why this daemon ends");
        }
    }

    /// Tells the owner of a job what happened to one of its PEs here, wherever it is, and all hosts of the job.
    pub(crate) fn spread(&self, id: JobId, event: Event) {
        let jobs = self.jobs.table.borrow();
        let Some(job) = jobs.get(&id) else { return };
        if let Some(messages) = &self.cluster.messages {
            messages.tell(&job.hosts, &Tell::Event(event.clone()));
        }
        job.tell(event);
    }
}
