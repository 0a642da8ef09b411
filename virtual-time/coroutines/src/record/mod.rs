//! One PE's record, and which PE runs.

pub(crate) mod fault;
pub(crate) mod handlers;
pub(crate) mod hooks;
pub(crate) mod one_thread;

use crate::libc_state::State as LibcState;
use crate::program::Program;
use crate::tls::TLS_MAX;
use fault::Fault;
use handlers::Handlers;
use hooks::Hooks;
use one_thread::OneThread;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a PE does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs or waits to be resumed.
    Lives,
    /// It ended with this status.
    Ended(i32),
    /// This signal ended it.
    Crashed(i32),
}

/// Memory of a PE's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackRange {
    /// Lowest usable address.
    pub(crate) low: usize,
    pub(crate) top: usize,
    /// Inaccessible bytes below.
    pub(crate) guard: usize,
}

/// All that is one PE's.
pub(crate) struct Record {
    /// Its stack pointer while the host runs.
    pub(crate) sp: usize,
    pub(crate) number: u32,
    pub(crate) life: Life,
    /// It never ran.
    pub(crate) fresh: bool,
    /// Address of its image.
    pub(crate) base: usize,
    pub(crate) program: *const Program,
    pub(crate) stack: StackRange,
    /// Its thread-local variables while the host runs.
    pub(crate) tls: Vec<u8>,
    pub(crate) hooks: Hooks,
    pub(crate) handlers: Handlers,
    pub(crate) libc: LibcState,
}

/// What the host keeps while a PE runs.
pub(crate) struct Host {
    pub(crate) sp: usize,
    /// The thread that hosts PEs, as pthread_self gives it.
    pub(crate) thread: libc::pthread_t,
    pub(crate) tls: [u8; TLS_MAX],
    /// Written by the handler of signals before it switches to the host.
    pub(crate) fault: Fault,
    /// The PE that has just run has not given its turn up by itself.
    pub(crate) paused: bool,
}

pub(crate) static HOST: OneThread<Host> =
    OneThread::new(Host { sp: 0, thread: 0, tls: [0; TLS_MAX], fault: Fault::NONE, paused: false });

/// The PE that runs; null while the host does.
pub(crate) static CURRENT: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());

/// The PE that runs, for functions that only PEs call.
///
/// # Safety
/// The reference must end before the PE switches or calls back into the program.
#[inline]
pub(crate) unsafe fn current<'a>() -> &'a mut Record {
    let pe = CURRENT.load(Ordering::Relaxed);
    if pe.is_null() {
        // SAFETY: no conditions. Only images of PEs have the addresses of such functions.
        unsafe { libc::abort() }
    }
    // SAFETY: the record of a PE lives as long as the PE runs; nothing else of this thread runs now.
    unsafe { &mut *pe }
}

/// Number of the PE that runs; none while the host does.
pub fn current_pe() -> Option<u32> {
    let pe = CURRENT.load(Ordering::Relaxed);
    // SAFETY: not null: a record that lives.
    (!pe.is_null()).then(|| unsafe { (*pe).number })
}
