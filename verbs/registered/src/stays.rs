//! Why memory stays where it is.

/// Why pages were not exchanged. The program does not notice: its memory is reached in another way, which takes longer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stays {
    /// There are no bytes.
    #[error("it has no bytes")]
    Empty,
    /// A page is not there.
    #[error("not all of it is mapped")]
    Unmapped,
    /// A page is part of a file, of shared memory, of a device, or a huge page of hugetlbfs.
    #[error("it is a mapping of a file, of shared memory, of a device or of hugetlbfs")]
    Mapped,
    /// A page may not be written, or may be executed.
    #[error("it is not simply readable and writable")]
    Protected,
    /// The calling thread's stack.
    #[error("it is a stack")]
    Stack,
    /// Part of it was registered, then unmapped or moved by the program.
    #[error("registered pages there were unmapped or moved by the program")]
    Moved,
    /// Part of it is in memory that stays where it is for another region.
    #[error("it overlaps a region that stays where it is")]
    Overlaps,
    /// It shares a page with data of the allocator, which a fork would spoil.
    #[error("it shares a page with data of the memory allocator")]
    Allocator,
    /// The area has no room left, or it lies across two windows.
    #[error("the seat's area for registered memory has no room for its addresses")]
    Room,
    /// Other threads may write there meanwhile, and nothing makes them wait.
    #[error(
        "the program has other threads, which userfaultfd would make wait; it takes vm.unprivileged_userfaultfd=1, \
         the right to open /dev/userfaultfd, or CAP_SYS_PTRACE"
    )]
    Threads,
    /// The kernel has refused something.
    #[error("{0}: {1}")]
    System(&'static str, rustix::io::Errno),
}

impl Stays {
    pub(crate) fn system(what: &'static str, error: &std::io::Error) -> Stays {
        Stays::System(what, errno(error))
    }
}

/// The kernel's number of an error.
pub(crate) fn errno(error: &std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
