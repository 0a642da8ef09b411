//! Where the program is, for whoever waits for it: a signal asks, and its handler writes down the addresses of the
//! functions that are being called. Whoever asked finds their lines; a handler may not.

use super::virtual_time;
use angara_abi::clock::{ADDRESSES_MAX, WHERE_SIGNAL};
use libc::{c_int, c_void, sigaction};

/// From now on this process answers, unless the program uses the signal itself.
pub(super) fn answer() {
    // The first call loads what walks the stack, which takes memory and locks.
    addresses();
    // SAFETY: plain data, and places for it; the handler is async-signal-safe. What it interrupts goes on.
    unsafe {
        let mut before: sigaction = std::mem::zeroed();
        if libc::sigaction(WHERE_SIGNAL, std::ptr::null(), &raw mut before) != 0 || before.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        let mut action: sigaction = std::mem::zeroed();
        action.sa_sigaction = asked as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(WHERE_SIGNAL, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn asked(_signal: c_int) {
    // SAFETY: the thread's own `errno`, which what was interrupted may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let (found, count) = addresses();
    virtual_time::is_at(found[..count].iter().map(|at| *at as u64));
    // SAFETY: the thread's own `errno`, which what was interrupted may be about to read.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns the return addresses of this function and of its callers, and their number.
fn addresses() -> ([*mut c_void; ADDRESSES_MAX], usize) {
    let mut found = [std::ptr::null_mut(); ADDRESSES_MAX];
    // SAFETY: as many places as are said.
    let count = unsafe { libc::backtrace(found.as_mut_ptr(), ADDRESSES_MAX as c_int) };
    (found, count.max(0) as usize)
}
