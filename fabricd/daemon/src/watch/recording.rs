//! Looking on so that there is a past: while a job runs, and somebody may open a page.

use super::PAUSE;
use super::past::{Seen, has_ended};
use crate::daemon::Daemon;
use angara_abi::JobId;
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

    /// Takes samples while a job runs.
    pub(crate) async fn record(self: Rc<Self>) {
        let (mut begun, mut ran) = (Instant::now(), false);
        loop {
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
    }
}
