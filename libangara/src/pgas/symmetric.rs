//! The symmetric heap of a world: which blocks of it are taken, on every PE alike.
//!
//! All PEs allocate in the same order, so that all find the same place without asking. A block is taken back when *every*
//! PE has dropped its array, which the next allocation finds out: dropping is not collective, and a PE that forgets an
//! array keeps memory from being used again and does no other harm.

use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::job::Job;
use angara_abi::copy;
use angara_abi::desc::{Place, Region};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks begin at multiples of this, a cache line.
const BLOCK_ALIGN: usize = 64;

/// An array that some PE has not dropped, as far as is known here.
struct Live {
    id: u64,
    start: usize,
    len: usize,
    /// This PE has dropped it.
    dropped: bool,
}

/// Blocks of the heap, as offsets from the first byte that arrays may have.
struct Heap {
    len: usize,
    /// Arrays made so far.
    made: u64,
    live: Vec<Live>,
    /// Length by start of what is free.
    free: BTreeMap<usize, usize>,
    /// Memory from here on was never used, and holds zeros.
    fresh: usize,
}

impl Heap {
    fn new(len: usize) -> Heap {
        let free = if len > 0 { BTreeMap::from([(0, len)]) } else { BTreeMap::new() };
        Heap { len, made: 0, live: Vec::new(), free, fresh: 0 }
    }

    /// Takes `len` bytes aligned to `align`, from the first gap that has them.
    fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(start, room): (&usize, &usize)| {
            let first = start.next_multiple_of(align);
            let used = (first - start).checked_add(len)?;
            (used <= *room).then_some((*start, *room, first))
        };
        let (start, room, first) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if first > start {
            self.free.insert(start, first - start);
        }
        if start + room > first + len {
            self.free.insert(first + len, start + room - first - len);
        }
        Some(first)
    }

    fn give(&mut self, start: usize, len: usize) {
        let (mut start, mut end) = (start, start + len);
        if let Some((before, room)) = self.free.range(..start).next_back().map(|(s, l)| (*s, *l))
            && before + room == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        if end > start {
            self.free.insert(start, end - start);
        }
    }

    fn largest(&self) -> usize {
        self.free.values().copied().max().unwrap_or(0)
    }
}

/// What all parts of a world share.
pub(super) struct Symmetric {
    pub(super) job: Arc<Job>,
    /// Where arrays begin in the region of the heap, and at which address of this PE.
    offset: u64,
    base: *mut u8,
    heap: Mutex<Heap>,
    /// Streams of other threads, also of those that have ended since the last [`Symmetric::quiet_threads`].
    streams: Mutex<Vec<Arc<Ctx>>>,
    /// The library is to be told of every call.
    pub(super) told: bool,
}

// SAFETY: `base` leads into the mapping of the heap, which lives as long as the job.
unsafe impl Send for Symmetric {}
// SAFETY: as above; what is there is accessed as [`super::array`] says.
unsafe impl Sync for Symmetric {}

/// A block of the heap, given back when it is dropped.
pub(super) struct Block<'w> {
    symmetric: &'w Symmetric,
    /// Number of the array, the same on every PE.
    pub(super) id: u64,
    /// Its first byte on this PE.
    pub(super) base: *mut u8,
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let mut heap = self.symmetric.heap();
        if let Some(live) = heap.live.iter_mut().find(|live| live.id == self.id) {
            live.dropped = true;
        }
    }
}

/// An allocation that all PEs have agreed on: `[arrays before, bytes of an element, elements, alignment]`.
pub(super) type Asked = [u64; 4];

impl Symmetric {
    /// The heap of `job` without its first `taken` bytes.
    pub(super) fn new(job: Arc<Job>, taken: usize) -> Result<Symmetric> {
        let base = job.heap().wrapping_add(taken);
        let place = job.locate(base, 1).filter(|place| place.region == Region::Heap);
        let place = place.ok_or_else(|| {
            let len = job.heap_len();
            Error::invalid(format!("a symmetric heap of {len} bytes has no room for arrays; see angara run --heap"))
        })?;
        let heap = Mutex::new(Heap::new(job.heap_len() - taken));
        let told = job.wants_calls();
        Ok(Symmetric { offset: place.offset, base, heap, streams: Mutex::new(Vec::new()), told, job })
    }

    fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the byte at `base` of any PE.
    #[inline(always)]
    pub(super) fn place(&self, base: *mut u8) -> Place {
        Place { region: Region::Heap, offset: self.offset + (base as usize - self.base as usize) as u64 }
    }

    /// Says which routine the program has called, where somebody wants to know.
    #[inline]
    pub(super) fn called(&self, routine: &'static str) -> Result<()> {
        if self.told { self.job.called(routine) } else { Ok(()) }
    }

    /// A stream of another thread.
    pub(super) fn add(&self, stream: &Arc<Ctx>) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
    }

    /// Returns when everything that other threads of this PE have issued before has taken effect.
    pub(super) fn quiet_threads(&self) -> Result<()> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Nobody issues anything by one that only this list and its copy have.
        let ended: Vec<_> = streams.iter().filter(|stream| Arc::strong_count(stream) == 2).collect();
        streams.iter().try_for_each(|stream| stream.quiet())?;
        if !ended.is_empty() {
            let is_ended = |stream: &Arc<Ctx>| ended.iter().any(|ended| Arc::ptr_eq(ended, stream));
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).retain(|stream| !is_ended(stream));
        }
        Ok(())
    }

    /// Returns when everything that any thread of this PE has issued before has taken effect.
    pub(super) fn quiet_all(&self) -> Result<()> {
        self.job.ctx().quiet()?;
        self.quiet_threads()
    }

    /// What this PE says about the array to be made: what is asked for.
    pub(super) fn asked<T>(&self, len: usize) -> Asked {
        [self.heap().made, size_of::<T>() as u64, len as u64, align_of::<T>() as u64]
    }

    /// One bit for each array that is live: set if this PE has dropped it.
    pub(super) fn dropped(&self) -> Vec<u64> {
        let bits = |live: &[Live]| live.iter().rev().fold(0, |word, live| word << 1 | u64::from(live.dropped));
        self.heap().live.chunks(64).map(bits).collect()
    }

    /// Takes back what all PEs have dropped, as `dropped` of all together says, and makes room for the array that all ask for.
    /// No PE reaches the block before a barrier that follows.
    pub(super) fn take(&self, asked: Asked, dropped: &[u64]) -> Result<Block<'_>> {
        let mut heap = self.heap();
        let heap = &mut *heap;
        let mut index = 0;
        let mut gone = Vec::new();
        heap.live.retain(|live| {
            let all = dropped.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1);
            index += 1;
            if all {
                gone.push((live.start, live.len));
            }
            !all
        });
        gone.into_iter().for_each(|(start, len)| heap.give(start, len));
        let [id, size, count, align] = asked.map(|n| n as usize);
        let align = align.max(BLOCK_ALIGN);
        // The base is aligned to a page, which no alignment exceeds.
        let len = size.checked_mul(count).and_then(|bytes| bytes.checked_next_multiple_of(BLOCK_ALIGN));
        let start = len.and_then(|len| heap.take(len, align));
        let (Some(start), Some(len)) = (start, len) else {
            let (largest, all) = (heap.largest(), heap.len);
            return Err(Error::invalid(format!(
                "an array of {count} elements of {size} bytes does not fit: the largest free block of the symmetric heap has {largest} of its {all} bytes; ask for more by angara run --heap"
            )));
        };
        heap.made += 1;
        heap.live.push(Live { id: id as u64, start, len, dropped: false });
        let base = self.base.wrapping_add(start);
        let used = heap.fresh.saturating_sub(start).min(len);
        zero(base, used);
        heap.fresh = heap.fresh.max(start + len);
        Ok(Block { symmetric: self, id: id as u64, base })
    }
}

/// Writes zeros over what an earlier array has left.
fn zero(base: *mut u8, len: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    for at in (0..len).step_by(ZEROS.len()) {
        // SAFETY: inside a block that has just been taken; what others may still be doing there is no access of Rust.
        unsafe { copy::store(base.add(at), ZEROS.as_ptr(), ZEROS.len().min(len - at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut heap = Heap::new(1024);
        let all: Vec<usize> = (0..4).map(|_| heap.take(256, 64).unwrap()).collect();
        assert_eq!((all.as_slice(), heap.take(64, 64)), ([0, 256, 512, 768].as_slice(), None));
        heap.give(256, 256);
        heap.give(768, 256);
        assert_eq!(heap.largest(), 256);
        heap.give(512, 256);
        assert_eq!(heap.take(768, 64), Some(256));
    }

    proptest! {
        /// Blocks are aligned, inside the heap and apart; when all are given back, one gap is left.
        #[test]
        fn blocks_are_apart(asked in proptest::collection::vec((0usize..700, 0u32..4, any::<bool>()), 1..60)) {
            let mut heap = Heap::new(8192);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (len, align, free) in asked {
                if free && !taken.is_empty() {
                    let (start, len) = taken.remove(len % taken.len());
                    heap.give(start, len);
                    continue;
                }
                let (len, align) = (len.next_multiple_of(64), 64 << align);
                if let Some(start) = heap.take(len, align) {
                    prop_assert!(start.is_multiple_of(align) && start + len <= 8192);
                    prop_assert!(taken.iter().all(|(s, l)| start + len <= *s || s + l <= start || len == 0 || *l == 0));
                    taken.push((start, len));
                }
            }
            for (start, len) in taken {
                heap.give(start, len);
            }
            prop_assert_eq!(heap.free, BTreeMap::from([(0, 8192)]));
        }
    }
}
