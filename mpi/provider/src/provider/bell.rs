//! What wakes a program that sleeps on a descriptor until a queue or a counter has something for it (`FI_WAIT_FD`).
//!
//! Who means to sleep says so first (`fi_trywait`): that arms the bell. Only an armed bell is rung, and once, so whoever reports
//! to a queue on whose descriptor nobody sleeps makes no system call.

use super::fault::Outcome;
use crate::abi::constants::errno;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};

#[derive(Default)]
pub(crate) struct Bell {
    /// None: nobody can sleep on it.
    descriptor: Option<OwnedFd>,
    armed: bool,
    /// The descriptor is readable.
    rung: bool,
}

impl Bell {
    /// One with a descriptor.
    pub(crate) fn with_descriptor() -> Outcome<Bell> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let descriptor = Some(made.map_err(|e| e.raw_os_error())?);
        Ok(Bell { descriptor, ..Bell::default() })
    }

    /// The descriptor's number.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.descriptor.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Nothing is there, and somebody means to sleep until something is. It is for the caller that nothing comes in between.
    pub(crate) fn arm(&mut self) -> Outcome {
        let descriptor = self.descriptor.as_ref().ok_or(errno::EINVAL)?;
        if std::mem::take(&mut self.rung) {
            // Who has read it himself has done what this does.
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
        self.armed = true;
        Ok(())
    }

    /// Something is there.
    #[inline(always)]
    pub(crate) fn tell(&mut self) {
        if self.armed {
            self.ring();
        }
    }

    #[cold]
    #[inline(never)]
    fn ring(&mut self) {
        self.armed = false;
        self.rung = true;
        if let Some(descriptor) = &self.descriptor {
            // It fails only if it is readable already.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(bell: &Bell) -> bool {
        let descriptor = bell.descriptor.as_ref().expect("it has one");
        let mut all = [PollFd::new(descriptor, PollFlags::IN)];
        poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") == 1
    }

    #[test]
    fn only_an_armed_bell_rings_and_arming_it_again_silences_it() {
        let mut bell = Bell::with_descriptor().expect("a descriptor");
        bell.tell();
        assert!(!is_readable(&bell) && !bell.is_armed(), "nobody sleeps");
        for _ in 0..3 {
            bell.arm().expect("it has a descriptor");
            assert!(!is_readable(&bell) && bell.is_armed());
            bell.tell();
            bell.tell();
            assert!(is_readable(&bell) && !bell.is_armed());
        }
    }

    #[test]
    fn nobody_sleeps_where_there_is_no_descriptor() {
        let mut bell = Bell::default();
        assert_eq!((bell.arm(), bell.descriptor()), (Err(errno::EINVAL), None));
        bell.tell();
        assert!(!bell.is_armed());
    }
}
