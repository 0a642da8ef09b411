//! Reductions and prefix sums over teams.

use crate::ctypes::*;
use crate::rt::ops::Ops;
use crate::rt::reduce;
use crate::rt::transfer::Transfer;

macro_rules! sums {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<SUM_ $n:upper>];
            current fn [<shmem_ $n _sum_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::SUM);
            current fn [<shmem_ $n _prod_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::PROD);
            current fn [<shmem_ $n _sum_inscan>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t) -> int = reduce::scan(team, Transfer::of(dest, source, nelems), Ops::<$T>::SUM, true);
            current fn [<shmem_ $n _sum_exscan>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t) -> int = reduce::scan(team, Transfer::of(dest, source, nelems), Ops::<$T>::SUM, false);
        })*
        #[cfg(test)]
        const SUMS: &[&[crate::api::Sig]] = &[$([<SUM_ $n:upper>]),*];
    }};
}
for_sum_reduce!(sums);

macro_rules! minmax {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<MINMAX_ $n:upper>];
            current fn [<shmem_ $n _max_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::MAX);
            current fn [<shmem_ $n _min_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::MIN);
        })*
        #[cfg(test)]
        const MINMAX: &[&[crate::api::Sig]] = &[$([<MINMAX_ $n:upper>]),*];
    }};
}
for_minmax_reduce!(minmax);

macro_rules! bits {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<BIT_ $n:upper>];
            current fn [<shmem_ $n _and_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::AND);
            current fn [<shmem_ $n _or_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::OR);
            current fn [<shmem_ $n _xor_reduce>](team: shmem_team_t, dest: *mut $T, source: *const $T, nreduce: size_t) -> int = reduce::team(team, Transfer::of(dest, source, nreduce), Ops::<$T>::XOR);
        })*
        #[cfg(test)]
        const BITS: &[&[crate::api::Sig]] = &[$([<BIT_ $n:upper>]),*];
    }};
}
for_bit_reduce!(bits);

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[SUMS, MINMAX, BITS];
