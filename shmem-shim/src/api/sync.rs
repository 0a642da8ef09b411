//! Waiting for and testing symmetric variables, memory ordering, locks.

use crate::ctypes::*;
use crate::rt::{locks, rma, wait};

macro_rules! single {
    ($($status:ident $n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<ONE_ $n:upper>];
            $status fn [<shmem_ $n _wait_until>](ivar: *mut $T, cmp: int, cmp_value: $T) = wait::until(ivar, cmp, cmp_value);
            $status fn [<shmem_ $n _test>](ivar: *mut $T, cmp: int, cmp_value: $T) -> int = wait::test(ivar, cmp, cmp_value);
        })*
        #[cfg(test)]
        const SINGLE: &[&[crate::api::Sig]] = &[$([<ONE_ $n:upper>]),*];
    }};
}
single! {
    current int int, current long long, current longlong longlong, current uint uint, current ulong ulong,
    current ulonglong ulonglong, current int32 int32_t, current int64 int64_t, current uint32 uint32_t,
    current uint64 uint64_t, current size size_t, current ptrdiff ptrdiff_t,
    deprecated short short, deprecated ushort ushort
}

macro_rules! several {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<MANY_ $n:upper>];
            current fn [<shmem_ $n _wait_until_all>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_value: $T) = wait::until_all(ivars, nelems, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _wait_until_any>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_value: $T) -> size_t = wait::until_any(ivars, nelems, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _wait_until_some>](ivars: *mut $T, nelems: size_t, indices: *mut size_t, status: *const int, cmp: int, cmp_value: $T) -> size_t = wait::until_some(ivars, nelems, indices, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _wait_until_all_vector>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_values: *const $T) = wait::until_all(ivars, nelems, status, cmp, wait::Values::Each(cmp_values));
            current fn [<shmem_ $n _wait_until_any_vector>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_values: *const $T) -> size_t = wait::until_any(ivars, nelems, status, cmp, wait::Values::Each(cmp_values));
            current fn [<shmem_ $n _wait_until_some_vector>](ivars: *mut $T, nelems: size_t, indices: *mut size_t, status: *const int, cmp: int, cmp_values: *const $T) -> size_t = wait::until_some(ivars, nelems, indices, status, cmp, wait::Values::Each(cmp_values));
            current fn [<shmem_ $n _test_all>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_value: $T) -> int = wait::test_all(ivars, nelems, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _test_any>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_value: $T) -> size_t = wait::test_any(ivars, nelems, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _test_some>](ivars: *mut $T, nelems: size_t, indices: *mut size_t, status: *const int, cmp: int, cmp_value: $T) -> size_t = wait::test_some(ivars, nelems, indices, status, cmp, wait::Values::One(cmp_value));
            current fn [<shmem_ $n _test_all_vector>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_values: *const $T) -> int = wait::test_all(ivars, nelems, status, cmp, wait::Values::Each(cmp_values));
            current fn [<shmem_ $n _test_any_vector>](ivars: *mut $T, nelems: size_t, status: *const int, cmp: int, cmp_values: *const $T) -> size_t = wait::test_any(ivars, nelems, status, cmp, wait::Values::Each(cmp_values));
            current fn [<shmem_ $n _test_some_vector>](ivars: *mut $T, nelems: size_t, indices: *mut size_t, status: *const int, cmp: int, cmp_values: *const $T) -> size_t = wait::test_some(ivars, nelems, indices, status, cmp, wait::Values::Each(cmp_values));
        })*
        #[cfg(test)]
        const SEVERAL: &[&[crate::api::Sig]] = &[$([<MANY_ $n:upper>]),*];
    }};
}
several! {
    int int, long long, longlong longlong, uint uint, ulong ulong, ulonglong ulonglong, int32 int32_t,
    int64 int64_t, uint32 uint32_t, uint64 uint64_t, size size_t, ptrdiff ptrdiff_t, short short, ushort ushort
}

api! { OLD;
    deprecated fn shmem_int_wait(ivar: *mut int, cmp_value: int) = wait::until(ivar, wait::CMP_NE, cmp_value);
    deprecated fn shmem_long_wait(ivar: *mut long, cmp_value: long) = wait::until(ivar, wait::CMP_NE, cmp_value);
    deprecated fn shmem_longlong_wait(ivar: *mut longlong, cmp_value: longlong) = wait::until(ivar, wait::CMP_NE, cmp_value);
    deprecated fn shmem_short_wait(ivar: *mut short, cmp_value: short) = wait::until(ivar, wait::CMP_NE, cmp_value);
    deprecated fn shmem_wait(ivar: *mut long, cmp_value: long) = wait::until(ivar, wait::CMP_NE, cmp_value);
    deprecated fn shmem_wait_until(ivar: *mut long, cmp: int, cmp_value: long) = wait::until(ivar, cmp, cmp_value);
}

api_ctx! { ORDER, ctx;
    current fn pe_quiet(target_pes: *const int, npes: size_t) = rma::pe_quiet(ctx, target_pes, npes);
}
api! { ORDER_ALL;
    current fn shmem_fence() = rma::fence(crate::rt::handles::CTX_DEFAULT);
    current fn shmem_ctx_fence(ctx: shmem_ctx_t) = rma::fence(ctx);
    current fn shmem_quiet() = rma::quiet(crate::rt::handles::CTX_DEFAULT);
    current fn shmem_ctx_quiet(ctx: shmem_ctx_t) = rma::quiet(ctx);
}
api! { LOCKS;
    current fn shmem_set_lock(lock: *mut long) = locks::set(lock);
    current fn shmem_clear_lock(lock: *mut long) = locks::clear(lock);
    current fn shmem_test_lock(lock: *mut long) -> int = locks::test(lock);
}

// Caches are coherent here, so the routines old programs call to manage them have nothing left to do
// but keep the compiler from caching values across the call, which any external call does.
api! { CACHE;
    deprecated fn shmem_set_cache_inv() = rma::coherent();
    deprecated fn shmem_clear_cache_inv() = rma::coherent();
    deprecated fn shmem_set_cache_line_inv(dest: *mut void) = rma::coherent_line(dest);
    deprecated fn shmem_clear_cache_line_inv(dest: *mut void) = rma::coherent_line(dest);
    deprecated fn shmem_udcflush() = rma::coherent();
    deprecated fn shmem_udcflush_line(dest: *mut void) = rma::coherent_line(dest);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[SINGLE, SEVERAL, &[OLD, ORDER, ORDER_ALL, LOCKS, CACHE]];
