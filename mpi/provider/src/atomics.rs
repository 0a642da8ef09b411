//! Atomic operations on bytes: every datatype and operation of libfabric but 128-bit integers and `long double`.
//!
//! Elements of up to 8 bytes are changed by one atomic step of the processor, whoever does it: the initiator, where it reaches
//! the target's memory by itself, or the target's progress. All others the target's progress changes, one after the other.

use crate::memory::{Span, UserMemory};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Bytes of a datatype, by its number in libfabric; nothing if it is not supported.
pub(crate) fn size(datatype: i32) -> Option<usize> {
    [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16].get(usize::try_from(datatype).ok()?).copied()
}

/// Arguments and results of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// An operand; may give the old value.
    Update,
    /// No operand; gives the old value.
    Read,
    /// An operand and a comparand or mask; gives the old value.
    Compare,
}

const READ: i32 = 10;
const WRITE: i32 = 11;
const CSWAP: i32 = 12;
const MSWAP: i32 = 18;

pub(crate) fn shape(op: i32) -> Option<Shape> {
    match op {
        READ => Some(Shape::Read),
        0..=WRITE => Some(Shape::Update),
        CSWAP..=MSWAP => Some(Shape::Compare),
        _ => None,
    }
}

/// True if `op` is defined on `datatype`.
pub(crate) fn is_defined(datatype: i32, op: i32) -> bool {
    let (Some(size), Some(_)) = (size(datatype), shape(op)) else { return false };
    let (mut target, operand, compare) = ([0; 16], [0; 16], [0; 16]);
    apply(datatype, op, &mut target[..size], &operand[..size], &compare[..size])
}

trait Element: Copy + PartialEq {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    /// The new value; nothing if the operation is not defined.
    fn combine(op: i32, old: Self, operand: Self, compare: Self) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Element for $t {
            fn read(bytes: &[u8]) -> $t {
                <$t>::from_ne_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            fn combine(op: i32, old: $t, operand: $t, compare: $t) -> Option<$t> {
                let truth = |value: bool| <$t>::from(value);
                Some(match op {
                    0 => old.min(operand),
                    1 => old.max(operand),
                    2 => old.wrapping_add(operand),
                    3 => old.wrapping_mul(operand),
                    4 => truth(old != 0 || operand != 0),
                    5 => truth(old != 0 && operand != 0),
                    6 => old | operand,
                    7 => old & operand,
                    8 => truth((old != 0) != (operand != 0)),
                    9 => old ^ operand,
                    MSWAP => (operand & compare) | (old & !compare),
                    _ => return ordered(op, old, operand, compare),
                })
            }
        }
    )*};
}
integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Element for $t {
            fn read(bytes: &[u8]) -> $t {
                <$t>::from_ne_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            fn combine(op: i32, old: $t, operand: $t, compare: $t) -> Option<$t> {
                let truth = |value: bool| if value { 1.0 } else { 0.0 };
                Some(match op {
                    0 => old.min(operand),
                    1 => old.max(operand),
                    2 => old + operand,
                    3 => old * operand,
                    4 => truth(old != 0.0 || operand != 0.0),
                    5 => truth(old != 0.0 && operand != 0.0),
                    8 => truth((old != 0.0) != (operand != 0.0)),
                    _ => return ordered(op, old, operand, compare),
                })
            }
        }
    )*};
}
floats!(f32 f64);

/// Returns what needs no more than comparisons. A swap compares the comparand with what is there: `compare OP old`.
fn ordered<T: PartialOrd + Copy>(op: i32, old: T, operand: T, compare: T) -> Option<T> {
    let swap = match op {
        READ => false,
        WRITE => true,
        CSWAP => compare == old,
        13 => compare != old,
        14 => compare <= old,
        15 => compare < old,
        16 => compare >= old,
        17 => compare > old,
        _ => return None,
    };
    Some(if swap { operand } else { old })
}

/// Real and imaginary part.
#[derive(Clone, Copy, PartialEq)]
struct Complex<T>(T, T);

macro_rules! complex {
    ($($t:ty)*) => {$(
        impl Element for Complex<$t> {
            fn read(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                Complex(<$t>::read(re), <$t>::read(im))
            }
            fn write(self, bytes: &mut [u8]) {
                let half = bytes.len() / 2;
                let (re, im) = bytes.split_at_mut(half);
                self.0.write(re);
                self.1.write(im);
            }
            fn combine(op: i32, old: Self, operand: Self, compare: Self) -> Option<Self> {
                let (Complex(a, b), Complex(c, d)) = (old, operand);
                let (is, also) = ((a, b) != (0.0, 0.0), (c, d) != (0.0, 0.0));
                let truth = |value: bool| Complex(if value { 1.0 } else { 0.0 }, 0.0);
                Some(match op {
                    2 => Complex(a + c, b + d),
                    3 => Complex(a * c - b * d, a * d + b * c),
                    4 => truth(is || also),
                    5 => truth(is && also),
                    8 => truth(is != also),
                    READ => old,
                    WRITE => operand,
                    CSWAP => if compare == old { operand } else { old },
                    13 => if compare != old { operand } else { old },
                    _ => return None,
                })
            }
        }
    )*};
}
complex!(f32 f64);

fn each<T: Element>(op: i32, target: &mut [u8], operand: &[u8], compare: &[u8]) -> bool {
    let size = std::mem::size_of::<T>();
    for at in (0..target.len()).step_by(size) {
        let range = at..at + size;
        let old = T::read(&target[range.clone()]);
        // Arguments that an operation does not take may be absent.
        let other = |bytes: &[u8]| bytes.get(range.clone()).map_or(old, T::read);
        match T::combine(op, old, other(operand), other(compare)) {
            Some(new) => new.write(&mut target[range]),
            None => return false,
        }
    }
    true
}

/// Applies `op` to every element of `target`. False if the operation is not defined on the datatype.
pub(crate) fn apply(datatype: i32, op: i32, target: &mut [u8], operand: &[u8], compare: &[u8]) -> bool {
    let apply = match datatype {
        0 => each::<i8>,
        1 => each::<u8>,
        2 => each::<i16>,
        3 => each::<u16>,
        4 => each::<i32>,
        5 => each::<u32>,
        6 => each::<i64>,
        7 => each::<u64>,
        8 => each::<f32>,
        9 => each::<f64>,
        10 => each::<Complex<f32>>,
        11 => each::<Complex<f64>>,
        _ => return false,
    };
    apply(op, target, operand, compare)
}

/// Changes a word of 1, 2, 4 or 8 bytes in one step. Returns the old one.
///
/// # Safety
/// `at` is a multiple of `size`, and a word of that size is there.
unsafe fn step(at: *mut u8, size: usize, change: impl Fn(&mut [u8])) -> [u8; 8] {
    macro_rules! word {
        ($t:ty, $atomic:ty) => {{
            // SAFETY: the caller's promise; others who have this memory change it by atomics, too.
            let word = unsafe { <$atomic>::from_ptr(at.cast::<$t>()) };
            let mut old = word.load(Ordering::Acquire);
            loop {
                let mut bytes = old.to_ne_bytes();
                change(&mut bytes);
                let new = <$t>::from_ne_bytes(bytes);
                match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(now) => old = now,
                }
            }
            let mut was = [0; 8];
            was[..size].copy_from_slice(&old.to_ne_bytes());
            was
        }};
    }
    match size {
        1 => word!(u8, AtomicU8),
        2 => word!(u16, AtomicU16),
        4 => word!(u32, AtomicU32),
        _ => word!(u64, AtomicU64),
    }
}

/// Applies `op` to every element of `target`, each in one atomic step. Returns the old bytes. Nothing, and nothing is changed, if
/// the operation is not defined, or elements are too long for that or not aligned.
pub(crate) fn update(
    target: &UserMemory,
    (datatype, op): (i32, i32),
    operand: &[u8],
    compare: &[u8],
) -> Option<Vec<u8>> {
    let size = size(datatype).filter(|size| *size <= 8 && is_defined(datatype, op))?;
    let fits = |span: &Span| span.address().is_multiple_of(size) && span.len().is_multiple_of(size);
    if !target.spans().all(fits) {
        return None;
    }
    let mut old = Vec::with_capacity(target.len());
    for span in target.spans() {
        for at in (0..span.len()).step_by(size) {
            let range = old.len()..old.len() + size;
            // Arguments that an operation does not take may be absent.
            let (operand, compare) = (operand.get(range.clone()), compare.get(range));
            let (operand, compare) = (operand.unwrap_or_default(), compare.unwrap_or_default());
            // SAFETY: inside the buffer, and aligned.
            let was = unsafe {
                step(span.start().add(at), size, |bytes| {
                    apply(datatype, op, bytes, operand, compare);
                })
            };
            old.extend_from_slice(&was[..size]);
        }
    }
    Some(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(datatype: i32, op: i32, old: i64, operand: i64, compare: i64) -> i64 {
        let mut target = old.to_ne_bytes();
        assert!(apply(datatype, op, &mut target, &operand.to_ne_bytes(), &compare.to_ne_bytes()));
        i64::from_ne_bytes(target)
    }

    #[test]
    fn integers_combine_as_the_manual_says() {
        let results: Vec<i64> = (0..=9).map(|op| run(6, op, -6, 3, 0)).collect();
        assert_eq!(results, [-6, 3, -3, -18, 1, 1, -6 | 3, -6 & 3, 0, -6 ^ 3]);
        assert_eq!(run(7, 0, -6, 3, 0), 3, "as unsigned numbers");
        assert_eq!((run(6, READ, 5, 9, 9), run(6, WRITE, 5, 9, 9)), (5, 9));
        assert_eq!(run(6, MSWAP, 0b1100, 0b1010, 0b0110), 0b1010);
        let swapped = |compare: i64| (12..=17).map(|op| run(6, op, 5, 9, compare) == 9).collect::<Vec<_>>();
        assert_eq!(swapped(5), [true, false, true, false, true, false]);
        assert_eq!(swapped(4), [false, true, true, true, false, false]);
        assert_eq!(swapped(6), [false, true, false, false, true, true]);
    }

    #[test]
    fn what_is_not_defined_is_refused() {
        assert!(is_defined(9, 2) && is_defined(11, 3) && is_defined(0, MSWAP));
        assert!(!is_defined(9, 7), "bits of a float");
        assert!(!is_defined(10, 0), "least of complex numbers");
        assert!(!is_defined(12, 2) && !is_defined(-1, 2) && !is_defined(6, 19) && !is_defined(6, -1));
    }

    #[test]
    fn elements_change_one_by_one_or_not_at_all() {
        let mut words = [1u32, 2, 3];
        // SAFETY: the array lives to the end of the test.
        let memory = |from: usize, len: usize, at: *mut u8| unsafe { UserMemory::new(at.wrapping_add(from), len) };
        let at = words.as_mut_ptr().cast::<u8>();
        let operand: Vec<u8> = [10u32, 20, 30].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let old = update(&memory(0, 12, at), (5, 2), &operand, &[]).expect("aligned");
        assert_eq!(old, [1u32, 2, 3].iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>());
        assert_eq!(update(&memory(2, 4, at), (5, 2), &operand, &[]), None, "not aligned");
        assert_eq!(update(&memory(0, 8, at), (8, 7), &operand, &[]), None, "bits of a float");
        assert_eq!(update(&memory(0, 4, at), (5, READ), &[], &[]), Some(11u32.to_ne_bytes().to_vec()));
        assert_eq!(words, [11, 22, 33]);
    }

    #[test]
    fn complex_numbers_multiply() {
        let bytes = |re: f64, im: f64| [re.to_ne_bytes(), im.to_ne_bytes()].concat();
        let mut target = bytes(1.0, 2.0);
        assert!(apply(11, 3, &mut target, &bytes(3.0, -1.0), &[]));
        assert_eq!(target, bytes(5.0, 5.0));
    }
}
