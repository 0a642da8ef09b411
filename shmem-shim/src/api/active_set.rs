//! The deprecated collectives over active sets (start, log2 stride, size, `pSync`, `pWrk`).
//!
//! They run on the same cores as the team collectives; synchronisation lives in the library's own
//! area, so `pSync` and `pWrk` are accepted and left untouched.

use crate::ctypes::*;
use crate::rt::members::Set;
use crate::rt::ops::Ops;
use crate::rt::transfer::{Strides, Transfer};
use crate::rt::{coll, reduce};

api! { SYNC;
    deprecated fn shmem_barrier(PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::set_barrier(Set::active(PE_start, logPE_stride, PE_size, pSync));
    deprecated fn shmem_sync(PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::sync(Set::active(PE_start, logPE_stride, PE_size, pSync));
}

macro_rules! sized {
    ($($n:literal $bytes:literal),*) => { ::pastey::paste! {
        $(api! { [<SIZED_ $n>];
            deprecated fn [<shmem_broadcast $n>](dest: *mut void, source: *const void, nelems: size_t, PE_root: int, PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::set_broadcast(Set::active(PE_start, logPE_stride, PE_size, pSync), Transfer::sized(dest, source, nelems, $bytes), PE_root);
            deprecated fn [<shmem_collect $n>](dest: *mut void, source: *const void, nelems: size_t, PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::collect(Set::active(PE_start, logPE_stride, PE_size, pSync), Transfer::sized(dest, source, nelems, $bytes));
            deprecated fn [<shmem_fcollect $n>](dest: *mut void, source: *const void, nelems: size_t, PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::fcollect(Set::active(PE_start, logPE_stride, PE_size, pSync), Transfer::sized(dest, source, nelems, $bytes));
            deprecated fn [<shmem_alltoall $n>](dest: *mut void, source: *const void, nelems: size_t, PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::alltoall(Set::active(PE_start, logPE_stride, PE_size, pSync), Transfer::sized(dest, source, nelems, $bytes));
            deprecated fn [<shmem_alltoalls $n>](dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t, PE_start: int, logPE_stride: int, PE_size: int, pSync: *mut long) = coll::alltoalls(Set::active(PE_start, logPE_stride, PE_size, pSync), Transfer::sized(dest, source, nelems, $bytes), Strides { dst, sst });
        })*
        #[cfg(test)]
        const SIZED: &[&[crate::api::Sig]] = &[$([<SIZED_ $n>]),*];
    }};
}
sized! { 32 4, 64 8 }

macro_rules! to_all {
    ($list:ident, $($op:ident $OP:ident)|+; $($n:ident $T:ident),*) => {
        to_all! { @types $list, [$($op $OP),+], $($n $T),* }
    };
    (@types $list:ident, $ops:tt, $($n:ident $T:ident),*) => { ::pastey::paste! {
        $(to_all! { @rows [<$list _ $n:upper>], $ops, $n $T })*
        #[cfg(test)]
        const $list: &[&[crate::api::Sig]] = &[$([<$list _ $n:upper>]),*];
    }};
    (@rows $list:ident, [$($op:ident $OP:ident),+], $n:ident $T:ident) => { ::pastey::paste! {
        api! { $list; $(
            deprecated fn [<shmem_ $n _ $op _to_all>](dest: *mut $T, source: *const $T, nreduce: int, PE_start: int, logPE_stride: int, PE_size: int, pWrk: *mut $T, pSync: *mut long) = reduce::active_set(Set::active(PE_start, logPE_stride, PE_size, pSync), dest.cast(), source.cast(), nreduce, Ops::<$T>::$OP, pWrk.cast());
        )+ }
    }};
}
macro_rules! sums {
    ($($t:tt)*) => { to_all! { SUMS, sum SUM | prod PROD; $($t)* } };
}
macro_rules! minmax {
    ($($t:tt)*) => { to_all! { MINMAX, max MAX | min MIN; $($t)* } };
}
macro_rules! bits {
    ($($t:tt)*) => { to_all! { BITS, and AND | or OR | xor XOR; $($t)* } };
}
for_sum_to_all!(sums);
for_minmax_to_all!(minmax);
for_bit_to_all!(bits);

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[&[SYNC], SIZED, SUMS, MINMAX, BITS];
