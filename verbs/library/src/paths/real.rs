//! The functions of libc that come after those of this library.

use libc::{DIR, FILE, c_char, c_int, c_void, mode_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Functions by their names, each looked up once. They may unwind: threads are cancelled in some.
macro_rules! next {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            /// # Safety
            /// That of the function of libc.
            pub(crate) unsafe fn $name($($arg: $kind),*) -> $result {
                static AT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no zero"),
                };
                let at = look_up(&AT, NAME);
                // SAFETY: libc has the function, with these arguments.
                unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($kind),*) -> $result>(at)($($arg),*) }
            }
        )*
    };
}

fn look_up(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = at.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // Nothing of this program works without it.
        std::process::abort();
    }
    at.store(found, Ordering::Relaxed);
    found
}

next! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    access(path: *const c_char, mode: c_int) -> c_int;
    faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fstatat(dir: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int;
    statx(dir: c_int, path: *const c_char, flags: c_int, mask: u32, to: *mut libc::statx) -> c_int;
    realpath(path: *const c_char, to: *mut c_char) -> *mut c_char;
    opendir(path: *const c_char) -> *mut DIR;
    closedir(of: *mut DIR) -> c_int;
    fstat(fd: c_int, to: *mut libc::stat) -> c_int;
    __fxstat(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int;
    read(fd: c_int, to: *mut c_void, len: usize) -> ssize_t;
    write(fd: c_int, from: *const c_void, len: usize) -> ssize_t;
    close(fd: c_int) -> c_int;
    madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    readlink(path: *const c_char, to: *mut c_char, len: usize) -> ssize_t;
}
