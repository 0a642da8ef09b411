//! When the threads that wait are due.

use super::turns;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that wait at once and of which the others know.
const PLACES: usize = 4096;
/// The time at a place that nobody has: later than all others.
pub(super) const FREE: u64 = u64::MAX;
/// Times, in no order.
static DUE: [AtomicU64; PLACES] = [const { AtomicU64::new(FREE) }; PLACES];
/// No place from this one on has been used so far.
static USED: AtomicUsize = AtomicUsize::new(0);

/// See [`angara_abi::program_clock::FirstDue`].
pub(super) extern "C" fn first_due() -> u64 {
    if turns::this().is_some() {
        // It has no other threads.
        return FREE;
    }
    let used = &DUE[..USED.load(Ordering::Acquire)];
    used.iter().map(|due| due.load(Ordering::Acquire)).min().unwrap_or(FREE)
}

/// Forgets all: a child has one thread, which does not wait.
pub(crate) fn forget_all() {
    DUE.iter().for_each(|due| due.store(FREE, Ordering::Relaxed));
}

/// The entry of a thread that waits, while it does.
pub(super) struct Place(Option<&'static AtomicU64>);

impl Place {
    /// Takes a place until the time `until`. Without one the thread is due all the same, at the latest when as much time has
    /// passed on the wall.
    pub(super) fn take(until: u64) -> Place {
        if turns::this().is_some() {
            return Place(None);
        }
        let until = until.min(FREE - 1);
        let free = |due: &AtomicU64| due.compare_exchange(FREE, until, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let taken = DUE.iter().position(free);
        if let Some(i) = taken {
            USED.fetch_max(i + 1, Ordering::AcqRel);
        }
        Place(taken.map(|i| &DUE[i]))
    }

    /// Returns whether there was a place to take.
    pub(super) fn is_taken(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(due) = self.0 {
            due.store(FREE, Ordering::Release);
        }
    }
}
