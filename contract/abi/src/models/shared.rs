//! Words of shared memory as models have them, reached by the operations of [`order`] that programs use.

use crate::memory::sync::{AtomicU64, Ordering};
use crate::order::{self, Watched};

impl Watched for AtomicU64 {
    type Value = u64;
    unsafe fn look(p: *const AtomicU64) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { &*p }.load(Ordering::Relaxed)
    }
    unsafe fn set(p: *mut AtomicU64, value: u64) {
        // SAFETY: the caller's contract.
        unsafe { &*p }.store(value, Ordering::Relaxed);
    }
}

/// Stores 1, as a put does: in no order.
pub(super) fn put(word: &AtomicU64) {
    // SAFETY: a live word, which the implementation above only borrows.
    unsafe { Watched::set(std::ptr::from_ref(word).cast_mut(), 1) };
}

/// Tells whether the word is 1, and says nothing else.
pub(super) fn looked(word: &AtomicU64) -> bool {
    // SAFETY: a live word.
    unsafe { Watched::look(word) == 1 }
}

/// Tells whether the word is 1, as a wait does.
pub(super) fn seen(word: &AtomicU64) -> bool {
    // SAFETY: a live word.
    unsafe { order::seen(word, |now| now == 1) }
}

/// Tells whether the word is 1, as an atomic load of the library does.
pub(super) fn acquired(word: &AtomicU64) -> bool {
    word.load(Ordering::Acquire) == 1
}

/// In place of an operation: it is left out.
pub(super) fn nothing() {}
