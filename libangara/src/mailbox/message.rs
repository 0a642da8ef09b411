//! A message where it arrived, in the ring.

use super::layout::{SHORT_MAX, SLOT, raw_bytes, raw_slots};
use angara_abi::copy;
use std::marker::PhantomData;

/// A message that has come. It stays in the ring, where its sender could still write: so its bytes are only copied out.
pub struct Message<'a> {
    /// Addresses and lengths, in order: raw bytes up to the end of the ring, those at its start, the last part.
    parts: [(*const u8, usize); 3],
    len: usize,
    ring: PhantomData<&'a u8>,
}

/// A message that was copied out when it came.
impl<'a> From<&'a [u8]> for Message<'a> {
    fn from(bytes: &'a [u8]) -> Message<'a> {
        let nothing = (bytes.as_ptr(), 0);
        Message { parts: [nothing, nothing, (bytes.as_ptr(), bytes.len())], len: bytes.len(), ring: PhantomData }
    }
}

impl Message<'_> {
    /// The message of `len` bytes whose trailer is in slot `index` of the ring of `slots` slots at `ring`.
    ///
    /// # Safety
    /// The ring is readable as long as the message lives, `index` is below `slots`, and the message fits the ring.
    pub(super) unsafe fn new<'a>(ring: *const u8, index: u32, slots: u32, len: usize) -> Message<'a> {
        let raw = raw_bytes(len);
        let rest = len - raw;
        // SAFETY: the last part ends where the trailer begins, inside slot `index`.
        let last = unsafe { ring.add(index as usize * SLOT + SHORT_MAX - rest) };
        let mut parts = [(ring, 0), (ring, 0), (last, rest)];
        if raw > 0 {
            debug_assert!(raw_slots(len) < slots);
            let first = ((index + 1) & (slots - 1)) as usize * SLOT;
            let until_end = raw.min(slots as usize * SLOT - first);
            // SAFETY: `first` is below the ring's length.
            parts[0] = (unsafe { ring.add(first) }, until_end);
            parts[1] = (ring, raw - until_end);
        }
        Message { parts, len, ring: PhantomData }
    }

    /// Bytes of the message.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes from `from` on into `to`.
    ///
    /// # Panics
    /// If the message has not as many.
    #[inline]
    pub fn copy(&self, from: usize, to: &mut [u8]) {
        // SAFETY: a slice is writable for its length.
        unsafe { self.copy_to(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes from `from` on to `dst`, which may be memory that others access.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes.
    ///
    /// # Panics
    /// If the message has not as many.
    #[inline(always)]
    pub unsafe fn copy_to(&self, from: usize, dst: *mut u8, len: usize) {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes from {from} of a message of {}", self.len);
        // SAFETY: the range is inside the only part, or inside all of them.
        unsafe {
            match self.len <= SHORT_MAX {
                true => copy::load_words(dst, self.parts[2].0.add(from), len),
                false => self.copy_parts(from, dst, len),
            }
        }
    }

    /// [`Message::copy_to`] of a message that is not in one piece.
    ///
    /// # Safety
    /// As there, and the message has as many bytes.
    unsafe fn copy_parts(&self, from: usize, dst: *mut u8, len: usize) {
        let (mut skip, mut done) = (from, 0);
        for (p, room) in self.parts {
            let here = room.saturating_sub(skip).min(len - done);
            if here > 0 {
                // SAFETY: `skip` + `here` bytes are inside the part, `done` + `here` inside the destination.
                unsafe { copy::load(dst.add(done), p.add(skip), here) };
            }
            (skip, done) = (skip.saturating_sub(room), done + here);
        }
    }
}
