//! Mutexes whose data outlives a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after another thread panicked: the data is plain and the panic ends the process anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
