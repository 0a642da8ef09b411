//! Ctrl-C or a batch system's SIGTERM during long work: the first asks the run to end and keep what it
//! has, the second ends the process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Exit status by which a shell names the signal that ended a process.
const INTERRUPT: u8 = 130;
const TERMINATE: u8 = 143;

/// The status of the signal that came, or 0.
static ASKED: AtomicU8 = AtomicU8::new(0);

/// From now on both signals are noticed by [`asked`]. Without the means to watch for them, they end the process as
/// always.
pub(super) fn watch() {
    let waiter = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let kinds = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = kinds else { return };
            loop {
                let (status, again) = tokio::select! {
                    _ = interrupt.recv() => (INTERRUPT, "press Ctrl-C again"),
                    _ = terminate.recv() => (TERMINATE, "send SIGTERM again"),
                };
                if ASKED.swap(status, Ordering::Relaxed) != 0 {
                    std::process::exit(status.into());
                }
                angara_protocol::complain!("\nending; {again} to leave at once");
            }
        });
    };
    drop(std::thread::Builder::new().name("interrupt".into()).spawn(waiter));
}

/// Tells whether the user wants the run to end.
pub(super) fn asked() -> ControlFlow<()> {
    if ASKED.load(Ordering::Relaxed) != 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Exit status of a command that was interrupted: as a shell shows what the signal has ended.
pub fn status() -> u8 {
    match ASKED.load(Ordering::Relaxed) {
        0 => INTERRUPT,
        status => status,
    }
}
