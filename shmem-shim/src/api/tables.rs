//! The type tables of the specification: `NAME TYPE` pairs handed to a template macro.
//!
//! `NAME` is the part of the symbol (`shmem_NAME_put`), `TYPE` a name of [`crate::ctypes`].

/// Standard RMA types (table 5 of OpenSHMEM 1.6).
macro_rules! for_std_rma {
    ($template:ident) => {
        $template! {
            float float, double double, longdouble longdouble, char char, schar schar, short short, int int,
            long long, longlong longlong, uchar uchar, ushort ushort, uint uint, ulong ulong,
            ulonglong ulonglong, int8 int8_t, int16 int16_t, int32 int32_t, int64 int64_t, uint8 uint8_t,
            uint16 uint16_t, uint32 uint32_t, uint64 uint64_t, size size_t, ptrdiff ptrdiff_t
        }
    };
}

/// Standard RMA types that are passed and returned by value in ordinary registers: all but `long double`.
macro_rules! for_value_rma {
    ($template:ident) => {
        $template! {
            float float, double double, char char, schar schar, short short, int int,
            long long, longlong longlong, uchar uchar, ushort ushort, uint uint, ulong ulong,
            ulonglong ulonglong, int8 int8_t, int16 int16_t, int32 int32_t, int64 int64_t, uint8 uint8_t,
            uint16 uint16_t, uint32 uint32_t, uint64 uint64_t, size size_t, ptrdiff ptrdiff_t
        }
    };
}

/// Untyped element sizes: `NAME BYTES`.
macro_rules! for_sizes {
    ($template:ident) => {
        $template! { 8 1, 16 2, 32 4, 64 8, 128 16 }
    };
}

/// Standard AMO types; the point-to-point synchronisation routines exist for the same ones.
macro_rules! for_std_amo {
    ($template:ident) => {
        $template! {
            int int, long long, longlong longlong, uint uint, ulong ulong, ulonglong ulonglong, int32 int32_t,
            int64 int64_t, uint32 uint32_t, uint64 uint64_t, size size_t, ptrdiff ptrdiff_t
        }
    };
}

/// Extended AMO types.
macro_rules! for_ext_amo {
    ($template:ident) => {
        $template! {
            float float, double double, int int, long long, longlong longlong, uint uint, ulong ulong,
            ulonglong ulonglong, int32 int32_t, int64 int64_t, uint32 uint32_t, uint64 uint64_t, size size_t,
            ptrdiff ptrdiff_t
        }
    };
}

/// Bitwise AMO types, and the signed ones that other implementations and their programs have besides.
macro_rules! for_bit_amo {
    ($template:ident) => {
        $template! {
            uint uint, ulong ulong, ulonglong ulonglong, int32 int32_t, int64 int64_t, uint32 uint32_t,
            uint64 uint64_t, int int, long long, longlong longlong
        }
    };
}

/// Reduction types with sum and product.
macro_rules! for_sum_reduce {
    ($template:ident) => {
        $template! {
            char char, schar schar, short short, int int, long long, longlong longlong, ptrdiff ptrdiff_t,
            uchar uchar, ushort ushort, uint uint, ulong ulong, ulonglong ulonglong, int8 int8_t,
            int16 int16_t, int32 int32_t, int64 int64_t, uint8 uint8_t, uint16 uint16_t, uint32 uint32_t,
            uint64 uint64_t, size size_t, float float, double double, longdouble longdouble,
            complexd complexd, complexf complexf
        }
    };
}

/// Reduction types with minimum and maximum: as above without the complex ones.
macro_rules! for_minmax_reduce {
    ($template:ident) => {
        $template! {
            char char, schar schar, short short, int int, long long, longlong longlong, ptrdiff ptrdiff_t,
            uchar uchar, ushort ushort, uint uint, ulong ulong, ulonglong ulonglong, int8 int8_t,
            int16 int16_t, int32 int32_t, int64 int64_t, uint8 uint8_t, uint16 uint16_t, uint32 uint32_t,
            uint64 uint64_t, size size_t, float float, double double, longdouble longdouble
        }
    };
}

/// Reduction types with bitwise operations, and those 1.5 implementations had besides.
macro_rules! for_bit_reduce {
    ($template:ident) => {
        $template! {
            uchar uchar, ushort ushort, uint uint, ulong ulong, ulonglong ulonglong, int8 int8_t,
            int16 int16_t, int32 int32_t, int64 int64_t, uint8 uint8_t, uint16 uint16_t, uint32 uint32_t,
            uint64 uint64_t, size size_t, short short, int int, long long, longlong longlong
        }
    };
}

/// Active-set reductions: sum and product.
macro_rules! for_sum_to_all {
    ($template:ident) => {
        $template! {
            short short, int int, long long, longlong longlong, float float, double double,
            longdouble longdouble, complexd complexd, complexf complexf
        }
    };
}

/// Active-set reductions: minimum and maximum.
macro_rules! for_minmax_to_all {
    ($template:ident) => {
        $template! {
            short short, int int, long long, longlong longlong, float float, double double,
            longdouble longdouble
        }
    };
}

/// Active-set reductions: bitwise.
macro_rules! for_bit_to_all {
    ($template:ident) => {
        $template! { short short, int int, long long, longlong longlong }
    };
}
