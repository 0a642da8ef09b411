//! The part of a seat that is for registered memory.

use crate::book::{AreaBook, book, has_reader_here};
use crate::exchange::empty;
use crate::fork;
use crate::ranges::Span;
use crate::stays::Stays;
use angara_abi::PAGE;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// There are areas in this process, or were in its parent.
static HAS_AREAS: AtomicBool = AtomicBool::new(false);

/// A part of a seat for registered memory.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Which one in the book of the process that it belongs to.
    index: usize,
    pid: u32,
    base: usize,
    len: usize,
}

/// Where in an area, given by its address and bytes, `len` bytes at `at` are, if they are inside.
#[inline]
pub fn offset_in((base, bytes): (u64, u64), at: u64, len: u64) -> Option<u64> {
    let offset = at.wrapping_sub(base);
    (offset < bytes && len <= bytes - offset).then_some(offset)
}

fn pages(at: usize, len: usize) -> Option<Span> {
    let end = at.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    Some(at / PAGE * PAGE..end)
}

impl Area {
    /// An area of `len` bytes at `base`, where `fd` is mapped from `offset` on.
    ///
    /// # Safety
    /// The mapping is shared, readable and writable, and stays for good; nobody but this area uses it, here or through other seats
    /// that are told of its regions.
    pub unsafe fn new(base: *mut u8, len: usize, fd: OwnedFd, offset: u64) -> Result<Area, Stays> {
        let (start, area) = (base.expose_provenance(), AreaBook::new(base, len, fd, offset)?);
        let mut book = book();
        book.areas.push(area);
        HAS_AREAS.store(true, Ordering::Relaxed);
        fork::watch();
        Ok(Area { index: book.areas.len() - 1, pid: std::process::id(), base: start, len })
    }

    /// Where it is mapped.
    pub fn base(&self) -> usize {
        self.base
    }
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// True if nothing fits in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Where in the area `len` bytes at `at` are, if they are inside.
    #[inline]
    pub fn offset(&self, at: u64, len: u64) -> Option<u64> {
        offset_in((self.base as u64, self.len as u64), at, len)
    }

    /// Exchanges the pages of `len` bytes of the program at `at`. Returns where the bytes are in the area: its address. Where
    /// they stay, the area is told of that, too, and [`Area::deregister`] is due with `at` itself.
    pub fn register(&self, at: usize, len: usize) -> Result<usize, Stays> {
        let mut book = book();
        let range = pages(at, len).filter(|range| !range.is_empty()).ok_or(Stays::Empty)?;
        let placed = match self.is_here() {
            true => book.register(self.index, &range, at),
            false => Err(Stays::Room),
        };
        if placed.is_err() {
            book.stays(&range);
        }
        placed.map(|offset| self.base + offset + (at - range.start))
    }

    /// Undoes a [`Area::register`] that has returned `reach`, or nothing, which is `at`. Nobody writes there any more.
    pub fn deregister(&self, at: usize, len: usize, reach: usize) {
        let mut book = book();
        let Some(range) = pages(at, len).filter(|range| !range.is_empty() && self.is_here()) else { return };
        if reach == at {
            book.stays_no_more(&range);
        } else {
            book.deregister(self.index, &range);
        }
    }

    /// It is this process's, not that of the one which has forked it.
    fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }
}

/// The program has thrown away the content of a range (`MADV_DONTNEED`): what of it is registered is zero from now on, as
/// private memory would be.
pub fn emptied(at: usize, len: usize) {
    // An allocator may throw its own memory away when it is called from here.
    if !HAS_AREAS.load(Ordering::Relaxed) || has_reader_here() {
        return;
    }
    let book = book();
    let Some(range) = pages(at, len) else { return };
    for area in &book.areas {
        for part in area.held.parts(&range) {
            if let Some(twin) = area.twin(part.start) {
                empty(twin, part.len());
            }
        }
    }
}

#[cfg(test)]
mod tests;
