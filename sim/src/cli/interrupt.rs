//! Ctrl-C during long work: the first one asks the run to end and keep what it has, the second ends
//! the process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Status of a process that SIGINT has ended, as shells show it.
const STATUS: i32 = 130;

/// From now on Ctrl-C is noticed by [`asked`]. Without the means to watch for it, it ends the process as
/// always.
pub(super) fn watch() {
    let waiter = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            ASKED.store(true, Ordering::Relaxed);
            angara_protocol::complain!("\nending; press Ctrl-C again to leave at once");
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(STATUS);
            }
        });
    };
    drop(std::thread::Builder::new().name("interrupt".into()).spawn(waiter));
}

/// Tells whether the user wants the run to end.
pub(super) fn asked() -> ControlFlow<()> {
    if ASKED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
