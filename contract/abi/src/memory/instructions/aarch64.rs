//! aarch64: `ldr`, `str`, `ldp` and `stp` of general registers, each 8 bytes of which are loaded or stored whole where
//! they are aligned (Arm ARM, B2.2.1).
//!
//! The C library's `memmove` does not serve here: it may use SVE or the instructions of FEAT_MOPS, which promise that for single
//! bytes alone.

use super::sealed::Sealed;

words! {
    u8, reg, "ldrb {word:w}, [{p}]", "strb {word:w}, [{p}]";
    u16, reg, "ldrh {word:w}, [{p}]", "strh {word:w}, [{p}]";
    u32, reg, "ldr {word:w}, [{p}]", "str {word:w}, [{p}]";
    u64, reg, "ldr {word:x}, [{p}]", "str {word:x}, [{p}]";
}

/// Moves two words, all of which are loaded before any is stored. Aligned words are moved whole.
///
/// # Safety
/// As [`crate::copy::store`] of 16 bytes.
#[inline(always)]
pub(in crate::memory) unsafe fn pair(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        std::arch::asm!(
            "ldp {a}, {b}, [{src}]",
            "stp {a}, {b}, [{dst}]",
            src = in(reg) src, dst = in(reg) dst, a = out(reg) _, b = out(reg) _, options(nostack, preserves_flags)
        );
    }
}

/// Moves `len` bytes, a multiple of 8 and more than a few, unseen by the compiler: a cache line at a time.
///
/// # Safety
/// As [`crate::copy::store`]; `dst` or `src` is aligned to 8 bytes, and they do not overlap.
#[inline]
pub(in crate::memory) unsafe fn bulk(dst: *mut u8, src: *const u8, len: usize) {
    const LINE: usize = 64;
    let (lines, mut at) = (len / LINE, len / LINE * LINE);
    // SAFETY: every access is inside `len` bytes of both.
    unsafe {
        if lines > 0 {
            std::arch::asm!(
                "2:",
                "ldp {a}, {b}, [{src}]",
                "ldp {c}, {d}, [{src}, #16]",
                "ldp {e}, {f}, [{src}, #32]",
                "ldp {g}, {h}, [{src}, #48]",
                "add {src}, {src}, #64",
                "stp {a}, {b}, [{dst}]",
                "stp {c}, {d}, [{dst}, #16]",
                "stp {e}, {f}, [{dst}, #32]",
                "stp {g}, {h}, [{dst}, #48]",
                "add {dst}, {dst}, #64",
                "subs {lines}, {lines}, #1",
                "b.ne 2b",
                src = inout(reg) src => _, dst = inout(reg) dst => _, lines = inout(reg) lines => _,
                a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
                e = out(reg) _, f = out(reg) _, g = out(reg) _, h = out(reg) _,
                options(nostack)
            );
        }
        while len - at >= 16 {
            pair(dst.add(at), src.add(at));
            at += 16;
        }
        if at < len {
            u64::load_word(src.add(at)).store_word(dst.add(at));
        }
    }
}

/// A hint that the bytes at `p` will be read soon. Any address will do.
#[inline(always)]
pub fn prefetch(p: *const u8) {
    // SAFETY: a hint never faults.
    unsafe { std::arch::asm!("prfm pldl1keep, [{p}]", p = in(reg) p, options(nostack, preserves_flags, readonly)) };
}
