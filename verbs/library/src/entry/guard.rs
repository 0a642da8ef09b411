//! How functions end: libibverbs has four ways to say that something failed. No panic leaves a function.

use angara_hca::{Errno, Result};
use libc::{c_int, ssize_t};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic is to the caller.
const BUG: Errno = Errno::IO;

#[inline(always)]
fn caught<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(Err(BUG))
}

pub(crate) fn set_errno(e: Errno) {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() = e.raw_os_error() };
}

/// Returns 0, or the errno.
#[inline(always)]
pub(crate) fn code(f: impl FnOnce() -> Result<()>) -> c_int {
    caught(f).map_or_else(|e| e.raw_os_error(), |()| 0)
}

/// Returns a number of at least 0, or -1 and sets errno.
#[inline(always)]
pub(crate) fn count(f: impl FnOnce() -> Result<c_int>) -> c_int {
    caught(f).unwrap_or_else(|e| {
        set_errno(e);
        -1
    })
}

/// Returns a number of at least 0, or the errno as a negative one.
#[inline(always)]
pub(crate) fn negative(f: impl FnOnce() -> Result<usize>) -> ssize_t {
    caught(f).map_or_else(|e| -(e.raw_os_error() as ssize_t), |n| n as ssize_t)
}

/// Returns a pointer, or null and sets errno.
#[inline(always)]
pub(crate) fn pointer<T>(f: impl FnOnce() -> Result<*mut T>) -> *mut T {
    caught(f).unwrap_or_else(|e| {
        set_errno(e);
        std::ptr::null_mut()
    })
}

/// Returns what `f` does, or `otherwise`.
#[inline(always)]
pub(crate) fn value<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    caught(|| Ok(f())).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_become_what_c_programs_know() {
        let quiet = || -> Result<()> { std::panic::resume_unwind(Box::new("bug")) };
        assert_eq!((code(|| Ok(())), code(|| Err(Errno::BUSY)), code(quiet)), (0, libc::EBUSY, libc::EIO));
        assert_eq!((count(|| Ok(7)), count(|| Err(Errno::INVAL))), (7, -1));
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(negative(|| Err(Errno::INVAL)), -libc::EINVAL as ssize_t);
        assert!(pointer::<u8>(|| Err(Errno::NOMEM)).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    }
}
