//! Put, get and their strided, block-strided, single-element and non-blocking forms.

use crate::ctypes::*;
use crate::rt::rma;
use crate::rt::transfer::{Strides, Transfer};

macro_rules! typed {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<LIST_ $n:upper>], ctx;
            current fn [<$n _put>](dest: *mut $T, source: *const $T, nelems: size_t, pe: int) = rma::put(ctx, Transfer::of(dest, source, nelems), pe);
            current fn [<$n _get>](dest: *mut $T, source: *const $T, nelems: size_t, pe: int) = rma::get(ctx, Transfer::of(dest, source, nelems), pe);
            current fn [<$n _put_nbi>](dest: *mut $T, source: *const $T, nelems: size_t, pe: int) = rma::put_nbi(ctx, Transfer::of(dest, source, nelems), pe);
            current fn [<$n _get_nbi>](dest: *mut $T, source: *const $T, nelems: size_t, pe: int) = rma::get_nbi(ctx, Transfer::of(dest, source, nelems), pe);
            current fn [<$n _iput>](dest: *mut $T, source: *const $T, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t, pe: int) = rma::ibput(ctx, Transfer::of(dest, source, 1), Strides { dst, sst }, nelems, pe);
            current fn [<$n _iget>](dest: *mut $T, source: *const $T, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t, pe: int) = rma::ibget(ctx, Transfer::of(dest, source, 1), Strides { dst, sst }, nelems, pe);
            current fn [<$n _ibput>](dest: *mut $T, source: *const $T, dst: ptrdiff_t, sst: ptrdiff_t, bsize: size_t, nblocks: size_t, pe: int) = rma::ibput(ctx, Transfer::of(dest, source, bsize), Strides { dst, sst }, nblocks, pe);
            current fn [<$n _ibget>](dest: *mut $T, source: *const $T, dst: ptrdiff_t, sst: ptrdiff_t, bsize: size_t, nblocks: size_t, pe: int) = rma::ibget(ctx, Transfer::of(dest, source, bsize), Strides { dst, sst }, nblocks, pe);
        })*
        #[cfg(test)]
        const TYPED: &[&[crate::api::Sig]] = &[$([<LIST_ $n:upper>]),*];
    }};
}
for_std_rma!(typed);

macro_rules! value {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api_ctx! { [<VALUE_ $n:upper>], ctx;
            current fn [<$n _p>](dest: *mut $T, value: $T, pe: int) = rma::p(ctx, dest, value, pe);
            current fn [<$n _g>](source: *const $T, pe: int) -> $T = rma::g(ctx, source, pe);
        })*
        #[cfg(test)]
        const VALUE: &[&[crate::api::Sig]] = &[$([<VALUE_ $n:upper>]),*];
    }};
}
for_value_rma!(value);

api_ctx! { LONGDOUBLE_P, ctx;
    current fn longdouble_p(dest: *mut longdouble, value: longdouble_arg, pe: int) = rma::put(ctx, Transfer::of(dest, (&raw const value).cast(), 1), pe);
}

/// On x86-64 `long double` results travel in st(0), which Rust cannot return: fetch into memory, then `fld`.
#[cfg(target_arch = "x86_64")]
macro_rules! returns_longdouble {
    ($name:ident ( $($a:ident : $t:ty),* ) via $inner:ident, out $reg:literal) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name($($a: $t),*) {
            core::arch::naked_asm!(
                "sub rsp, 24",
                concat!("mov ", $reg, ", rsp"),
                "call {inner}",
                "fld tbyte ptr [rsp]",
                "add rsp, 24",
                "ret",
                inner = sym $inner
            )
        }
    };
}
/// On aarch64 they travel in v0, as a vector of bytes does.
#[cfg(target_arch = "aarch64")]
macro_rules! returns_longdouble {
    ($name:ident ( $($a:ident : $t:ty),* ) via $inner:ident, out $reg:literal) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($a: $t),*) -> longdouble_arg {
            let mut out = longdouble([0; 16]);
            // SAFETY: the caller promises what the callee asks for, and the result is 16 plain bytes.
            unsafe {
                $inner($($a,)* &raw mut out);
                core::mem::transmute::<[u8; 16], longdouble_arg>(out.0)
            }
        }
    };
}

macro_rules! longdouble_g {
    ($list:ident; $($name:ident ( $($a:ident : $t:ty),* ) via $inner:ident, out $reg:literal;)*) => { ::pastey::paste! {
        $(
            returns_longdouble!($name($($a: $t),*) via $inner, out $reg);
            returns_longdouble!([<p $name>]($($a: $t),*) via $inner, out $reg);
        )*
        #[cfg(test)]
        const $list: &[crate::api::Sig] = &[$(crate::api::Sig {
            name: stringify!($name),
            deprecated: false,
            args: &[$((stringify!($a), stringify!($t))),*],
            ret: "longdouble",
        }),*];
    }};
}

unsafe extern "C" fn longdouble_g_into(source: *const longdouble, pe: int, out: *mut longdouble) {
    same_for_all!(&"shmem_longdouble_g", "longdouble_g");
    let ctx = crate::rt::handles::CTX_DEFAULT;
    // SAFETY: `out` is the caller's stack slot of 16 bytes; the source is checked.
    unsafe { rma::get(&"shmem_longdouble_g", ctx, Transfer::of(out, source, 1), pe) }
}
unsafe extern "C" fn ctx_longdouble_g_into(ctx: shmem_ctx_t, source: *const longdouble, pe: int, out: *mut longdouble) {
    same_for_all!(&"shmem_ctx_longdouble_g", "longdouble_g");
    // SAFETY: `out` is the caller's stack slot of 16 bytes; the source is checked.
    unsafe { rma::get(&"shmem_ctx_longdouble_g", ctx, Transfer::of(out, source, 1), pe) }
}
longdouble_g! { LONGDOUBLE_G;
    shmem_longdouble_g(source: *const longdouble, pe: int) via longdouble_g_into, out "rdx";
    shmem_ctx_longdouble_g(ctx: shmem_ctx_t, source: *const longdouble, pe: int) via ctx_longdouble_g_into, out "rcx";
}

macro_rules! sized {
    ($($n:literal $bytes:literal),*) => { ::pastey::paste! {
        $(api_ctx! { [<SIZED_ $n>], ctx;
            current fn [<put $n>](dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::put(ctx, Transfer::sized(dest, source, nelems, $bytes), pe);
            current fn [<get $n>](dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::get(ctx, Transfer::sized(dest, source, nelems, $bytes), pe);
            current fn [<put $n _nbi>](dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::put_nbi(ctx, Transfer::sized(dest, source, nelems, $bytes), pe);
            current fn [<get $n _nbi>](dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::get_nbi(ctx, Transfer::sized(dest, source, nelems, $bytes), pe);
            current fn [<iput $n>](dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t, pe: int) = rma::ibput(ctx, Transfer::sized(dest, source, 1, $bytes), Strides { dst, sst }, nelems, pe);
            current fn [<iget $n>](dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t, pe: int) = rma::ibget(ctx, Transfer::sized(dest, source, 1, $bytes), Strides { dst, sst }, nelems, pe);
            current fn [<ibput $n>](dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, bsize: size_t, nblocks: size_t, pe: int) = rma::ibput(ctx, Transfer::sized(dest, source, bsize, $bytes), Strides { dst, sst }, nblocks, pe);
            current fn [<ibget $n>](dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, bsize: size_t, nblocks: size_t, pe: int) = rma::ibget(ctx, Transfer::sized(dest, source, bsize, $bytes), Strides { dst, sst }, nblocks, pe);
        })*
        #[cfg(test)]
        const SIZED: &[&[crate::api::Sig]] = &[$([<SIZED_ $n>]),*];
    }};
}
for_sizes!(sized);

api_ctx! { MEM, ctx;
    current fn putmem(dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::put(ctx, Transfer::sized(dest, source, nelems, 1), pe);
    current fn getmem(dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::get(ctx, Transfer::sized(dest, source, nelems, 1), pe);
    current fn putmem_nbi(dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::put_nbi(ctx, Transfer::sized(dest, source, nelems, 1), pe);
    current fn getmem_nbi(dest: *mut void, source: *const void, nelems: size_t, pe: int) = rma::get_nbi(ctx, Transfer::sized(dest, source, nelems, 1), pe);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[TYPED, VALUE, &[LONGDOUBLE_P, LONGDOUBLE_G], SIZED, &[MEM]];
