//! Sleeping lets virtual time pass, and real time only as far as others need it.

use crate::clocks;
use crate::deadlines::deadline;
use crate::passing::{from_now, pass};
use crate::program::program;
use crate::real::fail;
use crate::threads::{Ended, cancellable, give_way, nanoseconds, order, wait};
use crate::units::{LATEST, NS, S};
use angara_abi::program_clock::YIELD_COST;
use libc::{c_int, c_uint, clockid_t, timespec, useconds_t};

/// Lets `ps` picoseconds pass, and everybody else come as far; fewer if the handler of a signal has run before: then
/// what is left is the error.
pub(crate) fn sleep_for(ps: u64) -> Result<(), u64> {
    if ps == 0 {
        give_way();
        return Ok(());
    }
    let until = from_now(ps);
    let ended = wait(Some(until), |slice| {
        let slice = nanoseconds(slice.unwrap_or(0));
        if slice.tv_nsec > 0 {
            // SAFETY: a time of our own.
            unsafe { libc::syscall(libc::SYS_nanosleep, &raw const slice, std::ptr::null_mut::<timespec>()) };
        }
        None::<()>
    });
    match ended {
        Ended::Interrupted => Err(until.saturating_sub(program().now())),
        _ => Ok(()),
    }
}

/// The same for libc's functions: `EINTR` and what is left, rounded up.
fn sleep_within(ps: u64, left: *mut timespec) -> Result<(), c_int> {
    sleep_for(ps).map_err(|ps| {
        // SAFETY: null, or the caller's place.
        if let Some(left) = unsafe { left.as_mut() } {
            *left = to_timespec(ps);
        }
        libc::EINTR
    })
}

/// So long a time, rounded up: what is left is never told as nothing.
pub(crate) fn to_timespec(ps: u64) -> timespec {
    let ns = ps.div_ceil(NS);
    timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// A time in picoseconds, if it is one.
pub(crate) fn picoseconds(t: &timespec) -> Option<u64> {
    let (s, ns) = (u64::try_from(t.tv_sec).ok()?, u64::try_from(t.tv_nsec).ok()?);
    (ns < 1_000_000_000).then(|| s.saturating_mul(S).saturating_add(ns * 1000).min(LATEST))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    cancellable(|| {
        if program().is_real() {
            // SAFETY: the caller promises what the callee asks for.
            return unsafe { libc::syscall(libc::SYS_nanosleep, wanted, left) } as c_int;
        }
        // SAFETY: null, or the caller's time.
        match unsafe { wanted.as_ref() }.map(picoseconds) {
            Some(Some(ps)) => sleep_within(ps, left).map_or_else(fail, |()| 0),
            Some(None) => fail(libc::EINVAL),
            None => fail(libc::EFAULT),
        }
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn thrd_sleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's, and the thread's own `errno`.
    match unsafe { (nanosleep(wanted, left), *libc::__errno_location()) } {
        (0, _) => 0,
        (_, libc::EINTR) => -1,
        _ => -2,
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    wanted: *const timespec,
    left: *mut timespec,
) -> c_int {
    cancellable(|| {
        if program().is_real() {
            // SAFETY: the caller promises what the callee asks for.
            let result = unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, wanted, left) };
            // SAFETY: the thread's own `errno`, which this function returns instead.
            return if result == 0 { 0 } else { unsafe { *libc::__errno_location() } };
        }
        // SAFETY: null, or the caller's time.
        let Some(ps) = (match unsafe { wanted.as_ref() } {
            None => return libc::EFAULT,
            Some(t) => picoseconds(t),
        }) else {
            return libc::EINVAL;
        };
        if let Some(errno) = clocks::cannot_sleep(clock) {
            return errno;
        }
        if flags & libc::TIMER_ABSTIME == 0 {
            return sleep_within(ps, left).err().unwrap_or(0);
        }
        let until = match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_TAI => deadline(libc::CLOCK_REALTIME, wanted),
            clock if clock < 0 || clock == libc::CLOCK_PROCESS_CPUTIME_ID => Some(ps),
            _ => deadline(libc::CLOCK_MONOTONIC, wanted),
        };
        order::take();
        sleep_for(until.unwrap_or(0).saturating_sub(program().now())).map_or(libc::EINTR, |()| 0)
    })
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn usleep(us: useconds_t) -> c_int {
    let t = timespec { tv_sec: i64::from(us / 1_000_000), tv_nsec: i64::from(us % 1_000_000) * 1000 };
    // SAFETY: a time of our own.
    unsafe { nanosleep(&raw const t, std::ptr::null_mut()) }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn sleep(s: c_uint) -> c_uint {
    let mut t = timespec { tv_sec: i64::from(s), tv_nsec: 0 };
    // SAFETY: times of our own.
    match unsafe { nanosleep(&raw const t, &raw mut t) } {
        0 => 0,
        _ => t.tv_sec as c_uint + u32::from(t.tv_nsec >= 500_000_000),
    }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sched_yield() -> c_int {
    if program().is_real() {
        // SAFETY: takes nothing.
        return unsafe { libc::syscall(libc::SYS_sched_yield) } as c_int;
    }
    program().yields();
    pass(YIELD_COST);
    0
}
