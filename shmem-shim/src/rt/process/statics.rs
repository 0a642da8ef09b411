//! Global variables become symmetric: their pages move into the job's memory.
//!
//! Before `main` and before any thread, each writable page range of the program is copied into
//! this PE's slice of the static arena and that slice is mapped over the range itself. The
//! program notices nothing; its peers reach its globals with plain loads and stores.
//!
//! Constants stay where they are, in pages that the program may share with others, and a copy of them goes behind
//! the variables, for peers to read.

use super::elf::Segment;
use angara::{Job, StaticSegment};
use angara_abi::machine_page;
use angara_abi::shm::{Part, touched};
use std::io;
use std::os::fd::AsRawFd;

/// Returns what libangara needs to know about the segments.
pub(crate) fn describe(segments: &[Segment]) -> Vec<StaticSegment> {
    let segment = |s: &Segment| StaticSegment { start: s.pages.start, len: s.pages.len(), writable: s.is_writable() };
    segments.iter().map(segment).collect()
}

/// Copies every page of `segment` with content to `to`; pages of zeros take no memory there.
///
/// # Safety
/// The segment is mapped readable, `to` is writable for its length.
unsafe fn copy(segment: &Segment, to: *mut u8) {
    let size = machine_page();
    let copy_page = |page: usize| {
        // SAFETY: a whole page of the segment; only this thread exists.
        let words = unsafe { std::slice::from_raw_parts(page as *const u64, size / 8) };
        if words.iter().any(|w| *w != 0) {
            // SAFETY: the same page of the copy.
            unsafe {
                std::ptr::copy_nonoverlapping(page as *const u8, to.add(page - segment.pages.start), size);
            }
        }
    };
    // Initialised data is in the file even where no page was touched yet.
    let file_end = segment.file.end.next_multiple_of(size).clamp(segment.pages.start, segment.pages.end);
    (segment.pages.start..file_end).step_by(size).for_each(copy_page);
    let rest = Part { at: file_end as *mut u8, len: segment.pages.end - file_end };
    for (start, end) in touched(rest) {
        (file_end + start..file_end + end).step_by(size).for_each(copy_page);
    }
}

/// Moves the segments into `job`, which was attached with them.
pub(crate) fn adopt(job: &Job, segments: &[Segment]) -> io::Result<()> {
    let Some(fd) = job.static_fd() else { return Ok(()) };
    let slice = job.static_slice(job.my_pe());
    let mut before = 0;
    for s in segments {
        let at = (job.static_offset() + before as u64) as libc::off_t;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: `slice` has room for all segments.
        unsafe { copy(s, slice.add(before)) };
        if s.is_writable() {
            // SAFETY: the new mapping has the same content as the old one, whose addresses the program
            // keeps using; nothing of this library lies in it.
            let new = unsafe { libc::mmap(s.pages.start as *mut _, s.pages.len(), s.prot, flags, fd.as_raw_fd(), at) };
            if new == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        before += s.pages.len();
    }
    Ok(())
}
