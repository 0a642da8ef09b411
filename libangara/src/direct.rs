//! The direct engine: the caller's own thread does what an adapter would do.
//!
//! Every function here works on addresses [`crate::memory::Peers::direct`] has checked.

use abi::desc::AmoOp;
use abi::shm::copy_elements;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// [`copy_elements`] out of line: the inlined path of a put then needs no registers saved.
///
/// # Safety
/// As [`copy_elements`].
#[inline(never)]
unsafe fn bulk(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: passed on.
    unsafe { copy_elements(src, dst, len) }
}

/// Copies into a peer: an aligned element of up to 8 bytes by one store.
///
/// # Safety
/// As [`copy_elements`].
#[inline(always)]
pub(crate) unsafe fn store(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both pointers are valid for `len` bytes; alignment of `dst` is checked.
    unsafe {
        if len == 8 && (dst as usize).is_multiple_of(8) {
            (dst as *mut u64).write_volatile((src as *const u64).read_unaligned());
        } else if len == 4 && (dst as usize).is_multiple_of(4) {
            (dst as *mut u32).write_volatile((src as *const u32).read_unaligned());
        } else {
            bulk(src, dst, len);
        }
    }
}

/// Copies from a peer: an aligned element of up to 8 bytes by one load.
///
/// # Safety
/// As [`copy_elements`].
#[inline(always)]
pub(crate) unsafe fn load(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both pointers are valid for `len` bytes; alignment of `src` is checked.
    unsafe {
        if len == 8 && (src as usize).is_multiple_of(8) {
            (dst as *mut u64).write_unaligned((src as *const u64).read_volatile());
        } else if len == 4 && (src as usize).is_multiple_of(4) {
            (dst as *mut u32).write_unaligned((src as *const u32).read_volatile());
        } else {
            bulk(src, dst, len);
        }
    }
}

macro_rules! atomic {
    ($name:ident, $atomic:ty, $int:ty) => {
        /// One lock-prefixed operation; returns the old value.
        ///
        /// # Safety
        /// `p` is aligned and valid for the word, which is only accessed atomically or by
        /// single aligned loads and stores.
        #[inline(always)]
        unsafe fn $name(p: *mut u8, op: AmoOp, operand: u64, comparand: u64) -> u64 {
            // SAFETY: the caller guarantees alignment and validity.
            let word = unsafe { <$atomic>::from_ptr(p as *mut $int) };
            let v = operand as $int;
            let old = match op {
                AmoOp::Add => word.fetch_add(v, SeqCst),
                AmoOp::Xor => word.fetch_xor(v, SeqCst),
                AmoOp::And => word.fetch_and(v, SeqCst),
                AmoOp::Or => word.fetch_or(v, SeqCst),
                AmoOp::Swap => word.swap(v, SeqCst),
                AmoOp::CompareSwap => {
                    word.compare_exchange(comparand as $int, v, SeqCst, SeqCst).unwrap_or_else(|old| old)
                }
                AmoOp::Fetch => word.load(SeqCst),
            };
            old as u64
        }
    };
}
atomic!(atomic_u32, AtomicU32, u32);
atomic!(atomic_u64, AtomicU64, u64);

/// An atomic on the word of `width` (4 or 8) bytes at `p`; returns the old value.
///
/// # Safety
/// `p` is a multiple of `width` and valid for it.
#[inline(always)]
pub(crate) unsafe fn amo(p: *mut u8, op: AmoOp, width: u8, operand: u64, comparand: u64) -> u64 {
    // SAFETY: passed on.
    unsafe { if width == 4 { atomic_u32(p, op, operand, comparand) } else { atomic_u64(p, op, operand, comparand) } }
}
