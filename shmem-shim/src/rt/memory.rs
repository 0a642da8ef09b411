//! Cores of the symmetric heap routines and of address queries.

use super::check::{list, shown};
use super::members::collective;
use super::record::{call, moved};
use super::{Runtime, accesses, die, heap, lock, ok, state};
use crate::ctypes::*;
use angara_protocol::calls::{Action, Meeting, Memory};
use std::fmt::Display;
use std::sync::OnceLock;

/// Blocks up to this size get their pages at once: a first touch inside a timed loop costs more.
const POPULATE_MAX: usize = 1 << 20;

/// `SHMEM_PREFAULT=1`: large blocks too.
fn prefault() -> bool {
    static SET: OnceLock<bool> = OnceLock::new();
    *SET.get_or_init(|| std::env::var("SHMEM_PREFAULT").is_ok_and(|v| v != "0" && !v.is_empty()))
}

impl Runtime {
    fn allocate(&self, size: usize, align: usize) -> Option<*mut u8> {
        let offset = lock(&self.heap).alloc(size, align)?;
        // SAFETY: the allocator hands out offsets inside the heap.
        let p = unsafe { self.job.heap().add(offset) };
        if size <= POPULATE_MAX || prefault() {
            let page = angara_abi::PAGE;
            let start = p as usize & !(page - 1);
            let len = (p as usize + size).next_multiple_of(page) - start;
            // SAFETY: asks for the pages of a range of this process's own mapping. An old kernel
            // refuses; then pages come with the first touch.
            unsafe { libc::madvise(start as *mut _, len, libc::MADV_POPULATE_WRITE) };
        }
        Some(p)
    }

    fn offset_of(&self, name: Name, p: *mut u8) -> usize {
        let offset = (p as usize).wrapping_sub(self.job.heap() as usize);
        if lock(&self.heap).size_of(offset).is_none() {
            die(name, None, format_args!("{p:p} is not the start of a block of the symmetric heap (freed before?)"));
        }
        offset
    }

    /// Makes the block at `ptr` larger or smaller, or moves it.
    fn reallocate(&'static self, name: Name, ptr: *mut void, size: usize) -> *mut void {
        let offset = self.offset_of(name, ptr.cast());
        self.heap_barrier(name, &[("ptr", &shown(self, ptr.cast())), ("size", &size)]);
        let old = lock(&self.heap).size_of(offset).unwrap_or(0);
        if lock(&self.heap).resize(offset, size) {
            self.heap_barrier(name, &[]);
            return ptr;
        }
        let new = self.allocate(size, 1);
        if let Some(p) = new {
            // SAFETY: two different blocks of at least this many bytes.
            unsafe { std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), p, old.min(size)) };
            lock(&self.heap).free(offset);
        }
        self.heap_barrier(name, &[]);
        new.map_or(std::ptr::null_mut(), |p| p.cast())
    }

    /// Returns when every PE has called the routine, with the same arguments if that is checked.
    fn heap_barrier(&'static self, name: Name, args: &[(&str, &dyn Display)]) {
        let s = collective(self, name);
        s.agree(name, &s.world(), || list(args));
        ok(name, None, s.job.quiet_barrier());
    }
}

fn allocate(name: Name, size: usize, align: usize) -> *mut void {
    let body = |s: &'static Runtime| {
        if size == 0 {
            return std::ptr::null_mut();
        }
        let p = s.allocate(size, align);
        // Every PE fails or none does: they run the same allocator.
        s.heap_barrier(name, &[("size", &size), ("alignment", &align)]);
        p.map_or(std::ptr::null_mut(), |p| p.cast())
    };
    call(name, |s, p| noted(s, (size > 0).then_some((*p, size))), body)
}

/// Returns what is noted of a routine that gives out or takes back memory, which it does together if it does it at all.
fn noted(s: &Runtime, what: Option<(*mut void, usize)>) -> Action {
    match what {
        Some((p, len)) => {
            moved(Meeting::Memory, &s.world(), 0, (s.memory(p.cast()), len as u64), (Memory::Private(0), 0))
        }
        None => Action::Other,
    }
}

pub(crate) fn malloc(name: Name, size: usize) -> *mut void {
    allocate(name, size, 1)
}

/// Hints say what the memory will be used for; all of it is equally good for everything.
pub(crate) fn malloc_with_hints(name: Name, size: usize, _hints: long) -> *mut void {
    allocate(name, size, 1)
}

pub(crate) fn calloc(name: Name, count: usize, size: usize) -> *mut void {
    let len = count.checked_mul(size).filter(|n| *n > 0);
    let body = |s: &'static Runtime| {
        let Some(len) = len else { return std::ptr::null_mut() };
        let p = s.allocate(len, 1);
        if let Some(p) = p {
            // SAFETY: a block of `len` bytes; nobody else knows it before the barrier.
            unsafe { std::ptr::write_bytes(p, 0, len) };
        }
        s.heap_barrier(name, &[("count", &count), ("size", &size)]);
        p.map_or(std::ptr::null_mut(), |p| p.cast())
    };
    call(name, |s, p| noted(s, len.map(|len| (*p, len))), body)
}

pub(crate) fn align(name: Name, alignment: usize, size: usize) -> *mut void {
    if !alignment.is_power_of_two() {
        return std::ptr::null_mut();
    }
    // Beyond that, equal offsets are not equally aligned addresses on every PE.
    if alignment > angara::HEAP_ALIGN {
        return std::ptr::null_mut();
    }
    allocate(name, size, alignment)
}

pub(crate) fn realloc(name: Name, ptr: *mut void, size: usize) -> *mut void {
    if ptr.is_null() {
        return allocate(name, size, 1);
    }
    if size == 0 {
        free(name, ptr);
        return std::ptr::null_mut();
    }
    call(name, |s, p| noted(s, Some((*p, size))), |s| s.reallocate(name, ptr, size))
}

pub(crate) fn free(name: Name, ptr: *mut void) {
    let body = |s: &'static Runtime| {
        if ptr.is_null() {
            return None;
        }
        let offset = s.offset_of(name, ptr.cast());
        // Nobody may still be using the block when it becomes free here.
        s.heap_barrier(name, &[("ptr", &shown(s, ptr.cast()))]);
        let mut heap = lock(&s.heap);
        let size = heap.size_of(offset);
        heap.free(offset);
        size
    };
    call(name, |s, size: &Option<usize>| noted(s, size.map(|size| (ptr, size))), body);
}

pub(crate) fn ptr(name: Name, dest: *const u8, pe: int) -> *mut void {
    let s = state(name);
    let known = usize::try_from(pe).ok().filter(|pe| *pe < s.n);
    let address = known.and_then(|pe| {
        let place = s.job.locate(dest, 1)?;
        // My own memory is in reach on every path.
        let address = if pe == s.me { Some(s.job.local(place)) } else { s.job.peer(place, pe) }?;
        accesses::reach(s, pe, place, address as usize);
        Some(address)
    });
    address.map_or(std::ptr::null_mut(), |p| p.cast())
}

pub(crate) fn addr_accessible(name: Name, addr: *const u8, pe: int) -> int {
    let s = state(name);
    (pe_accessible(name, pe) != 0 && s.job.locate(addr, 1).is_some()) as int
}

pub(crate) fn pe_accessible(name: Name, pe: int) -> int {
    let s = state(name);
    let known = usize::try_from(pe).ok().filter(|pe| *pe < s.n);
    known.is_some_and(|pe| s.job.ctx().reach(pe) != angara::Reach::Unreachable) as int
}

/// Returns the allocator over the heap of a job.
pub(crate) fn heap_of(job: &angara::Job) -> heap::Heap {
    // Slices are aligned, and the heap starts behind the library's part of the slice.
    heap::Heap::new(job.heap_len(), job.heap() as usize - job.internal() as usize)
}
