//! Functions of libc on descriptors: those of event channels of the connection manager are ours.
//!
//! Threads may be cancelled where they wait, which unwinds through these functions: what waits has nothing to clean up.

use super::real;
use crate::cm::desk::{self, Answer, Command};
use crate::entry::guard::count;
use angara_hca::{Errno, Result};
use libc::{c_int, c_void, ssize_t};

/// Longest value of an option.
const VALUE_MAX: usize = 4096;

/// What a descriptor of a channel is shown as.
///
/// # Safety
/// `to` has been filled in.
unsafe fn show_as_device(fd: c_int, result: c_int, to: *mut libc::stat) -> c_int {
    if result == 0 && desk::is_ours(fd) {
        // SAFETY: the caller promises it.
        unsafe { (*to).st_mode = libc::S_IFCHR | 0o666 };
    }
    result
}

/// `fstat` and `fstat64`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C-unwind" fn fstat(fd: c_int, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { show_as_device(fd, real::fstat(fd, to), to) }
}

/// `__fxstat` and `__fxstat64`, which programs call that were built with glibc 2.32 or older.
///
/// # Safety
/// That of libc.
pub unsafe extern "C-unwind" fn fxstat(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller promises it.
    unsafe { show_as_device(fd, real::__fxstat(version, fd, to), to) }
}

/// `close`.
///
/// # Safety
/// That of libc.
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if desk::is_ours(fd) {
        forget(fd);
    }
    // SAFETY: the caller promises it.
    unsafe { real::close(fd) }
}

fn forget(fd: c_int) {
    let _ = std::panic::catch_unwind(|| desk::close(fd));
}

/// `write`: of a command to a channel.
///
/// # Safety
/// That of libc, and for commands that of the kernel's interface: what they point to is there.
pub unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: usize) -> ssize_t {
    if !desk::is_ours(fd) || from.is_null() {
        // SAFETY: the caller promises it.
        return unsafe { real::write(fd, from, len) };
    }
    // SAFETY: the caller promises that the bytes are there.
    if Command::takes_event(unsafe { std::slice::from_raw_parts(from.cast(), len) }) {
        loop {
            let mut word = 0u64;
            // SAFETY: a word of eight bytes. Waits for an event, unless the program does not want that.
            if unsafe { real::read(fd, (&raw mut word).cast(), 8) } < 0 {
                return -1;
            }
            // SAFETY: the caller promises it.
            match unsafe { take_event(fd, from.cast(), len) } {
                0 => {}
                result => return result,
            }
        }
    }
    // SAFETY: the caller promises it.
    match unsafe { command(fd, from.cast(), len) } {
        0 => {
            // SAFETY: the caller promises it.
            unsafe { real::write(fd, from, len) }
        }
        result => result,
    }
}

/// Gives bytes to the program.
///
/// # Safety
/// There is room for them.
unsafe fn give(answer: Answer) -> Result<()> {
    let Answer { at, bytes } = answer;
    let bytes = bytes.0;
    if at == 0 && !bytes.is_empty() {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller promises it.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::with_exposed_provenance_mut(at as usize), bytes.len());
    }
    Ok(())
}

/// Returns `len`, -1 and errno, or 0: there is none after all.
///
/// # Safety
/// `from` has `len` bytes, a command for an event with room for that.
unsafe fn take_event(fd: c_int, from: *const u8, len: usize) -> ssize_t {
    let mut done = 0;
    let failed = count(|| {
        // SAFETY: the caller promises it.
        let bytes = unsafe { std::slice::from_raw_parts(from, len) };
        if let Some(event) = desk::event(fd, bytes).ok_or(Errno::BADF)? {
            // SAFETY: the caller promises it.
            unsafe { give(event?) }?;
            done = len as ssize_t;
        }
        Ok(0)
    });
    if failed < 0 { -1 } else { done }
}

/// Returns `len`, -1 and errno, or 0: the descriptor is not ours any more.
///
/// # Safety
/// `from` has `len` bytes, and what these point to is there.
unsafe fn command(fd: c_int, from: *const u8, len: usize) -> ssize_t {
    let mut done = len as ssize_t;
    let failed = count(|| {
        // SAFETY: the caller promises it.
        let bytes = unsafe { std::slice::from_raw_parts(from, len) };
        let value = match Command::value(bytes) {
            Some((_, len)) if len > VALUE_MAX => return Err(Errno::INVAL),
            Some((at, len)) if at != 0 => {
                // SAFETY: the caller promises it.
                unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at as usize), len) }
            }
            _ => &[],
        };
        match desk::command(fd, &Command { bytes, value }) {
            None => done = 0,
            Some(answer) => {
                if let Some(answer) = answer? {
                    // SAFETY: the caller promises it.
                    unsafe { give(answer) }?;
                }
            }
        }
        Ok(0)
    });
    if failed < 0 { -1 } else { done }
}
