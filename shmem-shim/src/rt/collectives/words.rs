//! Puts and gets on behalf of the library, and words of its own area.

use super::area::internal;
use crate::ctypes::Name;
use crate::rt::{Runtime, ok};
use angara::{Class, Comparison, Place};
use angara_abi::job::internal_bytes;
use angara_abi::order;
use std::sync::atomic::{AtomicU64, Ordering};

impl Runtime {
    /// A word of this PE's internal area.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= internal_bytes(self.n));
        // SAFETY: inside the internal area, which stays mapped for the life of the process; aligned;
        // peers write it by single stores only.
        unsafe { AtomicU64::from_ptr(self.job.internal().add(offset).cast()) }
    }

    /// Stores `value` in a word of the internal area of `pe`.
    pub(crate) fn put_word(&self, name: Name, pe: usize, offset: usize, value: u64) {
        if pe == self.me {
            self.word(offset).store(value, Ordering::Release);
            return;
        }
        // The word says that what was put or read before is done.
        order::publish();
        if self.job.ctx().put_element::<8>(Class::Sync, pe, self.job.internal().wrapping_add(offset), || value) {
            return;
        }
        // SAFETY: the source is a local of 8 bytes.
        let result = unsafe { self.job.ctx().put(Class::Sync, pe, internal(offset), (&raw const value).cast(), 8) };
        ok(name, Some(pe), result);
    }

    /// Puts on behalf of the library.
    ///
    /// # Safety
    /// `source` is readable for `len` bytes.
    pub(crate) unsafe fn put_sync(&self, name: Name, pe: usize, to: Place, source: *const u8, len: usize) {
        if len > 0 {
            // SAFETY: the caller promises what the callee asks for.
            ok(name, Some(pe), unsafe { self.job.ctx().put(Class::Sync, pe, to, source, len) });
        }
    }

    /// Gets on behalf of the library.
    ///
    /// # Safety
    /// `into` is writable for `len` bytes.
    pub(crate) unsafe fn get_sync(&self, name: Name, pe: usize, from: Place, into: *mut u8, len: usize) {
        // SAFETY: the caller promises what the callee asks for.
        ok(name, Some(pe), unsafe { self.job.ctx().get(Class::Sync, pe, into, from, len) });
    }

    /// Waits until a word of this PE's area has reached `count`.
    pub(super) fn await_word(&self, name: Name, offset: usize, count: u64, what: &str, pe: usize) {
        let word = self.word(offset);
        // Without this check the closure for the message would be built on every call.
        if word.load(Ordering::Acquire) < count {
            let what = || format!("{name}: {what} PE {pe} (number {count})");
            let ready = || word.load(Ordering::Acquire) >= count;
            ok(name, Some(pe), self.job.wait_word(word.as_ptr().cast(), Comparison::at_least(count), ready, &what));
        }
    }

    /// Orders what was put before against what is put after.
    pub(crate) fn order(&self, name: Name) {
        ok(name, None, self.job.ctx().fence());
    }
}
