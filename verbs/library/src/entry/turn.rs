//! A lock that is taken by one call of a program and given back by a later one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A value that is one's between [`Turn::begin`] and [`Turn::end`].
pub(crate) struct Turn<T> {
    state: Mutex<(bool, T)>,
    free: Condvar,
    /// The program says that it needs no lock.
    alone: bool,
}

impl<T> Turn<T> {
    pub(crate) fn new(value: T, alone: bool) -> Turn<T> {
        Turn { state: Mutex::new((false, value)), free: Condvar::new(), alone }
    }

    fn lock(&self) -> MutexGuard<'_, (bool, T)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has it.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        while state.0 && !self.alone {
            state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.0 = true;
    }

    /// The value, for who has the turn.
    #[inline]
    pub(crate) fn own<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock().1)
    }

    pub(crate) fn end(&self) {
        self.lock().0 = false;
        self.free.notify_one();
    }
}
