//! Functions that a PE's program wants called at its end.

use std::ffi::{c_int, c_void};

/// A function that the program wants called at its end.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Of `atexit` and of destructors.
    Plain(unsafe extern "C" fn(*mut c_void), *mut c_void),
    /// Of `on_exit`.
    WithStatus(unsafe extern "C" fn(c_int, *mut c_void), *mut c_void),
}

/// A PE's functions to call at its end.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) exit: Vec<Handler>,
    pub(crate) quick: Vec<Handler>,
    /// Destructors of the image ran, or run.
    pub(crate) destroyed: bool,
}
