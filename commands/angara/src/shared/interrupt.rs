//! Ctrl-C or SIGTERM during long work: the first asks it to end and keep what it has, the second ends the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Exit status by which a shell names a signal: this and its number.
const SIGNALLED: i32 = 128;

/// What [`watch`] watches for.
static WATCHED: OnceLock<Interrupt> = OnceLock::new();

/// Whether a signal came.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the signal that came, or 0.
    came: AtomicI32,
    sleepers: Mutex<()>,
    woken: Condvar,
}

/// Signals are noticed from about now on. Without the means to watch for them, they end the process as always.
pub fn watch() -> Interrupt {
    let interrupt = WATCHED.get_or_init(Interrupt::default).clone();
    let noticed = interrupt.clone();
    // Caught by the thread that acts on them: where there is none, nothing keeps them from ending the process.
    let wait = move || {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
        for signal in signals.forever() {
            if noticed.status().is_some() {
                std::process::exit(SIGNALLED + signal);
            }
            let again = if signal == SIGINT { "press Ctrl-C again" } else { "send SIGTERM again" };
            angara_protocol::complain!("\nending; {again} to leave at once");
            noticed.came(signal);
        }
    };
    drop(std::thread::Builder::new().name("interrupt".into()).spawn(wait));
    interrupt
}

/// Returns the exit status of a command that a signal has interrupted.
pub fn status() -> u8 {
    WATCHED.get().and_then(Interrupt::status).unwrap_or((SIGNALLED + SIGINT) as u8)
}

impl Interrupt {
    /// Notes that this signal has come.
    pub fn came(&self, signal: i32) {
        let _sleepers = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.came.store(signal, Ordering::Relaxed);
        self.0.woken.notify_all();
    }

    /// Returns when a signal has come or the time is over.
    pub fn wait(&self, limit: Duration) {
        let sleepers = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.woken.wait_timeout_while(sleepers, limit, |()| self.status().is_none()));
    }

    /// Tells whether work shall end.
    pub fn asked(&self) -> ControlFlow<()> {
        if self.status().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the exit status after the signal, if one came.
    pub fn status(&self) -> Option<u8> {
        let came = self.0.came.load(Ordering::Relaxed);
        (came != 0).then_some((SIGNALLED + came) as u8)
    }
}
