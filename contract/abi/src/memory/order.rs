//! The order in which others see what a thread does to shared memory, by the names of what it is needed for.
//!
//! x86-64 lets others see stores in the order of the program, and loads are made in that order; there each of these costs no
//! instruction, and keeps the compiler from changing the order. aarch64 promises neither, and there each is a barrier.
//! What leans on which is listed in `docs/explain/memory-order.md`.

use super::sync::{Ordering, fence};
use std::sync::atomic::{AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

/// Whoever sees a store that comes after this sees all stores before it, and no load before it reads what was stored in answer.
#[inline(always)]
pub fn publish() {
    fence(Ordering::Release);
}

/// Orders stores, and what was seen, of this thread before all its later stores: what a fence of the interface does.
#[inline(always)]
pub fn between_puts() {
    fence(Ordering::AcqRel);
}

/// What was stored before is there before it is asked who sleeps: only where that one has a heavy fence (membarrier) made here,
/// which every processor needs for this order, and none takes an instruction on this side.
#[inline(always)]
pub fn before_a_look_for_sleepers() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// An aligned integer that another process writes by one store while this one looks at it.
pub trait Watched {
    /// What is read of it: itself, except in models, where a word of shared memory is one of the model checker's.
    type Value: Copy;
    /// The value now; nothing else is said by it.
    ///
    /// # Safety
    /// `p` is readable.
    unsafe fn look(p: *const Self) -> Self::Value;
    /// Stores it whole, in no order.
    ///
    /// # Safety
    /// `p` is writable.
    unsafe fn set(p: *mut Self, value: Self::Value);
}

macro_rules! watched {
    ($($t:ty, $atomic:ident;)*) => {$(
        impl Watched for $t {
            type Value = $t;
            #[inline(always)]
            unsafe fn look(p: *const $t) -> $t {
                // SAFETY: the caller vouches for the memory, and a load changes nothing.
                unsafe { $atomic::from_ptr(p.cast_mut()) }.load(Ordering::Relaxed)
            }
            #[inline(always)]
            unsafe fn set(p: *mut $t, value: $t) {
                // SAFETY: the caller vouches for the memory.
                unsafe { $atomic::from_ptr(p) }.store(value, Ordering::Relaxed)
            }
        }
    )*};
}
watched! {
    i16, AtomicI16; u16, AtomicU16; i32, AtomicI32; u32, AtomicU32; i64, AtomicI64; u64, AtomicU64;
    isize, AtomicIsize; usize, AtomicUsize;
}

/// Looks at a word, once. Where `come` says that it is what was waited for, all that its writer published before is there.
///
/// # Safety
/// `p` is readable.
#[inline(always)]
pub unsafe fn seen<T: Watched>(p: *const T, come: impl FnOnce(T::Value) -> bool) -> bool {
    // SAFETY: the caller promises what the callee asks for.
    let yes = come(unsafe { T::look(p) });
    // Where it costs nothing it needs no branch, either. Models are of the weaker one.
    if cfg!(all(target_arch = "x86_64", not(loom))) || yes {
        fence(Ordering::Acquire);
    }
    yes
}

/// The value of a word, and all that its writer published before is there.
///
/// # Safety
/// `p` is readable.
#[inline(always)]
pub unsafe fn read<T: Watched>(p: *const T) -> T::Value {
    // SAFETY: the caller promises what the callee asks for.
    let value = unsafe { T::look(p) };
    fence(Ordering::Acquire);
    value
}
