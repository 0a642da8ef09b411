//! The same where assembly cannot be interpreted.

use super::sealed::Sealed;

macro_rules! words {
    ($($t:ty)*) => {$(
        impl Sealed for $t {
            unsafe fn load_word(p: *const u8) -> $t {
                // SAFETY: the caller vouches for the memory.
                unsafe { p.cast::<$t>().read_unaligned() }
            }
            unsafe fn store_word(self, p: *mut u8) {
                // SAFETY: the caller vouches for the memory.
                unsafe { p.cast::<$t>().write_unaligned(self) }
            }
        }
    )*};
}
words! { u8 u16 u32 u64 }

/// Moves two words, all of which are loaded before any is stored.
///
/// # Safety
/// As [`crate::copy::store`] of 16 bytes.
pub(in crate::memory) unsafe fn pair(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        let both = (u64::load_word(src), u64::load_word(src.add(8)));
        both.0.store_word(dst);
        both.1.store_word(dst.add(8));
    }
}

/// Moves `len` bytes.
///
/// # Safety
/// As [`crate::copy::store`].
pub(in crate::memory) unsafe fn bulk(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { std::ptr::copy(src, dst, len) }
}

/// Nothing: a hint.
pub fn prefetch(_: *const u8) {}
