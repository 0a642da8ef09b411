//! Operations on other PEs' parts of exposed arrays.

use super::array::{At, Exposed};
use super::element::{Integer, Is, Word};
use super::scope::Scope;
use super::symmetric::Symmetric;
use crate::ctx::Ctx;
use crate::engine::{Amo, Strided};
use crate::error::{Error, Result};
use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use bytemuck::Pod;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// An ordered stream of puts, gets and atomics, for one thread. A [`super::World`] is one; [`super::World::context`] makes others
/// for other threads.
///
/// A put returns when its source may be reused. [`Context::fence`] orders what comes before it against what comes after it, for
/// each target; [`Context::quiet`] returns when everything before it has taken effect. Both are about this stream.
pub struct Context<'w> {
    symmetric: Arc<Symmetric>,
    /// The stream of another thread; none for the world's own.
    stream: Option<Arc<Ctx>>,
    one_thread: PhantomData<Cell<()>>,
    world: PhantomData<&'w ()>,
}

/// What becomes of a word beside the data of [`Context::put_signal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It is set to this value.
    Set(u64),
    /// This is added to it.
    Add(u64),
}

/// Atomics that fetch, and those that do not.
macro_rules! atomics {
    ($($(#[$doc:meta])* $fetch:ident $plain:ident $op:ident)*) => {$(
        $(#[$doc])*
        /// Returns the old value.
        #[inline(always)]
        pub fn $fetch<T: Integer>(&self, at: At<'_, T>, value: T) -> Result<T> {
            self.amo(at, AmoOp::$op, value, 0, true)
        }
        $(#[$doc])*
        #[inline(always)]
        pub fn $plain<T: Integer>(&self, at: At<'_, T>, value: T) -> Result<()> {
            self.amo(at, AmoOp::$op, value, 0, false).map(drop)
        }
    )*};
}

impl Context<'_> {
    pub(super) fn new(symmetric: Arc<Symmetric>, stream: Option<Arc<Ctx>>) -> Self {
        Context { symmetric, stream, one_thread: PhantomData, world: PhantomData }
    }

    pub(super) fn symmetric(&self) -> &Arc<Symmetric> {
        &self.symmetric
    }

    #[inline(always)]
    fn ctx(&self) -> &Ctx {
        match &self.stream {
            None => self.symmetric.job.ctx(),
            Some(stream) => stream,
        }
    }

    /// Writes `data` to the elements from `to` on. Returns when `data` may be reused.
    #[inline(always)]
    pub fn put<T: Pod>(&self, to: At<'_, T>, data: &[T]) -> Result<()> {
        let (own, len) = (to.own(data.len())?, size_of_val(data));
        // SAFETY: a slice is readable for its length.
        if unsafe { self.ctx().put_own(Class::Put, to.pe(), own, data.as_ptr().cast(), len) } {
            return Ok(());
        }
        self.put_far(to.pe(), own, data.as_ptr().cast(), len)
    }

    #[cold]
    #[inline(never)]
    fn put_far(&self, pe: usize, own: *mut u8, data: *const u8, len: usize) -> Result<()> {
        self.symmetric.called("put")?;
        // SAFETY: `data` is readable for `len` bytes, as its callers have it of a slice or a value.
        unsafe { self.ctx().put(Class::Put, pe, self.symmetric.place(own), data, len) }
    }

    /// Reads the elements from `from` on.
    #[inline(always)]
    pub fn get<T: Pod>(&self, from: At<'_, T>, into: &mut [T]) -> Result<()> {
        let (own, len) = (from.own(into.len())?, size_of_val(into));
        // SAFETY: a slice is writable for its length, and every bit pattern is a value.
        if unsafe { self.ctx().get_own(Class::Get, from.pe(), into.as_mut_ptr().cast(), own, len) } {
            return Ok(());
        }
        self.get_far(from.pe(), own, bytemuck::cast_slice_mut(into))
    }

    #[cold]
    #[inline(never)]
    fn get_far(&self, pe: usize, own: *mut u8, into: &mut [u8]) -> Result<()> {
        self.symmetric.called("get")?;
        let place = self.symmetric.place(own);
        self.landing(into, |ctx, into, len| {
            // SAFETY: `into` is writable for `len` bytes, until what has not arrived is given up.
            unsafe { ctx.get(Class::Get, pe, into, place, len) }
        })
    }

    /// Gets into `into` by `get`. After an error nothing arrives there any more.
    fn landing(&self, into: &mut [u8], get: impl FnOnce(&Ctx, *mut u8, usize) -> Result<()>) -> Result<()> {
        let (ctx, len) = (self.ctx(), into.len());
        let before = ctx.posted();
        let get = |to| get(ctx, to, len).inspect_err(|_| ctx.give_up_gets(before));
        if self.symmetric.job.locate(into.as_ptr(), len).is_none() {
            return get(into.as_mut_ptr());
        }
        // An adapter writes symmetric memory by itself, and cannot be told to stop.
        let mut apart = vec![0; len];
        get(apart.as_mut_ptr())?;
        into.copy_from_slice(&apart);
        Ok(())
    }

    /// Writes one element.
    #[inline(always)]
    pub fn write<T: Pod>(&self, to: At<'_, T>, value: T) -> Result<()> {
        let (own, from) = (to.own(1)?, (&raw const value).cast::<u8>());
        // SAFETY: the bytes of a value; plain data has no padding.
        let done = unsafe {
            match size_of::<T>() {
                8 => self.ctx().put_element::<8>(Class::Put, to.pe(), own, || from.cast::<u64>().read_unaligned()),
                4 => {
                    self.ctx().put_element::<4>(Class::Put, to.pe(), own, || from.cast::<u32>().read_unaligned().into())
                }
                _ => false,
            }
        };
        if done { Ok(()) } else { self.put(to, std::slice::from_ref(&value)) }
    }

    /// Reads one element.
    #[inline(always)]
    pub fn read<T: Pod>(&self, from: At<'_, T>) -> Result<T> {
        let own = from.own(1)?;
        let mut value = T::zeroed();
        let to = (&raw mut value).cast::<u8>();
        let bits = match size_of::<T>() {
            8 => self.ctx().get_element::<8>(Class::Get, from.pe(), own),
            4 => self.ctx().get_element::<4>(Class::Get, from.pe(), own),
            _ => None,
        };
        match (bits, size_of::<T>()) {
            // SAFETY: the bytes of a value, of which every bit pattern is one.
            (Some(bits), 8) => unsafe { to.cast::<u64>().write_unaligned(bits) },
            // SAFETY: as above.
            (Some(bits), _) => unsafe { to.cast::<u32>().write_unaligned(bits as u32) },
            (None, _) => self.get(from, std::slice::from_mut(&mut value))?,
        }
        Ok(value)
    }

    /// Writes every `step`-th element of `data` to every `step_there`-th element from `to` on.
    ///
    /// Errors: a step of 0, elements that are not inside.
    pub fn put_strided<T: Pod>(&self, to: At<'_, T>, step_there: usize, data: &[T], step: usize) -> Result<()> {
        let blocks = strided::<T>(data.len(), step, step_there)?;
        let own = to.own(extent(blocks.count, step_there)?)?;
        self.symmetric.called("put_strided")?;
        let place = self.symmetric.place(own);
        // SAFETY: `data` has the last of the elements, too.
        unsafe { self.ctx().put_strided(Class::Put, to.pe(), place, data.as_ptr().cast(), blocks) }
    }

    /// Reads every `step_there`-th element from `from` on into every `step`-th element of `into`.
    ///
    /// Errors: a step of 0, elements that are not inside.
    pub fn get_strided<T: Pod>(&self, from: At<'_, T>, step_there: usize, into: &mut [T], step: usize) -> Result<()> {
        let Strided { count, block, to_step, from_step } = strided::<T>(into.len(), step, step_there)?;
        let blocks = Strided { count, block, to_step: from_step, from_step: to_step };
        let own = from.own(extent(count, step_there)?)?;
        self.symmetric.called("get_strided")?;
        let place = self.symmetric.place(own);
        if step == 1 {
            return self.landing(bytemuck::cast_slice_mut(into), |ctx, into, _| {
                // SAFETY: `into` has the last of the elements, too.
                unsafe { ctx.get_strided(Class::Get, from.pe(), into, place, blocks) }
            });
        }
        let mut all = vec![T::zeroed(); count];
        let blocks = Strided { to_step: block, ..blocks };
        self.landing(bytemuck::cast_slice_mut(&mut all), |ctx, into, _| {
            // SAFETY: the vector has as many elements.
            unsafe { ctx.get_strided(Class::Get, from.pe(), into, place, blocks) }
        })?;
        into.iter_mut().step_by(step).zip(all).for_each(|(to, value)| *to = value);
        Ok(())
    }

    /// [`Context::put`], and behind it a change of a word of the same PE, which waits for it by [`Context::wait_until`]: whoever
    /// sees the word changed finds the data.
    pub fn put_signal<T: Pod>(&self, to: At<'_, T>, data: &[T], word: At<'_, u64>, signal: Signal) -> Result<()> {
        if to.pe() != word.pe() {
            let (to, word) = (to.pe(), word.pe());
            return Err(Error::invalid(format!("data for PE {to} and its signal at PE {word}: both go to one PE")));
        }
        word.own(1)?;
        self.put(to, data)?;
        self.ctx().fence()?;
        match signal {
            Signal::Set(value) => self.set(word, value),
            Signal::Add(value) => self.add(word, value),
        }
    }

    #[inline(always)]
    fn amo<T: Word>(&self, at: At<'_, T>, op: AmoOp, operand: T, comparand: u64, fetch: bool) -> Result<T> {
        let own = at.own(1)?;
        let amo = Amo { op, width: size_of::<T>() as u8, operand: operand.to_bits64(), comparand, fetch };
        let old = match size_of::<T>() {
            8 => self.ctx().amo_element::<8>(Class::Amo, at.pe(), own, amo),
            _ => self.ctx().amo_element::<4>(Class::Amo, at.pe(), own, amo),
        };
        match old {
            Some(old) => Ok(T::from_bits64(old)),
            None => self.amo_far(at.pe(), own, amo).map(T::from_bits64),
        }
    }

    #[cold]
    #[inline(never)]
    fn amo_far(&self, pe: usize, own: *mut u8, amo: Amo) -> Result<u64> {
        self.symmetric.called("atomic")?;
        let mask = if amo.width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let amo = Amo { operand: amo.operand & mask, comparand: amo.comparand & mask, ..amo };
        self.ctx().amo(Class::Amo, pe, self.symmetric.place(own), amo)
    }

    /// The element, read in one step.
    #[inline(always)]
    pub fn fetch<T: Word>(&self, at: At<'_, T>) -> Result<T> {
        self.amo(at, AmoOp::Fetch, T::zeroed(), 0, true)
    }

    /// Sets the element in one step.
    #[inline(always)]
    pub fn set<T: Word>(&self, at: At<'_, T>, value: T) -> Result<()> {
        self.amo(at, AmoOp::Swap, value, 0, false).map(drop)
    }

    /// Sets the element, and returns its old value, in one step.
    #[inline(always)]
    pub fn swap<T: Word>(&self, at: At<'_, T>, value: T) -> Result<T> {
        self.amo(at, AmoOp::Swap, value, 0, true)
    }

    /// Sets the element to `new` if it is `old`. Returns what it was: `old` if it was set.
    #[inline(always)]
    pub fn compare_swap<T: Integer>(&self, at: At<'_, T>, old: T, new: T) -> Result<T> {
        self.amo(at, AmoOp::CompareSwap, new, old.to_bits64(), true)
    }

    atomics! {
        /// Adds to the element in one step; it wraps around.
        fetch_add add Add
        /// Clears bits of the element that `value` has not, in one step.
        fetch_and and And
        /// Sets bits of the element that `value` has, in one step.
        fetch_or or Or
        /// Inverts bits of the element that `value` has, in one step.
        fetch_xor xor Xor
    }

    /// Puts and atomics before it take effect before those behind it, at each target.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        self.symmetric.called("fence")?;
        self.ctx().fence()
    }

    /// Returns when everything issued before has taken effect.
    #[inline]
    pub fn quiet(&self) -> Result<()> {
        self.symmetric.called("quiet")?;
        self.ctx().quiet()
    }

    /// Waits until element `index` of this PE's own part is as wanted, and returns it. What its writer had put before, and
    /// ordered before it, is there then.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn wait_until<T: Integer>(&self, array: &Exposed<'_, T>, index: usize, is: Is<T>) -> Result<T> {
        let now = array.seen(index);
        if !self.symmetric.told && is.holds(now) { Ok(now) } else { self.wait_long(array, index, is) }
    }

    #[inline(never)]
    fn wait_long<T: Integer>(&self, array: &Exposed<'_, T>, index: usize, is: Is<T>) -> Result<T> {
        self.symmetric.called("wait_until")?;
        let mut now = array.seen(index);
        let ready = || {
            now = array.seen(index);
            is.holds(now)
        };
        let what = || format!("wait_until: element {index} {is} (it is {})", array.load(index));
        self.symmetric.job.wait_word(array.word(index), is.comparison(), ready, &what)?;
        Ok(now)
    }

    /// Waits until one of these elements of this PE's own part is as wanted, and returns its index: of several the lowest.
    ///
    /// Errors: no elements.
    ///
    /// # Panics
    /// If there are no such elements.
    #[track_caller]
    pub fn wait_any<T: Integer>(&self, array: &Exposed<'_, T>, range: Range<usize>, is: Is<T>) -> Result<usize> {
        self.symmetric.called("wait_any")?;
        if range.is_empty() {
            return Err(Error::invalid("wait_any: none of no elements will ever be as wanted"));
        }
        array.word(range.end - 1);
        let bytes = (array.word(range.start).cast_const(), range.len() * size_of::<T>());
        let mut found = None;
        let ready = || {
            found = range.clone().find(|index| is.holds(array.seen(*index)));
            found.is_some()
        };
        let what = || format!("wait_any: one of elements {} to {} {is}", range.start, range.end - 1);
        self.symmetric.job.wait_at(bytes, ready, &what)?;
        found.ok_or_else(|| Error::invalid("wait_any: ended without an element"))
    }

    /// The element if it is as wanted now. What its writer had put before, and ordered before it, is there then.
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn test<T: Integer>(&self, array: &Exposed<'_, T>, index: usize, is: Is<T>) -> Result<Option<T>> {
        self.symmetric.called("test")?;
        self.symmetric.job.look()?;
        Ok(Some(array.seen(index)).filter(|now| is.holds(*now)))
    }

    /// Non-blocking operations: all that `body` issues by its [`Scope`] is complete when this returns, also where `body` panics.
    pub fn scope<'env, R>(&'env self, body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R>) -> Result<R> {
        let scope = Scope::new(self.ctx(), &self.symmetric);
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let told = self.symmetric.called("quiet");
        let complete = scope.complete().and(told);
        match result {
            Ok(result) => complete.and(result),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Elements from the first to the last of `count`, `step` apart.
fn extent(count: usize, step: usize) -> Result<usize> {
    let last = count.saturating_sub(1).checked_mul(step).and_then(|last| last.checked_add(count.min(1)));
    last.ok_or_else(|| Error::invalid(format!("{count} elements {step} apart do not fit into the address space")))
}

/// Every `step`-th of `len` elements, for every `step_there`-th elsewhere.
fn strided<T>(len: usize, step: usize, step_there: usize) -> Result<Strided> {
    if step == 0 || step_there == 0 {
        return Err(Error::invalid(format!("steps of {step} and {step_there} elements: both are 1 at least")));
    }
    let block = size_of::<T>();
    let [from_step, to_step] = [step, step_there].map(|step| step.saturating_mul(block));
    Ok(Strided { count: len.div_ceil(step), block, to_step, from_step })
}
