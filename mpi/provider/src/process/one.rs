//! The state of this process, for one thread at a time.

use crate::provider::{Provider, is_wanted, wanting};
use angara::Job;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// How long a process that ends tries to get rid of what others wait for, while nobody takes anything of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long it waits for other threads that are in calls, among them the helper.
const SOON: Duration = Duration::from_millis(20);

struct Process {
    provider: Mutex<Provider>,
    job: Arc<Job>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// This process has its place.
pub(super) fn is_there() -> bool {
    PROCESS.get().is_some()
}

/// It has it from now on.
pub(super) fn begin(provider: Provider, job: Arc<Job>) {
    let _ = PROCESS.set(Process { provider: Mutex::new(provider), job });
}

/// The job, once it has its place.
///
/// # Panics
/// As [`provider`].
pub(super) fn job() -> &'static Job {
    &PROCESS.get().expect("objects exist in attached processes only").job
}

/// The state, for one thread at a time. A panic of another thread has left it consistent enough to end: calls go on.
///
/// # Panics
/// If the process has not attached.
#[inline]
pub(crate) fn provider() -> MutexGuard<'static, Provider> {
    let provider = &PROCESS.get().expect("objects exist in attached processes only").provider;
    match provider.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => wanting(|| provider.lock().unwrap_or_else(|e| e.into_inner())),
    }
}

/// Lets others have the state, if they want it.
pub(super) fn give_way() {
    if is_wanted() {
        std::thread::yield_now();
    }
}

/// Waits until `ready` gives something. Nothing after `limit`, if there is one.
pub(crate) fn wait_for<T>(limit: Option<Duration>, mut ready: impl FnMut(&mut Provider) -> Option<T>) -> Option<T> {
    let end = limit.map(|limit| Instant::now() + limit);
    loop {
        let mut provider = provider();
        if let Some(found) = ready(&mut provider) {
            return Some(found);
        }
        if !provider.progress() {
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            // With the lock: short, so that others get their turn.
            provider.sleep(left.min(Duration::from_millis(1)));
        }
        drop(provider);
        give_way();
    }
}

/// Sends what peers may wait for.
pub(crate) fn settle(provider: &mut Provider) {
    let (mut end, mut least) = (Instant::now(), usize::MAX);
    while provider.has_unsent() {
        let (now, left) = (Instant::now(), provider.unsent());
        if left < least {
            (end, least) = (now + FAREWELL, left);
        } else if now >= end {
            return;
        }
        if !provider.progress() {
            provider.sleep(Duration::from_millis(1));
        }
    }
}

/// The state, unless it is not given back soon: the calling thread may have it itself, or one that was stopped.
fn soon(process: &Process) -> Option<MutexGuard<'_, Provider>> {
    let end = Instant::now() + SOON;
    loop {
        match process.provider.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(SOON / 20),
            Err(_) => return None,
        }
    }
}

/// The process ends.
pub(super) fn leave() {
    let Some(process) = PROCESS.get() else { return };
    if let Some(mut provider) = soon(process) {
        settle(&mut provider);
        // A rank that is aborted inside `MPI_Finalize` would wait for ever.
        if !process.job.adapter().is_outside_time() {
            let _ = process.job.ctx().quiet();
        }
    }
    process.job.detach();
}
