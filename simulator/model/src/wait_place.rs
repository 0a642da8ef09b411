//! A place where threads wait for each other: a look at what they wait for takes nanoseconds, so they look for a while,
//! and then sleep.
//!
//! A thread that only looked, even one that yielded between two looks, would take the core from the very thread that it
//! waits for, where there are fewer free cores than threads: for a time slice each time. One that slept at once would
//! wait for its own awakening in each window.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How often one thread looks before it sleeps. It looks longer after waits that ended while it looked, and less long after
/// others: then somebody else may have the core of the thread that it waits for.
pub(crate) struct Looks(u32);

impl Looks {
    const LEAST: u32 = 50;
    /// Some tens of microseconds, more than the usual difference between threads that have a core each.
    const MOST: u32 = 4_000;

    pub(crate) const fn new() -> Looks {
        Looks(Looks::MOST)
    }
}

#[derive(Default)]
pub(crate) struct WaitPlace {
    /// Threads that sleep, or are about to.
    asleep: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl WaitPlace {
    /// Waits until `done`. Whoever makes it true calls [`wake`](WaitPlace::wake) afterwards.
    pub(crate) fn wait(&self, looks: &mut Looks, mut done: impl FnMut() -> bool) {
        for _ in 0..looks.0 {
            if done() {
                looks.0 = (looks.0 * 2).min(Looks::MOST);
                return;
            }
            spin_loop();
        }
        looks.0 = (looks.0 / 2).max(Looks::LEAST);
        let mut held = self.held();
        self.asleep.fetch_add(1, Ordering::Relaxed);
        // Either this thread sees what the other has changed, or the other sees that this one is here.
        fence(Ordering::SeqCst);
        // A panic in `done` leaves one too many, which costs the others a look at the lock.
        while !done() {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        drop(held);
    }

    /// Has all who wait look again.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            // Who has looked in vain holds the lock until it sleeps.
            drop(self.held());
            self.changed.notify_all();
        }
    }

    /// Nothing is behind the lock that a panic could have left half done.
    fn held(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// More threads than cores, so that some of them always sleep: nobody may be left behind.
    #[test]
    fn nobody_sleeps_through_a_change() {
        const THREADS: usize = 8;
        const ROUNDS: u32 = 2_000;
        let (place, arrived, round) = (WaitPlace::default(), AtomicUsize::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut looks = Looks::new();
                    for mine in 0..ROUNDS {
                        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == THREADS {
                            arrived.store(0, Ordering::Relaxed);
                            round.store(mine + 1, Ordering::Release);
                            place.wake();
                        }
                        place.wait(&mut looks, || round.load(Ordering::Acquire) > mine);
                    }
                });
            }
        });
        assert_eq!((round.load(Ordering::Relaxed), place.asleep.load(Ordering::Relaxed)), (ROUNDS, 0));
    }

    #[test]
    fn a_panic_of_one_who_waits_stops_nobody_else() {
        let place = WaitPlace::default();
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| place.wait(&mut Looks(1), || panic!("another thread has panicked"))).join().is_err()
        });
        assert!(failed);
        place.wake();
        place.wait(&mut Looks::new(), || true);
    }
}
