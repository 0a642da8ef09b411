//! What PEs call on their own stacks. While one runs, the host's thread-local variables may be the program's (the rule of
//! `angara_coroutines`), so nothing here uses any: what needs more is left on the *desk*, and the PE stands until the host has done it.

use crate::farewell::Copies;
use crate::output::Output;
use angara_abi::inside::{Host, VERSION};
use angara_coroutines::{current_pe, stand};
use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, OnceLock};

/// Functions for the library.
pub(crate) static HOST: Host = Host {
    version: VERSION,
    stand,
    ask,
    flush: angara_coroutines::flush,
    complain,
    leave: angara_coroutines::leave,
    exit: angara_coroutines::exit,
    line,
    find,
    now: &crate::watch::NOW,
};

/// What PEs and host leave for each other. All of it is in cells, for both see one desk.
pub(crate) struct Desk {
    /// Standard output and error.
    outputs: UnsafeCell<Option<[Output; 2]>>,
    /// What the PE whose turn it is wants to know.
    question: Cell<Option<Question>>,
    /// The answer for the PE whose turn it is; nothing, if nobody answers any more.
    answer: Cell<Option<Option<Vec<u8>>>>,
    /// Copies of the program, and its name.
    copies: OnceCell<(Arc<OnceLock<Copies>>, &'static CStr)>,
}

/// What a PE may want to know.
pub(crate) enum Question {
    /// A request to the daemon.
    Daemon(&'static [u8]),
    /// The line of an address of its code.
    Line(usize),
}

/// The desk of this process.
struct OneDesk(Desk);

// SAFETY: only `desk` gives it out, whose callers are on the one thread of the PEs.
unsafe impl Sync for OneDesk {}

static DESK: OneDesk = OneDesk(Desk {
    outputs: UnsafeCell::new(None),
    question: Cell::new(None),
    answer: Cell::new(None),
    copies: OnceCell::new(),
});

/// Returns the desk.
///
/// # Safety
/// Called on the thread of the PEs, where the desk stays.
pub(crate) unsafe fn desk() -> &'static Desk {
    &DESK.0
}

impl Desk {
    /// Takes the question of the PE that has just stood, if it asks one.
    pub(crate) fn take_question(&self) -> Option<Question> {
        self.question.take()
    }

    /// Leaves the answer to the last question; nothing, if nobody answers any more.
    pub(crate) fn answer(&self, text: Option<Vec<u8>>) {
        self.answer.set(Some(text));
    }

    /// Notes that there are copies of the program `file`.
    pub(crate) fn knows(&self, copies: Arc<OnceLock<Copies>>, file: &'static CStr) {
        // There is one program: PEs are made once.
        let _ = self.copies.set((copies, file));
    }

    /// Returns where the copy begins that contains an address.
    pub(crate) fn copy_at(&self, address: usize) -> Option<usize> {
        self.copies.get()?.0.get()?.at(address)
    }

    /// Opens standard output and error of the PEs, or closes both.
    pub(crate) fn set_outputs(&self, outputs: Option<[Output; 2]>) {
        // SAFETY: references to the outputs exist in functions of `Desk` alone, which end before another begins: an output
        // knows nothing of the desk, and lets no PE run. A PE that crashes inside one never goes on there.
        unsafe { *self.outputs.get() = outputs };
    }

    /// Writes what a PE has written to its standard output, or to its standard error, 2.
    pub(crate) fn write(&self, pe: u32, fd: c_int, bytes: &[u8]) {
        // SAFETY: as in `set_outputs`.
        if let Some([out, err]) = unsafe { &mut *self.outputs.get() } {
            if fd == 2 { err.take(pe, bytes) } else { out.take(pe, bytes) }
        }
    }

    /// Writes what a PE that has ended has left without an end of line.
    pub(crate) fn finish(&self, pe: u32) {
        // SAFETY: as in `set_outputs`.
        unsafe { &mut *self.outputs.get() }.iter_mut().flatten().for_each(|output| output.finish(pe));
    }
}

extern "C" fn ask(request: *const u8, len: usize, answer: *mut u8, room: usize) -> isize {
    // SAFETY: the library's request, which stays where it is until this returns.
    wait(Question::Daemon(unsafe { std::slice::from_raw_parts(request, len) }), answer, room)
}

extern "C" fn line(address: usize, to: *mut u8, room: usize) -> usize {
    wait(Question::Line(address), to, room).max(0) as usize
}

/// Stands until the question is answered. Returns the bytes of the answer; -1 if nobody answers.
fn wait(question: Question, answer: *mut u8, room: usize) -> isize {
    // SAFETY: a PE calls this.
    let desk = unsafe { desk() };
    desk.question.set(Some(question));
    loop {
        stand();
        match desk.answer.take() {
            None => {}
            Some(Some(text)) if text.len() <= room => {
                // SAFETY: the library's room, and no more of it than there is.
                unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), answer, text.len()) };
                return text.len() as isize;
            }
            Some(_) => return -1,
        }
    }
}

extern "C" fn complain(text: *const u8, len: usize) {
    if let Some(pe) = current_pe() {
        sink(pe, 2, text, len);
    }
}

/// Takes what a PE writes to its standard output or error.
pub(crate) extern "C" fn sink(pe: u32, fd: c_int, bytes: *const u8, len: usize) {
    // SAFETY: the writer's bytes; it is a PE, or the host in its stead, on the thread of the PEs.
    let (bytes, desk) = unsafe { (std::slice::from_raw_parts(bytes, len), desk()) };
    desk.write(pe, fd, bytes);
}

extern "C" fn find(address: usize, file: &mut *const c_char) -> usize {
    // SAFETY: a PE calls this, or the library for it during its turn.
    let desk = unsafe { desk() };
    let Some(base) = desk.copy_at(address) else { return 0 };
    *file = desk.copies.get().map_or(std::ptr::null(), |copies| copies.1.as_ptr());
    base
}
