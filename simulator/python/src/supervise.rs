//! Work on a thread of its own, while Python's thread waits without the lock of the interpreter.

use crate::raise;
use angara_sim::Error;
use angara_sim::run::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Between two looks at Ctrl-C, and between two calls of the user's function.
const LOOK: Duration = Duration::from_millis(50);

/// What the two threads tell each other.
#[derive(Default)]
pub(crate) struct Watch {
    stop: AtomicBool,
    latest: Mutex<Option<Progress>>,
}

impl Watch {
    /// Tells how far the work has come; breaks when it is to end.
    pub(crate) fn look(&self, progress: Progress) -> ControlFlow<()> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        self.stopped()
    }

    /// Breaks when the work is to end.
    pub(crate) fn stopped(&self) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Does `work` and returns its result. `progress` is called with what is being done, steps done, and steps in all.
/// After Ctrl-C, or an exception of `progress`, that exception leaves at once; the work ends at its next look.
pub(crate) fn supervise<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (done, mut results) = channel();
    let theirs = watch.clone();
    let worker = move || {
        // Nobody waits for the result after Ctrl-C.
        let _ = done.send(work(&theirs));
    };
    let started = Builder::new().name("simulation".into()).spawn(worker);
    started.map_err(|e| PyRuntimeError::new_err(format!("no thread for the simulation: {e}")))?;
    loop {
        let result;
        (result, results) = py.detach(move || (results.recv_timeout(LOOK), results));
        match result {
            Ok(result) => return result.map_err(raise),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the simulation failed: a defect of the simulator, described on standard error";
                return Err(PyRuntimeError::new_err(why));
            }
        }
        if let Err(e) = py.check_signals().and_then(|()| tell(py, &watch, progress)) {
            watch.stop.store(true, Ordering::Relaxed);
            return Err(e);
        }
    }
}

/// Calls the user's function if there is news.
fn tell(py: Python<'_>, watch: &Watch, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    let latest = watch.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (latest, progress) {
        (Some(p), Some(progress)) => progress.call1(py, (p.doing, p.done, p.of)).map(drop),
        _ => Ok(()),
    }
}
