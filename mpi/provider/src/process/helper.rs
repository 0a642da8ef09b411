//! A thread that makes progress while the program does something else: for domains of automatic progress, and while the program
//! sleeps on a descriptor.
//!
//! It sleeps on the memory of this process, as every wait of the driver does, and has the provider's lock for single looks only.
//! While the program polls, it does what the helper would do, and the helper stays away: whoever writes to a process where
//! somebody sleeps pays for the wake-up.

use super::one::{give_way, job, provider, wait_for};
use crate::abi::constants::errno;
use crate::provider::Outcome;
use angara_abi::NoSignals;
use angara_protocol::mpi::MpiCosts;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks whether the program still polls come so often.
const NAP: Duration = Duration::from_millis(1);
/// A program that has not polled between so many looks does something else; once, it may have lost its core to another one.
const TWICE: u32 = 2;

/// Objects that need the helper, and the helper if there are any.
#[derive(Default)]
struct Running {
    users: usize,
    thread: Option<JoinHandle<()>>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { users: 0, thread: None });
/// Domains of automatic progress.
static ALWAYS: AtomicU32 = AtomicU32::new(0);
/// It stays away, and has to be woken when somebody goes to sleep.
static AWAY: AtomicBool = AtomicBool::new(false);
static ENDS: AtomicBool = AtomicBool::new(false);

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(|e| e.into_inner())
}

/// The need of an object for the helper.
pub(crate) struct Helper {
    always: bool,
}

impl Helper {
    /// Makes progress from now on whenever the program does not.
    pub(crate) fn always() -> Outcome<Helper> {
        ALWAYS.fetch_add(1, Ordering::Relaxed);
        // Where it cannot start, dropping this takes the number back.
        let need = Helper { always: true };
        begin()?;
        wake();
        Ok(need)
    }

    /// Makes progress while the program sleeps on a descriptor. Where time is virtual nobody could: who sleeps in the system has
    /// no time of his own.
    pub(crate) fn for_sleepers() -> Outcome<Helper> {
        if MpiCosts::from_env().is_some() || job().adapter().virtual_now().is_some() {
            crate::log::info("FI_WAIT_FD is not offered where time is virtual");
            return Err(errno::ENOSYS);
        }
        let need = Helper { always: false };
        begin()?;
        Ok(need)
    }
}

/// One more needs it.
fn begin() -> Outcome {
    let mut running = running();
    running.users += 1;
    if running.thread.is_none() {
        ENDS.store(false, Ordering::Relaxed);
        // Signals are the program's: none is to arrive at a thread that is not.
        let _no_signals = NoSignals::new();
        let thread = std::thread::Builder::new().name("angara-ofi".into()).spawn(serve);
        running.thread = Some(thread.map_err(|_| errno::ENOMEM)?);
    }
    Ok(())
}

/// Must not be dropped by who has the provider's lock.
impl Drop for Helper {
    fn drop(&mut self) {
        if self.always {
            ALWAYS.fetch_sub(1, Ordering::Relaxed);
        }
        let mut running = running();
        running.users -= 1;
        if running.users == 0
            && let Some(thread) = running.thread.take()
        {
            end(&thread);
            let _ = thread.join();
        }
    }
}

fn end(thread: &JoinHandle<()>) {
    ENDS.store(true, Ordering::Relaxed);
    thread.thread().unpark();
    job().notify(job().my_pe());
}

/// The process ends: nothing takes the provider's lock any more without being asked to.
pub(super) fn ends() {
    // A child of the program may have got the lock as another thread had it.
    if let Ok(running) = RUNNING.try_lock()
        && let Some(thread) = &running.thread
    {
        end(thread);
    }
}

/// Somebody goes to sleep on a descriptor, and has armed it.
pub(crate) fn wake() {
    if AWAY.load(Ordering::Relaxed)
        && AWAY.swap(false, Ordering::Relaxed)
        && let Some(thread) = &running().thread
    {
        thread.thread().unpark();
    }
}

fn is_to_end() -> bool {
    ENDS.load(Ordering::Relaxed)
}

fn is_always() -> bool {
    ALWAYS.load(Ordering::Relaxed) > 0
}

fn serve() {
    let job = job();
    while !is_to_end() {
        // A turn of this thread's own, in which time passes.
        if job.adapter().virtual_now().is_some() {
            wait_for(Some(NAP), |_| None::<()>);
            give_way();
            continue;
        }
        let ready = || {
            is_to_end() || {
                let mut provider = provider();
                provider.helps() || provider.goes_without_help()
            }
        };
        match job.wait(ready, &|| provider().state.under_way().what_it_waits_for()) {
            Ok(()) | Err(angara::Error::Timeout { .. }) => {}
            // Everything has ended in errors, which wakes who sleeps, and nothing can be slept on again.
            Err(e) => return provider().ends_by(&e),
        }
        if provider().goes_without_help() {
            stay_away();
        }
    }
}

/// Returns when somebody goes to sleep on a descriptor, or where progress is automatic, when the program does not poll any more.
/// It does not ask for the lock meanwhile: a program that polls has it nearly always.
fn stay_away() {
    AWAY.store(true, Ordering::Relaxed);
    // Whoever arms a descriptor under the lock from now on sees that; whoever has done so before is seen here.
    let (is_needed, polls) = {
        let provider = provider();
        (!provider.goes_without_help(), provider.looks_in_vain())
    };
    let looks = || polls.load(Ordering::Relaxed);
    let (mut before, mut in_vain) = (looks(), 0);
    while !is_needed && AWAY.load(Ordering::Relaxed) && !is_to_end() && in_vain < TWICE {
        if !is_always() {
            std::thread::park();
            continue;
        }
        std::thread::park_timeout(NAP);
        let now = looks();
        in_vain = if now == before { in_vain + 1 } else { 0 };
        before = now;
    }
    AWAY.store(false, Ordering::Relaxed);
    if in_vain >= TWICE {
        provider().wants_help();
    }
}
