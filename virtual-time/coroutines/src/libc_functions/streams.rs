//! Reads and writes of a PE by descriptor: standard input is PE 0's, standard output and error go to the host's sink.

use crate::libc_state::streams::{Functions, fopencookie};
use crate::record::current;
use libc::FILE;
use std::ffi::{c_char, c_int, c_void};

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "write" | "__write" => write as *const (),
        "writev" => writev as *const (),
        "read" | "__read" | "__read_chk" => read as *const (),
        "fileno" | "fileno_unlocked" => fileno as *const (),
        _ => return None,
    })
}

pub(super) unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize {
    // SAFETY: the program's bytes; no reference to the record lives while the sink runs.
    unsafe {
        if fd != 1 && fd != 2 {
            return libc::write(fd, bytes, len);
        }
        let (pe, sink) = (current().number, current().hooks.sink);
        sink(pe, fd, bytes.cast(), len);
        len as isize
    }
}

/// Only PE 0 has the host's input.
unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, len: usize) -> isize {
    // SAFETY: room of the program.
    unsafe { if fd == 0 && current().number != 0 { 0 } else { libc::read(fd, bytes, len) } }
}

unsafe extern "C" fn read_standard(_: *mut c_void, bytes: *mut c_char, len: usize) -> isize {
    // SAFETY: room of the stream.
    unsafe { read(0, bytes.cast(), len) }
}

/// The descriptor is the cookie.
unsafe extern "C" fn write_standard(fd: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: the stream's bytes.
    unsafe { write(fd as usize as c_int, bytes.cast(), len) }
}

/// A further stream to a standard descriptor. Closing it leaves the descriptor as it is.
///
/// # Safety
/// Called on a PE's stack with a terminated mode.
pub(super) unsafe fn open_standard(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = match fd {
        0 => Functions { read: Some(read_standard), write: None, seek: None, close: None },
        _ => Functions { read: None, write: Some(write_standard), seek: None, close: None },
    };
    // SAFETY: the caller's promise.
    unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) }
}

unsafe extern "C" fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the program's parts.
    unsafe {
        if fd != 1 && fd != 2 {
            return libc::writev(fd, parts, count);
        }
        (0..count as usize).map(|i| write(fd, (*parts.add(i)).iov_base, (*parts.add(i)).iov_len)).sum()
    }
}

unsafe extern "C" fn fileno(stream: *mut FILE) -> c_int {
    // SAFETY: the program's stream.
    unsafe {
        match current().libc.streams.descriptor(stream) {
            Some(fd) => fd,
            None => libc::fileno(stream),
        }
    }
}
