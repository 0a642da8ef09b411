//! What PEs call on their own stacks. While one runs, the host's thread-local variables may be the program's (the rule of
//! `angara_coroutines`), so nothing here uses any: what needs more is left on the *desk*, and the PE stands until the host has done it.

use crate::farewell::Copies;
use crate::output::Output;
use angara_abi::inside::{Host, VERSION};
use angara_coroutines::{current_pe, stand};
use std::cell::UnsafeCell;
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

/// What PEs and host leave for each other.
pub(crate) struct Desk {
    /// Standard output and error.
    pub(crate) outputs: Option<[Output; 2]>,
    /// What the PE whose turn it is wants to know.
    question: Option<Question>,
    /// The answer for the PE whose turn it is; nothing, if nobody answers any more.
    answer: Option<Option<Vec<u8>>>,
    /// Copies of the program, and its name.
    copies: Option<(Arc<OnceLock<Copies>>, &'static CStr)>,
}

/// What a PE may want to know.
pub(crate) enum Question {
    /// A request to the daemon.
    Daemon(&'static [u8]),
    /// The line of an address of its code.
    Line(usize),
}

/// The desk of this process. Only the thread of the PEs comes near it, and either a PE of it runs or the host does.
struct OneDesk(UnsafeCell<Desk>);

// SAFETY: as said above.
unsafe impl Sync for OneDesk {}

static DESK: OneDesk = OneDesk(UnsafeCell::new(Desk { outputs: None, question: None, answer: None, copies: None }));

/// The desk. To be called on the thread of the PEs, and not to be kept while a PE runs.
pub(crate) fn desk() -> &'static mut Desk {
    // SAFETY: one thread, and neither PE nor host keeps what it gets beyond its own turn.
    unsafe { &mut *DESK.0.get() }
}

impl Desk {
    /// The question of the PE that has just stood, if it asks one.
    pub(crate) fn take_question(&mut self) -> Option<Question> {
        self.question.take()
    }

    /// Answers it.
    pub(crate) fn answer(&mut self, text: Option<Vec<u8>>) {
        self.answer = Some(text);
    }

    /// There are copies of the program `file`.
    pub(crate) fn knows(&mut self, copies: Arc<OnceLock<Copies>>, file: &'static CStr) {
        self.copies = Some((copies, file));
    }

    /// Where the copy begins that contains an address.
    pub(crate) fn copy_at(&self, address: usize) -> Option<usize> {
        self.copies.as_ref()?.0.get()?.at(address)
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
    desk().question = Some(question);
    loop {
        stand();
        match desk().answer.take() {
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
    // SAFETY: the writer's bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    if let Some([out, err]) = &mut desk().outputs {
        if fd == 2 { err.take(pe, bytes) } else { out.take(pe, bytes) }
    }
}

extern "C" fn find(address: usize, file: &mut *const c_char) -> usize {
    let desk = desk();
    let Some(base) = desk.copy_at(address) else { return 0 };
    *file = desk.copies.as_ref().map_or(std::ptr::null(), |copies| copies.1.as_ptr());
    base
}
