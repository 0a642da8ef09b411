//! Life of the job in this process: before `main`, init, finalize, exit.
//!
//! A program linked with this library joins its job in a library constructor, because that is the
//! last moment at which its global variables can be moved unnoticed. What goes wrong there is kept
//! and reported by `shmem_init`. A program that loads the library later (an interpreter) joins in
//! init, and its globals stay private.
//!
//! The last finalize ends a *life* of the PE's seat, and init may begin another one. Seat, mapping of the globals and
//! connection to the daemon stay until the process exits; everything else is as it was at first. Nothing of one life
//! may meet the next: each PE clears its heap and the library's words behind the last barrier of the one and before the
//! first of the other, in which nobody else writes to them.

use super::pe::{Boot, this};
use super::{elf, exit, fork, statics};
use crate::ctypes::*;
use crate::rt::collectives::area::{P2p, word};
use crate::rt::collectives::{coll, table};
use crate::rt::runtime::{STATE, TOLD};
use crate::rt::teams::busy::Busy;
use crate::rt::{Runtime, check, die, handles, lock, memory, ok, record, state, try_state};
use angara::{Job, Reach};
use angara_protocol::calls::Meeting;
use angara_protocol::env;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

const MAJOR: int = 1;
const MINOR: int = 6;
const VENDOR: &str = concat!("Angara OpenSHMEM ", env!("CARGO_PKG_VERSION"));
/// `SHMEM_THREAD_MULTIPLE`. Puts, gets, atomics and waits of several threads may run at once, and
/// collectives of different teams, see [`crate::rt::collectives`].
const THREAD_MOST: int = 3;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

unsafe extern "C" {
    /// glibc: like `atexit`, and the handler learns the exit status.
    fn on_exit(handler: extern "C" fn(status: i32, data: *mut void), data: *mut void) -> i32;
}

extern "C" fn constructor() {
    // SAFETY: errno of this thread; a program's first view of it must be undisturbed.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(segments) = elf::symmetric_segments() {
        let boot = std::panic::catch_unwind(|| join(segments));
        *lock(&this().boot) = match boot {
            Ok(Ok(job)) => Boot::Joined(job),
            Ok(Err(why)) => Boot::Failed(why, None),
            Err(_) => Boot::Failed("internal error while joining the job (see above)".into(), None),
        };
    }
    // SAFETY: a handler of the right type in a library that is never unloaded; errno as above.
    unsafe {
        on_exit(at_exit, std::ptr::null_mut());
        *libc::__errno_location() = errno;
    }
}

/// Joins the job of the launcher, or makes one of a single PE, with `segments` symmetric.
fn join(segments: Vec<elf::Segment>) -> Result<Job, String> {
    let described = statics::describe(&segments);
    let job = Job::start(&described, || solo_heap().map_err(angara::Error::Invalid)).map_err(|e| e.to_string())?;
    // In a heterogeneous job variables stay each PE's own.
    if !segments.is_empty() && !job.geometry().heterogeneous {
        statics::adopt(&job, &segments).map_err(|e| format!("cannot make global variables symmetric: {e}"))?;
        let fd = job.static_fd().map_or(-1, |fd| fd.as_raw_fd());
        let variables = segments.into_iter().filter(elf::Segment::is_writable).collect();
        fork::register(variables, fd, job.static_offset());
    }
    core_dumps(&job);
    Ok(job)
}

/// A core dump shall hold this PE's globals and heap, and not the memory of all its peers.
fn core_dumps(job: &Job) {
    let geometry = *job.geometry();
    let (me, pes) = (job.my_pe(), geometry.pes);
    let arena = |first: *mut u8, stride: usize, keep_mine: bool| {
        let others = if keep_mine { [0..me, me + 1..pes] } else { [0..pes, pes..pes] };
        for range in others.into_iter().filter(|range| !range.is_empty()) {
            let start = first.wrapping_add(range.start * stride);
            // SAFETY: advice about slices of a mapping of this process; it changes no content.
            unsafe { libc::madvise(start.cast(), range.len() * stride, libc::MADV_DONTDUMP) };
        }
    };
    arena(job.internal().wrapping_sub(me * geometry.heap_stride), geometry.heap_stride, true);
    // The program's own view of its globals is dumped; the arena is the same memory again.
    let first = job.static_slice(0);
    if !first.is_null() {
        arena(first, geometry.static_stride, false);
    }
    // Bit 1: anonymous shared memory, bit 3: shared file mappings. Which of the two a memfd is has
    // changed between kernels.
    let path = "/proc/self/coredump_filter";
    if let Some(now) = std::fs::read_to_string(path).ok().and_then(|t| u32::from_str_radix(t.trim(), 16).ok()) {
        let _ = std::fs::write(path, format!("{:#x}", now | 0b1010));
    }
}

/// The symmetric heap without a launcher; with one, the launcher has read the variable.
fn solo_heap() -> Result<usize, String> {
    let asked = env::symmetric_size(|name| std::env::var_os(name))?;
    Ok(asked.unwrap_or(env::DEFAULT_HEAP) as usize)
}

/// Runs after `main` returned or `exit` was called.
extern "C" fn at_exit(status: i32, _: *mut void) {
    if !fork::in_child() {
        ended(status);
    }
}

/// The same for one of several PEs of this process, behind its program's own handlers.
pub(super) extern "C" fn ended(status: i32) {
    if exit::under_way() || status == 0 {
        goodbye(!exit::under_way());
    }
    // A failing PE leaves without a goodbye: the daemon notices, and the launcher ends the job.
}

/// Ends the program on all PEs.
pub(crate) fn global_exit(name: Name, status: int) -> ! {
    exit::everywhere(state(name), name, status)
}

/// This process is about to exit with success; `finish` if a program that never finalizes is to do so now.
fn goodbye(finish: bool) {
    if finish && this().old_style.load(Ordering::Relaxed) && try_state().is_some() {
        finalize(&"start_pes (at exit)");
    }
    if let Some(s) = try_state() {
        return s.job.detach();
    }
    // A thread that still starts the job keeps the lock; then the daemon notices the exit.
    if let Ok(boot) = this().boot.try_lock() {
        match &*boot {
            Boot::Joined(job) | Boot::Failed(_, Some(job)) => job.detach(),
            Boot::Resting(state) => state.job.detach(),
            Boot::Later | Boot::Failed(_, None) | Boot::Taken => {}
        }
    }
}

/// Starts, or counts one more start. Errors are for the caller to report.
fn start(name: Name, level: int) -> Result<(), String> {
    let mut boot = lock(&this().boot);
    if let Some(s) = try_state() {
        s.inits.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let (mut job, again) = match std::mem::replace(&mut *boot, Boot::Taken) {
        Boot::Joined(job) => (job, false),
        Boot::Later => match join(Vec::new()) {
            Ok(job) => (job, false),
            Err(why) => {
                *boot = Boot::Failed(why.clone(), None);
                return Err(why);
            }
        },
        Boot::Resting(state) => (state.job, true),
        Boot::Failed(why, job) => {
            *boot = Boot::Failed(why.clone(), job);
            return Err(why);
        }
        Boot::Taken => return Err("the job is being started by another thread".into()),
    };
    if again && let Err(e) = job.start_again() {
        let why = format!("cannot start again: {e}");
        *boot = Boot::Failed(why.clone(), Some(job));
        return Err(why);
    }
    let table = table::Table::load(job.profile().costs)?;
    record::start(&job)?;
    let begun = record::now(&job);
    let checking = check::wanted();
    if checking {
        job.look_closer();
    }
    if level >= THREAD_MOST {
        job.with_threads();
    }
    let (me, n) = (job.my_pe(), job.n_pes());
    // In one process all is virtual time, and no PE stores into another one's memory.
    let others = if job.adapter().is_inside() { 0..0 } else { 0..n };
    let shared: Vec<usize> = others.filter(|pe| job.ctx().reach(*pe) == Reach::Direct).collect();
    let state = Box::leak(Box::new(Runtime {
        heap: Mutex::new(memory::heap_of(&job)),
        checking,
        timed: job.adapter().virtual_now().is_some(),
        job,
        me,
        n,
        p2p: OnceLock::new(),
        teams: handles::Table::new(me, n, &shared),
        busy: Busy::default(),
        tree: OnceLock::new(),
        table,
        thread_level: AtomicI32::new(level),
        inits: AtomicUsize::new(1),
    }));
    let place = if state.job.wants_calls() || record::wanted() { &TOLD } else { &STATE };
    place.store(state, Ordering::Release);
    if level >= THREAD_MOST {
        (0..n).for_each(|pe| state.put_word(name, pe, word::THREADS, 1));
        ok(name, None, state.job.ctx().quiet());
    }
    ok(name, None, state.job.barrier(false));
    let threads = state.word(word::THREADS).load(Ordering::Acquire) != 0;
    let _ = state.p2p.set(P2p::new(n, threads));
    state.open_tree(name);
    exit::catch_sigterm();
    record::started(state, name, begun);
    if me == 0 && !again {
        greet(state);
    }
    Ok(())
}

/// `SHMEM_VERSION` and `SHMEM_INFO` print at start.
fn greet(s: &Runtime) {
    if env::shmem_is_set("VERSION") {
        show(&format!("{VENDOR}, OpenSHMEM {MAJOR}.{MINOR}\n"));
    }
    if env::shmem_is_set("INFO") {
        show(&format!(
            "{VENDOR}, OpenSHMEM {MAJOR}.{MINOR}\n\
             SHMEM_SYMMETRIC_SIZE  bytes of symmetric heap per PE, with k, m, g, t (now {})\n\
             SHMEM_DEBUG           if set: check memory, overlaps and arguments of collectives\n\
             SHMEM_VERSION         if set: print the version at start\n\
             SHMEM_INFO            if set: print this\n\
             SHMEM_PREFAULT        1: populate large blocks when they are allocated\n\
             Where one of the first four is not set, SMA_ in place of SHMEM_ counts.\n",
            s.job.heap_len()
        ));
    }
}

/// A program does not end because a greeting cannot be written.
fn show(text: &str) {
    let _ = angara_protocol::print::out(text);
}

pub(crate) fn init(name: Name) {
    if let Err(why) = start(name, 0) {
        die(name, None, why);
    }
}

/// # Safety
/// `provided` is null or writable.
pub(crate) unsafe fn init_thread(name: Name, requested: int, provided: *mut int) -> int {
    let level = requested.clamp(0, THREAD_MOST);
    let status = match start(name, level) {
        Ok(()) => 0,
        Err(why) => {
            angara_protocol::complain!("angara: {name}: {why}");
            1
        }
    };
    if let (Some(s), false) = (try_state(), provided.is_null()) {
        // SAFETY: the caller's contract.
        unsafe { provided.write(s.thread_level.load(Ordering::Relaxed)) };
    }
    status
}

/// # Safety
/// `provided` is writable.
pub(crate) unsafe fn query_thread(name: Name, provided: *mut int) {
    // SAFETY: the caller's contract.
    unsafe { provided.write(state(name).thread_level.load(Ordering::Relaxed)) };
}

/// # Safety
/// `initialized` is writable.
pub(crate) unsafe fn query_initialized(_name: Name, initialized: *mut int) {
    // SAFETY: the caller's contract.
    unsafe { initialized.write(try_state().is_some() as int) };
}

pub(crate) fn finalize(name: Name) {
    if exit::under_way() {
        // Called by a handler of `exit`: nobody comes to a barrier any more.
        state(name);
        return;
    }
    let noted = |s: &Runtime, (): &()| record::met(Meeting::Barrier, &s.world());
    record::call(name, noted, |s| leave(s, name));
}

/// One finalize less to come; with the last one the job ends.
fn leave(s: &'static Runtime, name: Name) {
    if s.inits.fetch_sub(1, Ordering::Relaxed) > 1 {
        return coll::barrier_all(name);
    }
    ok(name, None, s.job.quiet_barrier());
    // No request outlives the trees it is about.
    this().requests.forget();
    ok(name, None, s.job.rest());
    this().old_style.store(false, Ordering::Relaxed);
    let mut boot = lock(&this().boot);
    let states = [&STATE, &TOLD].map(|place| place.swap(std::ptr::null_mut(), Ordering::AcqRel));
    if let Some(state) = states.into_iter().find(|state| !state.is_null()) {
        // SAFETY: a box that `start` has leaked and nobody else takes back; threads that still look at it may until the
        // next start.
        *boot = Boot::Resting(unsafe { Box::from_raw(state) });
    }
}

pub(crate) fn start_pes(name: Name, _npes: int) {
    if try_state().is_none() {
        this().old_style.store(true, Ordering::Relaxed);
        init(name);
    }
}

pub(crate) fn my_pe(name: Name) -> int {
    state(name).me as int
}

pub(crate) fn n_pes(name: Name) -> int {
    state(name).n as int
}

/// # Safety
/// Both are writable.
pub(crate) unsafe fn version(_name: Name, major: *mut int, minor: *mut int) {
    // SAFETY: the caller's contract.
    unsafe {
        major.write(MAJOR);
        minor.write(MINOR);
    }
}

/// # Safety
/// `name` has room for `SHMEM_MAX_NAME_LEN` (256) bytes.
pub(crate) unsafe fn name(_name: Name, name: *mut char) {
    // SAFETY: the text is shorter than that.
    unsafe {
        std::ptr::copy_nonoverlapping(VENDOR.as_ptr().cast(), name, VENDOR.len());
        name.add(VENDOR.len()).write(0);
    }
}

/// Profiling control: there is no profiler inside the library; one that interposes sees the call.
pub(crate) fn pcontrol(_name: Name, _level: int) {}

/// Coordinates of the node of `pe`, one `int` per dimension; returns how many, or -1.
///
/// # Safety
/// `coords` has room for 4.
pub(crate) unsafe fn coords(name: Name, pe: int, coords: *mut int) -> int {
    let s = state(name);
    let Some(pe) = usize::try_from(pe).ok().filter(|pe| *pe < s.n) else { return -1 };
    let dims = s.job.geometry().shape.dims().len();
    for (i, c) in s.job.pe_entry(pe).coords.0[..dims].iter().enumerate() {
        // SAFETY: at most four dimensions.
        unsafe { coords.add(i).write(*c as int) };
    }
    dims as int
}

/// Nodes along each dimension; returns how many dimensions there are.
///
/// # Safety
/// `dims` has room for 4.
pub(crate) unsafe fn dims(name: Name, dims: *mut int) -> int {
    let shape = state(name).job.geometry().shape;
    for (i, n) in shape.dims().iter().enumerate() {
        // SAFETY: at most four dimensions.
        unsafe { dims.add(i).write(*n as int) };
    }
    shape.dims().len() as int
}

/// Links between the caller's node and that of `pe`, or -1.
pub(crate) fn hops(name: Name, pe: int) -> int {
    let s = state(name);
    usize::try_from(pe).ok().filter(|pe| *pe < s.n).map_or(-1, |pe| s.job.hops(pe) as int)
}
