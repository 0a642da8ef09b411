//! Access to memory that others read and write at the same time: single words, and copies.
//!
//! Another process, or another thread of this one, may touch shared memory at any moment, and no lock says when. Then a plain
//! load is not a value: the compiler may drop it, repeat it, or take another one for it, and a copy that the compiler
//! knows is undefined if anybody writes meanwhile. So whatever reads or writes such memory without having been handed
//! it by a synchronisation comes through here (or through atomics). The contract:
//!
//! * Every byte is loaded once and stored once, by instructions the compiler cannot see into.
//! * [`store`] is for a destination that others access: an element of 1, 2, 4 or 8 bytes that is aligned *there* is stored
//!   by one instruction, so nobody sees half of it. [`load`] is for a source that others access: an element that is
//!   aligned *there* is loaded by one instruction. Where both sides lie alike to the last three bits of their
//!   addresses, either does both.
//! * Source and destination may overlap: the destination then holds what the source held, as after `memmove`.
//! * No order: elements may move in any order, and a fence or a release is the caller's. Concurrent writes make
//!   the copied elements old or new, each by itself. The one exception is [`store_ending`], whose last word is the last
//!   to be stored: whoever sees it sees all the others.
//!
//! x86-64 loads and stores aligned words of up to 8 bytes whole, also as parts of vector and string instructions; aarch64
//! does so in `ldr`, `str`, `ldp` and `stp` of general registers (Arm ARM, B2.2.1).

pub use super::instructions::{Word, prefetch};
use super::instructions::{bulk, pair};
use super::order;

/// Above this many bytes the middle of a copy is moved by what the machine does best with much data.
const WORDWISE_MAX: usize = 64;

/// Loads a word, by one instruction. Where others write it, it should be aligned; otherwise the value may be part old, part new.
///
/// # Safety
/// `p` is readable for the word.
#[inline(always)]
pub unsafe fn peek<T: Word>(p: *const u8) -> T {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { T::load_word(p) }
}

/// Stores a word, by one instruction. Where others read it, it should be aligned; otherwise they may see a part of it.
///
/// # Safety
/// `p` is writable for the word.
#[inline(always)]
pub unsafe fn poke<T: Word>(p: *mut u8, value: T) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { value.store_word(p) }
}

/// Copies into memory that others access: elements aligned in `dst` are stored whole. See the module's contract.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes. They may overlap.
#[inline]
pub unsafe fn store(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        if len == 8 {
            return poke::<u64>(dst, peek(src));
        }
        copy::<false>(dst, src, len);
    }
}

/// [`store`] where up to four whole words are usual: these without a call.
///
/// # Safety
/// As [`store`].
#[inline(always)]
pub unsafe fn store_words(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        if !few(dst, src, len, dst as usize) {
            copy::<false>(dst, src, len);
        }
    }
}

/// [`load`] where up to four whole words are usual: these without a call.
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub unsafe fn load_words(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        if !few(dst, src, len, src as usize) {
            copy::<true>(dst, src, len);
        }
    }
}

/// Moves 1 to 4 words that are aligned at `lead`, all of which are loaded before any is stored. False if it is something else.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn few(dst: *mut u8, src: *const u8, len: usize, lead: usize) -> bool {
    if !lead.is_multiple_of(8) || dst.cast_const() == src {
        return false;
    }
    // SAFETY: each word is inside `len` bytes of both.
    unsafe {
        let word = |at: usize| peek::<u64>(src.add(at));
        match len {
            8 => poke(dst, word(0)),
            16 => {
                let (a, b) = (word(0), word(8));
                poke(dst, a);
                poke(dst.add(8), b);
            }
            24 => {
                let (a, b, c) = (word(0), word(8), word(16));
                poke(dst, a);
                poke(dst.add(8), b);
                poke(dst.add(16), c);
            }
            32 => {
                let (a, b, c, d) = (word(0), word(8), word(16), word(24));
                poke(dst, a);
                poke(dst.add(8), b);
                poke(dst.add(16), c);
                poke(dst.add(24), d);
            }
            _ => return false,
        }
    }
    true
}

/// [`store`], and whoever sees the last word sees everything before it: where the destination ends at a multiple of 8, its
/// last 8 bytes are stored behind all others. Where it does not, or is shorter, no order is kept.
///
/// x86-64 lets others see stores in the order of the program, and those of string instructions as one of them; `memmove`
/// ends the weaker stores that it makes of much data by a fence of its own. aarch64 gets a barrier before the last word.
///
/// # Safety
/// As [`store`].
#[inline]
pub unsafe fn store_ending(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for; a body of `len` - 8 bytes and the word behind it are
    // inside both ranges.
    unsafe {
        if len < 8 || !(dst as usize).wrapping_add(len).is_multiple_of(8) {
            return store(dst, src, len);
        }
        let body = len - 8;
        let last = peek::<u64>(src.add(body));
        store(dst, src, body);
        order::publish();
        poke(dst.add(body), last);
    }
}

/// Copies from memory that others access: elements aligned in `src` are loaded whole. See the module's contract.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes. They may overlap.
#[inline]
pub unsafe fn load(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        if len == 8 {
            return poke::<u64>(dst, peek(src));
        }
        copy::<true>(dst, src, len);
    }
}

/// `len` bytes, elements aligned in the source (`LOADS`) or in the destination moved whole.
///
/// # Safety
/// As [`store`].
unsafe fn copy<const LOADS: bool>(dst: *mut u8, src: *const u8, len: usize) {
    let lead = if LOADS { src as usize } else { dst as usize };
    // SAFETY: every access is inside `len` bytes of both pointers.
    unsafe {
        let apart = (dst as usize).wrapping_sub(src as usize);
        if apart == 0 {
            return; // in place already, and what others write meanwhile shall not be undone
        }
        if apart < len {
            return backward(dst, src, len, lead);
        }
        let mut at = 0;
        while at < len && !(lead + at).is_multiple_of(8) {
            at += step(dst, src, at, len, lead);
        }
        // The middle is moved in words of the destination; those of the source are whole only if both lie alike.
        let (middle, alike) = ((len - at) & !7, apart.is_multiple_of(8));
        let overlap = apart.wrapping_neg() < len;
        if middle > WORDWISE_MAX && (alike || !LOADS) && !overlap {
            bulk(dst.add(at), src.add(at), middle);
            at += middle;
        }
        while len - at >= 16 {
            pair(dst.add(at), src.add(at));
            at += 16;
        }
        while at < len {
            at += step(dst, src, at, len, lead);
        }
    }
}

/// Moves the largest element that is aligned at `lead + at` and ends within `len`; returns its size.
///
/// # Safety
/// As [`store`], and `at < len`.
#[inline(always)]
unsafe fn step(dst: *mut u8, src: *const u8, at: usize, len: usize, lead: usize) -> usize {
    let (place, room) = (lead + at, len - at);
    // SAFETY: the size taken is at most `len - at`.
    unsafe {
        let (to, from) = (dst.add(at), src.add(at));
        if place.is_multiple_of(8) && room >= 8 {
            poke::<u64>(to, peek(from));
            8
        } else if place.is_multiple_of(4) && room >= 4 {
            poke::<u32>(to, peek(from));
            4
        } else if place.is_multiple_of(2) && room >= 2 {
            poke::<u16>(to, peek(from));
            2
        } else {
            poke::<u8>(to, peek(from));
            1
        }
    }
}

/// [`copy`] from the end, where the destination begins inside the source.
///
/// # Safety
/// As [`store`].
#[cold]
#[inline(never)]
unsafe fn backward(dst: *mut u8, src: *const u8, len: usize, lead: usize) {
    let mut end = len;
    while end > 0 {
        let fits = |size: usize| end >= size && (lead + end).is_multiple_of(size);
        let size = [8, 4, 2].into_iter().find(|size| fits(*size)).unwrap_or(1);
        // SAFETY: `size ≤ end`; the element is aligned to its size, so exactly one is moved.
        unsafe { step(dst, src, end - size, end, lead) };
        end -= size;
    }
}

// Under loom the order that `store_ending` keeps exists in models alone.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// 8-byte aligned memory of `words` words, filled with different bytes.
    fn memory(words: usize) -> Vec<u64> {
        (0..words as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i << 32)).collect()
    }

    fn bytes(memory: &[u64]) -> Vec<u8> {
        memory.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    type Copy = unsafe fn(*mut u8, *const u8, usize);
    /// Both are inlined wherever they are called.
    unsafe fn words_stored(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { store_words(dst, src, len) }
    }
    unsafe fn words_loaded(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { load_words(dst, src, len) }
    }

    const ALL: [Copy; 5] = [store, load, store_ending, words_stored, words_loaded];

    /// Under an interpreter fewer lengths.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..if cfg!(miri) { 90 } else { 300 }).chain([511, 4096, 5000].into_iter().filter(|_| !cfg!(miri)))
    }

    #[test]
    fn every_length_and_alignment_is_copied_and_no_byte_more() {
        for (len, copy) in lengths().flat_map(|len| ALL.map(|copy| (len, copy))) {
            for (to, from) in [(0, 0), (0, 3), (5, 0), (1, 1), (4, 2), (7, 6), (2, 4)] {
                let words = len / 8 + 3;
                let (source, mut target) = (memory(words), vec![!0u64; words]);
                let mut wanted = bytes(&target);
                wanted[to..to + len].copy_from_slice(&bytes(&source)[from..from + len]);
                let (dst, src) = (target.as_mut_ptr().cast::<u8>(), source.as_ptr().cast::<u8>());
                // SAFETY: both vectors are longer.
                unsafe { copy(dst.add(to), src.add(from), len) };
                assert!(bytes(&target) == wanted, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn overlapping_ranges_end_as_after_memmove() {
        let large = [1 << 20, (1 << 20) + 5].into_iter().filter(|_| !cfg!(miri));
        for (len, copy) in lengths().step_by(7).chain(large).flat_map(|len| ALL.map(|copy| (len, copy))) {
            for (to, from) in [(0, 8), (8, 0), (1, 0), (0, 1), (3, 16), (16, 3), (0, 0), (100, 0), (0, 100), (64, 1)] {
                let mut memory = memory(len / 8 + 20);
                let mut wanted = bytes(&memory);
                wanted.copy_within(from..from + len, to);
                let base = memory.as_mut_ptr().cast::<u8>();
                // SAFETY: both ranges are inside the vector.
                unsafe { copy(base.add(to), base.add(from), len) };
                assert!(bytes(&memory) == wanted, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn large_copies_of_every_kind_are_right() {
        for len in [600 << 10, 1 << 20, 17 << 20].into_iter().filter(|_| !cfg!(miri)) {
            let (source, mut target) = (memory(len / 8), vec![0u64; len / 8]);
            for (copy, skip) in ALL.into_iter().zip([0, 3, 0, 0, 3]) {
                // SAFETY: both vectors have `len` bytes.
                unsafe { copy(target.as_mut_ptr().cast(), source.as_ptr().cast::<u8>().add(skip), len - skip) };
                assert!(bytes(&target)[..len - skip] == bytes(&source)[skip..], "{len}");
            }
        }
    }

    /// While `change` writes words of all ones and all zeros, `look` sees no others. Threads that race so are what
    /// the functions are for and what an interpreter forbids.
    fn race(change: impl Fn(u64) + Sync, look: impl Fn() -> Vec<u64>) {
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                (0u64..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(|i| change((i % 2).wrapping_neg()));
            });
            for _ in 0..300_000 {
                let torn = look().into_iter().find(|w| *w != 0 && *w != !0);
                if torn.is_some() {
                    done.store(true, Ordering::Relaxed);
                }
                assert_eq!(torn, None, "half of a word");
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "a race on purpose")]
    fn words_that_others_write_are_loaded_whole_wherever_they_go() {
        for (to, len) in [(0, 56), (4, 56), (1, 24), (3, 400), (8, 400)] {
            let source: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
            race(
                |value| source.iter().for_each(|w| w.store(value, Ordering::Relaxed)),
                || {
                    let mut target = [0u8; 512];
                    // SAFETY: both are longer.
                    unsafe { load(target.as_mut_ptr().add(to), source.as_ptr().cast(), len) };
                    target[to..to + len].chunks(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap())).collect()
                },
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a race on purpose")]
    fn words_that_others_read_are_stored_whole_wherever_they_come_from() {
        for (from, len) in [(0, 56), (4, 56), (1, 24), (3, 400), (8, 400)] {
            let target: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
            race(
                |value| {
                    let source = [value as u8; 512];
                    // SAFETY: both are longer, and the words are accessed by single instructions.
                    unsafe { store(target.as_ptr().cast_mut().cast(), source.as_ptr().add(from), len) };
                },
                || target.iter().map(|w| w.load(Ordering::Relaxed)).collect(),
            );
        }
    }
}
