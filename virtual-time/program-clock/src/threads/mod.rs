//! Threads of this process that sleep, or wait with a deadline. The process has one clock: it goes on to the first of these
//! times when none of its threads runs any more, because what one that runs still does comes before. A thread that runs for
//! longer on the wall than the wait would last is not waited for.

pub(crate) mod driver;
pub(crate) mod order;
pub(crate) mod places;
mod quiet;
mod start;
pub(crate) mod turns;

use crate::passing::end_of_time;
use crate::program::program;
use crate::timers::handled;
use crate::{clocks, units::LATEST};
use libc::{c_int, timespec};
use places::{FREE, Place};

/// Nanoseconds on the wall after which a thread that waits looks again whether others run: at first, and at most.
const SLICES: [u64; 2] = [50_000, 1_000_000];

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

/// Waits until a time, or for ever, unless `look` answers before. It is asked again and again, and waits on the wall for at
/// most the nanoseconds that it is given, or for ever where it is given none. It is asked once more before time passes, and when the
/// time has come.
pub(crate) fn wait<R>(until: Option<u64>, mut look: impl FnMut(Option<u64>) -> Option<R>) -> Ended<R> {
    let _uncancelled = Uncancelled::begin();
    order::take();
    program().pass_computing();
    let (before, at) = (handled(), until.unwrap_or(FREE));
    // No time on the wall before somebody is seen to run.
    let (mut slice, mut patience) = (0, None);
    // As long as it waits: a PE that stood without knowing of it would stand in vain.
    let _place = until.map(take_place);
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

/// Takes a place, and says so to the data plane.
fn take_place(until: u64) -> Place {
    let place = Place::take(until);
    if place.is_taken() {
        if order::is_on() {
            program().must_stand_by(until.min(FREE - 1));
        }
        program().waits();
    }
    place
}

/// Returns whether no other thread is due already, and only has not seen it yet.
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

/// Returns `ns` nanoseconds as libc has them.
pub(crate) fn nanoseconds(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}
