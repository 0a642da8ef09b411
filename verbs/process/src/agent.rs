//! The agent: a thread of an adapter that serves peers while the program does something else.
//!
//! It sleeps on the memory of its seat, as every wait of the driver does. While the program polls, it does what the agent
//! would do, and the agent stays away: whoever writes to a seat where somebody sleeps pays for the wake-up.

use crate::adapter::{Adapter, tick};
use angara_abi::NoSignals;
use std::time::Duration;

/// Looks whether the program still polls come so often, at first and later.
const NAP: Duration = Duration::from_micros(200);
const NAP_MOST: Duration = Duration::from_millis(1);
/// A program that has not polled between so many looks does something else; once, it may have lost its core to another one.
const TWICE: u32 = 2;

/// Starts the agent of an adapter.
pub(crate) fn start(adapter: &'static Adapter) -> std::io::Result<()> {
    let run = move || serve(adapter);
    // Signals are the program's: none is to arrive at a thread that is not.
    let _no_signals = NoSignals::new();
    let thread = std::thread::Builder::new().name("angara-agent".into()).spawn(run)?;
    adapter.has_agent(thread.thread().clone());
    Ok(())
}

fn serve(adapter: &'static Adapter) {
    // What it stores, it stores under the adapter's lock, under which memory is registered, too.
    angara_registered::own_thread();
    loop {
        let polls = adapter.polls();
        let by_program = || adapter.polls() != polls && !adapter.is_armed();
        let ready = || {
            tick();
            by_program() || adapter.progress()
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
                    adapter.progress();
                    tick();
                    std::thread::sleep(20 * NAP_MOST);
                }
            }
        }
        if by_program() {
            stay_away(adapter);
        }
    }
}

/// Returns when the program does not poll any more, or has woken this thread.
fn stay_away(adapter: &Adapter) {
    let (mut nap, mut polls, mut in_vain) = (NAP, adapter.polls(), 0);
    adapter.goes_away();
    while in_vain < TWICE && !adapter.is_wanted() && !adapter.is_armed() {
        std::thread::park_timeout(nap);
        tick();
        let now = adapter.polls();
        in_vain = if now == polls { in_vain + 1 } else { 0 };
        (polls, nap) = (now, (2 * nap).min(NAP_MOST));
    }
    adapter.wake_agent();
}
