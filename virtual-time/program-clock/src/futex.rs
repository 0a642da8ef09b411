//! `syscall(SYS_futex, …)` with a time limit, as libstdc++ and Rust's standard library wait. Other system calls pass by.

use crate::deadlines::{deadline, wall};
use crate::passing::from_now;
use crate::program::program;
use crate::real::{FUTEX_PRIVATE, FUTEX_WAIT, FUTEX_WAKE, fail, kernel_futex, system_call};
use crate::sleeps::picoseconds;
use crate::threads::{Ended, wait};
use crate::wakes::Wakes;
use libc::{c_long, timespec};

const FUTEX_LOCK_PI: c_long = 6;
const FUTEX_WAIT_BITSET: c_long = 9;
const FUTEX_LOCK_PI2: c_long = 13;
/// Operations that wake somebody: these, and requeue, cmp_requeue, wake_op, wake_bitset.
const WAKES: [c_long; 5] = [FUTEX_WAKE, 3, 4, 5, 10];
const FUTEX_CLOCK_REALTIME: c_long = 256;
/// The bits of a wait that any wake ends.
const ANY: c_long = u32::MAX as c_long;

/// # Safety
/// As the function of libc, which takes as many arguments as the system call; the others are read and not used.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    match number {
        // SAFETY: the caller's.
        libc::SYS_futex if !program().is_real() => unsafe { futex(arguments) },
        _ => system_call(number, arguments),
    }
}

/// # Safety
/// Arguments of the system call `futex`.
unsafe fn futex(arguments: [c_long; 6]) -> c_long {
    let [word, operation, value, limit, other, bits] = arguments;
    let flags = operation & (FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    let command = operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    if WAKES.contains(&command) {
        Wakes::of(word as usize).add();
        Wakes::of(other as usize).add();
        return kernel_futex(arguments);
    }
    let limit = limit as *const timespec;
    let clock = match flags & FUTEX_CLOCK_REALTIME != 0 || command == FUTEX_LOCK_PI {
        true => libc::CLOCK_REALTIME,
        false => libc::CLOCK_MONOTONIC,
    };
    // SAFETY: null, or the caller's time.
    let until = match (command, unsafe { limit.as_ref() }) {
        (_, None) => None,
        (FUTEX_WAIT, Some(limit)) => picoseconds(limit).map(from_now),
        (FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2, Some(_)) => deadline(clock, limit),
        _ => None,
    };
    let Some(until) = until else { return kernel_futex(arguments) };
    let is_lock = [FUTEX_LOCK_PI, FUTEX_LOCK_PI2].contains(&command);
    let how = match is_lock {
        true => operation,
        // Until a time on the wall's monotonic clock.
        false => FUTEX_WAIT_BITSET | flags & FUTEX_PRIVATE,
    };
    let bits = if command == FUTEX_WAIT { ANY } else { bits };
    let wakes = Wakes::of(word as usize).watch();
    let mut is_first = true;
    let ended = wait(Some(until), |slice| {
        let end = wall(if is_lock { clock } else { libc::CLOCK_MONOTONIC }, slice.unwrap_or(0));
        let result = kernel_futex([word, how, value, &raw const end as c_long, other, bits]);
        // SAFETY: the thread's own `errno`.
        let errno = if result < 0 { unsafe { *libc::__errno_location() } } else { 0 };
        let was_first = std::mem::replace(&mut is_first, false);
        match errno {
            libc::ETIMEDOUT => (!is_lock && wakes.are_more()).then_some(0),
            // The change it waited for came after the last look.
            libc::EAGAIN if !was_first && !is_lock => Some(0),
            _ => Some(result),
        }
    });
    match ended {
        Ended::Answered(result) => result,
        Ended::Due => c_long::from(fail(libc::ETIMEDOUT)),
        Ended::Interrupted => c_long::from(fail(libc::EINTR)),
    }
}
