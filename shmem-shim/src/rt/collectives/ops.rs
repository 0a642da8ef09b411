//! Reduction operators: how two vectors of one C type combine.
//!
//! The collectives see an [`Op`]: an element size, a function over raw memory, and whether the
//! hardware reducer of the network knows the operation.
//!
//! Minimum and maximum follow one order of all bit patterns each, so the result has the same bits
//! whatever the order in which values meet: −0 lies below +0, and a NaN beats every number, as IEEE 754-2019
//! has it for `minimum` and `maximum`; which one, if there are several, depends on their bits alone. The
//! routers know integers only: they get the ranks of floating-point numbers in that order.

use super::longdoubles;
use crate::ctypes::*;
use angara_abi::packet::{ReduceElem, ReduceOp};
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
    pub(crate) tree: Option<InRouters>,
}

/// Changes a number of elements in place.
type InPlace = unsafe fn(*mut u8, usize);

/// An operation of the routers that does the same on integers.
#[derive(Clone, Copy)]
pub(crate) struct InRouters {
    pub(crate) op: ReduceOp,
    pub(crate) elem: ReduceElem,
    /// Makes integers of elements, and elements of integers again; nothing for integers.
    pub(crate) ranks: Option<[InPlace; 2]>,
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

/// Operations of a type. An operation the API has no routine for is never called: sums and products
/// exist for all, order for all but complex, bits for integers only, so each has its own trait.
pub(crate) trait Number: Copy + 'static {
    /// Element code of the hardware reducer.
    const ELEM: Option<ReduceElem> = None;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}
/// Types with an order.
pub(crate) trait Ordered: Number {
    /// The routers' minimum and maximum.
    const IN_ROUTERS: [Option<InRouters>; 2] = [tree(ReduceOp::Min, Self::ELEM), tree(ReduceOp::Max, Self::ELEM)];
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}
/// Types with bits.
pub(crate) trait Bits: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

const fn tree(op: ReduceOp, elem: Option<ReduceElem>) -> Option<InRouters> {
    match elem {
        Some(elem) => Some(InRouters { op, elem, ranks: None }),
        None => None,
    }
}

/// Changes `n` values in place.
///
/// # Safety
/// `at` is readable and writable for `n` values of any alignment.
unsafe fn change<T: Copy, U: Copy>(at: *mut u8, n: usize, f: impl Fn(T) -> U) {
    const { assert!(size_of::<T>() == size_of::<U>()) };
    for i in 0..n {
        // SAFETY: `i < n`, and both types have one size.
        unsafe { at.cast::<U>().add(i).write_unaligned(f(at.cast::<T>().add(i).read_unaligned())) };
    }
}

macro_rules! op_of {
    ($bound:ident: $($name:ident $method:ident $tree:expr),*) => {
        impl<T: $bound> Ops<T> {$(
            pub(crate) const $name: &'static Op = {
                /// # Safety
                /// As [`Op::combine`].
                unsafe fn combine<T: $bound>(acc: *mut u8, with: *const u8, n: usize) {
                    // SAFETY: the caller promises what the callee asks for.
                    unsafe { each::<T>(acc, with, n, T::$method) }
                }
                &Op { size: size_of::<T>(), combine: combine::<T>, tree: $tree }
            };
        )*}
    };
}
op_of!(Number: SUM add tree(ReduceOp::Sum, T::ELEM), PROD mul None);
op_of!(Ordered: MIN min T::IN_ROUTERS[0], MAX max T::IN_ROUTERS[1]);
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

/// Ranks of floats: their bits as integers that grow with the number (negative NaNs, numbers from −infinity to +infinity,
/// positive NaNs), turned so that all NaNs lie at the end where they win.
macro_rules! floats {
    ($($t:ident $signed:ident $unsigned:ident $elem:ident)*) => {$(
        impl Number for $t {
            fn add(self, other: Self) -> Self { self + other }
            fn mul(self, other: Self) -> Self { self * other }
        }
        const _: () = {
            const fn flip(bits: $signed) -> $signed {
                bits ^ ((bits >> ($signed::BITS - 1)) as $unsigned >> 1) as $signed
            }
            const LEAST: $signed = flip($t::NEG_INFINITY.to_bits() as $signed);
            const GREATEST: $signed = flip($t::INFINITY.to_bits() as $signed);
            // Behind +infinity come the NaNs, and then, around the end of the numbers, the negative ones.
            const BEHIND: $signed = GREATEST.wrapping_add(1);
            fn rank(v: $t, first: $signed) -> $unsigned { flip(v.to_bits() as $signed).wrapping_sub(first) as $unsigned }
            fn value(rank: $unsigned, first: $signed) -> $t {
                $t::from_bits(flip((rank as $signed).wrapping_add(first)) as $unsigned)
            }
            /// # Safety
            /// As [`change`].
            unsafe fn ranks<const MAX: bool>(at: *mut u8, n: usize) {
                // SAFETY: the caller promises what the callee asks for.
                unsafe { change(at, n, |v: $t| rank(v, if MAX { LEAST } else { BEHIND })) }
            }
            /// # Safety
            /// As [`change`].
            unsafe fn values<const MAX: bool>(at: *mut u8, n: usize) {
                // SAFETY: the caller promises what the callee asks for.
                unsafe { change(at, n, |r: $unsigned| value(r, if MAX { LEAST } else { BEHIND })) }
            }
            impl Ordered for $t {
                const IN_ROUTERS: [Option<InRouters>; 2] = [
                    Some(InRouters {
                        op: ReduceOp::Min, elem: ReduceElem::$elem, ranks: Some([ranks::<false>, values::<false>]),
                    }),
                    Some(InRouters {
                        op: ReduceOp::Max, elem: ReduceElem::$elem, ranks: Some([ranks::<true>, values::<true>]),
                    }),
                ];
                fn min(self, other: Self) -> Self {
                    if rank(other, BEHIND) < rank(self, BEHIND) { other } else { self }
                }
                fn max(self, other: Self) -> Self {
                    if rank(other, LEAST) > rank(self, LEAST) { other } else { self }
                }
            }
        };
    )*};
}
floats! { f32 i32 u32 U32 f64 i64 u64 U64 }

macro_rules! complex {
    ($($t:ident)*) => {$(
        impl Number for $t {
            fn add(self, o: Self) -> Self { $t(self.0 + o.0, self.1 + o.1) }
            fn mul(self, o: Self) -> Self { $t(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0) }
        }
    )*};
}
complex! { complexf complexd }

impl Number for longdouble {
    fn add(self, other: Self) -> Self {
        longdoubles::add(self, other)
    }
    fn mul(self, other: Self) -> Self {
        longdoubles::mul(self, other)
    }
}
impl Ordered for longdouble {
    fn min(self, other: Self) -> Self {
        let rank = |v: &longdouble| (!longdoubles::line(v).0, longdoubles::line(v).1);
        if rank(&other) < rank(&self) { other } else { self }
    }
    fn max(self, other: Self) -> Self {
        if longdoubles::line(&other) > longdoubles::line(&self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::longdoubles::VALUE;
    use super::*;

    fn apply<T: Copy>(op: &Op, a: &mut [T], b: &[T]) {
        assert_eq!((op.size, a.len()), (size_of::<T>(), b.len()));
        // SAFETY: two live slices of equal length.
        unsafe { (op.combine)(a.as_mut_ptr().cast(), b.as_ptr().cast(), a.len()) }
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
        let min = Ops::<i32>::MIN.tree.expect("the routers have it");
        assert!(min.op == ReduceOp::Min && min.elem == ReduceElem::I32 && min.ranks.is_none());
        assert!(Ops::<i16>::SUM.tree.is_none() && Ops::<i64>::PROD.tree.is_none());
    }

    /// Bits of minimum and maximum of two numbers as the routers find them, which compare integers.
    fn by_routers(a: f64, b: f64) -> [u64; 2] {
        [Ops::<f64>::MIN, Ops::<f64>::MAX].map(|op| {
            let InRouters { op, elem, ranks } = op.tree.expect("the routers have it");
            let [to_ranks, from_ranks] = ranks.expect("they compare integers");
            let mut both = [a, b];
            // SAFETY: the array holds two numbers, and then one.
            unsafe { to_ranks(both.as_mut_ptr().cast(), 2) };
            let [x, y] = both.map(f64::to_bits);
            assert_eq!(elem, ReduceElem::U64);
            let mut won = f64::from_bits(if op == ReduceOp::Min { Ord::min(x, y) } else { Ord::max(x, y) });
            // SAFETY: the array holds two numbers, and then one.
            unsafe { from_ranks((&raw mut won).cast(), 1) };
            won.to_bits()
        })
    }

    #[test]
    fn minimum_and_maximum_do_not_depend_on_the_order_of_operands() {
        let doubles = [0x7ff8_0000_0000_0001u64, 0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 0xfff0_0000_0000_0002]
            .map(f64::from_bits);
        let numbers = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, -5e-324];
        let extended = longdoubles::of_double;
        for a in doubles.iter().chain(&numbers).copied() {
            for b in doubles.iter().chain(&numbers).copied() {
                let (low, high) = (Ordered::min(a, b), Ordered::max(a, b));
                assert_eq!(
                    (low.to_bits(), high.to_bits()),
                    (Ordered::min(b, a).to_bits(), Ordered::max(b, a).to_bits())
                );
                let (l, h) = (Ordered::min(extended(a), extended(b)), Ordered::max(extended(a), extended(b)));
                assert_eq!(l.0[..VALUE], Ordered::min(extended(b), extended(a)).0[..VALUE]);
                assert_eq!(h.0[..VALUE], Ordered::max(extended(b), extended(a)).0[..VALUE]);
                assert_eq!([low.to_bits(), high.to_bits()], by_routers(a, b));
                let (x, y) = (a as f32, b as f32);
                assert_eq!(Ordered::min(x, y).to_bits(), Ordered::min(y, x).to_bits());
                assert_eq!(Ordered::max(x, y).to_bits(), Ordered::max(y, x).to_bits());
                if a.is_nan() || b.is_nan() {
                    assert!(low.is_nan() && high.is_nan(), "{a} {b}");
                    assert!(
                        longdoubles::line(&l).0
                            && longdoubles::line(&h).0
                            && Ordered::min(x, y).is_nan()
                            && Ordered::max(x, y).is_nan()
                    );
                } else {
                    assert!(low.total_cmp(&high).is_le() && low == a.min(b) && high == a.max(b), "{a} {b}");
                    assert!(l.0[..VALUE] == extended(low).0[..VALUE] && h.0[..VALUE] == extended(high).0[..VALUE]);
                    assert_eq!(Ordered::min(x, y).to_bits(), (low as f32).to_bits());
                    assert_eq!(Ordered::max(x, y).to_bits(), (high as f32).to_bits());
                }
            }
        }
    }

    #[test]
    fn complex_products_follow_the_rule() {
        let mut a = [complexd(1.0, 2.0)];
        apply(Ops::<complexd>::PROD, &mut a, &[complexd(3.0, -1.0)]);
        assert_eq!((a[0].0, a[0].1), (5.0, 5.0));
    }

    #[test]
    fn long_doubles_keep_all_bits_of_their_mantissa() {
        // 2^63 + 1 needs 64 bits: a double would round it.
        let (big, extended) = ((1i64 << 62) + 1, longdoubles::of_integer);
        let mut a = [extended(big), extended(7), extended(-3)];
        apply(Ops::<longdouble>::SUM, &mut a, &[extended(1 << 62), extended(-7), extended(-4)]);
        let mut want = [extended(i64::MAX), extended(0), extended(-7)];
        apply(Ops::<longdouble>::SUM, &mut want, &[extended(2), extended(0), extended(0)]);
        assert!((0..3).all(|i| a[i].0[..VALUE] == want[i].0[..VALUE]));
        apply(Ops::<longdouble>::MIN, &mut a, &[extended(2), extended(1), extended(-9)]);
        let want = [extended(2), extended(0), extended(-9)];
        assert!((0..3).all(|i| a[i].0[..VALUE] == want[i].0[..VALUE]));
        let mut a = [extended(3), extended(-5), extended((1 << 31) + 1)];
        apply(Ops::<longdouble>::PROD, &mut a, &[extended(-7), extended(0), extended((1 << 31) - 1)]);
        let mut want = [extended(-21), extended(0), extended((1 << 62) - 1)];
        apply(Ops::<longdouble>::PROD, &mut want, &[extended(1), extended(-1), extended(1)]);
        assert!((0..3).all(|i| a[i].0[..VALUE] == want[i].0[..VALUE]));
    }
}
