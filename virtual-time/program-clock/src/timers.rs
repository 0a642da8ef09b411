//! Timers that send signals. They are due at virtual times: the signal is raised where this PE's clock is read, or where
//! it goes on after it has stood, and has passed the time. So it comes at the same point of every run.

use crate::program::program;
use crate::units::{NS, S};
use libc::{c_int, c_void, sigset_t};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Timers of `setitimer`, by its first argument, and those of `timer_create` behind them.
const ITIMERS: usize = 3;
const TIMERS: usize = ITIMERS + 64;
/// Signals of the timers of `setitimer`.
const ITIMER_SIGNALS: [c_int; ITIMERS] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];
/// Highest number of expirations that are told at once.
const OVERRUN_MAX: u64 = i32::MAX as u64;

/// Action of a timer when it is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Nothing; it is asked how much time is left.
    Nothing,
    /// Sends a signal to the process, or to one of its threads, with a value or the timer's own number.
    Signal { number: c_int, value: Option<usize>, thread: Option<c_int> },
}

#[derive(Clone, Copy)]
struct Timer {
    does: Does,
    /// Picoseconds of the clock when it is due; `None` if it is not armed.
    at: Option<u64>,
    /// Time after which it is due again, each time; 0 for once.
    every: u64,
    /// How often it was due beyond the first time when its signal was sent last.
    overrun: u64,
}

/// Time left of a timer and its interval, in picoseconds; `None` if it is not armed.
pub(crate) type Setting = Option<(u64, u64)>;

static ALL: Mutex<[Option<Timer>; TIMERS]> = Mutex::new([None; TIMERS]);
/// Counts signals that were sent and for which the program has a handler, which has run then.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// The timers, while no handler of a signal can come in between and ask for them, too.
struct Held {
    all: MutexGuard<'static, [Option<Timer>; TIMERS]>,
    before: sigset_t,
}

fn hold() -> Held {
    // SAFETY: plain data, and places for it.
    let before = unsafe {
        let (mut every, mut before): (sigset_t, sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before);
        before
    };
    Held { all: ALL.lock().unwrap_or_else(PoisonError::into_inner), before }
}

/// Gives the timers back, and tells the clock when the next one is due.
fn release(held: Held) {
    let next = held.all.iter().flatten().filter_map(|timer| timer.at).min();
    program().set_due(next.unwrap_or(u64::MAX), due);
    let Held { all, before } = held;
    drop(all);
    // SAFETY: what `hold` has found.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
}

/// How many handlers have run.
pub(crate) fn handled() -> u32 {
    HANDLED.load(Ordering::Relaxed)
}

/// Arms or disarms a timer: due at a time, and then again and again; what it was before. `None` if there is none.
pub(crate) fn set(timer: usize, at: Option<u64>, every: u64) -> Option<Setting> {
    let mut held = hold();
    let place = held.all.get_mut(timer);
    let before = place.and_then(|place| {
        if timer < ITIMERS && place.is_none() {
            let does = Does::Signal { number: ITIMER_SIGNALS[timer], value: None, thread: None };
            *place = Some(Timer { does, at: None, every: 0, overrun: 0 });
        }
        let before = place.as_ref().map(setting);
        if let Some(place) = place {
            *place = Timer { at, every, ..*place };
        }
        before
    });
    release(held);
    before
}

/// Returns what is left of a timer. `None` if there is none.
pub(crate) fn get(timer: usize) -> Option<Setting> {
    let held = hold();
    let found = held.all.get(timer).copied().flatten();
    release(held);
    found.as_ref().map(setting)
}

fn setting(timer: &Timer) -> Setting {
    // One that is overdue has not been seen yet.
    timer.at.map(|at| (at.saturating_sub(program().now()).max(NS), timer.every))
}

/// A new timer; `None` if there are too many.
pub(crate) fn create(does: Does) -> Option<usize> {
    let mut held = hold();
    let free = (ITIMERS..TIMERS).find(|i| held.all[*i].is_none());
    if let Some(i) = free {
        held.all[i] = Some(Timer { does, at: None, every: 0, overrun: 0 });
    }
    release(held);
    free
}

/// Forgets a timer. Returns whether there was one.
pub(crate) fn delete(timer: usize) -> bool {
    let mut held = hold();
    let was = held.all.get_mut(timer).and_then(Option::take).is_some();
    release(held);
    was
}

/// How often a timer was due beyond the first time when its signal was sent last.
pub(crate) fn overrun(timer: usize) -> Option<c_int> {
    let held = hold();
    let found = held.all.get(timer).copied().flatten().map(|timer| timer.overrun as c_int);
    release(held);
    found
}

/// A child has no timers.
pub(crate) fn forget_all() {
    if let Ok(mut all) = ALL.try_lock() {
        *all = [None; TIMERS];
    }
    program().set_due(u64::MAX, due);
}

/// Sends the signals of all timers whose time has come, the earliest first.
pub(crate) extern "C" fn due() {
    while let Some((timer, does)) = take_due() {
        if let Does::Signal { number, value, thread } = does {
            send(timer, number, value, thread);
        }
    }
}

/// The first timer that is due: it is armed again if it comes again.
fn take_due() -> Option<(usize, Does)> {
    let mut held = hold();
    let now = program().now();
    let times = held.all.iter().enumerate().filter_map(|(i, timer)| Some(((*timer)?.at?, i)));
    let first = times.filter(|(at, _)| *at <= now).min();
    let taken = first.and_then(|(at, i)| {
        let timer = held.all[i].as_mut()?;
        let more = (now - at).checked_div(timer.every).unwrap_or(0);
        timer.at = (timer.every > 0).then(|| at + (more + 1) * timer.every);
        let Does::Signal { number, .. } = timer.does else { return Some((i, Does::Nothing)) };
        // Signals of one timer do not queue up.
        let waits = i >= ITIMERS && is_pending(number);
        timer.overrun = if waits { timer.overrun + more + 1 } else { more }.min(OVERRUN_MAX);
        Some((i, if waits { Does::Nothing } else { timer.does }))
    });
    release(held);
    taken
}

fn is_pending(signal: c_int) -> bool {
    // SAFETY: plain data, and a place for it.
    unsafe {
        let mut pending: sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending) == 0 && libc::sigismember(&raw const pending, signal) == 1
    }
}

/// Start of the kernel's information about a signal, as far as it is needed here.
#[repr(C)]
struct Info {
    number: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    timer: c_int,
    overrun: c_int,
    value: usize,
    rest: [usize; 12],
}

const _: () = assert!(size_of::<Info>() == size_of::<libc::siginfo_t>());
/// Where a signal is from: the kernel, or a timer.
pub(crate) const SI_KERNEL: c_int = 0x80;
const SI_TIMER: c_int = -2;

fn send(timer: usize, number: c_int, value: Option<usize>, thread: Option<c_int>) {
    let code = if timer < ITIMERS { SI_KERNEL } else { SI_TIMER };
    let value = value.unwrap_or(if timer < ITIMERS { 0 } else { timer });
    let overrun = if timer < ITIMERS { 0 } else { overrun(timer).unwrap_or(0) };
    let info = Info { number, errno: 0, code, padding: 0, timer: timer as c_int, overrun, value, rest: [0; 12] };
    let handled = thread.is_none() && has_handler(number);
    let info = (&raw const info).cast::<c_void>();
    // SAFETY: what the kernel takes for such a signal to this process.
    unsafe {
        let process = libc::getpid();
        match thread {
            Some(thread) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, number, info),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, process, number, info),
        };
    }
    if handled {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
}

/// True if a signal that is sent now has a handler run.
fn has_handler(signal: c_int) -> bool {
    // SAFETY: plain data, and places for it.
    unsafe {
        let (mut action, mut mask): (libc::sigaction, sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        let own = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        own && libc::sigismember(&raw const mask, signal) == 0
    }
}

/// Whole seconds that are left, as `alarm` tells them.
pub(crate) fn seconds_left(setting: Setting) -> u32 {
    setting.map_or(0, |(left, _)| ((left + S / 2) / S).max(1) as u32)
}
