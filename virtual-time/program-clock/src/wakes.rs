//! Counts of wakes of threads. A thread that waits with a deadline for a condition variable, or for a word by
//! `syscall(SYS_futex, …)`, looks again and again, and must not miss a wake between two looks.

use crate::real::{FUTEX_PRIVATE, FUTEX_WAIT, FUTEX_WAKE, kernel_futex};
use crate::threads::nanoseconds;
use libc::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};

/// A count of wakes. Objects share one, so a wait may end without need, which both kinds of objects allow.
pub(crate) struct Wakes {
    count: AtomicU32,
    /// How many wait for that.
    waiting: AtomicU32,
}

static COUNTS: [Wakes; 256] = [const { Wakes { count: AtomicU32::new(0), waiting: AtomicU32::new(0) } }; 256];

/// Notices every wake after its making.
pub(crate) struct Watch {
    wakes: &'static Wakes,
    before: u32,
}

impl Wakes {
    /// The count for an object at this address.
    pub(crate) fn of(address: usize) -> &'static Wakes {
        &COUNTS[(angara_abi::random::mix(address as u64) % COUNTS.len() as u64) as usize]
    }
    /// Somebody is woken.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            kernel_futex([self.word(), FUTEX_WAKE | FUTEX_PRIVATE, c_long::from(c_int::MAX), 0, 0, 0]);
        }
    }
    pub(crate) fn watch(&'static self) -> Watch {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Watch { wakes: self, before: self.count.load(Ordering::SeqCst) }
    }
    fn word(&self) -> c_long {
        self.count.as_ptr() as c_long
    }
}

impl Watch {
    /// True if somebody was woken.
    pub(crate) fn are_more(&self) -> bool {
        self.wakes.count.load(Ordering::SeqCst) != self.before
    }
    /// Waits until somebody is woken, for `ns` nanoseconds on the wall at most. Returns whether somebody was.
    pub(crate) fn wait(&self, ns: u64) -> bool {
        let limit = nanoseconds(ns);
        if ns > 0 && !self.are_more() {
            let limit = &raw const limit as c_long;
            kernel_futex([self.wakes.word(), FUTEX_WAIT | FUTEX_PRIVATE, c_long::from(self.before), limit, 0, 0]);
        }
        self.are_more()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wakes.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
