//! The C types of the interface, under the names the API tables use.
//!
//! A Rust function signature is the one source of a C prototype: the tables write `*mut int` or
//! `longlong`, the compiler checks it, and the header printer turns the same words into C. So
//! each C type has its own Rust name here, even where two are the same machine type.

#![allow(non_camel_case_types)]

pub(crate) type float = f32;
pub(crate) type double = f64;
/// Signed on x86-64, unsigned on aarch64.
pub(crate) type char = std::ffi::c_char;
pub(crate) type schar = i8;
pub(crate) type short = i16;
pub(crate) type int = i32;
pub(crate) type long = i64;
pub(crate) type longlong = i64;
pub(crate) type uchar = u8;
pub(crate) type ushort = u16;
pub(crate) type uint = u32;
pub(crate) type ulong = u64;
pub(crate) type ulonglong = u64;
pub(crate) type int8_t = i8;
pub(crate) type int16_t = i16;
pub(crate) type int32_t = i32;
pub(crate) type int64_t = i64;
pub(crate) type uint8_t = u8;
pub(crate) type uint16_t = u16;
pub(crate) type uint32_t = u32;
pub(crate) type uint64_t = u64;
pub(crate) type size_t = usize;
pub(crate) type ptrdiff_t = isize;
pub(crate) type void = std::ffi::c_void;

/// `long double` in memory. On x86-64 ten bytes of x87 extended precision and six of padding, on aarch64 binary128.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct longdouble(pub(crate) [u8; 16]);

/// `long double` as a parameter. The C type travels in memory (class X87 of the System V ABI), which
/// Rust does for an aggregate above 16 bytes; the argument slot is its first 16 bytes.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct longdouble_arg([u8; 32]);

/// `long double` as a parameter and as a result: it travels in a vector register, as a short vector does (AAPCS64, 6.8.2).
#[cfg(target_arch = "aarch64")]
pub(crate) type longdouble_arg = core::arch::aarch64::uint8x16_t;

/// `float _Complex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct complexf(pub(crate) f32, pub(crate) f32);

/// `double _Complex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct complexd(pub(crate) f64, pub(crate) f64);

/// Opaque context handle: an index, see [`crate::rt::handles`].
pub(crate) type shmem_ctx_t = usize;
/// Opaque team handle: an index, see [`crate::rt::handles`].
pub(crate) type shmem_team_t = usize;

/// `shmem_team_config_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct shmem_team_config_t {
    pub(crate) num_contexts: int,
}

/// `shmem_ctx_session_config_t`; sessions are hints, and this library needs none.
#[repr(C)]
pub(crate) struct shmem_ctx_session_config_t {
    _total_ops: size_t,
}

/// How a routine is called in messages: one register instead of the two of a `&str`.
pub(crate) type Name = &'static &'static str;

/// Values an atomic moves: their bits in the low end of a 64-bit word.
pub(crate) trait Word: Copy {
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! words {
    ($($t:ty => |$v:ident| $to:expr, |$b:ident| $from:expr;)*) => {$(
        impl Word for $t {
            #[inline]
            fn bits(self) -> u64 { let $v = self; $to }
            #[inline]
            fn from_bits($b: u64) -> Self { $from }
        }
    )*};
}
words! {
    i32 => |v| v as u32 as u64, |b| b as i32;
    u32 => |v| v as u64, |b| b as u32;
    i64 => |v| v as u64, |b| b as i64;
    u64 => |v| v, |b| b;
    isize => |v| v as u64, |b| b as isize;
    usize => |v| v as u64, |b| b as usize;
    f32 => |v| v.to_bits() as u64, |b| f32::from_bits(b as u32);
    f64 => |v| v.to_bits(), |b| f64::from_bits(b);
}

const _: () = assert!(size_of::<longdouble>() == 16 && size_of::<longdouble_arg>() >= 16);
