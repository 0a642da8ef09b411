//! Atomic memory operations and their deprecated spellings.

use crate::ctypes::*;
use crate::rt::amo::{self, Atomic};
use angara_abi::desc::AmoOp::{Add, And, Or, Swap, Xor};

macro_rules! extended {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<EXT_ $n:upper>], ctx;
            current fn [<$n _atomic_fetch>](source: *const $T, pe: int) -> $T = amo::fetch(ctx, source.cast_mut(), Atomic::FETCH, pe);
            current fn [<$n _atomic_set>](dest: *mut $T, value: $T, pe: int) = amo::apply(ctx, dest, Atomic::of(Swap, value), pe);
            current fn [<$n _atomic_swap>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::of(Swap, value), pe);
            current fn [<$n _atomic_fetch_nbi>](fetch: *mut $T, source: *const $T, pe: int) = amo::fetch_nbi(ctx, fetch, source.cast_mut(), Atomic::FETCH, pe);
            current fn [<$n _atomic_swap_nbi>](fetch: *mut $T, dest: *mut $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::of(Swap, value), pe);
        }
        api! { [<EXT_OLD_ $n:upper>];
            deprecated fn [<shmem_ $n _fetch>](source: *const $T, pe: int) -> $T = amo::fetch(crate::rt::handles::CTX_DEFAULT, source.cast_mut(), Atomic::FETCH, pe);
            deprecated fn [<shmem_ $n _set>](dest: *mut $T, value: $T, pe: int) = amo::apply(crate::rt::handles::CTX_DEFAULT, dest, Atomic::of(Swap, value), pe);
            deprecated fn [<shmem_ $n _swap>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(crate::rt::handles::CTX_DEFAULT, dest, Atomic::of(Swap, value), pe);
        })*
        #[cfg(test)]
        const EXTENDED: &[&[crate::api::Sig]] = &[$([<EXT_ $n:upper>], [<EXT_OLD_ $n:upper>]),*];
    }};
}
for_ext_amo!(extended);

macro_rules! standard {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<STD_ $n:upper>], ctx;
            current fn [<$n _atomic_compare_swap>](dest: *mut $T, cond: $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::compare_swap(cond, value), pe);
            current fn [<$n _atomic_fetch_inc>](dest: *mut $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::INCREMENT, pe);
            current fn [<$n _atomic_inc>](dest: *mut $T, pe: int) = amo::apply(ctx, dest, Atomic::INCREMENT, pe);
            current fn [<$n _atomic_fetch_add>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::of(Add, value), pe);
            current fn [<$n _atomic_add>](dest: *mut $T, value: $T, pe: int) = amo::apply(ctx, dest, Atomic::of(Add, value), pe);
            current fn [<$n _atomic_compare_swap_nbi>](fetch: *mut $T, dest: *mut $T, cond: $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::compare_swap(cond, value), pe);
            current fn [<$n _atomic_fetch_inc_nbi>](fetch: *mut $T, dest: *mut $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::INCREMENT, pe);
            current fn [<$n _atomic_fetch_add_nbi>](fetch: *mut $T, dest: *mut $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::of(Add, value), pe);
        }
        api! { [<STD_OLD_ $n:upper>];
            deprecated fn [<shmem_ $n _cswap>](dest: *mut $T, cond: $T, value: $T, pe: int) -> $T = amo::fetch(crate::rt::handles::CTX_DEFAULT, dest, Atomic::compare_swap(cond, value), pe);
            deprecated fn [<shmem_ $n _finc>](dest: *mut $T, pe: int) -> $T = amo::fetch(crate::rt::handles::CTX_DEFAULT, dest, Atomic::INCREMENT, pe);
            deprecated fn [<shmem_ $n _inc>](dest: *mut $T, pe: int) = amo::apply(crate::rt::handles::CTX_DEFAULT, dest, Atomic::INCREMENT, pe);
            deprecated fn [<shmem_ $n _fadd>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(crate::rt::handles::CTX_DEFAULT, dest, Atomic::of(Add, value), pe);
            deprecated fn [<shmem_ $n _add>](dest: *mut $T, value: $T, pe: int) = amo::apply(crate::rt::handles::CTX_DEFAULT, dest, Atomic::of(Add, value), pe);
        })*
        #[cfg(test)]
        const STANDARD: &[&[crate::api::Sig]] = &[$([<STD_ $n:upper>], [<STD_OLD_ $n:upper>]),*];
    }};
}
for_std_amo!(standard);

macro_rules! bitwise {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<BIT_ $n:upper>], ctx;
            current fn [<$n _atomic_and>](dest: *mut $T, value: $T, pe: int) = amo::apply(ctx, dest, Atomic::of(And, value), pe);
            current fn [<$n _atomic_or>](dest: *mut $T, value: $T, pe: int) = amo::apply(ctx, dest, Atomic::of(Or, value), pe);
            current fn [<$n _atomic_xor>](dest: *mut $T, value: $T, pe: int) = amo::apply(ctx, dest, Atomic::of(Xor, value), pe);
            current fn [<$n _atomic_fetch_and>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::of(And, value), pe);
            current fn [<$n _atomic_fetch_or>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::of(Or, value), pe);
            current fn [<$n _atomic_fetch_xor>](dest: *mut $T, value: $T, pe: int) -> $T = amo::fetch(ctx, dest, Atomic::of(Xor, value), pe);
            current fn [<$n _atomic_fetch_and_nbi>](fetch: *mut $T, dest: *mut $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::of(And, value), pe);
            current fn [<$n _atomic_fetch_or_nbi>](fetch: *mut $T, dest: *mut $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::of(Or, value), pe);
            current fn [<$n _atomic_fetch_xor_nbi>](fetch: *mut $T, dest: *mut $T, value: $T, pe: int) = amo::fetch_nbi(ctx, fetch, dest, Atomic::of(Xor, value), pe);
        })*
        #[cfg(test)]
        const BITWISE: &[&[crate::api::Sig]] = &[$([<BIT_ $n:upper>]),*];
    }};
}
for_bit_amo!(bitwise);

// In C without type-generic forms, old programs swap a `long` with it.
api! { UNTYPED;
    deprecated fn shmem_swap(dest: *mut long, value: long, pe: int) -> long = amo::fetch(crate::rt::handles::CTX_DEFAULT, dest, Atomic::of(Swap, value), pe);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[EXTENDED, STANDARD, BITWISE, &[UNTYPED]];
