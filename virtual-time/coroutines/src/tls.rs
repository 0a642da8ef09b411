//! Thread-local variables of programs.
//!
//! A position-independent executable reaches its thread-local variables at fixed distances below the thread pointer,
//! where this process has those of its own executable. While a PE runs, its bytes lie there; the host's are kept aside.

use std::cell::UnsafeCell;
use std::hint::black_box;

/// Bytes of thread-local variables that a program may have.
pub const TLS_MAX: usize = 4096;

thread_local! {
    // The loader gives every thread as many bytes below the thread pointer as the executable has thread-local
    // variables; this one makes sure that they are enough for a program's.
    static ROOM: UnsafeCell<[u8; TLS_MAX]> = const { UnsafeCell::new([0; TLS_MAX]) };
}

/// Bytes of thread-local variables of this process's executable.
fn executable_tls() -> usize {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, data: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes a valid description and its own headers; `data` is the number below.
        unsafe {
            let headers = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            let tls = headers.iter().find(|h| h.p_type == libc::PT_TLS);
            *data.cast::<usize>() = tls.map_or(0, |h| h.p_memsz as usize);
        }
        1
    }
    let mut bytes = 0usize;
    // SAFETY: the callback gets the number and keeps nothing. The executable is the first object.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut bytes).cast()) };
    bytes
}

/// Fails where this process's executable has too few thread-local bytes for a program's.
pub(crate) fn check() -> Result<(), String> {
    ROOM.with(|r| black_box(r.get()));
    match executable_tls() {
        n if n >= TLS_MAX => Ok(()),
        n => Err(format!("this process's executable has {n} bytes of thread-local variables, not {TLS_MAX}")),
    }
}

/// Where the executable's thread-local variables end in the calling thread.
#[inline(always)]
fn thread_pointer() -> *mut u8 {
    let at: *mut u8;
    // SAFETY: the first word of the thread's control block is its own address, by the ABI.
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) at, options(nostack, readonly, preserves_flags)) };
    at
}

/// Keeps the bytes below the thread pointer in `keep` and puts those of `with` there.
///
/// # Safety
/// Both have `size` bytes, at most what [`check`] found. Until the bytes are back, no thread-local variable of the
/// executable may be used.
#[inline]
pub(crate) unsafe fn exchange(keep: *mut u8, with: *const u8, size: usize) {
    // SAFETY: the executable's thread-local bytes end at the thread pointer and are at least `size`.
    unsafe {
        let at = thread_pointer().sub(size);
        std::ptr::copy_nonoverlapping(at, keep, size);
        std::ptr::copy_nonoverlapping(with, at, size);
    }
}
