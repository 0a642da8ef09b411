//! Refusals, as whoever asked reads them: what is wrong, and what to do about it.

use angara_protocol::msg::Failure;
use rustix::io::Errno;
use std::io;

/// A failure from its two sentences.
pub(crate) fn failure(message: impl Into<String>, remedy: impl Into<String>) -> Failure {
    Failure { message: message.into(), remedy: remedy.into() }
}

/// Memory cannot be had; for what, and why.
pub(crate) fn no_memory(what: &str, error: &io::Error) -> Failure {
    let remedy = match rustix::io::Errno::from_io_error(error) {
        Some(Errno::FBIG) => "raise the daemon's limit on file sizes (`ulimit -f`), which holds for shared memory, too",
        Some(Errno::MFILE | Errno::NFILE) => "start fewer PEs, or give the daemon more descriptors (`ulimit -n`)",
        Some(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
            "have the sandbox or container allow memfd_create and seals, and see `angara doctor`"
        }
        _ => "free memory or descriptors, or start fewer PEs",
    };
    failure(format!("cannot create the memory of {what}: {error}"), remedy)
}
