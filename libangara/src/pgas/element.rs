//! What may be an element of a symmetric array.

use bytemuck::Pod;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

/// Refuses types when the program is compiled: each function that makes an array evaluates `Fits::<T>::CHECKED`.
pub(super) struct Fits<T>(PhantomData<T>);

impl<T> Fits<T> {
    pub(super) const CHECKED: () = {
        assert!(size_of::<T>() > 0, "an element of a symmetric array has one byte at least");
        assert!(align_of::<T>() <= 4096, "an element of a symmetric array is aligned to 4096 bytes at most");
    };
}

mod sealed {
    pub trait Sealed {}
}

/// A number of 4 or 8 bytes: what the network can replace, and compare, in one step.
pub trait Word: Pod + Display + Debug + PartialOrd + Send + Sync + sealed::Sealed {
    #[doc(hidden)]
    fn to_bits64(self) -> u64;
    #[doc(hidden)]
    fn from_bits64(bits: u64) -> Self;
}

/// An integer of 4 or 8 bytes: what the network can count with, and what a PE can wait for.
pub trait Integer: Word + Ord {
    #[doc(hidden)]
    const SIGNED: bool;
}

macro_rules! integer {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            #[inline(always)]
            fn to_bits64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_bits64(bits: u64) -> $t {
                bits as $t
            }
        }
        impl Integer for $t {
            const SIGNED: bool = <$t>::MIN != 0;
        }
    )*};
}
integer!(u32, i32, u64, i64);
#[cfg(target_pointer_width = "64")]
integer!(usize, isize);

macro_rules! float {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            #[inline(always)]
            fn to_bits64(self) -> u64 {
                self.to_bits().into()
            }
            #[inline(always)]
            fn from_bits64(bits: u64) -> $t {
                <$t>::from_bits(bits as _)
            }
        }
    )*};
}
float!(f32, f64);

/// How an element compares with a value, for [`super::Context::wait_until`] and [`super::Context::test`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is<T> {
    /// Equal to it.
    Equal(T),
    /// Other than it.
    Other(T),
    /// More than it.
    Above(T),
    /// It, or more.
    AtLeast(T),
    /// Less than it.
    Below(T),
    /// It, or less.
    AtMost(T),
}

impl<T: Integer> Is<T> {
    /// Number of the relation in `shmem.h`, its sign, and the value.
    fn parts(self) -> (u8, &'static str, T) {
        match self {
            Is::Equal(v) => (1, "==", v),
            Is::Other(v) => (2, "!=", v),
            Is::Above(v) => (3, ">", v),
            Is::AtLeast(v) => (4, ">=", v),
            Is::Below(v) => (5, "<", v),
            Is::AtMost(v) => (6, "<=", v),
        }
    }

    /// True if `now` compares so.
    #[inline(always)]
    pub fn holds(self, now: T) -> bool {
        match self {
            Is::Equal(v) => now == v,
            Is::Other(v) => now != v,
            Is::Above(v) => now > v,
            Is::AtLeast(v) => now >= v,
            Is::Below(v) => now < v,
            Is::AtMost(v) => now <= v,
        }
    }

    /// As the data plane is told of it.
    pub(super) fn comparison(self) -> crate::Comparison {
        let (relation, _, value) = self.parts();
        crate::Comparison { width: size_of::<T>() as u8, signed: T::SIGNED, relation, value: value.to_bits64() }
    }
}

impl<T: Integer> Display for Is<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (_, sign, value) = self.parts();
        write!(f, "{sign} {value}")
    }
}

/// What combines elements in reductions and scans: one of the types here, or a function of two elements that is
/// associative. It is called in the order of PEs, so it need not be commutative.
pub trait Operation<T> {
    /// The combination of what lower PEs have with what higher ones have.
    fn combine(&self, lower: T, higher: T) -> T;
}

impl<T, F: Fn(T, T) -> T> Operation<T> for F {
    fn combine(&self, lower: T, higher: T) -> T {
        self(lower, higher)
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name;
    )*};
}
operations! {
    /// The sum; integers wrap around.
    Sum
    /// The product; integers wrap around.
    Product
    /// The smallest.
    Min
    /// The largest.
    Max
    /// Bits that are set in all.
    And
    /// Bits that are set in some.
    Or
    /// Bits that are set in an odd number.
    Xor
}

macro_rules! arithmetic {
    ($op:ident: $($t:ty),* => |$a:ident, $b:ident| $body:expr) => {$(
        impl Operation<$t> for $op {
            #[inline]
            fn combine(&self, $a: $t, $b: $t) -> $t {
                $body
            }
        }
    )*};
}
macro_rules! for_integers {
    ($($t:ty),*) => {
        arithmetic!(Sum: $($t),* => |a, b| a.wrapping_add(b));
        arithmetic!(Product: $($t),* => |a, b| a.wrapping_mul(b));
        arithmetic!(Min: $($t),* => |a, b| a.min(b));
        arithmetic!(Max: $($t),* => |a, b| a.max(b));
        arithmetic!(And: $($t),* => |a, b| a & b);
        arithmetic!(Or: $($t),* => |a, b| a | b);
        arithmetic!(Xor: $($t),* => |a, b| a ^ b);
    };
}
for_integers!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize);
arithmetic!(Sum: f32, f64 => |a, b| a + b);
arithmetic!(Product: f32, f64 => |a, b| a * b);
arithmetic!(Min: f32, f64 => |a, b| a.min(b));
arithmetic!(Max: f32, f64 => |a, b| a.max(b));
