//! Waiting until a time of a clock: for locks, semaphores, condition variables, threads and messages. What comes before is
//! told at once; the time comes when all threads of the process wait.

use crate::clocks::{self, EPOCH};
use crate::program::program;
use crate::real::{fail, real};
use crate::threads::{Ended, cancellable, nanoseconds, order, wait};
use crate::units::{BEGIN_AT, LATEST, NS, S};
use crate::wakes::Wakes;
use libc::{c_char, c_int, c_uint, c_void, clockid_t, mqd_t, pthread_t, size_t, ssize_t, timespec};

/// Any of the objects that are waited for.
type Object = *mut c_void;
type At = *const timespec;

/// Results of C11's functions: success, busy, error, and that the time has come.
const THRD_SUCCESS: c_int = 0;
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

/// When a clock of the program says `at`, in picoseconds of ours; nothing if libc is to judge a time or clock that is none, or
/// if the caller has real time.
pub(crate) fn deadline(clock: clockid_t, at: At) -> Option<u64> {
    // SAFETY: null, or the caller's time.
    let at = unsafe { at.as_ref() }.filter(|_| !program().is_real())?;
    let begin = match clock {
        libc::CLOCK_REALTIME => EPOCH,
        libc::CLOCK_MONOTONIC => 0,
        _ => return None,
    };
    let ns = u64::try_from(at.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?;
    let s = u64::try_from(at.tv_sec - begin).unwrap_or(0);
    Some(s.saturating_mul(S).saturating_add(ns * NS).saturating_sub(BEGIN_AT).min(LATEST))
}

/// Returns what a clock on the wall says `ns` nanoseconds from now.
pub(crate) fn wall(clock: clockid_t, ns: u64) -> timespec {
    let (mut now, more) = (nanoseconds(0), nanoseconds(ns));
    clocks::real(clock, &raw mut now);
    let carry = (now.tv_nsec + more.tv_nsec) / 1_000_000_000;
    timespec { tv_sec: now.tv_sec + more.tv_sec + carry, tv_nsec: (now.tv_nsec + more.tv_nsec) % 1_000_000_000 }
}

fn errno() -> c_int {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Asks again and again, each time until a time on the wall's calendar, until the answer is another than that it was
/// reached.
fn until(due: u64, ask: impl Fn(At) -> c_int) -> c_int {
    loop {
        let ended = wait(Some(due), |slice| {
            let end = wall(libc::CLOCK_REALTIME, slice.unwrap_or(0));
            Some(ask(&raw const end)).filter(|answer| *answer != libc::ETIMEDOUT)
        });
        match ended {
            Ended::Answered(answer) => return answer,
            Ended::Due => return libc::ETIMEDOUT,
            // Handlers do not end such a wait.
            Ended::Interrupted => {}
        }
    }
}

/// The same where handlers end the wait, and failures are told by -1 and `errno`.
fn until_or_interrupted(due: u64, ask: impl Fn(At) -> isize) -> isize {
    let ended = wait(Some(due), |slice| {
        let end = wall(libc::CLOCK_REALTIME, slice.unwrap_or(0));
        let answer = ask(&raw const end);
        (answer >= 0 || errno() != libc::ETIMEDOUT).then_some(answer)
    });
    match ended {
        Ended::Answered(answer) => answer,
        Ended::Due => fail(libc::ETIMEDOUT) as isize,
        Ended::Interrupted => fail(libc::EINTR) as isize,
    }
}

macro_rules! locks {
    ($($timed:ident $clocked:ident)*) => {$(
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $timed(lock: Object, at: At) -> c_int {
            let ask = |at: At| real!($timed: fn(Object, At) -> c_int)(lock, at);
            deadline(libc::CLOCK_REALTIME, at).map_or_else(|| ask(at), |due| until(due, ask))
        }
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $clocked(lock: Object, clock: clockid_t, at: At) -> c_int {
            match deadline(clock, at) {
                Some(due) => until(due, |at: At| real!($timed: fn(Object, At) -> c_int)(lock, at)),
                None => real!($clocked: fn(Object, clockid_t, At) -> c_int)(lock, clock, at),
            }
        }
    )*};
}
locks! {
    pthread_mutex_timedlock pthread_mutex_clocklock
    pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock
    pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn mtx_timedlock(lock: Object, at: At) -> c_int {
    // SAFETY: the caller's. Mutexes of C11 are those of POSIX.
    of_c11(unsafe { pthread_mutex_timedlock(lock, at) })
}

fn of_c11(result: c_int) -> c_int {
    match result {
        0 => THRD_SUCCESS,
        libc::EBUSY => THRD_BUSY,
        libc::ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sem_timedwait(semaphore: Object, at: At) -> c_int {
    let ask = |at: At| real!(sem_timedwait: fn(Object, At) -> c_int)(semaphore, at) as isize;
    cancellable(|| {
        deadline(libc::CLOCK_REALTIME, at).map_or_else(|| ask(at), |due| until_or_interrupted(due, ask)) as c_int
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sem_clockwait(semaphore: Object, clock: clockid_t, at: At) -> c_int {
    let ask = |at: At| real!(sem_timedwait: fn(Object, At) -> c_int)(semaphore, at) as isize;
    cancellable(|| match deadline(clock, at) {
        Some(due) => until_or_interrupted(due, ask) as c_int,
        None => real!(sem_clockwait: fn(Object, clockid_t, At) -> c_int)(semaphore, clock, at),
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, to: *mut Object) -> c_int {
    order::joins(thread, || real!(pthread_join: fn(pthread_t, *mut Object) -> c_int)(thread, to))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_timedjoin_np(thread: pthread_t, to: *mut Object, at: At) -> c_int {
    let ask = |at: At| real!(pthread_timedjoin_np: fn(pthread_t, *mut Object, At) -> c_int)(thread, to, at);
    cancellable(|| deadline(libc::CLOCK_REALTIME, at).map_or_else(|| ask(at), |due| until(due, ask)))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    to: *mut Object,
    clock: clockid_t,
    at: At,
) -> c_int {
    let ask = |at: At| real!(pthread_timedjoin_np: fn(pthread_t, *mut Object, At) -> c_int)(thread, to, at);
    cancellable(|| match deadline(clock, at) {
        Some(due) => until(due, ask),
        None => real!(pthread_clockjoin_np: fn(pthread_t, *mut Object, clockid_t, At) -> c_int)(thread, to, clock, at),
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn mq_timedsend(
    queue: mqd_t,
    from: *const c_char,
    len: size_t,
    priority: c_uint,
    at: At,
) -> c_int {
    let ask = |at: At| {
        let send = real!(mq_timedsend: fn(mqd_t, *const c_char, size_t, c_uint, At) -> c_int);
        send(queue, from, len, priority, at) as isize
    };
    cancellable(|| {
        deadline(libc::CLOCK_REALTIME, at).map_or_else(|| ask(at), |due| until_or_interrupted(due, ask)) as c_int
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn mq_timedreceive(
    queue: mqd_t,
    to: *mut c_char,
    len: size_t,
    priority: *mut c_uint,
    at: At,
) -> ssize_t {
    let ask = |at: At| {
        let receive = real!(mq_timedreceive: fn(mqd_t, *mut c_char, size_t, *mut c_uint, At) -> ssize_t);
        receive(queue, to, len, priority, at)
    };
    cancellable(|| deadline(libc::CLOCK_REALTIME, at).map_or_else(|| ask(at), |due| until_or_interrupted(due, ask)))
}

/// Waits for a condition variable until a time. It hears from the beginning on, while it has the mutex, who wakes the variable.
fn wait_for_condition(condition: Object, mutex: Object, due: u64) -> c_int {
    let wakes = Wakes::of(condition as usize).watch();
    // SAFETY: the caller's mutex, which is to be unlocked for the wait.
    let result = unsafe { libc::pthread_mutex_unlock(mutex.cast()) };
    if result != 0 {
        return result;
    }
    let ended = wait(Some(due), |slice| wakes.wait(slice.unwrap_or(0)).then_some(()));
    drop(wakes);
    // SAFETY: the caller's mutex, which is to be unlocked for the wait.
    match (unsafe { libc::pthread_mutex_lock(mutex.cast()) }, ended) {
        (0, Ended::Due) => libc::ETIMEDOUT,
        // Such a wait may end early.
        (result, _) => result,
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_timedwait(condition: Object, mutex: Object, at: At) -> c_int {
    // Only the variable knows its clock. The calendar's times are long ago on the monotonic one's.
    // SAFETY: null, or the caller's time.
    let clock = match unsafe { at.as_ref() } {
        Some(at) if at.tv_sec >= EPOCH / 2 => libc::CLOCK_REALTIME,
        _ => libc::CLOCK_MONOTONIC,
    };
    cancellable(|| match deadline(clock, at) {
        Some(due) => wait_for_condition(condition, mutex, due),
        None => real!(pthread_cond_timedwait: fn(Object, Object, At) -> c_int)(condition, mutex, at),
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: Object,
    mutex: Object,
    clock: clockid_t,
    at: At,
) -> c_int {
    cancellable(|| match deadline(clock, at) {
        Some(due) => wait_for_condition(condition, mutex, due),
        None => real!(pthread_cond_clockwait: fn(Object, Object, clockid_t, At) -> c_int)(condition, mutex, clock, at),
    })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn cnd_timedwait(condition: Object, mutex: Object, at: At) -> c_int {
    // SAFETY: the caller's. Condition variables of C11 are those of POSIX.
    of_c11(unsafe { pthread_cond_timedwait(condition, mutex, at) })
}

macro_rules! wakes {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(condition: Object) -> c_int {
            Wakes::of(condition as usize).add();
            real!($name: fn(Object) -> c_int)(condition)
        }
    )*};
}
wakes! { pthread_cond_signal pthread_cond_broadcast cnd_signal cnd_broadcast }
