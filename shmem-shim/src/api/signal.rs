//! Put with signal, and operations on signal words.

use crate::ctypes::*;
use crate::rt::rma::{self, Signal};
use crate::rt::transfer::Transfer;
use crate::rt::wait;

macro_rules! typed {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<LIST_ $n:upper>], ctx;
            current fn [<$n _put_signal>](dest: *mut $T, source: *const $T, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::of(dest, source, nelems), Signal { sig_addr, signal, sig_op }, pe);
            current fn [<$n _put_signal_nbi>](dest: *mut $T, source: *const $T, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::of(dest, source, nelems), Signal { sig_addr, signal, sig_op }, pe);
        })*
        #[cfg(test)]
        const TYPED: &[&[crate::api::Sig]] = &[$([<LIST_ $n:upper>]),*];
    }};
}
for_std_rma!(typed);

macro_rules! sized {
    ($($n:literal $bytes:literal),*) => { ::pastey::paste! {
        $(api_ctx! { [<SIZED_ $n>], ctx;
            current fn [<put $n _signal>](dest: *mut void, source: *const void, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::sized(dest, source, nelems, $bytes), Signal { sig_addr, signal, sig_op }, pe);
            current fn [<put $n _signal_nbi>](dest: *mut void, source: *const void, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::sized(dest, source, nelems, $bytes), Signal { sig_addr, signal, sig_op }, pe);
        })*
        #[cfg(test)]
        const SIZED: &[&[crate::api::Sig]] = &[$([<SIZED_ $n>]),*];
    }};
}
for_sizes!(sized);

api_ctx! { MEM, ctx;
    current fn putmem_signal(dest: *mut void, source: *const void, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::sized(dest, source, nelems, 1), Signal { sig_addr, signal, sig_op }, pe);
    current fn putmem_signal_nbi(dest: *mut void, source: *const void, nelems: size_t, sig_addr: *mut uint64_t, signal: uint64_t, sig_op: int, pe: int) = rma::put_signal(ctx, Transfer::sized(dest, source, nelems, 1), Signal { sig_addr, signal, sig_op }, pe);
    current fn signal_set(sig_addr: *mut uint64_t, signal: uint64_t, pe: int) = rma::signal(ctx, sig_addr, signal, rma::SIGNAL_SET, pe);
    current fn signal_add(sig_addr: *mut uint64_t, signal: uint64_t, pe: int) = rma::signal(ctx, sig_addr, signal, rma::SIGNAL_ADD, pe);
}
api! { LOCAL;
    current fn shmem_signal_fetch(sig_addr: *const uint64_t) -> uint64_t = wait::signal_fetch(sig_addr);
    current fn shmem_signal_wait_until(sig_addr: *mut uint64_t, cmp: int, cmp_value: uint64_t) -> uint64_t = wait::signal_until(sig_addr, cmp, cmp_value);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[TYPED, SIZED, &[MEM, LOCAL]];
