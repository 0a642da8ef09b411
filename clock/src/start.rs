//! Where the program begins.

use crate::{CLOCK, real};
use libc::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Start = unsafe extern "C-unwind" fn(Main, c_int, usize, usize, usize, usize, usize) -> c_int;

/// The program's own.
static MAIN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn main(count: c_int, words: *mut *mut c_char, variables: *mut *mut c_char) -> c_int {
    CLOCK.becomes_virtual();
    // SAFETY: what the program's first instructions gave to libc.
    unsafe { std::mem::transmute::<usize, Main>(MAIN.load(Ordering::Relaxed))(count, words, variables) }
}

/// As the function of libc, which a program calls first: with its `main`, words, constructors and destructors, and the end
/// of its stack.
///
/// # Safety
/// As that function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __libc_start_main(
    program: Main,
    count: c_int,
    words: usize,
    init: usize,
    fini: usize,
    loader_fini: usize,
    stack: usize,
) -> c_int {
    MAIN.store(program as usize, Ordering::Relaxed);
    // SAFETY: libc has one.
    let start = unsafe { std::mem::transmute::<usize, Start>(real::next(c"__libc_start_main") as usize) };
    // SAFETY: passed on as the program gave it, but for `main`, which calls what it gave.
    unsafe { start(main, count, words, init, fini, loader_fini, stack) }
}
