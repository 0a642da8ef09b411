//! Elements that a routine moves.

use super::bytes;
use crate::ctypes::*;

/// Elements of one array that are to be in another. In a collective, one PE's share of them.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// Where they go.
    pub(crate) dest: *mut u8,
    /// Where they come from.
    pub(crate) source: *const u8,
    /// How many there are.
    pub(crate) nelems: usize,
    /// Bytes of one.
    pub(crate) size: usize,
}

impl Transfer {
    /// Returns a transfer of elements of a C type.
    #[inline(always)]
    pub(crate) fn of<T>(dest: *mut T, source: *const T, nelems: usize) -> Transfer {
        Transfer { dest: dest.cast(), source: source.cast(), nelems, size: size_of::<T>() }
    }

    /// Returns a transfer of elements of `size` bytes.
    #[inline(always)]
    pub(crate) fn sized(dest: *mut void, source: *const void, nelems: usize, size: usize) -> Transfer {
        Transfer { dest: dest.cast(), source: source.cast(), nelems, size }
    }

    /// Returns the bytes of all elements.
    #[inline]
    pub(crate) fn len(&self, name: Name) -> usize {
        bytes(name, self.nelems, self.size)
    }
}

/// How many elements apart those lie that are moved.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    /// In the destination.
    pub(crate) dst: isize,
    /// In the source.
    pub(crate) sst: isize,
}

impl Strides {
    /// One after the other.
    pub(crate) const NONE: Strides = Strides { dst: 1, sst: 1 };
}
