//! What calls do with virtual time.

use crate::real::{Real, first, in_library, world};
use crate::record::{around, turns};
use angara_abi::doubts::Doubts;
use angara_abi::program_clock::{Driver, ProgramClock, preloaded};
use libc::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a routine does with time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// It returns only when something has come.
    Waits,
    /// The same, of one that makes a window.
    Windows,
    /// The same, of one that makes a window of memory which ranks share.
    Shares,
    /// It looks whether something has come. A program may do that in a loop, so it takes time.
    Looks,
    /// It returns at once.
    Starts,
}

/// Returns the clock of this process, if its time is virtual.
fn clock() -> Option<&'static ProgramClock> {
    static FOUND: OnceLock<Option<&'static ProgramClock>> = OnceLock::new();
    *FOUND.get_or_init(preloaded)
}

/// A call inside which nothing takes time, while this lives.
struct Inside<'a> {
    clock: &'a ProgramClock,
    driver: Option<&'static Driver>,
}

impl<'a> Inside<'a> {
    /// Nothing if the thread is inside already.
    fn begin(clock: &'a ProgramClock, kind: CallKind, routine: &Real) -> Option<Inside<'a>> {
        let name = routine.plain_name().as_ptr();
        if !clock.is_in_call() {
            clock.takes_its_turn();
        }
        // What the routine costs passes before it begins.
        let driver = clock.driver().filter(|_| !clock.is_in_call());
        match (driver, kind) {
            (Some(driver), CallKind::Looks) => (driver.looks)(name),
            (Some(driver), _) => (driver.called)(name),
            (None, _) => {}
        }
        if matches!(kind, CallKind::Windows | CallKind::Shares) && driver.is_some() {
            looks_at_windows(clock, kind);
        }
        let blocks = matches!(kind, CallKind::Waits | CallKind::Windows | CallKind::Shares);
        // Not made at all for an inner call: at its end the outer one would end, too.
        clock.begin_call(name, blocks).then(|| Inside { clock, driver })
    }
}

/// Open MPI puts windows into memory that ranks share where all are on one host, as they are here. Version 4 also has another way,
/// over messages, which the launcher demands; then there are no windows of shared memory.
fn looks_at_windows(clock: &ProgramClock, kind: CallKind) {
    const WAYS: &str = "OMPI_MCA_osc";
    if first(c"ompi_mpi_comm_world").or_else(|| in_library(c"ompi_mpi_comm_world")).is_none() {
        return;
    }
    let by_messages = angara_protocol::trust::var_os(WAYS).is_some_and(|ways| ways == "pt2pt");
    match kind {
        _ if !by_messages => clock.doubts(Doubts::SHARED_WINDOWS),
        CallKind::Shares => angara_protocol::complain!(
            "angara: Open MPI 4 cannot make a window of shared memory here, because all windows would be of it then, and accesses \
             would take no time: use MPI_Win_allocate, or allow it by -x {WAYS}=sm,pt2pt"
        ),
        _ => {}
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.clock.end_call();
        if let Some(driver) = self.driver {
            (driver.returns)();
        }
    }
}

/// A call of a routine.
#[inline]
pub fn passes(kind: CallKind, routine: &Real, args: &[usize], call: impl FnOnce() -> c_int) -> c_int {
    let in_time = || {
        let Some(clock) = clock() else { return call() };
        let _inside = Inside::begin(clock, kind, routine);
        call()
    };
    around(routine, args, in_time)
}

/// All clocks of this thread are real while this lives.
struct OnTheWall<'a>(&'a ProgramClock);

impl<'a> OnTheWall<'a> {
    fn begin(clock: &'a ProgramClock) -> OnTheWall<'a> {
        clock.enter();
        OnTheWall(clock)
    }
}

impl Drop for OnTheWall<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A call after which virtual time begins, for all processes at once; it has returned in all of them, and messages can be sent.
pub fn begins(call: impl FnOnce() -> c_int) -> c_int {
    let result = match clock().filter(|clock| !clock.is_late()) {
        Some(clock) => {
            clock.begins_late();
            begins_behind(clock, call, || {
                barrier();
            })
        }
        None => call(),
    };
    turns(result == 0);
    result
}

/// A call that opens a session, which each process does by itself. Libraries make contact with other processes when the first
/// communicator is made from it ([`makes_contact`]).
pub fn begins_session(routine: &Real, call: impl FnOnce() -> c_int) -> c_int {
    let Some(clock) = clock() else { return call() };
    let is_first = SESSIONS.load(Ordering::SeqCst) == 0 && !has_world();
    let result = if is_first {
        clock.begins_late();
        clock.takes_part();
        let _wall = OnTheWall::begin(clock);
        call()
    } else {
        passes(CallKind::Waits, routine, &[], call)
    };
    if result == 0 {
        SESSIONS.fetch_add(1, Ordering::SeqCst);
        HAS_CONTACT.fetch_and(!is_first, Ordering::SeqCst);
    }
    result
}

/// A call that makes a communicator of a session's processes. The first one makes contact, by means that have no time: virtual
/// time begins behind it.
pub fn makes_contact(routine: &Real, args: &[usize], call: impl FnOnce() -> c_int) -> c_int {
    match clock() {
        Some(clock) if !HAS_CONTACT.swap(true, Ordering::SeqCst) => {
            let result = if clock.has_begun() { outside(clock, call) } else { begins_behind(clock, call, || {}) };
            turns(result == 0);
            result
        }
        _ => passes(CallKind::Waits, routine, args, call),
    }
}

fn begins_behind(clock: &ProgramClock, call: impl FnOnce() -> c_int, others_too: impl FnOnce()) -> c_int {
    clock.takes_part();
    let wall = OnTheWall::begin(clock);
    let result = call();
    let driver = clock.driver().filter(|_| result == 0);
    if let Some(driver) = driver {
        (driver.meet)();
        others_too();
    }
    drop(wall);
    if let Some(driver) = driver {
        (driver.begin)();
        clock.may_have_callers(several_may_call());
    }
    result
}

/// The library was initialised so that several threads may call it. Sessions do not tell, and may be.
fn several_may_call() -> bool {
    /// `MPI_THREAD_SERIALIZED`, with all libraries.
    const SERIALIZED: c_int = 2;
    static QUERY_THREAD: Real = Real::new(c"PMPI_Query_thread");
    let mut level: c_int = 0;
    let tells = has_world() && {
        // SAFETY: the MPI library's function of this name, which takes a place for a number.
        let query = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_int) -> c_int>(QUERY_THREAD.find())
        };
        // SAFETY: after the library was initialised, with a place of our own.
        unsafe { query(&raw mut level) == 0 }
    };
    !tells || level >= SERIALIZED
}

/// A call before which virtual time has ended, for all processes at once.
pub fn ends(routine: &Real, call: impl FnOnce() -> c_int) -> c_int {
    /// A tool that wraps this routine comes back here, outside of virtual time.
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    turns(false);
    let Some((clock, driver)) = clock().and_then(|clock| Some((clock, clock.driver()?))) else { return call() };
    if HAS_ENDED.swap(true, Ordering::Relaxed) {
        return call();
    }
    (driver.end)();
    // Others may still need what this process has sent, or has to answer.
    passes(CallKind::Waits, routine, &[], barrier);
    clock.may_have_callers(false);
    outside(clock, call)
}

/// The same for a session, if it is the last one and there is nothing but sessions.
pub fn ends_session(routine: &Real, call: impl FnOnce() -> c_int) -> c_int {
    let is_last = SESSIONS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| open.checked_sub(1)) == Ok(1);
    match clock().filter(|_| is_last && !has_world()) {
        Some(clock) if clock.has_begun() => {
            clock.may_have_callers(false);
            outside(clock, call)
        }
        Some(clock) => {
            // Others do not wait for one that has never made contact.
            if let Some(driver) = clock.driver() {
                (driver.meet)();
            }
            let _wall = OnTheWall::begin(clock);
            call()
        }
        None => passes(CallKind::Waits, routine, &[], call),
    }
}

/// Sessions that are open.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// A communicator was made since the first of them was opened, or there is a world.
static HAS_CONTACT: AtomicBool = AtomicBool::new(true);

/// The process is, or was, initialised as a whole.
fn has_world() -> bool {
    static INITIALIZED: Real = Real::new(c"PMPI_Initialized");
    let mut flag: c_int = 0;
    // SAFETY: the MPI library's function of this name, which may be called at any time and takes a place for a flag.
    let result = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_int) -> c_int>(INITIALIZED.find())(
            &raw mut flag,
        )
    };
    result == 0 && flag != 0
}

/// Makes a call outside virtual time. All processes make one, and return from it together.
fn outside(clock: &ProgramClock, call: impl FnOnce() -> c_int) -> c_int {
    let driver = clock.driver();
    if let Some(driver) = driver {
        (driver.pause)();
    }
    let wall = OnTheWall::begin(clock);
    let result = call();
    drop(wall);
    if let Some(driver) = driver {
        (driver.resume)();
    }
    result
}

/// Seconds of the program's clock, if its time is virtual. Libraries count from a time that they read on the wall, or from the
/// processor's.
pub fn seconds() -> Option<f64> {
    clock()?.driver()?;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own for a time. The preloaded library answers.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Some(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
}

/// Waits until all processes of the program have come here.
fn barrier() -> c_int {
    static BARRIER: Real = Real::new(c"PMPI_Barrier");
    let found = BARRIER.find();
    // SAFETY: the MPI library's function of this name, which takes a handle, an integer or a pointer.
    let barrier = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(usize) -> c_int>(found) };
    // SAFETY: the communicator of all processes, between the beginning and the end of MPI.
    unsafe { barrier(world(found)) }
}
