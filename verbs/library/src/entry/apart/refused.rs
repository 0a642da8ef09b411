//! What is refused, in the way of adapters that do not have it: memory windows, multicast, objects of other processes, memory of
//! devices, DMA buffers, counters of completions.

use crate::abi::structs::ibv_pd;
use crate::entry::guard::set_errno;
use angara_hca::Errno;
use libc::{c_int, c_void};

/// Returns the errno. Arguments of callers are not looked at.
pub extern "C" fn code() -> c_int {
    libc::EOPNOTSUPP
}

/// Returns null, and sets errno.
pub extern "C" fn pointer() -> *mut c_void {
    set_errno(Errno::OPNOTSUPP);
    std::ptr::null_mut()
}

/// Returns -1 and sets errno.
pub extern "C" fn descriptor() -> c_int {
    set_errno(Errno::OPNOTSUPP);
    -1
}

/// Does nothing with what nobody can have.
pub extern "C" fn nothing() {}

/// `alloc_mw` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn alloc_mw(_: *mut ibv_pd, _: c_int) -> *mut c_void {
    pointer()
}
