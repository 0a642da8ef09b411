//! Watches how long a PE has its turn: nothing of this process but a signal can take it away.

use angara_abi::note::monotonic;
use angara_coroutines::Crash;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// [`monotonic`] at the last look, for PEs that stand.
pub(crate) static NOW: AtomicU64 = AtomicU64::new(1);
/// A PE's output is being written.
pub(crate) static WRITES: AtomicBool = AtomicBool::new(false);

/// How often whoever watches looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long a PE that is to be interrupted may stay inside a library.
const INSIDE: Duration = Duration::from_secs(1);
/// Nobody's turn.
const NOBODY: usize = usize::MAX;

/// Whose turn it is, for other threads.
pub(crate) struct Watched {
    pe: AtomicUsize,
    turns: AtomicU64,
    /// Whose turn goes on, after a pause.
    paused: AtomicUsize,
    /// There is a command for the data plane, or was.
    wanted: Arc<AtomicBool>,
    /// Why a PE was interrupted.
    interrupted: Mutex<Option<String>>,
    stopped: AtomicBool,
}

impl Watched {
    pub(crate) fn new() -> Watched {
        Watched {
            pe: AtomicUsize::new(NOBODY),
            turns: AtomicU64::new(0),
            paused: AtomicUsize::new(NOBODY),
            wanted: Arc::default(),
            interrupted: Mutex::new(None),
            stopped: AtomicBool::new(false),
        }
    }
    /// Notes that the turn of a PE begins, or goes on.
    pub(crate) fn begins(&self, pe: usize) {
        self.pe.store(pe, Ordering::Relaxed);
        if self.paused.load(Ordering::Relaxed) == NOBODY {
            self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Release);
        } else if self.paused.load(Ordering::Relaxed) == pe {
            self.paused.store(NOBODY, Ordering::Relaxed);
        }
    }
    /// Notes that it ends, or pauses. Others do nothing in a pause but leave notes.
    pub(crate) fn ends(&self, pe: usize, paused: bool) {
        if paused {
            self.paused.store(pe, Ordering::Relaxed);
        }
        self.pe.store(NOBODY, Ordering::Release);
    }
    /// See [`angara_plane::Coroutines::wanted`].
    pub(crate) fn wanted(&self) -> Arc<AtomicBool> {
        self.wanted.clone()
    }

    /// Interrupts whichever PE has its turn now, because of `why`. Returns whether it is interrupted, or has come back by itself: not
    /// if it stays in a function of a library, where nothing can be left: locks may be held.
    pub(crate) fn interrupt(&self, why: &str) -> bool {
        let turn = self.turns.load(Ordering::Acquire);
        if self.is_over(turn) {
            return true;
        }
        *self.interrupted.lock().unwrap_or_else(|e| e.into_inner()) = Some(why.into());
        let end = Instant::now() + INSIDE;
        while !self.is_over(turn) {
            if Instant::now() >= end {
                return false;
            }
            angara_coroutines::interrupt();
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Returns the PE that has its turn, if one does.
    pub(crate) fn whose_turn(&self) -> Option<usize> {
        let [runs, paused] = [&self.pe, &self.paused].map(|pe| pe.load(Ordering::Acquire));
        [runs, paused].into_iter().find(|pe| *pe != NOBODY)
    }

    /// Returns whether the turn of this number is over.
    fn is_over(&self, turn: u64) -> bool {
        let nobody = self.pe.load(Ordering::Acquire) == NOBODY && self.paused.load(Ordering::Relaxed) == NOBODY;
        nobody || self.turns.load(Ordering::Acquire) != turn
    }

    /// Pauses a PE that keeps its turn while there are commands, and says why it is to lose one that it keeps for longer than
    /// `patience`, for ever. Time in which the reader of its output keeps it waiting does not count.
    pub(crate) fn watch(&self, patience: Option<Duration>, take_turn: impl Fn(&str)) {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            NOW.store(monotonic(), Ordering::Relaxed);
            std::thread::sleep(LOOK);
            let turn = self.turns.load(Ordering::Acquire);
            if turn != last || self.is_over(turn) || WRITES.load(Ordering::Relaxed) {
                (last, since) = (turn, Instant::now());
                continue;
            }
            if self.wanted.swap(false, Ordering::Acquire) {
                angara_coroutines::pause();
            }
            let Some(patience) = patience.filter(|patience| since.elapsed() >= *patience) else { continue };
            let s = patience.as_secs_f64();
            take_turn(&format!(
                "did not come back to the library for {s} s, and all others wait for it; --patience {} gives it more time, \
                 and --pes-as processes goes on without it",
                (s * 4.0).ceil()
            ));
            since = Instant::now();
        }
    }

    /// Says that no PE is let run any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }
    /// Returns whether [`Watched::stop`] was called.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Writes one line about a PE that a signal has ended, at a place of the program. Returns whether it was interrupted.
    pub(crate) fn describe(&self, crash: &Crash, pe: usize, place: Option<String>) -> (String, bool) {
        let at = place.map(|place| format!(" at {place}")).unwrap_or_default();
        if crash.signal == libc::SIGURG {
            // It may have been about to come back by itself; then the words are for nobody.
            let why = self.interrupted.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap_or_default();
            return (format!("angara: PE {pe}{at} {why}\n"), true);
        }
        let why = match crash.stack_overflow {
            true => "its stack was too small; give it more by `ulimit -s`".into(),
            false if crash.signal == libc::SIGABRT => "it was aborted".into(),
            false => format!("signal {}, address {:#x}", crash.signal, crash.address),
        };
        (format!("angara: PE {pe} crashed{at}: {why}\n"), false)
    }
}
