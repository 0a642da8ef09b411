//! What a program tells the kernel about its memory, of which some may be registered.

use crate::paths::real;
use libc::{c_int, c_void};

/// `madvise`. Private memory whose content is thrown away is zero from then on; pages that were exchanged are shared memory to the
/// kernel, which would keep theirs.
///
/// # Safety
/// That of the function of libc.
pub unsafe extern "C-unwind" fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: the caller promises it.
    let done = unsafe { real::madvise(at, len, advice) };
    if done == 0 && matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
        angara_registered::emptied(at.addr(), len);
    }
    done
}
