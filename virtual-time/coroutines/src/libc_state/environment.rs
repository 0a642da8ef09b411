//! The environment of a PE: its strings are shared until it changes them.

use std::ffi::{CString, c_char};

/// What a PE's environment takes beside the common strings.
pub(crate) struct Environment {
    /// Strings of this PE from its start.
    pub(super) own: Vec<CString>,
    /// The array, once it had to grow.
    pub(crate) grown: *mut *mut c_char,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { own: Vec::new(), grown: std::ptr::null_mut() }
    }
}

impl Environment {
    /// # Safety
    /// The PE never runs again.
    pub(super) unsafe fn free(&mut self) {
        // SAFETY: null or from malloc.
        unsafe { libc::free(self.grown.cast()) };
        self.grown = std::ptr::null_mut();
    }
}
