//! Virtual time that begins when a message-passing library has been initialised, not when the PE attaches, and in which what
//! that library does at the end does not count. `libangara-mpi.so` says when ([`angara_abi::program_clock::Driver`]).
//!
//! Before it begins, and while a PE is outside of it, PEs reach each other's memory directly, wait as on the wall's clock,
//! and are not counted: the network has seen nothing when time begins. For the data plane a PE whose time has not begun
//! runs, at time 0.

use super::late::Late;
use super::routines::name;
use super::virtual_time::{CLOCK, LOOK_COST, VirtualClock};
use angara_abi::clock::WaitsFor;
use angara_abi::program_clock::Driver;
use std::ffi::c_char;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often one who comes back looks whether its job still runs.
const LOOK: Duration = Duration::from_millis(100);

/// The same of one that waits for the others to meet.
const MEET: Duration = Duration::from_micros(200);

/// By the program's clock, virtual time begins at a multiple of this many picoseconds, so that the time a library took
/// to load, which may vary, is not seen.
const BEGIN: u64 = 1_000_000_000_000;

/// Entry points for the library that decides when virtual time begins.
pub(super) static DRIVER: Driver = Driver { begin, meet, end, pause, resume, called, looks, returns };

/// The clock of this process, if its time begins late.
fn clock() -> Option<(&'static VirtualClock, &'static Late)> {
    // SAFETY: null, or what `join` was given, which stays until `leave`.
    let clock = unsafe { CLOCK.load(Ordering::Acquire).as_ref()? };
    Some((clock, clock.late.as_ref()?))
}

/// Whatever cannot be done here leaves the PE where nothing it does could be right.
fn must(done: io::Result<()>) {
    if let Err(e) = done {
        angara_protocol::complain!("angara: cannot change how other PEs are reached: {e}");
        std::process::abort();
    }
}

extern "C" fn meet() {
    if let Some((clock, late)) = clock() {
        late.begins().fetch_max(clock.now(), Ordering::SeqCst);
        late.met().fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn begin() {
    let Some((clock, late)) = clock() else { return };
    // After a call that all make together they have met; sessions begin for each by itself.
    while late.met().load(Ordering::SeqCst) < late.pes && !clock.page.is_over() {
        std::thread::sleep(MEET);
    }
    must(late.reach.lift().and_then(|()| late.counters.lift()));
    clock.begins_at(late.begins().load(Ordering::SeqCst).next_multiple_of(BEGIN));
    clock.page.begins_late(false);
    clock.begin();
    // From here on PEs take turns.
    clock.comes_as_far();
}

extern "C" fn end() {
    let Some((clock, late)) = clock() else { return };
    // Report the time that has passed until now first.
    clock.comes_as_far();
    clock.page.ends();
    must(late.counters.lay());
}

extern "C" fn pause() {
    let Some((clock, late)) = clock() else { return };
    clock.comes_as_far();
    clock.is_on.store(false, Ordering::Release);
    must(late.reach.lay());
    late.outside.store(clock.tells(WaitsFor::Return, u64::MAX), Ordering::Relaxed);
    clock.hand_over.tell(&clock.page);
}

extern "C" fn resume() {
    let Some((clock, late)) = clock() else { return };
    let number = late.outside.load(Ordering::Relaxed);
    clock.page.set_deadline(clock.since_begin());
    let ended = loop {
        if let Some(ended) = clock.page.ended(number) {
            break Some(ended);
        }
        if clock.page.is_over() {
            break None;
        }
        clock.hand_over.wait(&clock.page, number, LOOK);
    };
    must(late.reach.lift().and_then(|()| late.counters.lift()));
    if let Some((time, _)) = ended {
        clock.goes_on(time);
        clock.is_on.store(true, Ordering::Release);
    }
}

extern "C" fn called(routine: *const c_char) {
    calls(routine, 0);
}

/// Notes that the program calls a routine that takes `ps` picoseconds.
fn calls(routine: *const c_char, ps: u64) {
    let counts = |(clock, _): &(&VirtualClock, &Late)| clock.is_on() && !clock.page.has_ended();
    let Some((clock, _)) = clock().filter(counts) else { return };
    // The driver's next call reports what a recording lacks.
    let _ = clock.called();
    clock.is_inside();
    if let Some(routine) = name(routine) {
        clock.begins(routine);
    }
    clock.takes(ps);
}

extern "C" fn looks(routine: *const c_char) {
    let look = clock().and_then(|(clock, _)| clock.mpi()).map_or(LOOK_COST, |costs| costs.look);
    calls(routine, look);
    if let Some((clock, _)) = clock().filter(|(clock, _)| clock.is_on())
        && clock.is_blind()
    {
        clock.comes_as_far();
    }
}

extern "C" fn returns() {
    if let Some((clock, _)) = clock().filter(|(clock, _)| clock.is_on()) {
        if clock.is_timeless() {
            clock.takes(LOOK_COST);
        }
        clock.returns();
    }
}
