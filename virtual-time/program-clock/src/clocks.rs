//! Clocks of the program.

use crate::passing::pass;
use crate::program::program;
use crate::real::fail;
use crate::units::{BEGIN_AT as BEGIN, NS, S, US};
use angara_abi::program_clock::READ_COST;
use libc::{c_int, c_long, clock_t, clockid_t, rusage, time_t, timespec, timeval, tms};

/// Seconds of the calendar when the monotonic clock is 0: 2026-01-01 00:00:00 UTC.
pub(crate) const EPOCH: i64 = 1_767_225_600;
/// Clock tick of `times`, in picoseconds.
const TICK: u64 = 10_000_000_000;

/// A number between those of clocks that Linux no longer has a clock for.
const SGI_CYCLE: clockid_t = 10;

/// Returns a clock after a look at it, as (seconds, picoseconds).
fn read(clock: clockid_t) -> (i64, u64) {
    let now = pass(READ_COST);
    let (base, at) = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => (EPOCH, BEGIN + now),
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => (0, now),
        _ => (0, BEGIN + now),
    };
    (base + (at / S) as i64, at % S)
}

/// Negative numbers name the processor time of threads and processes.
pub(crate) fn is_known(clock: clockid_t) -> bool {
    (libc::CLOCK_REALTIME..=libc::CLOCK_TAI).contains(&clock) && clock != SGI_CYCLE || clock < 0
}

/// The error of sleeping by a clock that is none, or cannot be slept by.
pub(crate) fn cannot_sleep(clock: clockid_t) -> Option<c_int> {
    match clock {
        libc::CLOCK_THREAD_CPUTIME_ID => Some(libc::EINVAL),
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_REALTIME_COARSE => Some(libc::ENOTSUP),
        clock if is_known(clock) => None,
        _ => Some(libc::EINVAL),
    }
}

/// Returns what the kernel's clock says.
pub(crate) fn real(clock: clockid_t, to: *mut timespec) -> c_int {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) as c_int }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int {
    if program().is_real() || !is_known(clock) || to.is_null() {
        return real(clock, to);
    }
    let (s, ps) = read(if clock < 0 { libc::CLOCK_PROCESS_CPUTIME_ID } else { clock });
    // SAFETY: the caller's place for a time.
    unsafe { *to = timespec { tv_sec: s, tv_nsec: (ps / NS) as c_long } };
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_getres(clock: clockid_t, to: *mut timespec) -> c_int {
    if !is_known(clock) {
        return fail(libc::EINVAL);
    }
    if !to.is_null() {
        // SAFETY: the caller's place for a time.
        unsafe { *to = timespec { tv_sec: 0, tv_nsec: 1 } };
    }
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timespec_get(to: *mut timespec, base: c_int) -> c_int {
    // TIME_UTC is the only base there is.
    if base != 1 {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, to) };
    base
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gettimeofday(to: *mut timeval, _zone: *mut libc::c_void) -> c_int {
    if to.is_null() {
        return 0;
    }
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for a time, and the caller's.
    unsafe {
        clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        *to = timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 };
    }
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn time(to: *mut time_t) -> time_t {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for a time, and the caller's if there is one.
    unsafe {
        clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        if let Some(to) = to.as_mut() {
            *to = now.tv_sec;
        }
    }
    now.tv_sec
}

/// Processor time in picoseconds.
fn cpu() -> u64 {
    if !program().is_real() {
        return pass(READ_COST);
    }
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    real(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now);
    now.tv_sec as u64 * S + now.tv_nsec as u64 * NS
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn clock() -> clock_t {
    (cpu() / US) as clock_t
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn times(to: *mut tms) -> clock_t {
    let ticks = (cpu() / TICK) as clock_t;
    // SAFETY: the caller's place, if there is one.
    if let Some(to) = unsafe { to.as_mut() } {
        *to = tms { tms_utime: ticks, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 };
    }
    ticks + (BEGIN / TICK) as clock_t
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrusage(who: c_int, to: *mut rusage) -> c_int {
    // SAFETY: the caller promises what the callee asks for.
    let result = unsafe { libc::syscall(libc::SYS_getrusage, who, to) } as c_int;
    if result == 0 && who != libc::RUSAGE_CHILDREN && !program().is_real() {
        let now = pass(READ_COST);
        let user = timeval { tv_sec: (now / S) as time_t, tv_usec: (now % S / US) as libc::suseconds_t };
        // SAFETY: the kernel has just written there.
        unsafe { ((*to).ru_utime, (*to).ru_stime) = (user, timeval { tv_sec: 0, tv_usec: 0 }) };
    }
    result
}

/// Returns the nanoseconds of the wall's monotonic clock when `ps` picoseconds of it have passed.
pub(crate) fn on_the_wall(ps: u64) -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    real(libc::CLOCK_MONOTONIC, &raw mut now);
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64).saturating_add(ps / NS)
}

/// True if the wall's monotonic clock has come so far.
pub(crate) fn has_passed(ns: u64) -> bool {
    on_the_wall(0) >= ns
}
