//! `libangara_clock.so`: preloaded by `angara run --clock virtual`, it answers where a program asks libc for the time
//! or sleeps. Virtual time passes by what the program does on the network, by its sleeps, and by a stated time for
//! each look at a clock, so that a loop that looks at one ends.
//!
//! Before `main` all clocks are real: libraries calibrate theirs then. The monotonic clock begins at 1 s, the calendar at
//! 2026-01-01 00:00:01 UTC. Processor time is virtual time, too. Children of the program have real time, and so has the
//! library on which it communicates.
//!
//! A process may have several PEs, which take [`threads::turns`]: then each has a clock of its own.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod alarms;
mod clocks;
mod deadlines;
mod futex;
mod passing;
mod pauses;
mod program;
mod random;
mod real;
mod sleeps;
mod threads;
mod timers;
#[cfg(target_arch = "x86_64")]
mod tsc;
mod units;
mod waits;
mod wakes;

use angara_abi::program_clock::{Call, ProgramClock};
use program::program;
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use threads::driver::ALL;
use threads::turns::Turn;
use threads::{order, places};

/// Run by the loader before the program: what this process forks has real time.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: the handler only changes a number of the child's.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    random::begin();
    #[cfg(target_arch = "x86_64")]
    tsc::begin();
}

unsafe extern "C" fn in_child() {
    program().becomes_real();
    timers::forget_all();
    places::forget_all();
    order::forget_all();
    #[cfg(target_arch = "x86_64")]
    tsc::in_child();
}

/// Makes the clock of PE `pe`, which stays until the process ends ([`angara_abi::program_clock::PE_SYMBOL`]).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn angara_clock_pe(pe: u32) -> *const Turn {
    Box::into_raw(Box::new(Turn {
        clock: ProgramClock::of(Some(ALL)),
        inside: Cell::new(0),
        call: Cell::new(Call::OUTSIDE),
        stream: AtomicU64::new(random::start(pe.into(), 0)),
    }))
}
