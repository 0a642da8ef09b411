//! Symmetric addresses of the program, as places of the job's memory.

use super::{Runtime, die, heterogeneous};
use crate::ctypes::Name;
use angara_abi::desc::Place;

impl Runtime {
    /// Returns the place of `len` bytes at `p`, which must be symmetric. A range of no bytes may lie anywhere.
    #[inline]
    pub(crate) fn place(&self, name: Name, p: *const u8, len: usize) -> Place {
        match self.job.locate(p, len) {
            Some(place) => {
                if self.checking {
                    self.check_block(name, p, len);
                }
                place
            }
            None => self.not_symmetric(name, p, len),
        }
    }

    /// [`Runtime::place`] of bytes that shall be written.
    #[inline]
    pub(crate) fn place_to(&self, name: Name, p: *const u8, len: usize) -> Place {
        let place = self.place(name, p, len);
        if !self.job.is_writable(place, len) {
            self.constant(name, p, len);
        }
        place
    }

    /// Ends the job if a destination that need not be symmetric is a constant.
    pub(crate) fn check_written(&self, name: Name, p: *const u8, len: usize) {
        if self.job.locate(p, len).is_some_and(|place| !self.job.is_writable(place, len)) {
            self.constant(name, p, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn constant(&self, name: Name, p: *const u8, len: usize) -> ! {
        let why = "is a constant of the program: other PEs can read it, and nobody can write it; drop its `const`";
        die(name, None, format_args!("the destination {p:p} ({len} bytes) {why}"))
    }

    #[cold]
    #[inline(never)]
    fn not_symmetric(&self, name: Name, p: *const u8, len: usize) -> ! {
        let start = self.job.heap() as usize;
        let why = match self.job.locate(p, 1) {
            Some(_) if (p as usize) >= start => {
                format!(
                    "it runs over the end of the symmetric heap or of a global variable ({} heap bytes are left from there)",
                    (start + self.job.heap_len()).saturating_sub(p as usize)
                )
            }
            _ if self.heterogeneous() => heterogeneous::why_not_symmetric(p),
            _ => "it lies neither in the symmetric heap nor in a global variable of the program; \
                  use memory from shmem_malloc, or a global or static variable"
                .into(),
        };
        die(name, None, format_args!("the address {p:p} ({len} bytes) is not symmetric: {why}"))
    }
}
