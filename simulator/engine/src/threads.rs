//! Work that any number of threads share.

use std::thread::{Builder, scope};

/// Runs `work` on up to `threads` threads at once, this one among them, and returns when all have ended. Where the
/// system starts fewer, those do it all: `work` takes one piece after the other until none is left.
pub fn share(threads: usize, work: impl Fn() + Sync) {
    scope(|scope| {
        for _ in 1..threads {
            if Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}
