//! x86-64: moves, 16-byte vectors, `rep movsq` and the C library's `memmove`.

/// From here to there string instructions do it, where the processor is good at them: what no longer fits the
/// caches of a core is copied without being read for ownership first. `memmove` of glibc 2.36 goes back to
/// vector loads and stores at 1 MiB (51 against 61 GB/s, measured on Zen 5), and beyond to non-temporal
/// stores, which are left to it.
const STRING: std::ops::Range<usize> = 512 << 10..16 << 20;

words! {
    u8, reg_byte, "mov {word}, byte ptr [{p}]", "mov byte ptr [{p}], {word}";
    u16, reg, "mov {word:x}, word ptr [{p}]", "mov word ptr [{p}], {word:x}";
    u32, reg, "mov {word:e}, dword ptr [{p}]", "mov dword ptr [{p}], {word:e}";
    u64, reg, "mov {word:r}, qword ptr [{p}]", "mov qword ptr [{p}], {word:r}";
}

/// Moves two words, all of which are loaded before any is stored. Aligned words are moved whole: a vector that
/// crosses a cache line does so between words.
///
/// # Safety
/// As [`crate::copy::store`] of 16 bytes.
#[inline(always)]
pub(in crate::memory) unsafe fn pair(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        std::arch::asm!(
            "movups {both}, xmmword ptr [{src}]",
            "movups xmmword ptr [{dst}], {both}",
            src = in(reg) src, dst = in(reg) dst, both = out(xmm_reg) _, options(nostack, preserves_flags)
        );
    }
}

/// Moves `len` bytes, a multiple of 8 and more than a few, unseen by the compiler.
///
/// # Safety
/// As [`crate::copy::store`]; `dst` or `src` is aligned to 8 bytes, and they do not overlap.
#[inline]
pub(in crate::memory) unsafe fn bulk(dst: *mut u8, src: *const u8, len: usize) {
    if STRING.contains(&len) && std::arch::is_x86_feature_detected!("ermsb") {
        // SAFETY: the ranges are valid; the direction flag is clear by the calling convention.
        return unsafe {
            std::arch::asm!(
                "rep movsq",
                inout("rcx") len / 8 => _, inout("rsi") src => _, inout("rdi") dst => _,
                options(nostack, preserves_flags)
            );
        };
    }
    // SAFETY: the ranges are valid; called as the C library's function wants, with all it may change named.
    unsafe {
        std::arch::asm!(
            "call {memmove}@PLT",
            memmove = sym libc::memmove,
            inout("rdi") dst => _, inout("rsi") src => _, inout("rdx") len => _,
            clobber_abi("C")
        );
    }
}

/// A hint that the bytes at `p` will be read soon. Any address will do.
#[inline(always)]
pub fn prefetch(p: *const u8) {
    // SAFETY: a hint never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast()) };
}
