//! The end of this process where a PE is blocked inside a library. It cannot be left there, because locks may be held, so the
//! data plane that runs on its thread cannot end in order.

use crate::lines::{Lines, Which};
use crate::link::Link;
use crate::watch::Watched;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How long a PE may take to say where it is.
const SAYS: Duration = Duration::from_secs(1);
/// How long the daemon may take to end in order.
const IN_ORDER: Duration = Duration::from_secs(2);
/// After this many seconds the system ends the process, if what is done here needs a lock that the PE holds.
const AT_MOST: u32 = 5;

/// Where copies of a program lie, and its file.
pub(crate) struct Copies {
    /// Address of the first.
    pub(crate) first: usize,
    pub(crate) bytes: usize,
    /// How many.
    pub(crate) count: usize,
    pub(crate) file: PathBuf,
}

impl Copies {
    /// Returns where the copy begins that contains an address.
    pub(crate) fn at(&self, address: usize) -> Option<usize> {
        let number = address.checked_sub(self.first)? / self.bytes;
        (number < self.count).then_some(self.first + number * self.bytes)
    }
}

/// Takes the turn from a PE, and ends the process if that cannot be done.
pub(crate) struct Farewell {
    pub(crate) link: Link,
    pub(crate) watched: Arc<Watched>,
    pub(crate) runtime_dir: PathBuf,
    /// Known when there are PEs.
    pub(crate) copies: Arc<OnceLock<Copies>>,
    saying: Mutex<()>,
}

impl Farewell {
    pub(crate) fn new(link: Link, watched: Arc<Watched>, runtime_dir: &Path) -> Farewell {
        let (runtime_dir, copies) = (runtime_dir.into(), Arc::default());
        Farewell { link, watched, runtime_dir, copies, saying: Mutex::new(()) }
    }

    /// Interrupts whichever PE has its turn now, because of `why`. Where that is impossible, the PE has ended as a process would
    /// with the status `raw`, the others have been told to end, and this does not return.
    pub(crate) fn take_turn(&self, why: &str, raw: i32) {
        if self.watched.interrupt(why) {
            return;
        }
        let _one = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no conditions; PEs have neither handlers nor alarms.
        unsafe {
            libc::signal(libc::SIGALRM, libc::SIG_DFL);
            libc::alarm(AT_MOST);
        }
        let found = angara_coroutines::position(SAYS);
        let Some(pe) = self.watched.whose_turn() else {
            // It has come back in the meantime.
            // SAFETY: no conditions.
            unsafe { libc::alarm(0) };
            return;
        };
        let at = found.and_then(|(_, at)| self.place(*at.frames.first()?, at.rip));
        let at = at.map(|place| format!(" at {place}")).unwrap_or_default();
        angara_protocol::complain!("angara: PE {pe}{at} {why}");
        // Its sockets and its lock are all that is there. The launcher does the same, if there still is one.
        let _ = std::fs::remove_dir_all(&self.runtime_dir);
        self.link.ended(pe, raw);
        self.link.all_end(if libc::WIFSIGNALED(raw) { raw } else { libc::SIGTERM });
        // SAFETY: no conditions. Handlers of exit could need what the PE holds.
        unsafe { libc::_exit(1) }
    }

    /// Ends the process if the daemon, which has been told to end, cannot.
    pub(crate) fn after_the_daemon(&self) {
        std::thread::sleep(IN_ORDER);
        self.watched.stop();
        self.take_turn("had not come back to the library when the job was ended", libc::SIGTERM);
    }

    fn place(&self, frame: usize, rip: usize) -> Option<String> {
        let copies = self.copies.get()?;
        let base = copies.at(frame)?;
        Some(Lines::of(&copies.file).place(frame - base, frame != rip, Which::Innermost))
    }
}
