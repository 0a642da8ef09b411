//! The functions that ours come before, and system calls by them.

use libc::{c_char, c_long, c_void};
use std::ffi::CStr;

/// The next function of this name that the loader knows.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with 0.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    // libc has all that are asked for.
    if found.is_null() { std::process::abort() } else { found }
}

/// `real!(close: fn(c_int) -> c_int)(0)` calls the function of libc, on its terms. It is looked up once.
macro_rules! real {
    ($name:ident: fn($($arg:ty),*) -> $result:ty) => {{
        static FOUND: std::sync::atomic::AtomicPtr<libc::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(std::sync::atomic::Ordering::Relaxed);
        if found.is_null() {
            let name = concat!(stringify!($name), "\0").as_bytes();
            found = $crate::real::next(std::ffi::CStr::from_bytes_with_nul(name).expect("it ends with 0"));
            FOUND.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: libc's function of this name, whose type the caller says. One that waits may be cancelled, which unwinds.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C-unwind" fn($($arg),*) -> $result>(found) }
    }};
}
pub(crate) use real;

/// Operations of `futex`, and the flag of words that one process has for itself.
pub(crate) const FUTEX_WAIT: c_long = 0;
pub(crate) const FUTEX_WAKE: c_long = 1;
pub(crate) const FUTEX_PRIVATE: c_long = 128;

/// The system call of libc.
pub(crate) fn system_call(number: c_long, a: [c_long; 6]) -> c_long {
    real!(syscall: fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long)(
        number, a[0], a[1], a[2], a[3], a[4], a[5],
    )
}

/// `futex` itself.
pub(crate) fn kernel_futex(arguments: [c_long; 6]) -> c_long {
    system_call(libc::SYS_futex, arguments)
}

/// Sets `errno`, and returns -1.
pub(crate) fn fail(errno: i32) -> i32 {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() = errno };
    -1
}
