//! Atomics that loom can replace.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A fence of loom, or one of a thread that is noted for the other checker.
#[cfg(loom)]
pub(crate) fn fence(order: Ordering) {
    #[cfg(test)]
    if crate::models::reordered::fence_noted(order) {
        return;
    }
    loom::sync::atomic::fence(order);
}
