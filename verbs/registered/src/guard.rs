//! What makes others wait while pages are exchanged.
//!
//! By `userfaultfd` whoever writes to a page that is write-protected, or not there yet, waits in the kernel until he is woken: a
//! thread of the program, and a system call, which gets no error. That takes a userfaultfd that may stop the kernel,
//! too, which not every user may have. Where there is none, pages are exchanged while nobody else could write.

use crate::ranges::Span;
use crate::stays::errno;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads of this process that are ours.
static OWN: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is one that writes to registered memory only while none is being registered: it need not wait.
pub fn own_thread() {
    OWN.fetch_add(1, Ordering::Relaxed);
}

/// A child has none of them.
pub(crate) fn no_own_threads() {
    OWN.store(0, Ordering::Relaxed);
}

/// The calling thread is the only one that runs the program.
pub(crate) fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() <= 1 + OWN.load(Ordering::Relaxed))
}

/// True if pages of a program with several threads can be exchanged here.
pub fn is_guarded() -> bool {
    Guard::open().is_some()
}

/// A userfaultfd.
pub(crate) struct Guard(OwnedFd);

const fn command(writes: u32, number: u32, size: usize) -> libc::Ioctl {
    (writes << 30 | (size as u32) << 16 | 0xaa << 8 | number) as libc::Ioctl
}
const API: libc::Ioctl = command(3, 0x3f, 24);
const REGISTER: libc::Ioctl = command(3, 0, 32);
const UNREGISTER: libc::Ioctl = command(2, 1, 16);
const WAKE: libc::Ioctl = command(2, 2, 16);
const WRITE_PROTECT: libc::Ioctl = command(3, 6, 24);
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const NEW: libc::Ioctl = 0xaa00;
/// The version of the interface.
const VERSION: u64 = 0xaa;
/// Write protection; pages of shared memory that are not there; their write protection.
const FEATURES: u64 = 1 | 1 << 5 | 1 << 12;
/// Pages that are not there, and those that are protected.
const MODES: u64 = 1 | 2;

impl Guard {
    /// Nothing if this user may not have one that the kernel itself waits for, or the kernel is too old.
    pub(crate) fn open() -> Option<Guard> {
        let flags = libc::O_CLOEXEC;
        // SAFETY: a system call with a number, which returns a descriptor that nobody else has.
        let raw = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as i32;
        let fd = match raw {
            // SAFETY: it is ours.
            0.. => unsafe { OwnedFd::from_raw_fd(raw) },
            _ => {
                let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").ok()?;
                // SAFETY: a command with a number, which returns a descriptor that nobody else has.
                let raw = unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags) };
                // SAFETY: it is ours.
                (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })?
            }
        };
        let guard = Guard(fd);
        guard.tell(API, &mut [VERSION, FEATURES, 0]).ok()?;
        Some(guard)
    }

    fn tell<const N: usize>(&self, command: libc::Ioctl, words: &mut [u64; N]) -> Result<(), Errno> {
        // SAFETY: every command has the size of its words in it.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), command, words.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(errno(&std::io::Error::last_os_error())),
        }
    }

    /// From now on whoever writes to these pages waits.
    pub(crate) fn stop(&self, span: &Span) -> Result<(), Errno> {
        let (start, len) = (span.start as u64, span.len() as u64);
        self.tell(REGISTER, &mut [start, len, MODES, 0])?;
        self.tell(WRITE_PROTECT, &mut [start, len, 1]).inspect_err(|_| self.let_go(span))
    }
    /// Other pages are there now: those who wait try again.
    pub(crate) fn wake(&self, span: &Span) {
        // Nothing can be done about an error, and the kernel knows none for a range.
        let _ = self.tell(WAKE, &mut [span.start as u64, span.len() as u64]);
    }
    /// The pages are as they were: those who wait try again.
    pub(crate) fn let_go(&self, span: &Span) {
        let _ = self.tell(UNREGISTER, &mut [span.start as u64, span.len() as u64]);
        self.wake(span);
    }
}
