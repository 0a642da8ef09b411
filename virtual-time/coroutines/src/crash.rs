//! Signals that end a PE: found on a stack of their own, they end the PE and leave the others alone.

use crate::record::fault::{Crash, Fault};
use crate::record::one_thread::OneThread;
use crate::record::{CURRENT, HOST, Life, Record};
use crate::switch;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
/// Bytes of stack that are looked through for return addresses.
const DEPTH: usize = 256 << 10;
const SIGNAL_STACK: usize = 64 << 10;

/// Signal by which the host takes its turn from a PE.
const INTERRUPT: c_int = libc::SIGURG;

/// What these signals did before.
static BEFORE: OneThread<[Option<libc::sigaction>; SIGNALS.len()]> = OneThread::new([None; SIGNALS.len()]);

/// Takes the signals. The calling thread gets a stack for them.
pub(crate) fn install() -> io::Result<()> {
    // SAFETY: the stack is never given back; the handler keeps to what is allowed in one.
    unsafe {
        let (rw, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let stack = libc::mmap(std::ptr::null_mut(), SIGNAL_STACK, rw, private, -1, 0);
        if stack == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: SIGNAL_STACK };
        if libc::sigaltstack(&stack, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for (i, signal) in SIGNALS.into_iter().enumerate() {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, &action, &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            if before.sa_sigaction != action.sa_sigaction {
                (*BEFORE.get())[i] = Some(before);
            }
        }
        action.sa_sigaction = interrupted as *const () as usize;
        // On the PE's own stack, where it may stay while others run.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        if libc::sigaction(INTERRUPT, &action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What the host wants of the PE that runs.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Wanted {
    /// Its turn, until it is resumed.
    Pause = 1,
    End = 2,
    /// Where it is, which goes to [`TOLD`]. It goes on.
    Tell = 3,
}

/// What is wanted; 0 if nothing is.
static WANTED: AtomicU8 = AtomicU8::new(0);

/// Where a PE was when it was asked; [`TELLS`] says whose the room is.
static TOLD: OneThread<(u32, Fault)> = OneThread::new((0, Fault::NONE));
/// `FREE`; `ASKED`: the handler's; `ANSWERED`: the asker's.
static TELLS: AtomicU8 = AtomicU8::new(FREE);
const FREE: u8 = 0;
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;

/// Asks the PE that runs where it is, wherever that may be; nothing if it does not say so within `limit`. One thread at a time
/// asks, and wants nothing else of PEs meanwhile.
pub(crate) fn position(limit: Duration) -> Option<(u32, Crash)> {
    TELLS.store(ASKED, Ordering::Release);
    let end = Instant::now() + limit;
    while TELLS.load(Ordering::Acquire) != ANSWERED {
        if Instant::now() >= end {
            // If this fails the answer has come just now.
            match TELLS.compare_exchange(ASKED, FREE, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return None,
                Err(_) => break,
            }
        }
        interrupt(Wanted::Tell);
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the handler has written it, and does not again before it is asked.
    let (pe, fault) = unsafe { *TOLD.get() };
    TELLS.store(FREE, Ordering::Release);
    Some((pe, fault.crash()))
}

/// Asks something of the PE that runs, from another thread. One that is inside a library, where locks may be held, goes on.
pub(crate) fn interrupt(wanted: Wanted) {
    // In place of what was wanted of a PE that has come back meanwhile: nobody wants that of the next.
    WANTED.store(wanted as u8, Ordering::Relaxed);
    // SAFETY: the thread that hosts PEs lives as long as the process, or has not begun: its handler looks.
    unsafe {
        let thread = (*HOST.get()).thread;
        if thread != 0 {
            libc::pthread_kill(thread, INTERRUPT);
        }
    }
}

/// Ends or pauses the PE that runs if it is in its own code, or says where it is.
unsafe extern "C" fn interrupted(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as in `handle`.
    unsafe {
        let pe = CURRENT.load(Ordering::Relaxed);
        if pe.is_null() || libc::pthread_self() != (*HOST.get()).thread {
            return;
        }
        let context = &*context.cast::<libc::ucontext_t>();
        let registers = &context.uc_mcontext.gregs;
        let (rip, rsp) = (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize);
        if WANTED.load(Ordering::Relaxed) == Wanted::Tell as u8 {
            WANTED.store(0, Ordering::Relaxed);
            if TELLS.load(Ordering::Acquire) == ASKED {
                let fault = &mut (*TOLD.get()).1;
                *fault = Fault::of(signal, 0, rip);
                look_for_frames(fault, &*pe, rip, rsp);
                (*TOLD.get()).0 = (*pe).number;
                TELLS.store(ANSWERED, Ordering::Release);
            }
            return;
        }
        if !is_code(&*pe, rip) {
            return;
        }
        let wanted = WANTED.swap(0, Ordering::Relaxed);
        if wanted == Wanted::Pause as u8 {
            (*HOST.get()).paused = true;
            libc::pthread_sigmask(libc::SIG_SETMASK, &context.uc_sigmask, std::ptr::null_mut());
            switch::to_host(pe);
        } else if wanted == Wanted::End as u8 {
            let fault = &mut (*HOST.get()).fault;
            *fault = Fault::of(signal, 0, rip);
            look_for_frames(fault, &*pe, rip, rsp);
            (*pe).life = Life::Crashed(signal);
            libc::pthread_sigmask(libc::SIG_SETMASK, &context.uc_sigmask, std::ptr::null_mut());
            switch::to_host(pe);
            libc::abort()
        }
    }
}

/// The address is in the program's own code.
///
/// # Safety
/// The PE's program lives.
unsafe fn is_code(pe: &Record, at: usize) -> bool {
    // SAFETY: the program outlives its PEs.
    let program = unsafe { &*pe.program };
    program.headers.iter().any(|h| {
        let code = h.is_load() && h.flags & libc::PF_X != 0;
        code && (pe.base + h.vaddr + 8..pe.base + h.end()).contains(&at)
    })
}

/// Runs on the stack for signals, perhaps with a PE's thread-local bytes in place: nothing here may use the host's.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both; a PE that runs does so on the thread that hosts PEs, which gets this signal.
    unsafe {
        let pe = CURRENT.load(Ordering::Relaxed);
        if pe.is_null() || libc::pthread_self() != (*HOST.get()).thread {
            let before = SIGNALS.iter().position(|s| *s == signal).and_then(|i| (*BEFORE.get())[i]);
            // The instruction runs again, or abort() raises again, with what the signal did before.
            libc::sigaction(signal, &before.unwrap_or(std::mem::zeroed()), std::ptr::null_mut());
            return;
        }
        let context = &*context.cast::<libc::ucontext_t>();
        let registers = &context.uc_mcontext.gregs;
        let (rip, rsp) = (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize);
        let address = if signal == libc::SIGABRT { 0 } else { (*info).si_addr() as usize };
        let fault = &mut (*HOST.get()).fault;
        *fault = Fault::of(signal, address, rip);
        let stack = (*pe).stack;
        let outside = !(stack.low..stack.top).contains(&rsp);
        let in_guard = (stack.low - stack.guard..stack.low).contains(&address);
        fault.overflow = signal != libc::SIGABRT && (outside || in_guard);
        look_for_frames(fault, &*pe, rip, rsp);
        (*pe).life = Life::Crashed(signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &context.uc_sigmask, std::ptr::null_mut());
        switch::to_host(pe);
        libc::abort()
    }
}

/// # Safety
/// The PE's image and stack are mapped.
unsafe fn look_for_frames(fault: &mut Fault, pe: &Record, rip: usize, rsp: usize) {
    // SAFETY: the image outlives its PEs; words are read between the stack's ends, bytes inside the image.
    unsafe {
        let is_code = |at: usize| is_code(pe, at);
        if is_code(rip) {
            fault.add(rip);
        }
        let from = rsp.max(pe.stack.low).next_multiple_of(8);
        let to = pe.stack.top.min(from.saturating_add(DEPTH));
        for at in (from..to).step_by(8) {
            let word = (at as *const usize).read();
            if is_code(word) && follows_call(std::slice::from_raw_parts((word - 7) as *const u8, 7)) {
                fault.add(word);
            }
        }
    }
}

/// These bytes end with a call instruction: to a distance, or through a register or memory.
fn follows_call(before: &[u8]) -> bool {
    let through = |len: usize| {
        let (code, operand) = (&before[7 - len..], before[8 - len]);
        code[0] == 0xff && operand >> 3 & 7 == 2 && bytes_through(operand, code.get(2)) == len
    };
    before[2] == 0xe8 || (2..=7).any(through)
}

/// Bytes of a call through `operand`, which says where the address is found; `scale` is the byte that may follow it.
fn bytes_through(operand: u8, scale: Option<&u8>) -> usize {
    match (operand >> 6, operand & 7) {
        (0, 5) => 6,
        (0, 4) if scale.is_some_and(|scale| scale & 7 == 5) => 7,
        (0, 4) => 3,
        (1, 4) => 4,
        (1, _) => 3,
        (2, 4) => 7,
        (2, _) => 6,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_instructions_are_known() {
        let ends_with = |code: &[u8]| {
            let mut bytes = [0x90; 7];
            bytes[7 - code.len()..].copy_from_slice(code);
            follows_call(&bytes)
        };
        assert!(ends_with(&[0xe8, 1, 2, 3, 4]), "call near");
        assert!(ends_with(&[0xff, 0xd0]), "call rax");
        assert!(ends_with(&[0xff, 0x15, 1, 2, 3, 4]), "call [rip + d]");
        assert!(ends_with(&[0xff, 0x50, 8]), "call [rax + 8]");
        assert!(ends_with(&[0xff, 0x14, 0xc5, 1, 2, 3, 4]), "call [8 * rax + d]");
        assert!(ends_with(&[0xff, 0x54, 0x24, 8]), "call [rsp + 8]");
        // Where a function begins behind another one whose last call was near, forwards or back.
        assert!(!ends_with(&[0x94, 0xfb, 0xff, 0xff, 0x90, 0xc9, 0xc3]), "call near; nop; leave; ret");
        assert!(!ends_with(&[0xe9, 1, 2, 3, 4]), "jump");
        assert!(!ends_with(&[0xff, 0xe0]), "jump to rax");
    }
}
