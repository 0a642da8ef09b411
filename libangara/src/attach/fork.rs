//! State of a job after its process forks.
//!
//! The child shares the mappings but is not a PE: it has no channel and no life line of its own.
//! A `pthread_atfork` handler makes its copy of the target table say "unreachable" everywhere, so
//! that the direct path needs no check, closes the socket (the daemon must see the parent die),
//! and raises a flag the slow paths look at.

use super::connection::Connection;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// State of one job that the handler needs.
pub(crate) struct Guard {
    forked: AtomicBool,
    table: *mut u8,
    table_len: usize,
    connection: Option<Connection>,
}

// SAFETY: `table` is only touched by the handler, in a child with one thread.
unsafe impl Send for Guard {}
// SAFETY: `table` is only touched by the handler, in a child with one thread.
unsafe impl Sync for Guard {}

/// Jobs of this process; a program has one, a test may have a handful.
const JOBS_MAX: usize = 64;
static JOBS: [AtomicPtr<Guard>; JOBS_MAX] = [const { AtomicPtr::new(null_mut()) }; JOBS_MAX];

impl Guard {
    /// Registers a job whose target table is the `table_len` mapped bytes at `table`.
    pub(crate) fn new(table: (*mut u8, usize), connection: Option<Connection>) -> Box<Guard> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler is an `extern "C"` function that is async-signal-safe.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        let (table, table_len) = table;
        let guard = Box::new(Guard { forked: AtomicBool::new(false), table, table_len, connection });
        let p = &*guard as *const Guard as *mut Guard;
        // A process with more jobs than slots only loses the protection of its children.
        let _ =
            JOBS.iter().find(|slot| slot.compare_exchange(null_mut(), p, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        guard
    }

    /// This process is a fork of the one that attached.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.forked.load(Ordering::Relaxed)
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let p = self as *mut Guard;
        for slot in &JOBS {
            let _ = slot.compare_exchange(p, null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

extern "C" fn in_child() {
    for slot in &JOBS {
        let p = slot.load(Ordering::Acquire);
        if p.is_null() {
            continue;
        }
        // SAFETY: a registered guard is alive until its `drop` clears the slot.
        let guard = unsafe { &*p };
        guard.forked.store(true, Ordering::Relaxed);
        if let Some(connection) = &guard.connection {
            connection.close_in_child();
        }
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        // SAFETY: replaces this child's own view of the table, a mapping of that length, by
        // private memory; 0xff in every byte reads as "unreachable".
        unsafe {
            let map = libc::mmap(guard.table.cast(), guard.table_len, prot, flags, -1, 0);
            if map != libc::MAP_FAILED {
                std::ptr::write_bytes(map as *mut u8, 0xff, guard.table_len);
            }
        }
    }
}
