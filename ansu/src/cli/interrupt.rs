//! Ctrl-C or SIGTERM during long work: the first asks it to end, the second ends the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Exit status by which a shell names a signal: this and its number.
const SIGNALLED: i32 = 128;

/// Whether a signal came.
#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Signals are noticed from now on. Without the means to watch for them, they end the process as always.
    pub(super) fn watch() -> Interrupt {
        let (number, once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal only sets what makes the second one end the process.
            let registered = flag::register_conditional_shutdown(signal, SIGNALLED + signal, Arc::clone(&once))
                .and_then(|_| flag::register(signal, Arc::clone(&once)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&number), signal as usize));
            drop(registered);
        }
        Interrupt(number)
    }

    /// As if this signal had come.
    #[cfg(test)]
    pub(super) fn came(signal: usize) -> Interrupt {
        Interrupt(Arc::new(AtomicUsize::new(signal)))
    }

    /// Tells whether work shall end.
    pub(super) fn asked(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) != 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Exit status after the signal, if one came.
    pub(super) fn status(&self) -> Option<u8> {
        let number = self.0.load(Ordering::Relaxed);
        (number != 0).then(|| (SIGNALLED as usize + number) as u8)
    }
}
