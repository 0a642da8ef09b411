//! Waiting for signals: a PE's timers are what can send it one in virtual time, so it sleeps until the next of them. Without
//! one it is the kernel that waits.

use crate::passing::from_now;
use crate::program::program;
use crate::real::fail;
use crate::sleeps::{picoseconds, sleep_for};
use crate::threads::{Ended, nanoseconds, wait};
use crate::timers::handled;
use libc::{c_int, siginfo_t, sigset_t, timespec};

/// Bytes of the kernel's signal set.
const SIGNALS: usize = 8;

/// Sleeps from one timer to the next until a handler has run. Returns whether one has. No more timers: no.
fn sleep_until_handled(before: u32) -> bool {
    loop {
        if handled() != before {
            return true;
        }
        let Some(left) = program().until_due() else { return false };
        // A handler has run at its end, too, which is looked for above.
        let _ = sleep_for(left);
    }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pause() -> c_int {
    if !program().is_real() && sleep_until_handled(handled()) {
        return fail(libc::EINTR);
    }
    let mut mask = none();
    // SAFETY: places of our own.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        libc::syscall(libc::SYS_rt_sigsuspend, &raw const mask, SIGNALS) as c_int
    }
}

fn none() -> sigset_t {
    // SAFETY: plain data.
    unsafe { std::mem::zeroed() }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigsuspend(mask: *const sigset_t) -> c_int {
    if program().is_real() || program().until_due().is_none() || mask.is_null() {
        // SAFETY: the caller promises what the callee asks for.
        return unsafe { libc::syscall(libc::SYS_rt_sigsuspend, mask, SIGNALS) as c_int };
    }
    let (mut pending, mut before) = (none(), none());
    // SAFETY: a place of our own.
    unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: a place of our own, and the caller's mask.
    let comes =
        |signal| unsafe { libc::sigismember(&raw const pending, signal) == 1 && libc::sigismember(mask, signal) == 0 };
    if (1..=64).any(comes) {
        // SAFETY: a place of our own, and the caller's mask.
        return unsafe { libc::syscall(libc::SYS_rt_sigsuspend, mask, SIGNALS) as c_int };
    }
    let known = handled();
    // SAFETY: a place of our own, and the caller's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut before) };
    let has = sleep_until_handled(known);
    // SAFETY: as above. The last timer is gone, and nobody knows who else sends signals: the kernel waits.
    unsafe {
        if !has {
            libc::syscall(libc::SYS_rt_sigsuspend, mask, SIGNALS);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    fail(libc::EINTR)
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    limit: *const timespec,
) -> c_int {
    let ask = |limit: *const timespec| {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, info, limit, SIGNALS) as c_int }
    };
    if program().is_real() {
        return ask(limit);
    }
    // SAFETY: null, or the caller's time.
    let limit_ps = match unsafe { limit.as_ref() }.map(picoseconds) {
        Some(None) => return fail(libc::EINVAL),
        Some(Some(ps)) => Some(ps),
        None => None,
    };
    let until = limit_ps.map(from_now);
    let ended = wait(until, |slice| {
        let slice = slice.map(nanoseconds);
        let signal = ask(slice.as_ref().map_or(std::ptr::null(), std::ptr::from_ref));
        // SAFETY: the thread's own `errno`.
        (signal > 0 || unsafe { *libc::__errno_location() } != libc::EAGAIN).then_some(signal)
    });
    match ended {
        Ended::Answered(signal) => signal,
        Ended::Due => fail(libc::EAGAIN),
        Ended::Interrupted => fail(libc::EINTR),
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { sigtimedwait(set, info, std::ptr::null()) }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigwait(set: *const sigset_t, to: *mut c_int) -> c_int {
    loop {
        // SAFETY: as the caller promises.
        let signal = unsafe { sigtimedwait(set, std::ptr::null_mut(), std::ptr::null()) };
        // SAFETY: the thread's own `errno`, and the caller's place.
        unsafe {
            match (signal, *libc::__errno_location()) {
                (1.., _) => {
                    *to = signal;
                    return 0;
                }
                // As libc does it: handlers do not end the wait.
                (_, libc::EINTR) => {}
                (_, errno) => return errno,
            }
        }
    }
}
