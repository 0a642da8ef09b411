//! Arithmetic of C's `long double`, which Rust has no type for: x87 extended precision on x86-64, binary128 on aarch64.

use crate::ctypes::longdouble;
#[cfg(test)]
pub(super) use machine::{VALUE, of_double, of_integer};
pub(super) use machine::{add, line, mul};

#[cfg(target_arch = "x86_64")]
mod machine {
    use super::longdouble;

    /// Bytes that are not padding.
    pub(in super::super) const VALUE: usize = 10;

    /// x87 arithmetic `a op= b` on two 80-bit values in memory.
    macro_rules! x87 {
        ($op:literal, $a:expr, $b:expr) => {
            // SAFETY: both operands are 16-byte locals; the x87 stack is left as it was found.
            unsafe {
                core::arch::asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $op,
                    "fstp tbyte ptr [{a}]",
                    a = in(reg) &raw mut $a.0,
                    b = in(reg) &raw const $b.0,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                )
            }
        };
    }

    pub(in super::super) fn add(mut a: longdouble, b: longdouble) -> longdouble {
        x87!("faddp", a, b);
        a
    }

    pub(in super::super) fn mul(mut a: longdouble, b: longdouble) -> longdouble {
        x87!("fmulp", a, b);
        a
    }

    /// Tells whether it is a NaN, and its bits as an integer that grows with the number, as for the other floats.
    pub(in super::super) fn line(v: &longdouble) -> (bool, i128) {
        const INFINITY: i128 = 0x7fff << 64 | 1 << 63;
        let mut bits = [0; 16];
        bits[..VALUE].copy_from_slice(&v.0[..VALUE]);
        let magnitude = (u128::from_le_bytes(bits) & ((1 << 79) - 1)) as i128;
        (magnitude > INFINITY, if v.0[9] >> 7 != 0 { -1 - magnitude } else { magnitude })
    }

    #[cfg(test)]
    macro_rules! loaded {
        ($load:literal, $v:expr) => {{
            let (v, mut out) = ($v, longdouble([0; 16]));
            // SAFETY: reads a local of 8 bytes, writes a 16-byte local.
            unsafe {
                core::arch::asm!($load, "fstp tbyte ptr [{o}]", v = in(reg) &raw const v,
                    o = in(reg) &raw mut out.0, out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _, options(nostack))
            };
            out
        }};
    }

    #[cfg(test)]
    pub(in super::super) fn of_integer(v: i64) -> longdouble {
        loaded!("fild qword ptr [{v}]", v)
    }

    /// Signalling NaNs become quiet.
    #[cfg(test)]
    pub(in super::super) fn of_double(v: f64) -> longdouble {
        loaded!("fld qword ptr [{v}]", v)
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use super::longdouble;
    use core::arch::aarch64::uint8x16_t;

    /// Bytes that are not padding.
    #[cfg(test)]
    pub(in super::super) const VALUE: usize = 16;

    /// Routines of the compiler's own library. Rust has no type for their operands.
    mod library {
        unsafe extern "C" {
            pub(super) fn __addtf3();
            pub(super) fn __multf3();
            #[cfg(test)]
            pub(super) fn __floatditf();
            #[cfg(test)]
            pub(super) fn __extenddftf2();
        }
    }

    macro_rules! binary {
        ($name:ident, $routine:ident) => {
            pub(in super::super) fn $name(a: longdouble, b: longdouble) -> longdouble {
                // SAFETY: 16 plain bytes each. The routine takes two operands in v0 and v1, returns one in v0, and keeps to the
                // calling convention.
                unsafe {
                    let (a, b): (uint8x16_t, uint8x16_t) = (core::mem::transmute(a.0), core::mem::transmute(b.0));
                    let out: uint8x16_t;
                    core::arch::asm!(
                        "bl {f}", f = sym library::$routine,
                        inlateout("v0") a => out, inlateout("v1") b => _, clobber_abi("C")
                    );
                    longdouble(core::mem::transmute::<uint8x16_t, [u8; 16]>(out))
                }
            }
        };
    }
    binary!(add, __addtf3);
    binary!(mul, __multf3);

    /// Tells whether it is a NaN, and its bits as an integer that grows with the number, as for the other floats.
    pub(in super::super) fn line(v: &longdouble) -> (bool, i128) {
        const INFINITY: i128 = 0x7fff << 112;
        let magnitude = (u128::from_le_bytes(v.0) & ((1 << 127) - 1)) as i128;
        (magnitude > INFINITY, if v.0[15] >> 7 != 0 { -1 - magnitude } else { magnitude })
    }

    #[cfg(test)]
    pub(in super::super) fn of_integer(v: i64) -> longdouble {
        // SAFETY: the routine takes an integer in x0 and returns a number in v0.
        unsafe {
            let out: uint8x16_t;
            core::arch::asm!(
                "bl {f}", f = sym library::__floatditf, inlateout("x0") v => _, lateout("v0") out, clobber_abi("C")
            );
            longdouble(core::mem::transmute::<uint8x16_t, [u8; 16]>(out))
        }
    }

    /// Signalling NaNs become quiet.
    #[cfg(test)]
    pub(in super::super) fn of_double(v: f64) -> longdouble {
        // SAFETY: the routine takes a double in v0, returns a number there.
        unsafe {
            let out: uint8x16_t;
            core::arch::asm!(
                "fmov d0, {v}", "bl {f}", v = in(reg) v.to_bits(), f = sym library::__extenddftf2,
                lateout("v0") out, clobber_abi("C")
            );
            longdouble(core::mem::transmute::<uint8x16_t, [u8; 16]>(out))
        }
    }
}
