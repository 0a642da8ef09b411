//! A process that forks: its child gets copies of the exchanged pages, as it does of all other private memory.
//!
//! The kernel would let both have the same pages. So the child makes copies before it runs on, and its parent waits for that: what
//! it writes afterwards is none of the child's. Other threads of the parent do not wait. They would only disturb a child
//! that uses what they write, which POSIX does not allow to the child of a process with threads.

use crate::book::{Open, book};
use crate::exchange::{copy_data, discard, private, take_place};
use std::cell::UnsafeCell;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Once;

/// The book while this process forks, and a pipe whose end the parent waits for.
struct Forking(UnsafeCell<Option<(Open, Option<[i32; 2]>)>>);

// SAFETY: only the thread that forks uses it, while it has the book's lock.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking(UnsafeCell::new(None));

/// Forks are seen to from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: three functions for the places that the C library calls them at.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

extern "C" fn before() {
    let book = book();
    let is_needed = book.areas.iter().any(|area| !area.held.is_empty());
    let pipe = match is_needed {
        true => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok(),
        false => None,
    };
    let pipe = pipe.map(|(read, write): (OwnedFd, OwnedFd)| [read.into_raw_fd(), write.into_raw_fd()]);
    // SAFETY: this thread has the lock, and nobody else looks there.
    unsafe { *FORKING.0.get() = Some((book, pipe)) };
}

fn taken() -> Option<(Open, Option<[i32; 2]>)> {
    // SAFETY: this thread has the lock, or is the only one of a new process.
    unsafe { (*FORKING.0.get()).take() }
}

extern "C" fn in_parent() {
    let Some((book, pipe)) = taken() else { return };
    if let Some([read, write]) = pipe {
        let mut byte = 0u8;
        // SAFETY: both descriptors are ours. The end of the pipe comes when the child has closed it, or has ended, or was never made.
        unsafe {
            libc::close(write);
            while libc::read(read, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
            libc::close(read);
        }
    }
    drop(book);
}

/// Async-signal-safe: the parent may have had other threads.
extern "C" fn in_child() {
    let Some((book, pipe)) = taken() else { return };
    for area in &book.areas {
        for span in area.held.all() {
            let Some(twin) = area.twin(span.start) else { continue };
            // SAFETY: new memory, as long as what it takes the place of, with the same content. If there is none, the child keeps
            // what it shares with its parent.
            unsafe {
                if let Ok(own) = private(span.len())
                    && (copy_data(twin, own, span.len()).is_err() || take_place(own, &span).is_err())
                {
                    discard(own, span.len());
                }
            }
        }
    }
    if let Some([read, write]) = pipe {
        // SAFETY: both are ours. Closing tells the parent.
        unsafe {
            libc::close(read);
            libc::close(write);
        }
    }
    drop(book);
}
