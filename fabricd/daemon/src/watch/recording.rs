//! Looking on so that there is a past: while a job runs, and somebody may open a page or wants a history of the job.

use super::PAUSE;
use super::past::{Seen, has_ended};
use crate::daemon::Daemon;
use crate::failure::failure;
use angara_abi::JobId;
use angara_protocol::msg::{Failure, HistoryPiece};
use angara_protocol::print::plain_line;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// In a small network what happens first is looked at more often: many programs are over within a second ...
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const FIRST: Duration = Duration::from_secs(5);
/// ... that has at most so many nodes.
const SMALL: usize = 1024;
/// Whether PEs of a job have come back is looked at so often; that copies nothing.
const REST: Duration = Duration::from_secs(1);

impl Daemon {
    /// Somebody may open a page.
    pub(crate) fn has_page(&self) -> bool {
        self.options.looks.web.is_some()
    }

    /// Somebody may want to know what has been.
    pub(crate) fn remembers(&self) -> bool {
        self.has_page() || !self.watcher.remembered.borrow().is_empty()
    }

    /// Takes samples while a job runs, as long as there is somebody for whom.
    pub(crate) async fn record(self: Rc<Self>) {
        if self.watcher.records.replace(true) {
            return;
        }
        self.look_on().await;
        self.watcher.records.set(false);
    }

    async fn look_on(&self) {
        let (mut begun, mut ran) = (Instant::now(), false);
        while self.remembers() {
            let status = |job: &crate::jobs::job::Job| job.status(&Default::default());
            let runs = self.jobs.table.borrow().values().map(status).any(|job| !has_ended(&job));
            if runs || ran {
                if runs && !ran {
                    begun = Instant::now();
                }
                let early = begun.elapsed() < FIRST && self.options.shape.nodes() <= SMALL;
                self.watcher.pause.set(if early && runs { PAUSE_FIRST } else { PAUSE });
                // Once more after the end: what came last.
                if !runs {
                    self.look_again().await;
                }
                // Fails only while the daemon ends.
                if self.look().await.is_err() {
                    return;
                }
                ran = runs;
                if runs {
                    self.look_again().await;
                    continue;
                }
            }
            let _ = timeout(REST, self.watcher.stir.notified()).await;
        }
    }

    /// A job has begun.
    pub(crate) fn remember_job(&self, id: JobId) {
        if !self.has_page() {
            return;
        }
        let seen = self.jobs.table.borrow().get(&id).map(|job| Seen {
            job: id.number().into(),
            name: plain_line(&job.status(&Default::default()).name),
            uid: job.uid,
            pes: job.memory.pes as u32,
            from: self.started.elapsed().as_secs_f64(),
            to: None,
            placement: job.placement(),
        });
        seen.into_iter().for_each(|seen| self.watcher.past.borrow_mut().begin_job(seen));
        self.watcher.stir.notify_one();
    }

    /// A job has ended.
    pub(crate) fn remember_end(&self, id: JobId) {
        self.watcher.past.borrow_mut().end_job(id.number().into(), self.started.elapsed().as_secs_f64());
        if self.watcher.remembered.borrow_mut().remove(&id).is_some() && !self.remembers() {
            self.watcher.past.take();
        }
    }

    /// The history of a job begins, before it has sent anything.
    pub(crate) async fn begin_history(self: &Rc<Self>, id: JobId) -> Result<(), Failure> {
        if self.cluster.messages.is_some() {
            return Err(failure(
                "--history is for one host: what links of other hosts of a cluster carry is not kept",
                "leave --history out, or look at the page of a daemon (fabricd --web) while the program runs",
            ));
        }
        if !self.remembers() {
            self.watcher.past.borrow_mut().begin();
        }
        self.watcher.remembered.borrow_mut().insert(id, 0.0);
        tokio::task::spawn_local(self.clone().record());
        self.watcher.stir.notify_one();
        let now = self.complete_past().await?;
        self.watcher.remembered.borrow_mut().entry(id).and_modify(|began| *began = now);
        Ok(())
    }

    /// What is known of a job's history: frames after one of them.
    pub(crate) async fn history(&self, id: JobId, after: u64) -> Result<HistoryPiece, Failure> {
        let began = self.watcher.remembered.borrow().get(&id).copied();
        let began = began.ok_or_else(|| failure(format!("job {id} has no history"), "start it with --history"))?;
        let first = after == 0;
        if first {
            self.complete_past().await?;
        }
        let past = self.watcher.past.borrow();
        let (frames, more) = past.piece(after);
        let next = frames.last().filter(|_| more).map(|frame| frame.id);
        let flit = self.options.params.link_flit;
        Ok(HistoryPiece {
            flit_ps: flit.num as f64 / flit.den as f64,
            began,
            frames: frames.into_iter().filter(|frame| frame.span.to > began).cloned().collect(),
            steps: past.steps().filter(|step| first && step.span.to > began).cloned().collect(),
            changes: past.changes.iter().filter(|_| first).cloned().collect(),
            next,
        })
    }

    /// The past has everything up to now, which is returned.
    async fn complete_past(&self) -> Result<f64, Failure> {
        self.look_again().await;
        let sample = self.look().await.map_err(|e| failure(e.to_string(), "restart the daemon"))?;
        self.watcher.past.borrow_mut().complete(&sample);
        Ok(sample.at.as_secs_f64())
    }
}
