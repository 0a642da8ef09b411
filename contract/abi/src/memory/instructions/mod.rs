//! The machine's instructions for memory that several processes access: one file each.

/// Words with their class of register and the instructions that load and store one.
#[cfg(not(miri))]
macro_rules! words {
    ($($t:ty, $class:ident, $load:literal, $store:literal;)*) => {$(
        impl super::sealed::Sealed for $t {
            #[inline(always)]
            unsafe fn load_word(p: *const u8) -> $t {
                let word: $t;
                // SAFETY: the caller vouches for the memory.
                unsafe {
                    std::arch::asm!(
                        $load, p = in(reg) p, word = lateout($class) word, options(nostack, preserves_flags, readonly)
                    );
                }
                word
            }
            #[inline(always)]
            unsafe fn store_word(self, p: *mut u8) {
                // SAFETY: the caller vouches for the memory.
                unsafe { std::arch::asm!($store, p = in(reg) p, word = in($class) self, options(nostack, preserves_flags)) };
            }
        }
    )*};
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[path = "aarch64.rs"]
mod machine;
#[cfg(miri)]
#[path = "interpreted.rs"]
mod machine;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86_64.rs"]
mod machine;

pub use machine::prefetch;
pub(super) use machine::{bulk, pair};

mod sealed {
    /// The two instructions. (A volatile access needs an aligned address, and goes over the stack if it has none.)
    pub trait Sealed: Copy {
        /// # Safety
        /// `p` is readable for the word.
        unsafe fn load_word(p: *const u8) -> Self;
        /// # Safety
        /// `p` is writable for the word.
        unsafe fn store_word(self, p: *mut u8);
    }
}

/// An integer of up to 8 bytes, which one instruction loads or stores at any address.
pub trait Word: sealed::Sealed {}

impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}
