//! Symmetric arrays: one on every PE, of the same length, in memory that all PEs have mapped.
//!
//! [`Exposed`]: other PEs may read and write it, so nobody has a reference to an element. [`Local`]: nobody else reaches it, so
//! it is a slice. Who changes the one into the other does so together with all other PEs.

use super::element::{Integer, Word};
use super::symmetric::Block;
use crate::error::{Error, Result};
use angara_abi::copy::{self, peek, poke};
use angara_abi::order;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A symmetric array that every PE may read, write and update, as long as it is exposed.
///
/// Its own part is read and written by [`Exposed::load`] and its like, whole elements of up to 8 bytes at a time. These say
/// nothing about other elements; [`super::Context::wait_until`], barriers and the other collectives do.
pub struct Exposed<'w, T> {
    block: Block<'w>,
    len: usize,
    elements: PhantomData<T>,
}

// SAFETY: all access goes by copies and atomics that the compiler knows nothing about, from any thread; elements are plain data.
unsafe impl<T: Send> Send for Exposed<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Exposed<'_, T> {}

/// An element of an exposed array on a PE, and those behind it: where an operation begins.
pub struct At<'a, T> {
    /// First element of the array on this PE.
    base: *mut u8,
    len: usize,
    index: usize,
    pe: usize,
    array: PhantomData<&'a T>,
}

impl<T> Clone for At<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for At<'_, T> {}

impl<T> At<'_, T> {
    /// The PE.
    #[inline(always)]
    pub fn pe(self) -> usize {
        self.pe
    }

    /// Address on this PE of `count` elements from there on.
    #[inline(always)]
    pub(super) fn own(self, count: usize) -> Result<*mut u8> {
        if self.index > self.len || count > self.len - self.index {
            return Err(self.outside(count));
        }
        Ok(self.base.wrapping_add(self.index * size_of::<T>()))
    }

    #[cold]
    #[inline(never)]
    fn outside(self, count: usize) -> Error {
        let At { index, len, pe, .. } = self;
        let what = if count == 1 { "one element".into() } else { format!("{count} elements") };
        Error::invalid(format!("{what} from {index} on of an array of {len} elements, on PE {pe}: they are not inside"))
    }
}

impl<'w, T: Pod> Exposed<'w, T> {
    pub(super) fn new(block: Block<'w>, len: usize) -> Exposed<'w, T> {
        Exposed { block, len, elements: PhantomData }
    }
    pub(super) fn into_block(self) -> (Block<'w>, usize) {
        (self.block, self.len)
    }
    pub(super) fn id(&self) -> u64 {
        self.block.id
    }

    /// Number of elements on each PE.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `index` of PE `pe`, where an operation begins. Whether there are such a PE and elements, the operation says.
    #[inline(always)]
    pub fn at(&self, pe: usize, index: usize) -> At<'_, T> {
        At { base: self.block.base, len: self.len, index, pe, array: PhantomData }
    }

    /// Address of `count` elements of this PE's own part.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    #[track_caller]
    fn own(&self, index: usize, count: usize) -> *mut u8 {
        if index > self.len || count > self.len - index {
            outside(index, count, self.len);
        }
        self.block.base.wrapping_add(index * size_of::<T>())
    }

    /// Element `index` of this PE's own part as it is now.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, index: usize) -> T {
        let p = self.own(index, 1);
        let mut value = T::zeroed();
        let to = (&raw mut value).cast::<u8>();
        // SAFETY: one element at either side; every bit pattern is a value.
        unsafe {
            match size_of::<T>() {
                8 => to.cast::<u64>().write_unaligned(peek(p)),
                4 => to.cast::<u32>().write_unaligned(peek(p)),
                len => copy::load(to, p, len),
            }
        }
        value
    }

    /// Stores element `index` of this PE's own part.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, index: usize, value: T) {
        let p = self.own(index, 1);
        let from = (&raw const value).cast::<u8>();
        // SAFETY: one element at either side; plain data has no padding.
        unsafe {
            match size_of::<T>() {
                8 => poke(p, from.cast::<u64>().read_unaligned()),
                4 => poke(p, from.cast::<u32>().read_unaligned()),
                len => copy::store(p, from, len),
            }
        }
    }

    /// Copies elements of this PE's own part, from `index` on.
    ///
    /// # Panics
    /// If they are not inside.
    #[track_caller]
    pub fn read(&self, index: usize, into: &mut [T]) {
        let p = self.own(index, into.len());
        // SAFETY: as many bytes at either side; every bit pattern is a value.
        unsafe { copy::load(into.as_mut_ptr().cast(), p, size_of_val(into)) };
    }

    /// Writes elements of this PE's own part, from `index` on.
    ///
    /// # Panics
    /// If they are not inside.
    #[track_caller]
    pub fn write(&self, index: usize, values: &[T]) {
        let p = self.own(index, values.len());
        // SAFETY: as many bytes at either side; plain data has no padding.
        unsafe { copy::store(p, values.as_ptr().cast(), size_of_val(values)) };
    }

    /// A copy of this PE's own part.
    pub fn to_vec(&self) -> Vec<T> {
        let mut all = vec![T::zeroed(); self.len];
        self.read(0, &mut all);
        all
    }
}

impl<T: Word> Exposed<'_, T> {
    /// Address of an element, for whoever waits for it.
    #[track_caller]
    pub(super) fn word(&self, index: usize) -> *mut u8 {
        self.own(index, 1)
    }
}

impl<T: Integer> Exposed<'_, T> {
    /// [`Exposed::load`], and what its writer had put before is there, too.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub(super) fn seen(&self, index: usize) -> T {
        let p = self.own(index, 1);
        // SAFETY: an aligned word of this PE's part.
        unsafe {
            match size_of::<T>() {
                8 => T::from_bits64(order::read(p.cast::<u64>())),
                _ => T::from_bits64(order::read(p.cast::<u32>()).into()),
            }
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(index: usize, count: usize, len: usize) -> ! {
    panic!("{count} elements from {index} on of an array of {len}")
}

/// A symmetric array whose parts belong to their PEs alone: a slice, until [`super::World::expose`].
pub struct Local<'w, T> {
    block: Block<'w>,
    len: usize,
    elements: PhantomData<T>,
}

// SAFETY: it owns its elements like a vector.
unsafe impl<T: Send> Send for Local<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Local<'_, T> {}

impl<'w, T: Pod> Local<'w, T> {
    pub(super) fn new(block: Block<'w>, len: usize) -> Local<'w, T> {
        Local { block, len, elements: PhantomData }
    }
    pub(super) fn into_block(self) -> (Block<'w>, usize) {
        (self.block, self.len)
    }
    pub(super) fn id(&self) -> u64 {
        self.block.id
    }
}

impl<T: Pod> Deref for Local<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the block holds `len` elements, aligned, of which every bit pattern is a value. No PE has an exposed array
        // of this block: all have agreed that it is local, and completed before what they had sent.
        unsafe { std::slice::from_raw_parts(self.block.base.cast(), self.len) }
    }
}

impl<T: Pod> DerefMut for Local<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and there is one `Local` of the block in this process.
        unsafe { std::slice::from_raw_parts_mut(self.block.base.cast(), self.len) }
    }
}
