//! What a host, or a library that PEs call, does to the PE that runs.

use crate::libc_functions::files;
use crate::libc_state::variables::Variables;
use crate::record::CURRENT;
use crate::{Crash, Pes, crash, exit as ends};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Ends the PE that runs, without its handlers and without [`crate::Hooks::at_exit`]. To be called on its stack.
pub extern "C" fn leave(status: c_int) -> ! {
    // SAFETY: on a PE's stack, as said.
    unsafe { ends::exit_now(status) }
}

/// Ends the PE that runs as the program's `exit` does. To be called on its stack.
pub extern "C" fn exit(status: c_int) -> ! {
    // SAFETY: on a PE's stack, as said.
    unsafe { ends::exit(status) }
}

/// Flushes the files of the PE that runs. To be called on its stack.
pub extern "C" fn flush() {
    // SAFETY: on a PE's stack, as said.
    unsafe { files::flush_all() };
}

/// Asks for an end of the PE that runs, from any thread: [`crate::Event::Crashed`] with SIGURG, once it is in its program's own
/// code. Nothing happens if none runs, or before [`Pes::install_handlers`].
pub fn interrupt() {
    crash::interrupt(crash::Wanted::End);
}

/// As [`interrupt`], for a pause: [`crate::Event::Paused`].
pub fn pause() {
    crash::interrupt(crash::Wanted::Pause);
}

/// Number of the PE that runs and where it is, in a library or not, asked from another thread; nothing if it does not say so
/// within `limit`. One thread at a time may ask, and ask for nothing else meanwhile. The PE goes on.
pub fn position(limit: Duration) -> Option<(u32, Crash)> {
    crash::position(limit)
}

impl Pes {
    /// Flushes the files of a PE that does not run, and shall not again.
    pub fn flush(&mut self, index: usize) {
        let pe = self.record(index);
        // SAFETY: the record lives until the set is dropped, and no PE runs meanwhile; flushing calls the sink alone.
        unsafe {
            let host = Variables::read();
            (*pe).libc.enter();
            CURRENT.store(pe, Ordering::Relaxed);
            files::flush_all();
            CURRENT.store(std::ptr::null_mut(), Ordering::Relaxed);
            (*pe).libc.leave();
            host.write();
        }
    }
}
