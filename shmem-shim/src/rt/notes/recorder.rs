//! The file that calls are noted in.

use super::caller::{caller_address, line_of};
use crate::ctypes::Name;
use crate::rt::mutex::lock;
use angara_protocol::calls::{Action, Call, CallFile};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

thread_local! {
    /// Number of this thread among those that have called the library.
    static THREAD: Cell<Option<u16>> = const { Cell::new(None) };
}

/// Threads that have called the library.
static THREADS: AtomicU16 = AtomicU16::new(0);

/// A file of calls: one for all lives of a PE's job.
pub(crate) struct Recorder {
    pub(super) pe: u32,
    /// Calls say from which line they come.
    pub(super) sites: bool,
    pub(super) notes: Mutex<CallFile>,
}

/// Returns the number of this thread, which it gets here the first time.
fn thread() -> u16 {
    THREAD.get().unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, Ordering::Relaxed);
        THREAD.set(Some(number));
        number
    })
}

impl Recorder {
    /// Notes a call, with the time it began and the time it ended.
    pub(super) fn note(&self, name: Name, depth: u8, (start, end): (u64, u64), action: Action) {
        let thread = thread();
        let at = if self.sites { caller_address() } else { None };
        let mut notes = lock(&self.notes);
        let mut add = || {
            let routine = notes.text(name.as_ptr() as usize, || (*name).into())?;
            let site = at.map_or(Ok(0), |at| site(&mut notes, at as usize))?;
            notes.call(&Call { routine, site, thread, depth, start, end, action })
        };
        let noted = add();
        self.say(noted);
    }

    /// Notes `all` that the program has done to memory itself until `now`: where the code is, and what it did.
    pub(super) fn note_accesses(&self, all: Vec<(usize, Action)>, now: u64) {
        let thread = thread();
        let mut notes = lock(&self.notes);
        for (code, action) in all {
            let mut add = || {
                let site = site(&mut notes, code)?;
                notes.call(&Call { routine: 0, site, thread, depth: 0, start: now, end: now, action })
            };
            let noted = add();
            self.say(noted);
        }
    }

    fn say(&self, noted: std::io::Result<()>) {
        if let Err(e) = noted {
            angara_protocol::complain!("angara: PE {}: calls are no longer noted: {e}", self.pe);
        }
    }
}

/// Returns the number in the notes of the line of the program at a return address.
fn site(notes: &mut CallFile, address: usize) -> std::io::Result<u32> {
    notes.text(address, || line_of(address as *mut _))
}
