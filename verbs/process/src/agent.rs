//! The agent: a thread of an adapter that serves peers while the program does something else.
//!
//! It sleeps on the memory of its seat, as every wait of the driver does. While the program polls, it does what the agent
//! would do, and the agent stays away: whoever writes to a seat where somebody sleeps pays for the wake-up.

use crate::adapter::{Adapter, tick};
use std::time::Duration;

/// Looks whether the program still polls come so often, at first and later.
const NAP: Duration = Duration::from_micros(200);
const NAP_MOST: Duration = Duration::from_millis(1);

/// Starts the agent of an adapter.
pub(crate) fn start(adapter: &'static Adapter) -> std::io::Result<()> {
    let run = move || serve(adapter);
    let thread = without_signals(|| std::thread::Builder::new().name("angara-agent".into()).spawn(run))?;
    adapter.has_agent(thread.thread().clone());
    Ok(())
}

/// Signals are the program's: none is to arrive at a thread that is not.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: two sets of signals on this thread's stack.
    unsafe {
        let (mut every, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started
    }
}

fn serve(adapter: &'static Adapter) {
    loop {
        let polls = adapter.polls();
        let ready = || {
            let done = adapter.try_progress();
            tick();
            done || adapter.polls() != polls
        };
        match adapter.job().wait(ready, &|| format!("messages to the RDMA adapter {}", adapter.name())) {
            Ok(()) | Err(angara::Error::Timeout { .. }) => {}
            // The job or the daemon has ended: every peer is lost.
            Err(_) => {
                adapter.with(|hca| {
                    hca.network_mut().end();
                    hca.look_at_port();
                });
                // Queue pairs of now and those to come end in errors.
                loop {
                    adapter.try_progress();
                    tick();
                    std::thread::sleep(20 * NAP_MOST);
                }
            }
        }
        if adapter.polls() != polls {
            stay_away(adapter);
        }
    }
}

/// Returns when the program does not poll any more, or has woken this thread.
fn stay_away(adapter: &Adapter) {
    let (mut nap, mut polls) = (NAP, adapter.polls());
    adapter.goes_away();
    loop {
        std::thread::park_timeout(nap);
        tick();
        let now = adapter.polls();
        if now == polls || adapter.is_wanted() {
            adapter.wake_agent();
            return;
        }
        (polls, nap) = (now, (2 * nap).min(NAP_MOST));
    }
}
