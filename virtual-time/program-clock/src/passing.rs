//! Virtual time passes, up to its end.

use crate::program::program;
use crate::threads::order;
use crate::units::{LATEST, S};

/// Lets `ps` picoseconds pass in the program. Returns the time then.
pub(crate) fn pass(ps: u64) -> u64 {
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

/// Returns the time `ps` picoseconds from now. Threads that have turns ask in order.
pub(crate) fn from_now(ps: u64) -> u64 {
    order::take();
    program().now().saturating_add(ps)
}

/// Ends the program, which has slept or waited until [`LATEST`].
pub(crate) fn end_of_time() -> ! {
    let (days, s) = (LATEST / S / 86_400, LATEST / S);
    angara_protocol::complain!(
        "angara: virtual time ends after {days} days ({s} s), and this program sleeps, or waits for a time, beyond that: sleep \
         shorter, or by the clock on the wall (leave --clock virtual out)"
    );
    // SAFETY: takes a number. Handlers that run at exit would sleep again.
    unsafe { libc::_exit(1) }
}
