//! The switch between the host's stack and a PE's.

use crate::record::{CURRENT, HOST, Record};
use std::sync::atomic::Ordering;

std::arch::global_asm!(
    // rdi: where to keep the stack pointer, rsi: the one to load.
    ".globl angara_coro_switch",
    ".type angara_coro_switch,@function",
    "angara_coro_switch:",
    ".cfi_startproc",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "fnstsw [rsp + 6]",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "ldmxcsr [rsp]",
    // Exceptions that x87 noted can only be put back with all of its environment, which takes long.
    "fnstsw ax",
    "xor ax, [rsp + 6]",
    "test al, 0x3f",
    "je 2f",
    "sub rsp, 32",
    "fnstenv [rsp]",
    "mov ax, [rsp + 38]",
    "mov [rsp + 4], ax",
    "fldenv [rsp]",
    "add rsp, 32",
    "2:",
    "fldcw [rsp + 4]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".cfi_endproc",
    ".size angara_coro_switch, . - angara_coro_switch",
    // Reached by the `ret` above: r12 is the program's entry, the stack is as the kernel would lay it out. No function
    // of the loader is to be called at exit.
    ".globl angara_coro_begin",
    ".type angara_coro_begin,@function",
    "angara_coro_begin:",
    "xor edx, edx",
    "jmp r12",
    ".size angara_coro_begin, . - angara_coro_begin",
);

unsafe extern "C" {
    fn angara_coro_switch(keep: *mut usize, load: usize);
    fn angara_coro_begin();
}

/// Words that the first switch to a PE takes from its stack: control and status words, r15 to r12, rbx, rbp, where to return.
const FRAME: usize = 8;

/// Control and status words of a fresh process: all floating-point exceptions masked and none noted, double extended
/// precision.
const CONTROL_WORDS: usize = 0x037f_0000_1f80;

/// Writes below `sp` what makes the next switch begin at `entry`; the stack pointer to switch to.
///
/// # Safety
/// `sp` is 16-byte aligned, with writable memory below it.
pub(crate) unsafe fn prepare(sp: usize, entry: usize) -> usize {
    let frame: [usize; FRAME] = [CONTROL_WORDS, 0, 0, 0, entry, 0, 0, angara_coro_begin as *const () as usize];
    let at = sp - size_of_val(&frame);
    // SAFETY: the caller has this memory.
    unsafe { (at as *mut [usize; FRAME]).write(frame) };
    at
}

/// Runs the PE until it switches back.
///
/// # Safety
/// `pe` has a stack pointer from [`prepare`] or [`stand`], and its state of libc and of thread-local variables is in
/// place.
#[inline]
pub(crate) unsafe fn to_pe(pe: *mut Record) {
    // SAFETY: the caller's promise; the host's stack pointer is kept where `to_host` finds it.
    unsafe { angara_coro_switch(&raw mut (*HOST.get()).sp, (*pe).sp) }
}

/// Runs the host until it resumes the PE.
///
/// # Safety
/// `pe` is the one that runs.
#[inline]
pub(crate) unsafe fn to_host(pe: *mut Record) {
    // SAFETY: the PE runs, so the host's stack pointer was kept by `to_pe`.
    unsafe { angara_coro_switch(&raw mut (*pe).sp, (*HOST.get()).sp) }
}

/// Called on a PE's stack: the host runs until it resumes the PE. Elsewhere it returns at once.
pub extern "C" fn stand() {
    let pe = CURRENT.load(Ordering::Relaxed);
    if !pe.is_null() {
        // SAFETY: the current PE is the one that runs.
        unsafe { to_host(pe) }
    }
}
