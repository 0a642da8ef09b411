//! The one wait loop. Everything that waits (for memory, for a queue slot, for a completion, in a
//! barrier) comes through here, so that no wait burns a core others need, outlives its job, or
//! hangs without saying for what.

use crate::driver::Adapter;
use crate::error::{Error, Result};
use abi::job::JobState;
use abi::wait::{WaitCell, wait_until};
use std::time::Instant;

impl Adapter {
    /// Waits for something the adapter does until `ready`. `what` names it in a timeout message.
    pub(crate) fn wait(&self, ready: impl FnMut() -> bool, what: &dyn Fn() -> String) -> Result<()> {
        self.wait_on(self.memory.sync.answers(self.memory.me), ready, what)
    }

    /// Waits for this PE's memory, which peers and the adapter write.
    pub(crate) fn wait_memory(&self, ready: impl FnMut() -> bool, what: &dyn Fn() -> String) -> Result<()> {
        self.wait_on(self.memory.peers.cell(self.memory.me), ready, what)
    }

    /// The same, sleeping on `cell`.
    pub(crate) fn wait_on(
        &self,
        cell: &WaitCell,
        mut ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        if ready() {
            return Ok(());
        }
        if self.guard.forked() {
            return Err(Error::Forked);
        }
        let mut since = None;
        wait_until(cell, self.memory.geometry.crowded, ready, || self.give_up(&mut since, what))
    }

    /// Asked about once per millisecond of waiting: why to stop.
    fn give_up(&self, since: &mut Option<Instant>, what: &dyn Fn() -> String) -> Option<Error> {
        let now = Instant::now();
        let start = *since.get_or_insert(now);
        if let Some(error) = self.channel_error() {
            return Some(error);
        }
        if self.memory.job.state() == JobState::Ended {
            return Some(Error::JobEnded);
        }
        if self.guard.connection().is_some_and(|c| c.is_closed()) {
            // The daemon ends a job before it closes the connection.
            return Some(match self.memory.job.state() {
                JobState::Ended => Error::JobEnded,
                JobState::Running => Error::Daemon("it was stopped or it crashed: see its log".into()),
            });
        }
        let limit = self.timeout.filter(|limit| now - start > *limit)?;
        Some(Error::Timeout { what: what(), seconds: limit.as_secs_f64() })
    }
}
