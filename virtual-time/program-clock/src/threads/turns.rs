//! Several PEs in one process, on one thread that lets one after the other run. Each has a clock and random numbers of its own;
//! all other threads of such a process have real time.

use angara_abi::program_clock::{Call, ProgramClock};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// A PE of this process.
pub(crate) struct Turn {
    pub(crate) clock: ProgramClock,
    /// How deep it is inside the library.
    pub(crate) inside: Cell<u32>,
    /// The call of a message-passing library that it is in.
    pub(crate) call: Cell<Call>,
    /// Where its random numbers are, if a seed decides them.
    pub(crate) stream: AtomicU64,
}

thread_local! {
    /// The PE whose turn it is, if this thread runs PEs.
    static NOW: Cell<*const Turn> = const { Cell::new(std::ptr::null()) };
}

/// Returns the PE whose turn it is, if this thread runs PEs.
pub(crate) fn this() -> Option<&'static Turn> {
    // SAFETY: null, or what `angara_clock_pe` has made, which stays.
    unsafe { NOW.get().as_ref() }
}

/// Says that it is the turn of a PE that has been made here, or of none ([`angara_abi::program_clock::TURN_SYMBOL`]).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn angara_clock_turn(turn: *const Turn) {
    NOW.set(turn);
}
