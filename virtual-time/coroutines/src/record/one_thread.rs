//! Data that only the thread that hosts PEs uses.

use std::cell::UnsafeCell;

/// Data of the one thread that hosts PEs.
pub(crate) struct OneThread<T>(UnsafeCell<T>);

// SAFETY: only the thread that hosts PEs gets at the content; `Pes::new` admits one at a time.
unsafe impl<T> Sync for OneThread<T> {}

impl<T> OneThread<T> {
    pub(crate) const fn new(value: T) -> OneThread<T> {
        OneThread(UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}
