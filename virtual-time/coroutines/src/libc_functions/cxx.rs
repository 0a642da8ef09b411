//! Functions of libstdc++ that set what it has once.

use crate::libc_state::cxx::{Handler, SETTERS};
use crate::record::current;
use std::ffi::c_int;

pub(super) fn symbol(name: &str) -> Option<*const ()> {
    Some(match name.as_bytes() {
        n if n == SETTERS[0].to_bytes() => set_terminate as *const (),
        n if n == SETTERS[1].to_bytes() => set_unexpected as *const (),
        n if n == SETTERS[2].to_bytes() => set_new_handler as *const (),
        b"_ZNSt8ios_base15sync_with_stdioEb" => sync_with_stdio as *const (),
        _ => return None,
    })
}

unsafe extern "C" fn set_terminate(handler: Handler) -> Handler {
    // SAFETY: the program's function, called on its stack.
    unsafe { current().libc.cxx.set(0, handler) }
}

unsafe extern "C" fn set_unexpected(handler: Handler) -> Handler {
    // SAFETY: the program's function, called on its stack.
    unsafe { current().libc.cxx.set(1, handler) }
}

unsafe extern "C" fn set_new_handler(handler: Handler) -> Handler {
    // SAFETY: the program's function, or none, called on its stack.
    unsafe { current().libc.cxx.set(2, handler) }
}

/// Streams stay together with libc's: buffers of their own would be all PEs' in common.
unsafe extern "C" fn sync_with_stdio(_: bool) -> c_int {
    1
}
