//! How a process of the job ends: by itself, by `shmem_global_exit` on this PE or on another one, by a failure.
//!
//! `shmem_global_exit` ends the whole program in order. The caller ends as by `exit`: its handlers and static
//! destructors run, its streams are flushed. The other PEs are told at once, and flush their standard streams for
//! at most a moment: those that wait in the library when they notice, those that compute when their launcher sends
//! SIGTERM. Nothing here may wait for a PE, nor for a thread that may hold a lock for ever.

use super::fork;
use super::host::host;
use super::pe::this;
use crate::ctypes::*;
use crate::rt::runtime::{Runtime, try_state};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long streams may take to be flushed: a reader may be slow, or another thread holds a stream's lock.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// How long a PE of an ending job waits to be ended; then its launcher must be gone.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(3);
/// Time between two looks whether SIGTERM has come.
const LOOK: Duration = Duration::from_millis(5);
/// How often a thread that SIGTERM finds inside libc is let go on for [`AGAIN_US`], to leave its streams as they shall be.
const AGAIN_MAX: u32 = 50;
const AGAIN_US: i64 = 2000;

/// SIGTERM has come while the process was ending anyway.
static TOLD: AtomicBool = AtomicBool::new(false);
/// A thread flushes the streams, after which the process ends.
static FLUSHING: AtomicBool = AtomicBool::new(false);
/// Code of libc.
static LIBC: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn this_thread() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Returns whether `shmem_global_exit` was called on this PE.
pub(crate) fn under_way() -> bool {
    this().exiter.load(Ordering::Relaxed) != 0
}

/// Ends the program on all PEs, for the routine `name`.
pub(super) fn everywhere(s: &Runtime, name: Name, status: int) -> ! {
    if !fork::in_child() {
        let me = this_thread();
        match this().exiter.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Err(other) if other != me => stand_still(),
            _ => {}
        }
        if host().is_none() {
            outlast_sigterm();
        }
        s.job.abort(status, &format!("PE {} called {name}({status})", s.me), true);
    }
    if let Some(host) = host() {
        (host.exit)(status);
    }
    // From a handler of `exit` this goes on with those that are left.
    // SAFETY: ends the process as the program itself would.
    unsafe { libc::exit(status) }
}

/// Another thread is about to end the process.
fn stand_still() -> ! {
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// The job is over, which this thread was told while it waited: ends the process, when its launcher does or a moment
/// later. Leaving first would look like the failure itself.
pub(crate) fn with_the_job(status: i32) -> ! {
    let ordered = try_state().and_then(|s| s.job.exit_status());
    if host().is_some() {
        if ordered.is_some() {
            flush();
        }
        leave(ordered.unwrap_or(status));
    }
    if let Some(s) = try_state() {
        s.job.adapter().read_real_clocks();
    }
    match this().exiter.load(Ordering::Acquire) {
        0 => {}
        exiter if exiter == this_thread() => {
            // A handler of `exit` waits for other PEs, which are gone: those behind it cannot run.
            flush();
            leave(ordered.unwrap_or(status));
        }
        _ => stand_still(),
    }
    if ordered.is_some() {
        FLUSHING.store(true, Ordering::Release);
        flush();
    }
    let until = Instant::now() + LAUNCHER_PATIENCE;
    while Instant::now() < until && !TOLD.load(Ordering::Acquire) {
        std::thread::sleep(LOOK);
    }
    leave(ordered.unwrap_or(status))
}

/// Writes `line` in one piece, tells the daemon the reason, ends the process.
pub(crate) fn failed(status: i32, line: &str, reason: &str) -> ! {
    if let Some(s) = try_state() {
        s.job.adapter().read_real_clocks();
    }
    flush();
    match host() {
        Some(host) => (host.complain)(line.as_ptr(), line.len()),
        // SAFETY: writes a live buffer.
        None => drop(unsafe { libc::write(2, line.as_ptr().cast(), line.len()) }),
    }
    if let Some(s) = try_state()
        && !fork::in_child()
    {
        s.job.abort(status, reason, false);
    }
    leave(status)
}

/// Ends the process without destructors, which could wait for PEs that are gone.
fn leave(status: i32) -> ! {
    if let Some(host) = host() {
        (host.leave)(status);
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

fn flush_now() {
    // SAFETY: flushes the program's own streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Flushes the program's standard streams, unless that takes too long.
fn flush() {
    if let Some(host) = host() {
        return (host.flush)();
    }
    let (tell, told) = mpsc::channel();
    let flusher = std::thread::Builder::new().name("angara-flush".into()).spawn(move || {
        flush_now();
        // Nobody listens who has lost patience.
        let _ = tell.send(());
    });
    match flusher {
        Ok(_) => drop(told.recv_timeout(FLUSH_MAX)),
        Err(_) => flush_now(),
    }
}

fn disposition(signal: i32) -> libc::sigaction {
    // SAFETY: plain data, filled in below.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the disposition into a value of ours.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    now
}

/// A handler that is told more than the signal's number.
type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut void);

fn address(handler: Handler) -> usize {
    handler as *const () as usize
}

fn set_disposition(signal: i32, handler: usize, flags: i32) {
    // SAFETY: plain data; an empty mask is valid.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    (new.sa_sigaction, new.sa_flags) = (handler, flags);
    // SAFETY: a handler of the type the flags say, or a constant.
    unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
}

/// The launcher's SIGTERM is for the others; this process ends by itself.
fn outlast_sigterm() {
    let now = disposition(libc::SIGTERM).sa_sigaction;
    if now == libc::SIG_DFL || now == address(on_sigterm) {
        set_disposition(libc::SIGTERM, libc::SIG_IGN, 0);
    }
}

/// Has SIGTERM flush the streams if the program is being ended in order. For a program that does nothing about it.
pub(crate) fn catch_sigterm() {
    if host().is_some() || disposition(libc::SIGTERM).sa_sigaction != libc::SIG_DFL {
        return;
    }
    // SAFETY: the callback below has the right type and gets the address of nothing.
    unsafe { libc::dl_iterate_phdr(Some(note_libc), std::ptr::null_mut()) };
    set_disposition(libc::SIGTERM, address(on_sigterm), libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK);
}

/// Notes where the code of libc is: where `fflush` lies.
extern "C" fn note_libc(info: *mut libc::dl_phdr_info, _: usize, _: *mut void) -> i32 {
    // SAFETY: the loader passes a description that lives until this returns.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader passes a description that lives until this returns.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let fflush = libc::fflush as *const () as usize;
    for h in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0) {
        let start = info.dlpi_addr as usize + h.p_vaddr as usize;
        let end = start + h.p_memsz as usize;
        if (start..end).contains(&fflush) {
            LIBC[0].store(start, Ordering::Relaxed);
            LIBC[1].store(end, Ordering::Relaxed);
            return 1;
        }
    }
    0
}

/// Only what a signal handler may do, but for the flush: that is tried where the interrupted thread is not inside libc
/// or does not come out of it, and a second timer ends the process if it does not return.
extern "C" fn on_sigterm(_: i32, _: *mut libc::siginfo_t, context: *mut void) {
    static AGAIN: AtomicU32 = AtomicU32::new(0);
    TOLD.store(true, Ordering::Release);
    if fork::in_child() {
        return end_by_signal();
    }
    if under_way() {
        return;
    }
    let Some(status) = try_state().and_then(|s| s.job.exit_status()) else { return end_by_signal() };
    if FLUSHING.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: what the kernel passes to a handler with SA_SIGINFO.
    let at = instruction(unsafe { &*context.cast() });
    let inside = (LIBC[0].load(Ordering::Relaxed)..LIBC[1].load(Ordering::Relaxed)).contains(&at);
    if inside && AGAIN.fetch_add(1, Ordering::Relaxed) < AGAIN_MAX {
        return set_timer(on_sigterm, AGAIN_US);
    }
    if FLUSHING.swap(true, Ordering::AcqRel) {
        return;
    }
    set_timer(too_long, FLUSH_MAX.as_micros() as i64 / 2);
    flush_now();
    leave(status)
}

/// Returns the address of the instruction that a signal interrupted.
fn instruction(context: &libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    let at = context.uc_mcontext.pc;
    at as usize
}

extern "C" fn too_long(_: i32, _: *mut libc::siginfo_t, _: *mut void) {
    leave(try_state().and_then(|s| s.job.exit_status()).unwrap_or(1))
}

/// Ends the process by SIGTERM's default action, once the handler returns.
fn end_by_signal() {
    set_disposition(libc::SIGTERM, libc::SIG_DFL, 0);
    // SAFETY: takes a number.
    unsafe { libc::raise(libc::SIGTERM) };
}

/// Calls `handler` after `after` microseconds, less than a second. The program's own alarm, if it has one, is lost: it is being ended.
fn set_timer(handler: Handler, after: i64) {
    set_disposition(libc::SIGALRM, address(handler), libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK);
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: 0, tv_usec: after } };
    // SAFETY: a live value; nothing is asked back. libc names the call on some systems only.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut::<void>()) };
}
