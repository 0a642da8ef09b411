//! Calls by which programs ask for signals at a time.

use crate::clocks::{self, EPOCH};
use crate::passing::pass;
use crate::program::program;
use crate::real::{fail, real};
use crate::sleeps::{picoseconds, to_timespec};
use crate::timers::{self, Does, Setting, seconds_left};
use crate::units::{BEGIN_AT, LATEST, NS, S, US};
use angara_abi::program_clock::READ_COST;
use libc::{c_int, c_uint, c_void, clockid_t, itimerspec, itimerval, sigevent, timeval, useconds_t};
use std::sync::atomic::{AtomicU8, Ordering};

type TimerId = *mut c_void;

/// Names of our timers: addresses of these bytes, which no timer of libc has.
static NAMES: [AtomicU8; 128] = [const { AtomicU8::new(0) }; 128];

fn number_of(id: TimerId) -> Option<usize> {
    let number = (id as usize).wrapping_sub(NAMES.as_ptr() as usize);
    (number < NAMES.len()).then_some(number)
}

fn name_of(number: usize) -> TimerId {
    NAMES[number].as_ptr().cast()
}

/// Timers are read and set at a time that a look at a clock takes.
fn now() -> u64 {
    pass(READ_COST)
}

fn of_timeval(t: timeval) -> Option<u64> {
    let us = u64::try_from(t.tv_usec).ok().filter(|us| *us < 1_000_000)?;
    Some(u64::try_from(t.tv_sec).ok()?.saturating_mul(S).saturating_add(us * US).min(LATEST))
}

fn to_timeval(ps: u64) -> timeval {
    // Time left is rounded up, so that it is never reported as none.
    let us = ps.div_ceil(US);
    timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ }
}

fn to_itimerval(setting: Setting) -> itimerval {
    let (left, every) = setting.unwrap_or((0, 0));
    itimerval { it_value: to_timeval(left), it_interval: to_timeval(every) }
}

fn to_itimerspec(setting: Setting) -> itimerspec {
    let (left, every) = setting.unwrap_or((0, 0));
    itimerspec { it_value: to_timespec(left), it_interval: to_timespec(every) }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setitimer(which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int {
    if program().is_real() {
        // SAFETY: the caller promises what the callee asks for.
        return unsafe { libc::syscall(libc::SYS_setitimer, which, new, old) } as c_int;
    }
    // SAFETY: null, or the caller's; nothing disarms.
    let wanted = unsafe { new.as_ref() }
        .map_or(Some((0, 0)), |new| Some((of_timeval(new.it_value)?, of_timeval(new.it_interval)?)));
    let (Some((value, every)), true) = (wanted, (libc::ITIMER_REAL..=libc::ITIMER_PROF).contains(&which)) else {
        return fail(libc::EINVAL);
    };
    let at = (value > 0).then(|| now() + value);
    let before = timers::set(which as usize, at, every).flatten();
    // SAFETY: null, or the caller's place.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = to_itimerval(before);
    }
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getitimer(which: c_int, to: *mut itimerval) -> c_int {
    if program().is_real() {
        // SAFETY: the caller promises what the callee asks for.
        return unsafe { libc::syscall(libc::SYS_getitimer, which, to) } as c_int;
    }
    // SAFETY: null, or the caller's place.
    match unsafe { to.as_mut() } {
        _ if !(libc::ITIMER_REAL..=libc::ITIMER_PROF).contains(&which) => fail(libc::EINVAL),
        None => fail(libc::EFAULT),
        Some(to) => {
            now();
            *to = to_itimerval(timers::get(which as usize).flatten());
            0
        }
    }
}

/// `alarm` by the timer that it sets: not every architecture has a system call of that name.
fn real_alarm(seconds: c_uint) -> c_uint {
    let never = timeval { tv_sec: 0, tv_usec: 0 };
    let new = itimerval { it_interval: never, it_value: timeval { tv_sec: seconds.into(), tv_usec: 0 } };
    let mut old = itimerval { it_interval: never, it_value: never };
    // SAFETY: times of our own.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const new, &raw mut old) };
    // As Linux counts them: to the nearest second, and an alarm that is still to come is never none.
    let timeval { tv_sec: s, tv_usec: us } = old.it_value;
    let up = us >= 500_000 || (s == 0 && us > 0);
    (s + i64::from(up)) as c_uint
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn alarm(seconds: c_uint) -> c_uint {
    if program().is_real() {
        return real_alarm(seconds);
    }
    let at = (seconds > 0).then(|| now() + u64::from(seconds) * S);
    seconds_left(timers::set(libc::ITIMER_REAL as usize, at, 0).flatten())
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ualarm(us: useconds_t, every: useconds_t) -> useconds_t {
    let time = |us: useconds_t| timeval { tv_sec: i64::from(us / 1_000_000), tv_usec: i64::from(us % 1_000_000) };
    let new = itimerval { it_value: time(us), it_interval: time(every) };
    let mut old = to_itimerval(None);
    // SAFETY: times of our own.
    match unsafe { setitimer(libc::ITIMER_REAL, &raw const new, &raw mut old) } {
        0 => (old.it_value.tv_sec * 1_000_000 + old.it_value.tv_usec) as useconds_t,
        _ => useconds_t::MAX,
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timer_create(clock: clockid_t, event: *mut sigevent, id: *mut TimerId) -> c_int {
    // SAFETY: null, or the caller's.
    let does = match unsafe { event.as_ref() } {
        None => Some(Does::Signal { number: libc::SIGALRM, value: None, thread: None }),
        Some(e) => {
            let thread = (e.sigev_notify == libc::SIGEV_THREAD_ID).then_some(e.sigev_notify_thread_id);
            match e.sigev_notify {
                libc::SIGEV_NONE => Some(Does::Nothing),
                libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID if !(1..=64).contains(&e.sigev_signo) => {
                    return fail(libc::EINVAL);
                }
                libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID => {
                    Some(Does::Signal { number: e.sigev_signo, value: Some(e.sigev_value.sival_ptr as usize), thread })
                }
                _ => None,
            }
        }
    };
    // One that calls a function in a thread of its own keeps real time.
    let Some(does) = does.filter(|_| !program().is_real()) else {
        return real!(timer_create: fn(clockid_t, *mut sigevent, *mut TimerId) -> c_int)(clock, event, id);
    };
    if !clocks::is_known(clock) {
        return fail(libc::EINVAL);
    }
    let Some(number) = timers::create(does) else { return fail(libc::EAGAIN) };
    NAMES[number].store(clock.clamp(-1, 100) as u8, Ordering::Relaxed);
    // SAFETY: the caller's place.
    unsafe { *id = name_of(number) };
    0
}

/// Picoseconds of our clock at a time that a timer's clock tells.
fn clock_at(number: usize, ps_of: (u64, u64)) -> u64 {
    let (seconds, ps) = ps_of;
    match c_int::from(NAMES[number].load(Ordering::Relaxed)) {
        libc::CLOCK_REALTIME | libc::CLOCK_TAI | libc::CLOCK_REALTIME_ALARM => {
            (seconds.saturating_sub(EPOCH as u64).saturating_mul(S) + ps).saturating_sub(BEGIN_AT)
        }
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID | 255 => seconds.saturating_mul(S) + ps,
        _ => (seconds.saturating_mul(S) + ps).saturating_sub(BEGIN_AT),
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timer_settime(
    id: TimerId,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    let Some(number) = number_of(id) else {
        return real!(timer_settime: fn(TimerId, c_int, *const itimerspec, *mut itimerspec) -> c_int)(
            id, flags, new, old,
        );
    };
    // SAFETY: null, or the caller's.
    let Some(new) = (unsafe { new.as_ref() }) else { return fail(libc::EINVAL) };
    let (Some(value), Some(every)) = (picoseconds(&new.it_value), picoseconds(&new.it_interval)) else {
        return fail(libc::EINVAL);
    };
    let now = now();
    let is_absolute = flags & libc::TIMER_ABSTIME != 0;
    let at = match value {
        0 => None,
        _ if is_absolute => {
            let t = new.it_value;
            Some(clock_at(number, (t.tv_sec as u64, t.tv_nsec as u64 * NS)).min(LATEST))
        }
        _ => Some(now + value),
    };
    let Some(before) = timers::set(number, at, every) else { return fail(libc::EINVAL) };
    // SAFETY: null, or the caller's place.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = to_itimerspec(before);
    }
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timer_gettime(id: TimerId, to: *mut itimerspec) -> c_int {
    let Some(number) = number_of(id) else {
        return real!(timer_gettime: fn(TimerId, *mut itimerspec) -> c_int)(id, to);
    };
    now();
    // SAFETY: null, or the caller's place.
    match (timers::get(number), unsafe { to.as_mut() }) {
        (Some(setting), Some(to)) => {
            *to = to_itimerspec(setting);
            0
        }
        _ => fail(libc::EINVAL),
    }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn timer_getoverrun(id: TimerId) -> c_int {
    let Some(number) = number_of(id) else {
        return real!(timer_getoverrun: fn(TimerId) -> c_int)(id);
    };
    timers::overrun(number).unwrap_or_else(|| fail(libc::EINVAL))
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn timer_delete(id: TimerId) -> c_int {
    let Some(number) = number_of(id) else {
        return real!(timer_delete: fn(TimerId) -> c_int)(id);
    };
    if timers::delete(number) { 0 } else { fail(libc::EINVAL) }
}
