//! Notes of what PEs wait for, left where their daemon can read them.
//!
//! A job that hangs should say why. A PE that has waited for a moment writes down what it waits for;
//! when a launcher loses patience or a user asks, its daemon collects the notes.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The clock of notes: CLOCK_MONOTONIC in nanoseconds, not 0, which means the same in PE and daemon. Asked of the kernel: what libc
/// answers may be virtual time, and rustix looks for the vDSO itself, and crashes where a tool like valgrind has hidden it.
pub fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock every Linux has, and a place for its value.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64).max(1)
}

/// One PE's note. The PE writes it, the daemon reads it and must expect anything.
#[repr(C, align(128))]
pub struct WaitNote {
    /// Start of the wait, CLOCK_MONOTONIC in nanoseconds; 0 while the PE does not wait.
    since: AtomicU64,
    /// Bytes of `text` in use.
    len: AtomicU32,
    /// How often the note was renewed, in a wait for other PEs.
    looks: AtomicU32,
    /// Subject of the wait, UTF-8.
    text: [AtomicU8; WaitNote::TEXT],
}

impl WaitNote {
    /// Longest text, in bytes; a longer one is cut.
    pub const TEXT: usize = 368;

    /// The PE waits for `what` since `since`, not 0, and has looked for it `looks` times in vain.
    pub fn write(&self, since: u64, what: &str, looks: u32) {
        let len = what.len().min(Self::TEXT);
        self.text.iter().zip(what.as_bytes()).for_each(|(cell, byte)| cell.store(*byte, Ordering::Relaxed));
        self.len.store(len as u32, Ordering::Relaxed);
        self.looks.store(looks, Ordering::Relaxed);
        self.since.store(since, Ordering::Release);
    }
    /// The wait is over.
    pub fn clear(&self) {
        self.since.store(0, Ordering::Release);
    }
    /// Start of the wait, text and looks. The text is whatever the PE wrote, so it is not to be printed as it is; one that changes
    /// meanwhile may be mixed.
    pub fn read(&self) -> Option<(u64, String, u32)> {
        let since = self.since.load(Ordering::Acquire);
        let len = (self.len.load(Ordering::Relaxed) as usize).min(Self::TEXT);
        let bytes: Vec<u8> = self.text[..len].iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (since != 0).then(|| (since, text, self.looks.load(Ordering::Relaxed)))
    }
}

const _: () = assert!(size_of::<WaitNote>() == 384);
// SAFETY: `repr(C)`; atomics only.
unsafe impl crate::shm::Shared for WaitNote {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_written_and_cut() {
        let note: WaitNote = WaitNote {
            since: AtomicU64::new(0),
            len: AtomicU32::new(u32::MAX),
            looks: AtomicU32::new(0),
            text: std::array::from_fn(|_| AtomicU8::new(0xff)),
        };
        assert_eq!(note.read(), None);
        note.write(7, "shmem_barrier_all: all PEs", 3);
        assert_eq!(note.read(), Some((7, "shmem_barrier_all: all PEs".into(), 3)));
        note.write(8, &"long\x1b[2J".repeat(100), 0);
        let (since, text, _) = note.read().unwrap();
        let cut: String = "long\x1b[2J".repeat(100).chars().take(WaitNote::TEXT).collect();
        assert!(since == 8 && text == cut, "{text}");
        note.clear();
        assert_eq!(note.read(), None);
    }
}
