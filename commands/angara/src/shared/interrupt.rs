//! Ctrl-C or SIGTERM during long work: the first asks it to end and keep what it has, the second ends the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Exit status by which a shell names a signal: this and its number.
const SIGNALLED: i32 = 128;

/// The signal that this process noticed last, or 0.
static NOTICED: AtomicI32 = AtomicI32::new(0);

/// Whether a signal came.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the signal that came.
    came: Mutex<Option<i32>>,
    woken: Condvar,
}

/// Signals are noticed from now on. Without the means to watch for them, they end the process as always.
pub fn watch() -> Interrupt {
    let interrupt = Interrupt::default();
    let noticed = interrupt.clone();
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return interrupt };
    let handle = signals.handle();
    let wait = move || {
        for signal in signals.forever() {
            if noticed.status().is_some() {
                std::process::exit(SIGNALLED + signal);
            }
            let again = if signal == SIGINT { "press Ctrl-C again" } else { "send SIGTERM again" };
            angara_protocol::complain!("\nending; {again} to leave at once");
            NOTICED.store(signal, Ordering::Relaxed);
            noticed.came(signal);
        }
    };
    if std::thread::Builder::new().name("interrupt".into()).spawn(wait).is_err() {
        handle.close();
    }
    interrupt
}

/// Returns the exit status of a command that a signal has interrupted.
pub fn status() -> u8 {
    let signal = match NOTICED.load(Ordering::Relaxed) {
        0 => SIGINT,
        signal => signal,
    };
    (SIGNALLED + signal) as u8
}

impl Interrupt {
    /// Notes that this signal has come.
    pub fn came(&self, signal: i32) {
        *self.0.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
        self.0.woken.notify_all();
    }

    /// Returns when a signal has come or the time is over.
    pub fn wait(&self, limit: Duration) {
        let came = self.0.came.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.woken.wait_timeout_while(came, limit, |came| came.is_none()));
    }

    /// Tells whether work shall end.
    pub fn asked(&self) -> ControlFlow<()> {
        if self.status().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the exit status after the signal, if one came.
    pub fn status(&self) -> Option<u8> {
        let came = *self.0.came.lock().unwrap_or_else(PoisonError::into_inner);
        came.map(|signal| (SIGNALLED + signal) as u8)
    }
}
