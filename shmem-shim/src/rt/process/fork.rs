//! Handling of global variables that are shared mappings, across `fork`.
//!
//! Parent and child of a fork expect private copies. Before the fork the parent takes a snapshot
//! of its symmetric globals in private memory, which the child inherits and moves over the shared
//! pages before anything else runs in it; the parent drops it. `posix_spawn`, `system` and `popen`
//! share the address space until exec and need nothing.

use super::elf::Segment;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Globals that were remapped, and the file they are mapped from.
struct Remapped {
    segments: Vec<Segment>,
    total: usize,
    fd: i32,
    offset: i64,
}

static REMAPPED: OnceLock<Remapped> = OnceLock::new();
static CHILD: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The snapshot of the fork this thread is in. Per thread: two threads may fork at once.
    static SNAPSHOT: Cell<*mut u8> = const { Cell::new(null_mut()) };
}

/// This process is a fork of a PE, not a PE.
pub(crate) fn in_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Registers the handlers. `fd` holds the segments from `offset` on, one after the other.
pub(crate) fn register(segments: Vec<Segment>, fd: i32, offset: u64) {
    let total = segments.iter().map(|s| s.pages.len()).sum();
    if REMAPPED.set(Remapped { segments, total, fd, offset: offset as i64 }).is_ok() {
        // SAFETY: three handlers of the right type, which live as long as the process: the library
        // is linked with `-z nodelete`.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

impl Remapped {
    /// Copies the populated parts of one segment; holes of the arena are zeros, as is fresh memory.
    ///
    /// # Safety
    /// `to` is writable for the segment's length.
    unsafe fn snapshot(&self, segment: &Segment, offset: i64, to: *mut u8) {
        let (len, from) = (segment.pages.len() as i64, segment.pages.start as *const u8);
        let mut at = 0;
        while at < len {
            // SAFETY: lseek touches no memory. The file position is shared with other holders of
            // the descriptor, and nobody uses it.
            let data = unsafe { libc::lseek(self.fd, offset + at, libc::SEEK_DATA) };
            let (start, end) = if data >= 0 {
                // SAFETY: lseek touches no memory. The file position is shared with other holders of the descriptor,
                // and nobody uses it.
                let hole = unsafe { libc::lseek(self.fd, data, libc::SEEK_HOLE) };
                (data - offset, if hole < 0 { len } else { (hole - offset).min(len) })
            } else if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) {
                return;
            } else {
                (at, len)
            };
            if start >= len {
                return;
            }
            // SAFETY: start and end lie inside the segment and its copy. Peers may write meanwhile.
            unsafe { angara_abi::copy::load(to.add(start as usize), from.add(start as usize), (end - start) as usize) };
            at = end;
        }
    }
}

extern "C" fn prepare() {
    let Some(r) = REMAPPED.get().filter(|r| r.total > 0 && !in_child()) else { return };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, filled within its length.
    unsafe {
        let map = libc::mmap(null_mut(), r.total, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if map == libc::MAP_FAILED {
            SNAPSHOT.set(null_mut());
            return;
        }
        let copy = map.cast::<u8>();
        let mut before = 0;
        for s in &r.segments {
            r.snapshot(s, r.offset + before as i64, copy.add(before));
            before += s.pages.len();
        }
        SNAPSHOT.set(copy);
    }
}

extern "C" fn parent() {
    let snapshot = SNAPSHOT.replace(null_mut());
    if let Some(r) = REMAPPED.get().filter(|_| !snapshot.is_null()) {
        // SAFETY: the mapping made by `prepare`.
        unsafe { libc::munmap(snapshot.cast(), r.total) };
    }
}

extern "C" fn child() {
    // A fork of a fork has private globals already.
    let first = !CHILD.swap(true, Ordering::Relaxed);
    let snapshot = SNAPSHOT.replace(null_mut());
    let Some(r) = REMAPPED.get().filter(|r| first && r.total > 0) else { return };
    if snapshot.is_null() {
        give_up(b"angara: no memory for the global variables of a forked child\n");
    }
    let mut before = 0;
    for s in &r.segments {
        // SAFETY: moves private pages with the same content over the shared ones. Only the stack,
        // registers and this library's own memory are used meanwhile.
        unsafe {
            let from = snapshot.add(before).cast::<c_void>();
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let to = s.pages.start as *mut c_void;
            if libc::mremap(from, s.pages.len(), s.pages.len(), how, to) == libc::MAP_FAILED {
                give_up(b"angara: cannot make the global variables of a forked child private\n");
            }
            if s.prot & libc::PROT_EXEC != 0 {
                libc::mprotect(to, s.pages.len(), s.prot);
            }
        }
        before += s.pages.len();
    }
}

/// Running on would corrupt the parent's variables.
fn give_up(message: &[u8]) -> ! {
    // SAFETY: writes a live buffer and ends the process.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::_exit(127)
    }
}
