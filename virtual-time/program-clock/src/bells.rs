//! Counts of wakes of threads. A thread that waits with a deadline for a condition variable, or for a word by
//! `syscall(SYS_futex, …)`, looks again and again, and must not miss a wake between two looks.

use crate::futex::{self, FUTEX_PRIVATE, FUTEX_WAIT, FUTEX_WAKE};
use crate::threads::nanoseconds;
use libc::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};

/// A count of wakes. Objects share one, so a wait may end without need, which both kinds of objects allow.
pub(crate) struct Bell {
    /// How often somebody was woken.
    rung: AtomicU32,
    /// How many wait for that.
    waiting: AtomicU32,
}

static BELLS: [Bell; 256] = [const { Bell { rung: AtomicU32::new(0), waiting: AtomicU32::new(0) } }; 256];

/// Listener of a bell: hears every ring after its making.
pub(crate) struct Listener {
    bell: &'static Bell,
    before: u32,
}

impl Bell {
    /// The bell of an object at this address.
    pub(crate) fn of(address: usize) -> &'static Bell {
        &BELLS[(angara_abi::random::mix(address as u64) % BELLS.len() as u64) as usize]
    }
    /// Somebody is woken.
    pub(crate) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            futex::kernel([self.word(), FUTEX_WAKE | FUTEX_PRIVATE, c_long::from(c_int::MAX), 0, 0, 0]);
        }
    }
    pub(crate) fn listen(&'static self) -> Listener {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Listener { bell: self, before: self.rung.load(Ordering::SeqCst) }
    }
    fn word(&self) -> c_long {
        self.rung.as_ptr() as c_long
    }
}

impl Listener {
    /// True if it has rung.
    pub(crate) fn has_rung(&self) -> bool {
        self.bell.rung.load(Ordering::SeqCst) != self.before
    }
    /// Waits until it rings, for so many nanoseconds on the wall at most; whether it has.
    pub(crate) fn hears(&self, ns: u64) -> bool {
        let limit = nanoseconds(ns);
        if ns > 0 && !self.has_rung() {
            let limit = &raw const limit as c_long;
            futex::kernel([self.bell.word(), FUTEX_WAIT | FUTEX_PRIVATE, c_long::from(self.before), limit, 0, 0]);
        }
        self.has_rung()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.bell.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
