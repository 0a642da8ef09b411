//! Functions of the host that PEs call.

use std::ffi::c_int;

/// Gets bytes that a PE wrote to descriptor 1 or 2. Called on the PE's stack.
pub type Sink = extern "C" fn(pe: u32, fd: c_int, bytes: *const u8, len: usize);

/// Functions of the host that PEs call on their stacks; see the rule in the crate's description.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Gets what PEs write to their standard output and error.
    pub sink: Sink,
    /// Called when a PE's handlers and destructors ran and its streams are flushed. It may call [`crate::stand`].
    pub at_exit: Option<extern "C" fn(status: c_int)>,
}
