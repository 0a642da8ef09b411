//! How calls of MPI and messages between PEs come into one file. The library that is preloaded to wrap MPI's calls has it, and knows
//! the program's calls; the provider of the MPI library knows which message of which PE has come, and tells the other.

use super::{Action, Step};
use std::ffi::CStr;

/// Name of the function of the preloaded library that returns its [`MpiNotes`].
pub const SYMBOL: &CStr = c"angara_mpi_notes";
/// Raised when a structure changes.
const VERSION: u32 = 1;

/// Whose calls and messages are noted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// PE of this process.
    pub pe: u32,
    /// PEs of the job.
    pub pes: u32,
    /// Number of its node.
    pub node: u32,
    /// Picoseconds of virtual time, or [`u64::MAX`] while it does not pass.
    pub virtual_now: extern "C" fn() -> u64,
}

/// Functions of the preloaded library that the provider calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The provider has joined a job. Returns true if anything is to be noted.
    pub begin: extern "C" fn(&Noted) -> bool,
    /// Notes that this step of a message happens now: the PE it goes to or comes from, its number, and its bytes.
    pub message: extern "C" fn(Step, u32, u64, u64),
    /// Starts or stops the notes of calls and messages.
    pub turn: extern "C" fn(bool),
    /// Returns the time in ns, or [`u64::MAX`] where nothing is noted.
    pub now: extern "C" fn() -> u64,
    /// Notes a successful call: the routine's name, which stays and ends with 0, and the times of its start and end.
    pub call: extern "C" fn(*const std::ffi::c_char, &Action, u64, u64),
}

/// Table that the preloaded library offers to the provider.
#[repr(C)]
#[derive(Debug)]
pub struct MpiNotes {
    version: u32,
    /// Functions to call.
    pub hooks: Hooks,
}

impl MpiNotes {
    /// For the function of that name.
    pub const fn new(hooks: Hooks) -> MpiNotes {
        MpiNotes { version: VERSION, hooks }
    }
}

/// Returns what the library does that was preloaded first, if one was that is known.
pub fn preloaded() -> Option<&'static Hooks> {
    // SAFETY: a name that ends with 0.
    let f = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
    if f.is_null() {
        return None;
    }
    // SAFETY: the name is that of the preloaded library's function, which takes nothing and returns something static.
    let notes = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> &'static MpiNotes>(f)() };
    (notes.version == VERSION).then_some(&notes.hooks)
}
