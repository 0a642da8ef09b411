//! Reduction operators: how two vectors of one C type combine.
//!
//! The collectives see an [`Op`]: an element size, a function over raw memory, and whether the
//! hardware reducer of the network knows the operation.

use crate::ctypes::*;
use abi::packet::{ReduceElem, ReduceOp};
use std::marker::PhantomData;

/// One operator on one type.
pub(crate) struct Op {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// `acc[i] = acc[i] op with[i]` for `n` elements.
    ///
    /// # Safety
    /// `acc` is writable and `with` readable for `n` elements of any alignment; no partial overlap.
    pub(crate) combine: unsafe fn(acc: *mut u8, with: *const u8, n: usize),
    /// The same operation in the routers, if they have it.
    pub(crate) tree: Option<(ReduceOp, ReduceElem)>,
}

/// The operators on `T`.
pub(crate) struct Ops<T>(PhantomData<T>);

/// # Safety
/// As [`Op::combine`].
#[inline(always)]
unsafe fn each<T: Copy>(acc: *mut u8, with: *const u8, n: usize, f: impl Fn(T, T) -> T) {
    let (acc, with) = (acc.cast::<T>(), with.cast::<T>());
    for i in 0..n {
        // SAFETY: `i < n`, and both sides hold `n` elements.
        unsafe { acc.add(i).write_unaligned(f(acc.add(i).read_unaligned(), with.add(i).read_unaligned())) };
    }
}

/// What a type offers. An operation the API has no routine for is never called: sums and products
/// exist for all, order for all but complex, bits for integers only, so each has its own trait.
pub(crate) trait Number: Copy + 'static {
    /// Element code of the hardware reducer.
    const ELEM: Option<ReduceElem> = None;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}
/// Types with an order.
pub(crate) trait Ordered: Number {
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}
/// Types with bits.
pub(crate) trait Bits: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

const fn tree(op: ReduceOp, elem: Option<ReduceElem>) -> Option<(ReduceOp, ReduceElem)> {
    match elem {
        Some(elem) => Some((op, elem)),
        None => None,
    }
}

macro_rules! op_of {
    ($bound:ident: $($name:ident $method:ident $tree:expr),*) => {
        impl<T: $bound> Ops<T> {$(
            pub(crate) const $name: &'static Op = {
                /// # Safety
                /// As [`Op::combine`].
                unsafe fn combine<T: $bound>(acc: *mut u8, with: *const u8, n: usize) {
                    // SAFETY: passed on.
                    unsafe { each::<T>(acc, with, n, T::$method) }
                }
                &Op { size: size_of::<T>(), combine: combine::<T>, tree: $tree }
            };
        )*}
    };
}
op_of!(Number: SUM add tree(ReduceOp::Sum, T::ELEM), PROD mul None);
op_of!(Ordered: MIN min tree(ReduceOp::Min, T::ELEM), MAX max tree(ReduceOp::Max, T::ELEM));
op_of!(Bits: AND and None, OR or None, XOR xor None);

macro_rules! integers {
    ($($t:ty, $elem:expr;)*) => {$(
        impl Number for $t {
            const ELEM: Option<ReduceElem> = $elem;
            // C leaves signed overflow undefined; wrapping is what the hardware adds do.
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
        impl Ordered for $t {
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
        }
        impl Bits for $t {
            fn and(self, other: Self) -> Self { self & other }
            fn or(self, other: Self) -> Self { self | other }
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}
integers! {
    i8, None; i16, None; u8, None; u16, None;
    i32, Some(ReduceElem::I32); u32, Some(ReduceElem::U32);
    i64, Some(ReduceElem::I64); u64, Some(ReduceElem::U64);
    isize, Some(ReduceElem::I64); usize, Some(ReduceElem::U64);
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn add(self, other: Self) -> Self { self + other }
            fn mul(self, other: Self) -> Self { self * other }
        }
        impl Ordered for $t {
            fn min(self, other: Self) -> Self { if other < self { other } else { self } }
            fn max(self, other: Self) -> Self { if other > self { other } else { self } }
        }
    )*};
}
floats! { f32 f64 }

macro_rules! complex {
    ($($t:ident)*) => {$(
        impl Number for $t {
            fn add(self, o: Self) -> Self { $t(self.0 + o.0, self.1 + o.1) }
            fn mul(self, o: Self) -> Self { $t(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0) }
        }
    )*};
}
complex! { complexf complexd }

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

impl longdouble {
    /// `self < other`; false if either is NaN.
    fn less(&self, other: &longdouble) -> bool {
        let (below, ordered): (u8, u8);
        // SAFETY: loads two 16-byte values; the x87 stack is left as it was found.
        unsafe {
            core::arch::asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fucomip st(0), st(1)",
                "setb {below}",
                "setnp {ordered}",
                "fstp st(0)",
                a = in(reg) &raw const self.0,
                b = in(reg) &raw const other.0,
                below = out(reg_byte) below,
                ordered = out(reg_byte) ordered,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            )
        };
        below != 0 && ordered != 0
    }
}

impl Number for longdouble {
    fn add(mut self, other: Self) -> Self {
        x87!("faddp", self, other);
        self
    }
    fn mul(mut self, other: Self) -> Self {
        x87!("fmulp", self, other);
        self
    }
}
impl Ordered for longdouble {
    fn min(self, other: Self) -> Self {
        if other.less(&self) { other } else { self }
    }
    fn max(self, other: Self) -> Self {
        if self.less(&other) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<T: Copy>(op: &Op, a: &mut [T], b: &[T]) {
        assert_eq!((op.size, a.len()), (size_of::<T>(), b.len()));
        // SAFETY: two live slices of equal length.
        unsafe { (op.combine)(a.as_mut_ptr().cast(), b.as_ptr().cast(), a.len()) }
    }

    /// 80-bit encoding of a small power of two times an odd integer.
    fn extended(v: i64) -> longdouble {
        let mut out = longdouble([0; 16]);
        // SAFETY: reads an i64 local, writes a 16-byte local.
        unsafe {
            core::arch::asm!("fild qword ptr [{v}]", "fstp tbyte ptr [{o}]", v = in(reg) &raw const v,
                o = in(reg) &raw mut out.0, out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _, options(nostack))
        };
        out
    }

    #[test]
    fn integers_wrap_order_and_mask() {
        let mut a = [i32::MAX, 3, -5];
        apply(Ops::<i32>::SUM, &mut a, &[1, 4, 5]);
        assert_eq!(a, [i32::MIN, 7, 0]);
        apply(Ops::<i32>::MAX, &mut a, &[0, 9, -1]);
        assert_eq!(a, [0, 9, 0]);
        apply(Ops::<i32>::XOR, &mut a, &[5, 1, 2]);
        assert_eq!(a, [5, 8, 2]);
        assert_eq!(Ops::<i32>::MIN.tree, Some((ReduceOp::Min, ReduceElem::I32)));
        assert!(Ops::<i16>::SUM.tree.is_none() && Ops::<i64>::PROD.tree.is_none());
    }

    #[test]
    fn complex_products_follow_the_rule() {
        let mut a = [complexd(1.0, 2.0)];
        apply(Ops::<complexd>::PROD, &mut a, &[complexd(3.0, -1.0)]);
        assert_eq!((a[0].0, a[0].1), (5.0, 5.0));
    }

    #[test]
    fn long_doubles_keep_all_64_bits_of_their_mantissa() {
        let big = (1i64 << 62) + 1;
        let mut a = [extended(big), extended(7), extended(-3)];
        apply(Ops::<longdouble>::SUM, &mut a, &[extended(1 << 62), extended(-7), extended(-4)]);
        // 2^63 + 1 needs 64 bits: a double would round it.
        let mut want = [extended(i64::MAX), extended(0), extended(-7)];
        apply(Ops::<longdouble>::SUM, &mut want, &[extended(2), extended(0), extended(0)]);
        assert!((0..3).all(|i| a[i].0[..10] == want[i].0[..10]));
        apply(Ops::<longdouble>::MIN, &mut a, &[extended(2), extended(1), extended(-9)]);
        let want = [extended(2), extended(0), extended(-9)];
        assert!((0..3).all(|i| a[i].0[..10] == want[i].0[..10]));
    }
}
