//! Entries in a seat's memory that its process publishes, and others read without asking it.
//!
//! Only the owner writes. The first word of an entry says that it is there: readers look at it before and after. Whoever *uses*
//! what an entry describes first says so, in words of his own seat, and looks then whether it is there still; whoever takes an entry
//! away waits until nobody uses it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A part of a seat's memory that holds entries, mapped.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    base: *mut u8,
    bytes: u64,
}

// SAFETY: the mapping stays, as the maker of the value has promised, and all of it is used by atomics.
unsafe impl Send for Published {}

impl Published {
    /// The entries in `bytes` bytes at `base`, a multiple of 8.
    ///
    /// # Safety
    /// They are mapped as long as this value or a copy of it is used, and used as atomics by all who have them.
    pub unsafe fn new(base: *mut u8, bytes: u64) -> Published {
        debug_assert!((base as usize).is_multiple_of(8));
        Published { base, bytes }
    }

    /// The word at a byte.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes, "byte {at} of {}", self.bytes);
        // SAFETY: inside, and aligned; the maker's promise.
        unsafe { AtomicU64::from_ptr(self.base.add(at as usize).cast()) }
    }
    /// Its value.
    #[inline]
    pub fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }
    /// Changes it.
    pub fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Writes the words of an entry, and the first one, which is not 0, last: it says that they are there.
    pub fn publish(&self, at: u64, fields: &[u64]) {
        self.word(at).store(0, Ordering::SeqCst);
        for (i, field) in fields.iter().enumerate().skip(1) {
            self.store(at + 8 * i as u64, *field);
        }
        self.word(at).store(fields[0], Ordering::SeqCst);
    }
    /// The entry is not there any more. Who uses it may do so still.
    pub fn withdraw(&self, at: u64) {
        self.word(at).store(0, Ordering::SeqCst);
    }

    /// The words of an entry that stands under this first word.
    #[inline]
    pub fn read<const N: usize>(&self, at: u64, first: u64) -> Option<[u64; N]> {
        if self.word(at).load(Ordering::SeqCst) != first {
            return None;
        }
        let mut fields = [first; N];
        for (i, field) in fields.iter_mut().enumerate().skip(1) {
            *field = self.load(at + 8 * i as u64);
        }
        fence(Ordering::Acquire);
        (self.word(at).load(Ordering::SeqCst) == first).then_some(fields)
    }

    /// Says that this process uses something from now on. What it reads afterwards is there as long as it says so.
    #[inline]
    pub fn uses(&self, at: u64, what: u64) {
        self.word(at).store(what, Ordering::SeqCst);
    }
    /// Says that it uses nothing.
    #[inline]
    pub fn uses_nothing(&self, at: u64) {
        self.word(at).store(0, Ordering::Release);
    }
    /// True if the owner says that it uses this.
    pub fn is_using(&self, at: u64, what: u64) -> bool {
        self.word(at).load(Ordering::SeqCst) == what
    }
}
