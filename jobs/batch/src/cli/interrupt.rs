//! Ctrl-C or SIGTERM during long work: the first asks it to end, the second ends the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Exit status by which a shell names a signal: this and its number.
const SIGNALLED: i32 = 128;

/// Whether a signal came.
#[derive(Clone, Default)]
pub(super) struct Interrupt {
    number: Arc<AtomicUsize>,
    /// A byte comes with a signal; none if there is no means to be woken.
    woken: Option<Arc<UnixStream>>,
}

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
        let woken = UnixStream::pair().and_then(|(woken, waker)| {
            pipe::register(SIGINT, waker.try_clone()?)?;
            pipe::register(SIGTERM, waker)?;
            Ok(Arc::new(woken))
        });
        Interrupt { number, woken: woken.ok() }
    }

    /// Returns when a signal has come or the time is over; perhaps earlier.
    pub(super) fn wait(&self, limit: Duration) {
        let limit = limit.max(Duration::from_millis(1));
        let timed = self.woken.as_deref().filter(|woken| woken.set_read_timeout(Some(limit)).is_ok());
        match timed {
            Some(mut woken) => drop(woken.read(&mut [0])),
            None => std::thread::park_timeout(limit),
        }
    }

    /// As if this signal had come.
    #[cfg(test)]
    pub(super) fn came(signal: usize) -> Interrupt {
        Interrupt { number: Arc::new(AtomicUsize::new(signal)), woken: None }
    }

    /// Tells whether work shall end.
    pub(super) fn asked(&self) -> ControlFlow<()> {
        if self.number.load(Ordering::Relaxed) != 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Exit status after the signal, if one came.
    pub(super) fn status(&self) -> Option<u8> {
        let number = self.number.load(Ordering::Relaxed);
        (number != 0).then(|| (SIGNALLED as usize + number) as u8)
    }
}
