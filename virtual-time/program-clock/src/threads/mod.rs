//! Threads of this process that sleep, or wait with a deadline. The process has one clock: it goes on to the first of these
//! times when none of its threads runs any more, because what one that runs still does comes before. A thread that runs for
//! longer on the wall than the wait would last is not waited for.

pub(crate) mod order;
mod quiet;
mod start;
pub(crate) mod turns;

use crate::timers::handled;
use crate::{LATEST, clocks, end_of_time, program};
use angara_abi::program_clock::{Call, Threads};
use libc::{c_int, timespec};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that wait at once and of which the others know.
const PLACES: usize = 4096;
/// A place that nobody has.
const FREE: u64 = u64::MAX;
/// Nanoseconds on the wall after which a thread that waits looks again whether others run: at first, and at most.
const SLICES: [u64; 2] = [50_000, 1_000_000];

/// When the threads that wait are due, in no order.
static DUE: [AtomicU64; PLACES] = [const { AtomicU64::new(FREE) }; PLACES];
/// No place from this one on has been used so far.
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    static CALL: Cell<Call> = const { Cell::new(Call::NONE) };
}

/// For the driver.
pub(crate) const ALL: Threads = Threads { inside, first_due, is_quiet, call, order: order::ORDER };

extern "C" fn is_quiet() -> bool {
    quiet::is_alone() || quiet::is_quiet()
}

/// See [`angara_abi::program_clock::Inside`].
extern "C" fn inside() -> *mut u32 {
    turns::this().map_or_else(|| INSIDE.with(Cell::as_ptr), |turn| turn.inside.as_ptr())
}

/// See [`angara_abi::program_clock::OfThread`].
extern "C" fn call() -> *mut Call {
    turns::this().map_or_else(|| CALL.with(Cell::as_ptr), |turn| turn.call.as_ptr())
}

/// See [`angara_abi::program_clock::FirstDue`].
extern "C" fn first_due() -> u64 {
    if turns::this().is_some() {
        // It has no other threads.
        return FREE;
    }
    let used = &DUE[..USED.load(Ordering::Acquire)];
    used.iter().map(|due| due.load(Ordering::Acquire)).min().unwrap_or(FREE)
}

/// A child has one thread, which does not wait.
pub(crate) fn forget_all() {
    DUE.iter().for_each(|due| due.store(FREE, Ordering::Relaxed));
}

/// The entry of a thread that waits, while it does.
struct Place(Option<&'static AtomicU64>);

impl Place {
    fn take(until: u64) -> Place {
        if turns::this().is_some() {
            return Place(None);
        }
        let until = until.min(FREE - 1);
        let free = |due: &AtomicU64| due.compare_exchange(FREE, until, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let taken = DUE.iter().position(free);
        if let Some(i) = taken {
            USED.fetch_max(i + 1, Ordering::AcqRel);
            if order::is_on() {
                program().must_stand_by(until);
            }
            program().waits();
        }
        // Without a place it is due all the same, at the latest when as much time has passed on the wall.
        Place(taken.map(|i| &DUE[i]))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(due) = self.0 {
            due.store(FREE, Ordering::Release);
        }
    }
}

/// How a wait has ended.
pub(crate) enum Ended<R> {
    /// By what was waited for.
    Answered(R),
    /// By the time.
    Due,
    /// By a handler of a signal that a timer has sent.
    Interrupted,
}

impl<R> Ended<R> {
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self, Ended::Interrupted)
    }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Does what POSIX lets another thread cancel: where it begins and where it ends, not in between.
pub(crate) fn cancellable<R: Copy>(f: impl FnOnce() -> R) -> R {
    // SAFETY: takes nothing. It may unwind the caller, which has nothing to drop and may be unwound.
    unsafe { pthread_testcancel() };
    let result = f();
    // SAFETY: takes nothing. It may unwind the caller, which has nothing to drop and may be unwound.
    unsafe { pthread_testcancel() };
    result
}

/// Nobody cancels the calling thread while this lives.
struct Uncancelled(c_int);

impl Uncancelled {
    fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a place of our own.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: what it was before.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// Waits until a time, or for ever, unless `look` answers before. It is asked again and again, and waits on the wall for so
/// many nanoseconds at most, or for ever where no time is said. It is asked once more before time passes, and when the
/// time has come.
pub(crate) fn wait<R>(until: Option<u64>, mut look: impl FnMut(Option<u64>) -> Option<R>) -> Ended<R> {
    let _uncancelled = Uncancelled::begin();
    order::take();
    program().pass_computing();
    let (before, at) = (handled(), until.unwrap_or(FREE));
    // No time on the wall before somebody is seen to run.
    let (mut slice, mut patience) = (0, None);
    // As long as it waits: a PE that stood without knowing of it would stand in vain.
    let _place = until.map(Place::take);
    let asleep = order::Sleep::begin(at);
    loop {
        if handled() != before && program().now() < at {
            return Ended::Interrupted;
        }
        let is_bounded = until.is_some() || program().until_due().is_some();
        let answer = look(is_bounded.then_some(slice));
        if let Some(answer) = answer {
            return Ended::Answered(answer);
        }
        if program().now() >= LATEST {
            end_of_time();
        }
        if program().now() >= at {
            return Ended::Due;
        }
        let may_pass = match &asleep {
            Some(asleep) => asleep.may_pass(),
            None => {
                quiet::is_alone() || has_all_time(at) && quiet::is_quiet() || patience.is_some_and(clocks::has_passed)
            }
        };
        if may_pass {
            // Who has answered and ended between the look and this was there in time.
            let answer = look(Some(0));
            if answer.is_none() {
                go_on(at);
            }
            if let Some(asleep) = &asleep {
                asleep.has_passed();
            }
            if let Some(answer) = answer {
                return Ended::Answered(answer);
            }
            (slice, patience) = (0, None);
        } else {
            // Other threads may let time pass meanwhile.
            let now = program().now();
            let left = at.min(now.saturating_add(program().until_due().unwrap_or(FREE))).saturating_sub(now);
            patience = patience.or_else(|| Some(clocks::on_the_wall(left)));
            slice = (slice * 2).clamp(SLICES[0], SLICES[1]);
        }
    }
}

/// No other thread is due already, and only has not seen it yet.
fn has_all_time(at: u64) -> bool {
    program().first_due().min(at) > program().now()
}

/// The clock goes on to the first time at which a thread or timer of this process is due, and no further than `at`.
fn go_on(at: u64) {
    let now = program().now();
    let first = match program().first_due() {
        due if due > now => due.min(at),
        // It has lost patience.
        _ => at,
    };
    program().stand_until(now + program().until_due().unwrap_or(FREE).min(first.saturating_sub(now)));
    program().passed();
}

/// Lets time pass until others have come as far as this process.
pub(crate) fn give_way() {
    order::take();
    program().pass_computing();
    program().stand_until(program().now());
    program().passed();
}

/// So many nanoseconds.
pub(crate) fn nanoseconds(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}
