//! Sleeping lets virtual time pass, and real time only as far as others need it.

use crate::clocks::{S, now_of};
use crate::{CLOCK, fail, pass};
use angara_abi::program_clock::YIELD_COST;
use libc::{c_int, c_uint, clockid_t, timespec, useconds_t};

/// Lets so many picoseconds pass, and everybody else come as far.
pub(crate) fn sleep_for(ps: u64) {
    CLOCK.pass_computing();
    CLOCK.pass(ps);
    CLOCK.stand();
}

/// A time in picoseconds, if it is one.
fn picoseconds(t: &timespec) -> Option<u64> {
    let (s, ns) = (u64::try_from(t.tv_sec).ok()?, u64::try_from(t.tv_nsec).ok()?);
    (ns < 1_000_000_000).then(|| s.saturating_mul(S).saturating_add(ns * 1000).min(1 << 61))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    if CLOCK.is_real() {
        // SAFETY: passed on as the caller gave it.
        return unsafe { libc::syscall(libc::SYS_nanosleep, wanted, left) } as c_int;
    }
    // SAFETY: null, or the caller's time.
    match unsafe { wanted.as_ref() }.map(picoseconds) {
        Some(Some(ps)) => {
            sleep_for(ps);
            0
        }
        Some(None) => fail(libc::EINVAL),
        None => fail(libc::EFAULT),
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    wanted: *const timespec,
    left: *mut timespec,
) -> c_int {
    if CLOCK.is_real() {
        // SAFETY: passed on as the caller gave it.
        let result = unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, wanted, left) };
        // SAFETY: the thread's own `errno`, which this function returns instead.
        return if result == 0 { 0 } else { unsafe { *libc::__errno_location() } };
    }
    // SAFETY: null, or the caller's time.
    let Some(t) = (unsafe { wanted.as_ref() }) else { return libc::EFAULT };
    let Some(ps) = picoseconds(t) else { return libc::EINVAL };
    if flags & libc::TIMER_ABSTIME == 0 {
        sleep_for(ps);
        return 0;
    }
    // Times of the calendar do not fit 64 bits of picoseconds.
    let until = t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000;
    sleep_for(until.saturating_sub(now_of(clock)).min(1 << 40) * 1_000_000);
    0
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn usleep(us: useconds_t) -> c_int {
    let t = timespec { tv_sec: i64::from(us / 1_000_000), tv_nsec: i64::from(us % 1_000_000) * 1000 };
    // SAFETY: a time of our own.
    unsafe { nanosleep(&raw const t, std::ptr::null_mut()) }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sleep(s: c_uint) -> c_uint {
    let mut t = timespec { tv_sec: i64::from(s), tv_nsec: 0 };
    // SAFETY: times of our own.
    match unsafe { nanosleep(&raw const t, &raw mut t) } {
        0 => 0,
        _ => t.tv_sec as c_uint,
    }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sched_yield() -> c_int {
    if CLOCK.is_real() {
        // SAFETY: takes nothing.
        return unsafe { libc::syscall(libc::SYS_sched_yield) } as c_int;
    }
    pass(YIELD_COST);
    0
}
