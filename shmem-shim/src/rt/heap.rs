//! The allocator of the symmetric heap.
//!
//! Every PE runs the same allocator over the same sequence of calls, so the same request yields
//! the same offset everywhere and nothing is communicated. It must therefore be deterministic:
//! best fit, lowest offset first among equals, and its own data outside the heap, where no put
//! can damage it.

use std::collections::{BTreeMap, BTreeSet};

/// Every block starts at a multiple of this, and has at least this size.
const GRANULE: usize = 16;
/// Blocks of at least this many bytes start at a cache line.
const LINE: usize = 64;

/// Free and used blocks, by offset.
#[derive(Debug)]
pub(crate) struct Heap {
    used: BTreeMap<usize, usize>,
    free: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    /// Distance of offset 0 from an address with every alignment there is.
    bias: usize,
}

impl Heap {
    /// An empty heap of `len` bytes that starts `bias` bytes (a multiple of the page size) behind a
    /// well aligned address.
    pub(crate) fn new(len: usize, bias: usize) -> Heap {
        let mut heap = Heap { bias, used: BTreeMap::new(), free: BTreeMap::new(), by_size: BTreeSet::new() };
        heap.insert_free(0, len & !(GRANULE - 1));
        heap
    }

    fn insert_free(&mut self, offset: usize, size: usize) {
        if size > 0 {
            self.free.insert(offset, size);
            self.by_size.insert((size, offset));
        }
    }
    fn remove_free(&mut self, offset: usize) -> usize {
        let size = self.free.remove(&offset).expect("a free block listed by size is listed by offset");
        self.by_size.remove(&(size, offset));
        size
    }

    /// Reserves `size` bytes (not 0) at an address that is a multiple of `align`, a power of two.
    pub(crate) fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        let size = size.checked_add(GRANULE - 1)? & !(GRANULE - 1);
        let align = align.max(if size >= LINE { LINE } else { GRANULE });
        let fits = |&(have, at): &(usize, usize)| {
            let start = (at + self.bias).checked_next_multiple_of(align)? - self.bias;
            (start.checked_add(size)? <= at + have).then_some((at, start))
        };
        let (block, start) = self.by_size.range((size, 0)..).find_map(fits)?;
        let have = self.remove_free(block);
        self.insert_free(block, start - block);
        self.insert_free(start + size, block + have - start - size);
        self.used.insert(start, size);
        Some(start)
    }

    /// Bytes of the used block at `offset`.
    pub(crate) fn size_of(&self, offset: usize) -> Option<usize> {
        self.used.get(&offset).copied()
    }

    /// Start and bytes of the used block that holds `offset`.
    pub(crate) fn block_of(&self, offset: usize) -> Option<(usize, usize)> {
        let (&start, &size) = self.used.range(..=offset).next_back()?;
        (offset - start < size).then_some((start, size))
    }

    /// Gives a block back; false if none starts there.
    pub(crate) fn free(&mut self, offset: usize) -> bool {
        let Some(mut size) = self.used.remove(&offset) else { return false };
        let mut start = offset;
        if let Some((&before, &n)) = self.free.range(..offset).next_back()
            && before + n == offset
        {
            self.remove_free(before);
            (start, size) = (before, size + n);
        }
        if self.free.contains_key(&(start + size)) {
            size += self.remove_free(start + size);
        }
        self.insert_free(start, size);
        true
    }

    /// Resizes in place if the block shrinks or the space behind it is free.
    pub(crate) fn resize(&mut self, offset: usize, size: usize) -> bool {
        let Some(want) = size.checked_add(GRANULE - 1).map(|n| n & !(GRANULE - 1)) else { return false };
        let Some(have) = self.size_of(offset) else { return false };
        let behind = self.free.get(&(offset + have)).copied().unwrap_or(0);
        if want > have + behind {
            return false;
        }
        if behind > 0 {
            self.remove_free(offset + have);
        }
        self.insert_free(offset + want, have + behind - want);
        self.used.insert(offset, want);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::random::SplitMix;

    fn check(h: &Heap, len: usize) {
        let mut blocks: Vec<(usize, usize, bool)> = h.used.iter().map(|(o, n)| (*o, *n, true)).collect();
        blocks.extend(h.free.iter().map(|(o, n)| (*o, *n, false)));
        blocks.sort();
        let mut at = 0;
        let mut last_free = false;
        for (offset, n, used) in blocks {
            assert_eq!(offset, at, "blocks tile the heap");
            assert!(used || !last_free, "neighbouring free blocks are merged");
            (at, last_free) = (offset + n, !used);
        }
        assert_eq!(at, len & !(GRANULE - 1));
        assert_eq!(h.free.len(), h.by_size.len());
    }

    #[test]
    fn two_heaps_with_the_same_calls_agree() {
        for seed in 0..20 {
            let (mut a, mut b) = (Heap::new(1 << 16, 4096), Heap::new(1 << 16, 4096));
            let (mut rng, mut live) = (SplitMix(seed), Vec::new());
            for _ in 0..2000 {
                let r = rng.draw() as usize;
                match r % 5 {
                    0..=2 => {
                        let (size, align) = (1 + (r >> 8) % 3000, 1 << ((r >> 24) % 9));
                        let got = a.alloc(size, align);
                        assert_eq!(got, b.alloc(size, align), "seed {seed}");
                        if let Some(o) = got {
                            assert!((o + 4096).is_multiple_of(align.max(GRANULE)));
                            live.push(o);
                        }
                    }
                    3 if !live.is_empty() => {
                        let o = live.swap_remove((r >> 8) % live.len());
                        assert!(a.free(o) && b.free(o));
                    }
                    4 if !live.is_empty() => {
                        let (o, n) = (live[(r >> 8) % live.len()], 1 + (r >> 16) % 4000);
                        assert_eq!(a.resize(o, n), b.resize(o, n));
                    }
                    _ => {}
                }
                check(&a, 1 << 16);
            }
            live.into_iter().for_each(|o| assert!(a.free(o)));
            assert_eq!(a.by_size, BTreeSet::from([(1 << 16, 0)]), "seed {seed}: everything is merged again");
        }
    }

    #[test]
    fn impossible_requests_and_strange_frees_are_refused() {
        let mut h = Heap::new(1000, 0);
        assert_eq!(h.alloc(usize::MAX, 16), None);
        assert_eq!(h.alloc(2000, 16), None);
        assert_eq!(h.alloc(16, 1 << 40), Some(0));
        assert_eq!(h.alloc(16, 1 << 40), None);
        assert_eq!((h.block_of(0), h.block_of(15), h.block_of(16)), (Some((0, 16)), Some((0, 16)), None));
        assert!(!h.free(16) && !h.free(8) && h.free(0) && !h.free(0));
    }
}
