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
mod pauses;
mod random;
mod real;
mod sleeps;
mod threads;
mod timers;
#[cfg(target_arch = "x86_64")]
mod tsc;
mod waits;
mod wakes;

use angara_abi::program_clock::ProgramClock;
use threads::{order, turns};

/// Picoseconds of a nanosecond and of a microsecond.
const NS: u64 = 1_000;
const US: u64 = 1_000_000;
/// Reading of the monotonic clock when a program begins, in picoseconds.
const BEGIN_AT: u64 = clocks::S;

/// The end of virtual time, after about 27 days: nothing that a program asks for is later, and a program that comes here is
/// ended with a word.
const LATEST: u64 = 1 << 61;

/// Real until the program itself begins: what libraries measure while they are loaded, they measure on the wall.
static CLOCK: ProgramClock = ProgramClock::of(Some(threads::ALL));

/// The clock of the program that the calling thread runs: of this process, or of the PE whose turn it is.
fn program() -> &'static ProgramClock {
    turns::this().map_or(&CLOCK, |turn| &turn.clock)
}

/// The same for the driver ([`angara_abi::program_clock::SYMBOL`]).
#[unsafe(no_mangle)]
pub extern "C" fn angara_program_clock() -> &'static ProgramClock {
    program()
}

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
    threads::forget_all();
    order::forget_all();
    #[cfg(target_arch = "x86_64")]
    tsc::in_child();
}

/// Lets `ps` picoseconds pass in the program. Returns the time then.
fn pass(ps: u64) -> u64 {
    if program().is_in_call() {
        // Reads of clocks by a message-passing library inside a call are part of the call's time.
        return program().now();
    }
    order::take();
    program().pass_computing();
    program().pass(ps);
    if program().is_ahead() {
        program().stand_until(program().now());
    }
    program().passed();
    program().now()
}

/// The time so many picoseconds from now. Threads that have turns ask in order.
fn from_now(ps: u64) -> u64 {
    order::take();
    program().now().saturating_add(ps)
}

/// Ends the program, which has slept or waited until [`LATEST`].
fn end_of_time() -> ! {
    let (days, s) = (LATEST / clocks::S / 86_400, LATEST / clocks::S);
    angara_protocol::complain!(
        "angara: virtual time ends after {days} days ({s} s), and this program sleeps, or waits for a time, beyond that: sleep \
         shorter, or by the clock on the wall (leave --clock virtual out)"
    );
    // SAFETY: takes a number. Handlers that run at exit would sleep again.
    unsafe { libc::_exit(1) }
}

/// Sets `errno`.
fn fail(errno: i32) -> i32 {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() = errno };
    -1
}
