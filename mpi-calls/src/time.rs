//! What calls do with virtual time.

use crate::CallKind;
use crate::real::{Real, file_of, first, in_library};
use crate::record::{around, turns};
use angara_abi::program_clock::{Call, Driver, ProgramClock, preloaded};
use libc::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The clock of this process.
pub(crate) fn clock() -> Option<&'static ProgramClock> {
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
        // What the routine costs passes before it begins.
        let driver = clock.driver().filter(|_| !clock.is_in_call());
        match (driver, kind) {
            (Some(driver), CallKind::Looks) => (driver.looks)(name),
            (Some(driver), _) => (driver.called)(name),
            (None, _) => {}
        }
        clock.begin_call(name, kind == CallKind::Waits).then_some(Inside { clock, driver })
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

/// A call after which virtual time begins, for all processes at once if it is one that all of them make.
pub fn begins(all: bool, call: impl FnOnce() -> c_int) -> c_int {
    let result = begins_in_time(all, call);
    turns(result == 0);
    result
}

fn begins_in_time(all: bool, call: impl FnOnce() -> c_int) -> c_int {
    let Some(clock) = clock().filter(|clock| !clock.is_late()) else { return call() };
    clock.begins_late();
    clock.set_call(Call::OUTSIDE);
    let wall = OnTheWall::begin(clock);
    let result = call();
    let driver = clock.driver().filter(|_| result == 0);
    if let Some(driver) = driver {
        (driver.meet)();
        if all {
            barrier();
        }
    }
    drop(wall);
    if let Some(driver) = driver {
        (driver.begin)();
    }
    result
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
    (driver.pause)();
    let wall = OnTheWall::begin(clock);
    let result = call();
    drop(wall);
    (driver.resume)();
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

/// `MPI_COMM_WORLD` of the library that has this function.
pub(crate) fn world(function: *mut c_void) -> usize {
    /// Of MPICH and its kin.
    const MPICH: usize = 0x4400_0000;
    /// Of MPI 5's binary interface.
    const STANDARD: usize = 0x101;
    // Programs may have a copy of the library's variable, which is the one then.
    let open_mpi = first(c"ompi_mpi_comm_world").or_else(|| in_library(c"ompi_mpi_comm_world"));
    let is_standard = || file_of(function).is_some_and(|file| file.to_string_lossy().contains("libmpi_abi"));
    match open_mpi {
        Some(world) => world as usize,
        None if is_standard() => STANDARD,
        None => MPICH,
    }
}
