//! Programs that sleep on descriptors, and what the helper thread does meanwhile.

use super::fault::Outcome;
use super::progress::Provider;
use crate::abi::constants::errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A program that has looked so often in vain since it slept last, polls.
const POLLS: u32 = 32;

/// `fi_trywait`: who has looked sleeps on a descriptor from now on, or finds that there is something to do first, which is
/// `-FI_EAGAIN`. All of it happens under one lock, so nothing that comes is missed.
impl Provider {
    pub(crate) fn may_sleep_on_queue(&mut self, id: u32) -> Outcome {
        self.take_in();
        let broken = self.state.broken.is_some();
        let queue = self.state.objects.queues.get_mut(id).ok_or(errno::EINVAL)?;
        if queue.bell.descriptor().is_none() {
            return Err(errno::EINVAL);
        }
        // `fi_cq_signal` wakes once.
        let signalled = std::mem::take(&mut queue.signalled);
        if signalled || broken || queue.has_something() {
            return Err(errno::EAGAIN);
        }
        queue.bell.arm()?;
        self.state.idle.sleeps();
        Ok(())
    }

    pub(crate) fn may_sleep_on_counter(&mut self, id: u32) -> Outcome {
        self.take_in();
        let broken = self.state.broken.is_some();
        let counter = self.state.objects.counters.get_mut(id).ok_or(errno::EINVAL)?;
        if counter.bell.descriptor().is_none() {
            return Err(errno::EINVAL);
        }
        if broken || counter.has_changed() {
            return Err(errno::EAGAIN);
        }
        counter.bell.arm()?;
        self.state.idle.sleeps();
        Ok(())
    }
}

/// The helper thread.
impl Provider {
    /// A look of the helper. True if something came. It neither yields nor sleeps: others want the lock.
    pub(crate) fn helps(&mut self) -> bool {
        let came = self.take_in();
        self.look_after_peers();
        came
    }

    /// Nobody sleeps on a descriptor, and the program looks by itself.
    pub(crate) fn goes_without_help(&self) -> bool {
        self.state.idle.looks_in_vain().load(Ordering::Relaxed) >= POLLS && !self.state.objects.is_slept_on()
    }

    /// Looks of the program in vain: as long as their number grows, it polls.
    pub(crate) fn looks_in_vain(&self) -> Arc<AtomicU32> {
        self.state.idle.looks_in_vain().clone()
    }

    /// The program does not look any more.
    pub(crate) fn wants_help(&mut self) {
        self.state.idle.sleeps();
    }

    /// What the helper waits on has ended, or failed.
    pub(crate) fn ends_by(&mut self, error: &angara::Error) {
        self.state.breaks(error);
    }
}
