//! Descriptors: a PE may close those that it has opened itself. All others are the host's or another PE's, and look closed.

use crate::record::current;
use std::ffi::{c_char, c_int};

/// Functions that open one descriptor and return it. The wrapper has the name of libc's; further names are of the same function.
macro_rules! opening {
    ($($name:ident $($other:ident)*;)*) => {
        mod real {
            unsafe extern "C" {
                $(pub(super) fn $name(a: usize, b: usize, c: usize, d: usize) -> std::ffi::c_int;)*
            }
        }

        /// With as many arguments as any of them has: libc's function looks at its own.
        mod wrapped {
            $(pub(super) unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize) -> std::ffi::c_int {
                // SAFETY: the program's arguments.
                super::opened(unsafe { super::real::$name(a, b, c, d) })
            })*
        }

        fn opens(name: &str) -> Option<*const ()> {
            Some(match name {
                $(stringify!($name) $(| stringify!($other))* => wrapped::$name as *const (),)*
                _ => return None,
            })
        }
    };
}

// On 64-bit systems files are large under both names.
opening! {
    open open64; openat openat64; creat creat64;
    __open_2 __open64_2; __openat_2 __openat64_2;
    mkstemp mkstemp64; mkstemps mkstemps64; mkostemp mkostemp64; mkostemps mkostemps64;
    memfd_create; shm_open; dup; socket; accept; accept4; eventfd; epoll_create; epoll_create1;
}

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name {
        "pipe" => pipe as *const (),
        "pipe2" => pipe2 as *const (),
        "socketpair" => socketpair as *const (),
        "close" | "__close" => close as *const (),
        "fdopendir" => open_directory as *const (),
        "closedir" => close_directory as *const (),
        _ => return opens(name),
    })
}

/// The PE that runs has opened this, unless it is negative.
pub(super) fn opened(fd: c_int) -> c_int {
    if fd >= 0 {
        // SAFETY: only PEs have the addresses of these functions.
        unsafe { current() }.libc.descriptors.insert(fd);
    }
    fd
}

/// The PE that runs has opened this, with what it knows of streams, too. Else `errno` says that it is none.
pub(super) fn is_own(fd: c_int) -> bool {
    // SAFETY: only PEs have the addresses of these functions; streams in the list are open.
    unsafe {
        let libc = &current().libc;
        let own = libc.descriptors.contains(&fd) || libc.files.iter().any(|file| libc::fileno(*file) == fd);
        if !own {
            *libc::__errno_location() = libc::EBADF;
        }
        own
    }
}

/// It is about to be closed by other means.
pub(super) fn closes(fd: c_int) {
    // SAFETY: only PEs have the addresses of these functions.
    unsafe { current() }.libc.descriptors.remove(&fd);
}

fn both_opened(done: c_int, ends: *const c_int) -> c_int {
    if done == 0 {
        // SAFETY: libc has written both.
        unsafe { [opened(*ends), opened(*ends.add(1))] };
    }
    done
}

unsafe extern "C" fn pipe(ends: *mut c_int) -> c_int {
    // SAFETY: the program's room.
    both_opened(unsafe { libc::pipe(ends) }, ends)
}

unsafe extern "C" fn pipe2(ends: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program's room.
    both_opened(unsafe { libc::pipe2(ends, flags) }, ends)
}

unsafe extern "C" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int {
    // SAFETY: the program's room.
    both_opened(unsafe { libc::socketpair(domain, kind, protocol, ends) }, ends)
}

/// The standard descriptors are the host's; a PE that closes one stops using it.
unsafe extern "C" fn close(fd: c_int) -> c_int {
    if (0..3).contains(&fd) {
        return 0;
    }
    if !is_own(fd) {
        return -1;
    }
    closes(fd);
    // SAFETY: the PE's descriptor.
    unsafe { libc::close(fd) }
}

unsafe extern "C" fn open_directory(fd: c_int) -> *mut libc::DIR {
    // SAFETY: the PE's descriptor.
    if is_own(fd) { unsafe { libc::fdopendir(fd) } } else { std::ptr::null_mut() }
}

unsafe extern "C" fn close_directory(directory: *mut libc::DIR) -> c_int {
    // SAFETY: the program's directory.
    unsafe {
        closes(libc::dirfd(directory));
        libc::closedir(directory)
    }
}

/// As libc's `fdopen`, for a descriptor of the PE.
///
/// # Safety
/// Called on a PE's stack with a terminated mode.
pub(super) unsafe fn open_stream(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the caller's promise.
    if is_own(fd) { unsafe { libc::fdopen(fd, mode) } } else { std::ptr::null_mut() }
}
