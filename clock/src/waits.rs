//! Waiting for descriptors with a time limit: what is ready now is told now; else the limit passes in virtual time, and
//! they are looked at once more. Without a limit the program's timers pass, which may interrupt the wait; then it is the
//! kernel that waits.

use crate::sleeps::sleep_for;
use crate::timers::{handled, interrupted};
use crate::{CLOCK, fail};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

/// Asks `look` with a limit of 0, and again when `limit` picoseconds have passed; real waits are `wait`'s.
fn within(limit: Option<u64>, mut look: impl FnMut() -> c_int, wait: impl FnOnce() -> c_int) -> c_int {
    if CLOCK.is_real() {
        return wait();
    }
    let Some(limit) = limit else {
        let before = handled();
        while let Some(left) = CLOCK.until_due() {
            match look() {
                0 => {
                    let _ = sleep_for(left);
                }
                ready => return ready,
            }
            if let Some(failed) = interrupted(before) {
                return failed;
            }
        }
        return wait();
    };
    match look() {
        0 if limit > 0 => match sleep_for(limit) {
            Ok(()) => look(),
            Err(_) => fail(libc::EINTR),
        },
        ready => ready,
    }
}

fn milliseconds(ms: c_int) -> Option<u64> {
    u64::try_from(ms).ok().map(|ms| ms * 1_000_000_000)
}

/// # Safety
/// Null, or a time.
unsafe fn of_timespec(t: *const timespec) -> Option<u64> {
    // SAFETY: the caller's contract.
    let t = unsafe { t.as_ref() }?;
    Some((t.tv_sec.max(0) as u64).saturating_mul(1_000_000_000_000).saturating_add(t.tv_nsec.max(0) as u64 * 1000))
}

static NOW: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
/// Bytes of the kernel's signal set.
const SIGNALS: usize = 8;

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn poll(fds: *mut pollfd, n: nfds_t, ms: c_int) -> c_int {
    // SAFETY: passed on as the caller gave it.
    let ask = |ms: c_int| unsafe { libc::syscall(libc::SYS_poll, fds, n, ms) as c_int };
    within(milliseconds(ms), || ask(0), || ask(ms))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    n: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let ask = |limit: *const timespec| {
        // The kernel writes what is left into its copy.
        // SAFETY: null, or the caller's time.
        let mut copy = unsafe { limit.as_ref() }.copied();
        let limit = copy.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: passed on as the caller gave it.
        unsafe { libc::syscall(libc::SYS_ppoll, fds, n, limit, mask, SIGNALS) as c_int }
    };
    // SAFETY: the caller's.
    within(unsafe { of_timespec(limit) }, || ask(&raw const NOW), || ask(limit))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn select(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    // SAFETY: null, or the caller's time.
    let ps = unsafe { limit.as_ref() }
        .map(|t| (t.tv_sec.max(0) as u64).saturating_mul(1_000_000_000_000) + t.tv_usec.max(0) as u64 * 1_000_000);
    let sets = [read, write, except];
    // SAFETY: null, or the caller's sets. The kernel changes them, and they are looked at twice.
    let before = sets.map(|set| unsafe { set.as_ref() }.copied());
    let ask = |limit: *mut timeval| {
        // SAFETY: passed on as the caller gave it.
        unsafe { libc::syscall(libc::SYS_select, n, read, write, except, limit) as c_int }
    };
    let look = || {
        for (set, before) in sets.iter().zip(&before) {
            if let Some(before) = before {
                // SAFETY: it was read above.
                unsafe { **set = *before };
            }
        }
        let mut now = timeval { tv_sec: 0, tv_usec: 0 };
        ask(&raw mut now)
    };
    within(ps, look, || ask(limit))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn epoll_wait(fd: c_int, events: *mut epoll_event, n: c_int, ms: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { epoll_pwait(fd, events, n, ms, std::ptr::null()) }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    n: c_int,
    ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: passed on as the caller gave it.
    let ask = |ms: c_int| unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, events, n, ms, mask, SIGNALS) as c_int };
    within(milliseconds(ms), || ask(0), || ask(ms))
}
