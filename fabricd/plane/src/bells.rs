//! What wakes the thread: commands, and the doorbells of PEs.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// All that the thread listens to while it sleeps.
pub(crate) struct Bells {
    epoll: OwnedFd,
    /// Rung for commands; it lives as long as somebody listens.
    _wake: Arc<OwnedFd>,
}

impl Bells {
    pub(crate) fn new(wake: Arc<OwnedFd>) -> io::Result<Bells> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bells = Bells { epoll, _wake: wake.clone() };
        bells.add(&wake)?;
        Ok(bells)
    }

    pub(crate) fn add(&self, bell: &OwnedFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, bell, epoll::EventData::new_u64(0), flags)?)
    }

    /// The client may hold the same eventfd open, so closing ours would not remove it.
    pub(crate) fn remove(&self, bell: &OwnedFd) {
        if let Err(e) = epoll::delete(&self.epoll, bell) {
            tracing::warn!(error = %e, "cannot stop watching a doorbell");
        }
    }

    /// Sleeps until a bell rings or `limit` is over.
    pub(crate) fn wait(&self, limit: Duration) {
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        // Every outcome (doorbell, command, timeout, interruption) means: look again.
        let _ = epoll::wait(&self.epoll, &mut events[..], Some(&limit));
    }
}

impl AsFd for Bells {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
