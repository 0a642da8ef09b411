//! The processor's time stamp counter, where `angara run --virtual-tsc` asks for it: the processor refuses to read it,
//! and the handler of that fault tells virtual time, at 1 GHz.
//!
//! Reads by libc and by the kernel's own pages are real: the handler lets them pass. A program's own handler of
//! `SIGSEGV` is kept behind ours. Programs that are started from here have the counter again.

use crate::passing::pass;
use crate::program::program;
use crate::real::real;
use crate::timers::SI_KERNEL;
use crate::units::{BEGIN_AT, NS};
use angara_abi::program_clock::{ENV_TSC, READ_COST};
use libc::{c_char, c_int, c_void, sigaction as Action, sighandler_t, siginfo_t, sigset_t, ucontext_t};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The counter is refused.
static ON: AtomicBool = AtomicBool::new(false);

/// Handler of SIGSEGV that the program has set.
struct Kept(UnsafeCell<Option<Action>>);
// SAFETY: read and written while the one thread that does has all signals but SIGSEGV's own blocked; a program that
// changes this handler from several threads at once has no certain one with libc either.
unsafe impl Sync for Kept {}
static KEPT: Kept = Kept(UnsafeCell::new(None));

/// Bytes of the kernel's own code in every process, at most.
const VDSO_BYTES: u64 = 4 * 4096;

fn refuse(yes: bool) -> bool {
    let how = if yes { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TSC, how) == 0 }
}

/// Refuses the counter from now on, if the environment says so.
pub(crate) fn begin() {
    // SAFETY: a name that ends with 0; the loader runs this before there are other threads.
    if unsafe { libc::getenv(ENV_TSC.as_ptr()) }.is_null() {
        return;
    }
    // SAFETY: plain data, and places for it.
    unsafe {
        let mut ours: Action = std::mem::zeroed();
        ours.sa_sigaction = fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        let mut theirs: Action = std::mem::zeroed();
        if set_action(libc::SIGSEGV, &raw const ours, &raw mut theirs) != 0 || !refuse(true) {
            angara_protocol::complain!(
                "angara: the system does not refuse the time stamp counter, so it tells real time"
            );
            return;
        }
        *KEPT.0.get() = Some(theirs);
    }
    ON.store(true, Ordering::Relaxed);
}

/// A child, and what it starts, has the counter.
pub(crate) fn in_child() {
    if ON.swap(false, Ordering::Relaxed) {
        refuse(false);
    }
}

/// libc's `sigaction`, which is needed before the loader can be asked again.
fn set_action(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let next: extern "C-unwind" fn(c_int, *const Action, *mut Action) -> c_int =
        real!(sigaction: fn(c_int, *const Action, *mut Action) -> c_int);
    next(signal, new, old)
}

/// How long an instruction is that reads the counter, and whether it reads the core's number, too.
///
/// # Safety
/// `code` was being executed.
unsafe fn decode(code: *const u8) -> Option<(u64, bool)> {
    // SAFETY: a byte is read only where the ones before say that the instruction goes on.
    let byte = |i: usize| unsafe { *code.add(i) };
    let is_prefix = |b: u8| matches!(b, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65);
    let mut at = (0..14).find(|i| !is_prefix(byte(*i)))?;
    // The prefix that widens operands comes last.
    at += usize::from(byte(at) & 0xf0 == 0x40);
    // Many instructions have a single byte, and the page may end behind it.
    if byte(at) != 0x0f {
        return None;
    }
    match byte(at + 1) {
        0x31 => Some((at as u64 + 2, false)),
        0x01 if byte(at + 2) == 0xf9 => Some((at as u64 + 3, true)),
        _ => None,
    }
}

/// Reads the counter itself.
fn real_counter() -> u64 {
    refuse(false);
    // SAFETY: every such processor has it, and it is allowed.
    let counter = unsafe { std::arch::x86_64::_rdtsc() };
    refuse(true);
    counter
}

fn is_kernels(code: u64) -> bool {
    // SAFETY: takes a number.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    base != 0 && (base..base + VDSO_BYTES).contains(&code)
}

unsafe extern "C" fn fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel hands to a handler.
    let (code, registers) = unsafe { ((*info).si_code, &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs) };
    let at = registers[libc::REG_RIP as usize] as u64;
    // SAFETY: the processor raises this at an instruction, which is what has no address.
    let read = (code == SI_KERNEL).then(|| unsafe { decode(at as *const u8) }).flatten();
    let Some((len, with_core)) = read.filter(|_| ON.load(Ordering::Relaxed)) else {
        // SAFETY: as it came.
        return unsafe { pass_on(signal, info, context) };
    };
    // SAFETY: the thread's own `errno`, which the program may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let counter = match program().is_real() || is_kernels(at) {
        true => real_counter(),
        false => (BEGIN_AT + pass(READ_COST)) / NS,
    };
    registers[libc::REG_RAX as usize] = i64::from(counter as u32);
    registers[libc::REG_RDX as usize] = (counter >> 32) as i64;
    if with_core {
        registers[libc::REG_RCX as usize] = 0;
    }
    registers[libc::REG_RIP as usize] = (at + len) as i64;
    // SAFETY: the thread's own `errno`, which the program may be about to read.
    unsafe { *libc::__errno_location() = errno };
}

/// Another fault: what the program wants is done.
///
/// # Safety
/// As it came from the kernel.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: see `Kept`.
    let kept = unsafe { *KEPT.0.get() }.filter(|kept| ![libc::SIG_DFL, libc::SIG_IGN].contains(&kept.sa_sigaction));
    // SAFETY: plain data.
    let default: Action = unsafe { std::mem::zeroed() };
    let Some(kept) = kept else {
        // The instruction is tried again, and ends the process. A signal that another process has sent is sent again.
        set_action(signal, &raw const default, std::ptr::null_mut());
        // SAFETY: the kernel's.
        if unsafe { (*info).si_code } <= 0 {
            // SAFETY: takes a number.
            unsafe { libc::raise(signal) };
        }
        return;
    };
    let mut mask = kept.sa_mask;
    if kept.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: a set of our own.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    let block = real!(pthread_sigmask: fn(c_int, *const sigset_t, *mut sigset_t) -> c_int);
    block(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut());
    // SAFETY: the program has given this handler for such calls. What is blocked is undone when ours returns.
    unsafe {
        if kept.sa_flags & libc::SA_RESETHAND != 0 {
            *KEPT.0.get() = Some(default);
        }
        if kept.sa_flags & libc::SA_SIGINFO != 0 {
            type Told = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
            std::mem::transmute::<usize, Told>(kept.sa_sigaction)(signal, info, context);
        } else {
            std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(kept.sa_sigaction)(signal);
        }
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    if signal != libc::SIGSEGV || !ON.load(Ordering::Relaxed) {
        return set_action(signal, new, old);
    }
    // SAFETY: the caller's, or null; see `Kept`.
    unsafe {
        let before = *KEPT.0.get();
        if let Some(new) = new.as_ref() {
            *KEPT.0.get() = Some(*new);
        }
        if let (Some(old), Some(before)) = (old.as_mut(), before) {
            *old = before;
        }
    }
    0
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    if number != libc::SIGSEGV || !ON.load(Ordering::Relaxed) {
        return real!(signal: fn(c_int, sighandler_t) -> sighandler_t)(number, handler);
    }
    // SAFETY: plain data of our own.
    unsafe {
        let (mut new, mut old): (Action, Action) = (std::mem::zeroed(), std::mem::zeroed());
        (new.sa_sigaction, new.sa_flags) = (handler, libc::SA_RESTART);
        sigaction(number, &raw const new, &raw mut old);
        old.sa_sigaction
    }
}

/// A set of signals without SIGSEGV: where that is blocked, a fault ends the process.
fn without_fault(how: c_int, set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: null, or the caller's.
    let mut copy =
        unsafe { set.as_ref() }.copied().filter(|_| ON.load(Ordering::Relaxed) && how != libc::SIG_UNBLOCK)?;
    // SAFETY: a set of our own.
    unsafe { libc::sigdelset(&raw mut copy, libc::SIGSEGV) };
    Some(copy)
}

macro_rules! masks {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
            let copy = without_fault(how, set);
            let set = copy.as_ref().map_or(set, std::ptr::from_ref);
            real!($name: fn(c_int, *const sigset_t, *mut sigset_t) -> c_int)(how, set, old)
        }
    )*};
}
masks! { sigprocmask pthread_sigmask }

/// Does what starts another program, which shall have the counter.
fn starting<R>(start: impl FnOnce() -> R) -> R {
    if !ON.load(Ordering::Relaxed) {
        return start();
    }
    refuse(false);
    let result = start();
    refuse(true);
    result
}

macro_rules! starts {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            starting(|| real!($name: fn($($type),*) -> $result)($($arg),*))
        }
    )*};
}

type Text = *const c_char;
type Texts = *const *const c_char;
starts! {
    execv(file: Text, argv: Texts) -> c_int;
    execvp(file: Text, argv: Texts) -> c_int;
    execve(file: Text, argv: Texts, env: Texts) -> c_int;
    execvpe(file: Text, argv: Texts, env: Texts) -> c_int;
    fexecve(fd: c_int, argv: Texts, env: Texts) -> c_int;
    posix_spawn(pid: *mut c_int, file: Text, actions: *const c_void, attributes: *const c_void, argv: Texts, env: Texts)
        -> c_int;
    posix_spawnp(pid: *mut c_int, file: Text, actions: *const c_void, attributes: *const c_void, argv: Texts, env: Texts)
        -> c_int;
    system(command: Text) -> c_int;
    popen(command: Text, mode: Text) -> *mut libc::FILE;
}
