//! Exchanging pages of the program for pages of a file, and back.
//!
//! In both directions: those who would write to the pages wait, the content is copied, other pages take the place of the old
//! ones in one step, and whoever waited goes on with these. From the first to the last of that nothing is allocated: a thread that
//! waits may have the allocator's lock. And the kernel is called directly: programs, UCX for one, have functions of their own in
//! place of `mmap` and `mremap`, which allocate, or lose arguments.

use crate::guard::Guard;
use crate::maps::Vma;
use crate::ranges::Span;
use crate::stays::{Stays, errno};
use angara_abi::{NoSignals, PAGE};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, mremap_fixed, munmap,
};
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// Pages of a file, mapped, that stand for pages of the program.
#[derive(Clone, Copy)]
pub(crate) struct Twin<'a> {
    /// Where they are mapped.
    pub(crate) at: *mut u8,
    pub(crate) fd: BorrowedFd<'a>,
    /// Where in the file they are.
    pub(crate) offset: u64,
}

/// Words of `/proc/self/pagemap` that are read at once.
const BATCH: usize = 512;
/// Of these: the page is in memory; it is swapped out.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

fn last_error() -> Errno {
    errno(&std::io::Error::last_os_error())
}

/// Puts the pages of `twin`, which hold nothing yet, in the place of `span`, which is private memory of the program.
pub(crate) fn exchange(span: &Span, twin: Twin<'_>, guard: Option<&Guard>) -> Result<(), Stays> {
    let pagemap = File::open("/proc/self/pagemap").map_err(|e| Stays::system("pagemap", &e))?;
    // A handler might write where it would have to wait for this thread.
    let _signals = NoSignals::new();
    if let Some(guard) = guard {
        guard.stop(span).map_err(|e| Stays::System("userfaultfd", e))?;
    }
    let moved = copy_present(&pagemap, span, twin.at).and_then(|()| map(span, twin));
    match guard {
        Some(guard) if moved.is_ok() => guard.wake(span),
        Some(guard) => guard.let_go(span),
        None => {}
    }
    if moved.is_err() {
        empty(twin, span.len());
    }
    moved
}

/// Copies the pages of the program that have content; others stay holes of the file.
fn copy_present(pagemap: &File, span: &Span, to: *mut u8) -> Result<(), Stays> {
    let mut words = [0u64; BATCH];
    let mut at = span.start;
    while at < span.end {
        let count = ((span.end - at) / PAGE).min(BATCH);
        // SAFETY: all bytes of the words, of which any value is one.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), count * 8) };
        pagemap.read_exact_at(bytes, (at / PAGE * 8) as u64).map_err(|e| Stays::system("pagemap", &e))?;
        let mut page = 0;
        while page < count {
            let is_there = |word: &u64| word & (PRESENT | SWAPPED) != 0;
            let run = words[page..count].iter().take_while(|word| is_there(word)).count();
            if run > 0 {
                let from = std::ptr::with_exposed_provenance::<u8>(at + page * PAGE);
                // SAFETY: mapped memory of the program that nobody writes now, and as many bytes of the twin, which nobody
                // else knows yet.
                unsafe { from.copy_to_nonoverlapping(to.add(at + page * PAGE - span.start), run * PAGE) };
            }
            page += run.max(1);
        }
        at += count * PAGE;
    }
    Ok(())
}

fn map(span: &Span, twin: Twin<'_>) -> Result<(), Stays> {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(span.start);
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: takes the place of memory of the program that has the same content.
    match unsafe { mmap(at, span.len(), rights, flags, twin.fd, twin.offset) } {
        Ok(_) => Ok(()),
        Err(e) => Err(Stays::System("mmap", e)),
    }
}

/// Gives the program private pages with the same content in place of the twin's, in a mapping of the twin's file.
pub(crate) fn give_back(vma: &Vma, twin: Twin<'_>, guard: Option<&Guard>) -> Result<(), Errno> {
    let span = &vma.span;
    // A handler might write where it would have to wait for this thread.
    let _signals = NoSignals::new();
    let own = private(span.len())?;
    let result = (|| {
        if let Some(guard) = guard {
            guard.stop(span)?;
        }
        // SAFETY: both are mapped for as many bytes, and nobody writes to the twin now.
        let copied = unsafe { copy_data(twin, own, span.len()) };
        // SAFETY: new memory with the same content.
        let moved = copied.and_then(|()| protect(own, vma)).and_then(|()| unsafe { take_place(own, span) });
        match guard {
            Some(guard) if moved.is_ok() => guard.wake(span),
            Some(guard) => guard.let_go(span),
            None => {}
        }
        moved
    })();
    if result.is_err() {
        // SAFETY: made above.
        unsafe { discard(own, span.len()) };
    }
    result
}

/// New private memory.
pub(crate) fn private(len: usize) -> Result<*mut u8, Errno> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a mapping at an address that the kernel chooses.
    unsafe { mmap_anonymous(std::ptr::null_mut(), len, rights, flags) }.map(|own| own.cast())
}

/// Gives memory of [`private`] back.
///
/// # Safety
/// Nobody uses it.
pub(crate) unsafe fn discard(own: *mut u8, len: usize) {
    // SAFETY: the caller's promise. There is no error for a mapping that is there.
    let _ = unsafe { munmap(own.cast(), len) };
}

/// Copies what of a file has content. Async-signal-safe.
///
/// # Safety
/// `to` has `len` writable bytes, and the twin as many that nobody writes.
pub(crate) unsafe fn copy_data(twin: Twin<'_>, to: *mut u8, len: usize) -> Result<(), Errno> {
    let end = twin.offset as i64 + len as i64;
    let mut at = twin.offset as i64;
    while at < end {
        // SAFETY: a descriptor and a number.
        let data = unsafe { libc::lseek(twin.fd.as_raw_fd(), at, libc::SEEK_DATA) };
        if data < 0 {
            let error = last_error();
            // Nothing but holes up to the end of the file.
            return if error == Errno::NXIO { Ok(()) } else { Err(error) };
        }
        if data >= end {
            return Ok(());
        }
        // SAFETY: as above.
        let hole = unsafe { libc::lseek(twin.fd.as_raw_fd(), data, libc::SEEK_HOLE) };
        if hole < 0 {
            return Err(last_error());
        }
        let (from, until) = ((data - twin.offset as i64) as usize, (hole.min(end) - twin.offset as i64) as usize);
        // SAFETY: inside both.
        unsafe { twin.at.add(from).copy_to_nonoverlapping(to.add(from), until - from) };
        at = hole;
    }
    Ok(())
}

/// Moves private memory to `to`. Async-signal-safe.
///
/// # Safety
/// Nobody uses `own`; what is at `to` has the same content.
pub(crate) unsafe fn take_place(own: *mut u8, to: &Span) -> Result<(), Errno> {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(to.start);
    // SAFETY: the caller's promise.
    unsafe { mremap_fixed(own.cast(), to.len(), to.len(), MremapFlags::MAYMOVE, at) }.map(|_| ())
}

/// Gives private memory the rights of a mapping.
fn protect(own: *mut u8, as_vma: &Vma) -> Result<(), Errno> {
    let mut rights = MprotectFlags::empty();
    rights.set(MprotectFlags::READ, as_vma.reads);
    rights.set(MprotectFlags::WRITE, as_vma.writes);
    rights.set(MprotectFlags::EXEC, as_vma.executes);
    // SAFETY: memory that nobody uses yet.
    unsafe { mprotect(own.cast(), as_vma.span.len(), rights) }
}

/// Makes a hole of pages of a file.
pub(crate) fn empty(twin: Twin<'_>, len: usize) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // Their memory is given back with the seat at the latest.
    let _ = fallocate(twin.fd.as_fd(), flags, twin.offset, len as u64);
}
