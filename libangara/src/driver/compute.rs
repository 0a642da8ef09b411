//! Time that the program's computing takes where time is virtual ([`angara_protocol::compute`]).
//!
//! An interval begins when the library has done what it was called for last, and ends when it is called again: where a
//! library above says when its routines are called ([`Computing::called`]), then; else when the driver is. Intervals are
//! counted by thread.

use crate::error::{Error, Result};
use angara_protocol::compute::{Compute, ENV_COMPUTE, intervals};
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// Nanoseconds of this thread's processor time when it came back from the library; `None` inside.
    static BACK: Cell<Option<u64>> = const { Cell::new(None) };
}

/// How an interval is known.
enum How {
    Fixed(u64),
    Measured(f64),
    /// Intervals not yet written, and where they go.
    Record(Mutex<Vec<u64>>, PathBuf),
    /// Intervals still to come, and where they are from.
    Replay(Mutex<std::vec::IntoIter<u64>>, PathBuf),
}

/// Counts the intervals of a PE.
pub(super) struct Computing {
    pe: usize,
    how: How,
    /// Cost of two reads of the processor's clock, nanoseconds.
    reads: u64,
    /// A library above says when its routines are called.
    above: AtomicBool,
}

impl Computing {
    /// As the environment says; `None` if computing takes no time.
    pub(super) fn from_env(pe: usize) -> Result<Option<Computing>> {
        let Ok(text) = std::env::var(ENV_COMPUTE) else { return Ok(None) };
        let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("{ENV_COMPUTE}={text}: {e}"));
        let how = match text.parse::<Compute>().map_err(|e| wrong(&e))? {
            Compute::None => return Ok(None),
            Compute::Fixed(ps) => How::Fixed(ps),
            Compute::Measured(factor) => How::Measured(factor),
            Compute::Record(file) => How::Record(Mutex::default(), file),
            Compute::Replay(file) => {
                let text = std::fs::read_to_string(&file).map_err(|e| wrong(&e))?;
                let all = intervals(&text, pe).map_err(|e| wrong(&e))?;
                How::Replay(Mutex::new(all.into_iter()), file)
            }
        };
        let reads = (0..64).map(|_| processor_time().abs_diff(processor_time())).min();
        Ok(Some(Computing { pe, how, reads: reads.unwrap_or(0), above: AtomicBool::new(false) }))
    }

    /// A library above is called by the program: the picoseconds that it has computed.
    pub(super) fn called(&self) -> Result<u64> {
        self.above.store(true, Ordering::Relaxed);
        self.interval()
    }

    /// The driver is called: the same, if no library above says.
    pub(super) fn entered(&self) -> Result<u64> {
        if self.above.load(Ordering::Relaxed) { Ok(0) } else { self.interval() }
    }

    /// The driver has done what it was called for.
    pub(super) fn returns(&self) {
        let clock = match self.how {
            How::Measured(_) | How::Record(..) => processor_time(),
            How::Fixed(_) | How::Replay(..) => 0,
        };
        BACK.set(Some(clock));
    }

    /// The program goes on inside the library. Nobody says when it comes back from a routine that has nothing to do for the
    /// driver: what is measured begins again now, and what is counted does not begin.
    pub(super) fn is_inside(&self) {
        match self.how {
            How::Fixed(_) => BACK.set(None),
            _ => self.returns(),
        }
    }

    /// Intervals take what they take: looks at clocks end them, too.
    pub(super) fn is_by_time(&self) -> bool {
        !matches!(self.how, How::Fixed(_))
    }

    /// The program looks at a clock: the picoseconds that it has computed. Another interval begins.
    pub(super) fn until_now(&self) -> u64 {
        if BACK.get().is_none() {
            return 0;
        }
        // An end of the recording is told at the next call.
        let ps = self.interval().unwrap_or(0);
        self.returns();
        ps
    }

    fn interval(&self) -> Result<u64> {
        let Some(back) = BACK.take() else { return Ok(0) };
        let measured = || processor_time().saturating_sub(back).saturating_sub(self.reads) * 1000;
        match &self.how {
            How::Fixed(ps) => Ok(*ps),
            How::Measured(factor) => Ok((measured() as f64 * factor) as u64),
            How::Record(made, _) => {
                let ps = measured();
                made.lock().unwrap_or_else(PoisonError::into_inner).push(ps);
                Ok(ps)
            }
            How::Replay(left, file) => {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                next.ok_or_else(|| {
                    let (pe, file) = (self.pe, file.display());
                    Error::invalid(format!(
                        "PE {pe} calls the library more often than when {file} was recorded; record it again"
                    ))
                })
            }
        }
    }

    /// Writes what was recorded since the last time.
    pub(super) fn write(&self) {
        let How::Record(made, file) = &self.how else { return };
        let made = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
        if made.is_empty() {
            return;
        }
        let mut line = self.pe.to_string();
        for ps in made {
            let _ = write!(line, " {ps}");
        }
        line.push('\n');
        let written = OpenOptions::new().append(true).open(file).and_then(|mut to| {
            // The launcher has begun the file, and others append, too.
            rustix::fs::flock(&to, rustix::fs::FlockOperation::LockExclusive)?;
            to.write_all(line.as_bytes())
        });
        if let Err(e) = written {
            angara_protocol::complain!("angara: PE {}: cannot write its intervals to {}: {e}", self.pe, file.display());
        }
    }
}

/// Nanoseconds that the processor has worked for this thread. Asked of the kernel: the program's clocks are virtual.
fn processor_time() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock every Linux has, and a place for its value.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
