//! x86-64: moves, 16-byte vectors, `rep movsq` and the C library's `memmove`.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// From here to there string instructions do it, where the processor is good at them: what no longer fits the
/// caches of a core is copied without being read for ownership first. `memmove` of glibc 2.36 goes back to
/// vector loads and stores at 1 MiB (51 against 61 GB/s, measured on Zen 5).
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
    if len >= STREAMED_MIN && len >= streamed_from() {
        // SAFETY: the caller's promise.
        return unsafe { stream(dst, src, len) };
    }
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
    // SAFETY: the caller's promise.
    unsafe { memmove(dst, src, len) }
}

/// # Safety
/// As [`bulk`].
unsafe fn memmove(dst: *mut u8, src: *const u8, len: usize) {
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

/// No cache is as small that so few bytes would be better off beside it: spares small copies the look at its size.
const STREAMED_MIN: usize = 1 << 20;
/// Where the processor does not say how large its last cache is.
const LAST_CACHE: usize = 32 << 20;

/// Bytes from which source and destination together are more than the last cache holds. Stored beside the caches, lines of the
/// destination are not read first. The C library does so too, but in virtual machines for far larger copies only.
fn streamed_from() -> usize {
    static FROM: AtomicUsize = AtomicUsize::new(0);
    match FROM.load(Relaxed) {
        0 => {
            let from = last_cache().unwrap_or(LAST_CACHE) / 2;
            FROM.store(from, Relaxed);
            from
        }
        from => from,
    }
}

/// Bytes of the largest cache that CPUID describes.
fn last_cache() -> Option<usize> {
    let leaves = [(0x8000_0000, 0x8000_001d), (0, 4)];
    let describes = |(first, leaf)| __cpuid(first).eax >= leaf;
    // Leaf 4 is Intel's; AMD has the same in a leaf of its own, which Intel answers with zeros.
    let sizes = leaves.into_iter().filter(|l| describes(*l)).flat_map(|(_, leaf)| {
        let caches = (0..16).map(move |i| __cpuid_count(leaf, i)).take_while(|cache| cache.eax & 31 != 0);
        caches.map(|cache| {
            let ways = (cache.ebx >> 22) as usize + 1;
            let (partitions, line) = ((cache.ebx >> 12 & 0x3ff) as usize + 1, (cache.ebx & 0xfff) as usize + 1);
            ways * partitions * line * (cache.ecx as usize + 1)
        })
    });
    sizes.max()
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Moves much data beside the caches; what follows is ordered behind it.
///
/// # Safety
/// As [`bulk`]; `dst` is aligned to 8 bytes or `len` is at least [`LINE`].
unsafe fn stream(dst: *mut u8, src: *const u8, len: usize) {
    let head = dst.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    let done = head + lines * LINE;
    // SAFETY: all three parts are inside `len` bytes of both; lines of the destination are aligned.
    unsafe {
        memmove(dst, src, head);
        if lines > 0 {
            std::arch::asm!(
                "2:",
                "prefetcht0 [{from} + 512]",
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "dec {lines}",
                "jnz 2b",
                "sfence",
                from = inout(reg) src.add(head) => _,
                to = inout(reg) dst.add(head) => _,
                lines = inout(reg) lines => _,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack)
            );
        }
        memmove(dst.add(done), src.add(done), len - done);
    }
}

/// A hint that the bytes at `p` will be read soon. Any address will do.
#[inline(always)]
pub fn prefetch(p: *const u8) {
    // SAFETY: a hint never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast()) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn streams_move_every_byte_once_wherever_they_begin() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (at, skip) in [(0, 0), (8, 3), (16, 1), (56, 63), (64, 8), (7, 5)] {
            for len in [64, 65, 100, 127, 128, 191, 200, 513, 900] {
                let mut to = vec![255u8; 1100];
                // SAFETY: `len` bytes from there are in both.
                unsafe { stream(to.as_mut_ptr().add(at), from.as_ptr().add(skip), len) };
                assert_eq!(to[at..at + len], from[skip..skip + len], "{at} {skip} {len}");
                assert!(to[..at].iter().chain(&to[at + len..]).all(|b| *b == 255), "{at} {skip} {len}: beside it");
            }
        }
    }

    #[test]
    fn the_last_cache_is_as_large_as_caches_are() {
        let bytes = last_cache().unwrap_or(LAST_CACHE);
        assert!((256 << 10..8 << 30).contains(&bytes), "{bytes}");
        assert_eq!(streamed_from(), bytes / 2);
    }
}
