//! Cores of the atomics: any 4 or 8 byte type as bits.

use super::handles::CTX_DEFAULT;
use super::record::{call, context};
use super::{Runtime, ok, rma::aligned, untold_state};
use crate::ctypes::*;
use angara::Amo;
use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use angara_protocol::calls::Action;

/// Change of a word by an atomic.
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    op: AmoOp,
    operand: u64,
    comparand: u64,
}

impl Atomic {
    /// Leaves it as it is.
    pub(crate) const FETCH: Atomic = Atomic { op: AmoOp::Fetch, operand: 0, comparand: 0 };
    /// Adds one.
    pub(crate) const INCREMENT: Atomic = Atomic { op: AmoOp::Add, operand: 1, comparand: 0 };

    /// Adds, combines or stores `value`.
    #[inline(always)]
    pub(crate) fn of<T: Word>(op: AmoOp, value: T) -> Atomic {
        Atomic { op, operand: value.bits(), comparand: 0 }
    }

    /// Stores `value` if the word is `cond`.
    #[inline(always)]
    pub(crate) fn compare_swap<T: Word>(cond: T, value: T) -> Atomic {
        Atomic { op: AmoOp::CompareSwap, operand: value.bits(), comparand: cond.bits() }
    }

    /// Operand and comparand.
    #[inline(always)]
    fn bits(&self) -> (u64, u64) {
        (self.operand, self.comparand)
    }
}

/// An [`Atomic`] in pieces, `bits` being operand and comparand: as a structure it takes more instructions.
#[inline(always)]
fn amo<T: Word>(name: Name, ctx: shmem_ctx_t, at: *mut T, op: AmoOp, bits: (u64, u64), fetch: bool, pe: int) -> u64 {
    if ctx == CTX_DEFAULT
        && let Some(s) = untold_state()
    {
        // A negative PE is a number too large.
        let (to, pe, at) = (s.job.ctx(), pe as u32 as usize, at.cast());
        let amo = word::<T>(op, bits, fetch);
        let old = if size_of::<T>() == 8 {
            to.amo_element::<8>(Class::Amo, pe, at, amo)
        } else {
            to.amo_element::<4>(Class::Amo, pe, at, amo)
        };
        if let Some(old) = old {
            return old;
        }
    }
    amo_any(name, ctx, at, op, bits, fetch, pe)
}

/// An atomic on a `T`; `bits` are operand and comparand.
#[inline(always)]
fn word<T: Word>(op: AmoOp, bits: (u64, u64), fetch: bool) -> Amo {
    Amo { op, width: size_of::<T>() as u8, operand: bits.0, comparand: bits.1, fetch }
}

/// [`amo`] of every kind, and its errors.
#[inline(never)]
fn amo_any<T: Word>(
    name: Name,
    ctx: shmem_ctx_t,
    at: *mut T,
    op: AmoOp,
    bits: (u64, u64),
    fetch: bool,
    pe: int,
) -> u64 {
    let noted = |s: &Runtime, &(_, target): &(u64, usize)| Action::Atomic {
        ctx: context(ctx),
        pe: target as u32,
        remote: s.memory(at.cast()),
        width: size_of::<T>() as u8,
        writes: op != AmoOp::Fetch,
        fetches: fetch,
        signals: false,
        operand: bits.0,
        stores: op == AmoOp::Swap,
    };
    let body = |s: &'static Runtime| {
        let pe = s.target(name, ctx, pe);
        let place = aligned(s, name, at.cast(), size_of::<T>(), op != AmoOp::Fetch);
        (ok(name, Some(pe), s.job.ctx().amo(Class::Amo, pe, place, word::<T>(op, bits, fetch))), pe)
    };
    call(name, noted, body).0
}

/// An atomic without result.
#[inline(always)]
pub(crate) fn apply<T: Word>(name: Name, ctx: shmem_ctx_t, dest: *mut T, what: Atomic, pe: int) {
    amo(name, ctx, dest, what.op, what.bits(), false, pe);
}

/// An atomic that returns the old value.
#[inline(always)]
pub(crate) fn fetch<T: Word>(name: Name, ctx: shmem_ctx_t, dest: *mut T, what: Atomic, pe: int) -> T {
    T::from_bits(amo(name, ctx, dest, what.op, what.bits(), true, pe))
}

/// An atomic whose old value is stored by the next quiet at the latest; here, at once.
///
/// # Safety
/// `result` is writable.
pub(crate) unsafe fn fetch_nbi<T: Word>(
    name: Name,
    ctx: shmem_ctx_t,
    result: *mut T,
    dest: *mut T,
    what: Atomic,
    pe: int,
) {
    let old = fetch::<T>(name, ctx, dest, what, pe);
    // SAFETY: the caller's contract.
    unsafe { result.write(old) };
}
