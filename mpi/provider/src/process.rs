//! The one place of this process in a job, shared by all that libfabric opens here.

use crate::provider::{Names, Provider, Window};
use crate::wire::HEAD_MAX;
use angara::mailbox::Mailbox;
use angara::open::Join;
use angara::{Job, Launch};
use angara_protocol::launch::LaunchError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Least bytes of the window for large messages.
const WINDOW_MIN: usize = 1 << 20;
/// Bytes of a seat in a domain, whatever its number of seats: a mailbox, names and a window. Only what is used takes memory.
const SEAT: usize = 96 << 20;
/// How long a process that ends tries to get rid of what others wait for, while nobody takes anything of it.
const FAREWELL: Duration = Duration::from_secs(1);

struct Process {
    provider: Mutex<Provider>,
    job: Arc<Job>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();
static ATTACHING: Mutex<()> = Mutex::new(());
/// Threads that want the lock while another sleeps with it.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Takes a place in the job that the environment names, or else in a domain of the daemon, unless that has been done.
pub(crate) fn attach() -> Result<(), String> {
    let _one = ATTACHING.lock().unwrap_or_else(|e| e.into_inner());
    if PROCESS.get().is_some() {
        return Ok(());
    }
    let (job, key) = match Launch::from_env() {
        Ok(launch) => Job::attach(&launch, &[]).map(|job| (job, launch.key)),
        Err(LaunchError::NoLauncher) => {
            Join::from_env(SEAT).and_then(|join| join.join()).map(|joined| (joined.job, joined.key))
        }
        Err(other) => Err(other.into()),
    }
    .map_err(|e| e.to_string())?;
    let job = Arc::new(job);
    let provider = open(&key, job.clone())?;
    let _ = PROCESS.set(Process { provider: Mutex::new(provider), job });
    // SAFETY: a function without arguments, of a library that stays loaded.
    unsafe { libc::atexit(at_exit) };
    Ok(())
}

fn open(key: &str, job: Arc<Job>) -> Result<Provider, String> {
    let (mailbox, heap) = (Mailbox::bytes(job.n_pes()).next_multiple_of(4096), job.heap_len());
    let front = mailbox + Names::BYTES;
    let window = heap.saturating_sub(front);
    if window < WINDOW_MIN {
        job.detach();
        let least = (front + WINDOW_MIN).div_ceil(1 << 20);
        return Err(format!("the symmetric heap of {heap} bytes is too small: start with --heap {least}M or more"));
    }
    let at = job.locate(job.heap(), heap).ok_or("the heap has no place")?;
    let mail = Mailbox::open(job.clone(), at).map_err(|e| e.to_string())?;
    if let Some(text) = eager_limit(job.n_pes(), mail.message_max()) {
        match job.my_pe() == 0 && !job.geometry().open {
            true => angara_protocol::complain!("angara: {text}"),
            false => crate::log::info(&text),
        }
    }
    let names = Names::new(at.offset + mailbox as u64);
    let window = Window::new(at.offset + front as u64, window);
    Ok(Provider::new(job, mail, name(key), names, window))
}

/// Returns what is to be said where messages stay with their senders that would not among fewer processes.
fn eager_limit(pes: usize, message_max: usize) -> Option<String> {
    let (here, most) = (message_max - HEAD_MAX, Mailbox::MESSAGE_MOST - HEAD_MAX);
    (here < most).then(|| {
        format!(
            "MPI: {pes} processes have mailboxes for messages of up to {here} bytes, not {most} as fewer have: receivers \
             fetch larger ones, which takes a round trip more"
        )
    })
}

/// Returns what a job is called in addresses: tells jobs apart without telling their key.
fn name(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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
        Err(std::sync::TryLockError::Poisoned(e)) => e.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) => {
            WANTED.fetch_add(1, Ordering::Relaxed);
            let guard = provider.lock().unwrap_or_else(|e| e.into_inner());
            WANTED.fetch_sub(1, Ordering::Relaxed);
            guard
        }
    }
}

/// True if other threads wait for the state.
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) > 0
}

/// Lets others have the state, if they want it.
pub(crate) fn give_way() {
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

/// The process ends, or libfabric does.
pub(crate) fn leave() {
    let Some(process) = PROCESS.get() else { return };
    if let Ok(mut provider) = process.provider.try_lock() {
        settle(&mut provider);
        // A rank that is aborted inside `MPI_Finalize` would wait for ever.
        if !process.job.adapter().is_outside_time() {
            let _ = process.job.ctx().quiet();
        }
    }
    process.job.detach();
}

extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(leave);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_eager_limit_is_said_with_both() {
        assert_eq!(eager_limit(2, Mailbox::MESSAGE_MOST), None);
        let text = eager_limit(2000, 8192).expect("it is smaller");
        assert!(text.contains("2000 processes") && text.contains("8160 bytes, not 16352"), "{text}");
    }
}
