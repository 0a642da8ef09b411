//! Contexts: puts, gets and atomics, ordering and completion.
//!
//! Which engine carries an operation out is decided in [`crate::engine`].

use crate::driver::Adapter;
use crate::engine::{Amo, Engines, Mode, Profile, Strided, Transfer, forward, load};
use crate::error::Result;
use angara_abi::account::{Class, Traffic};
use angara_abi::desc::{Descriptor, Place, Region};
use angara_abi::job::Reach;
use std::sync::Arc;

/// An ordered stream of communication. May be used from several threads.
///
/// Ordering and completion are OpenSHMEM's: a put returns when its source may be reused;
/// [`Ctx::fence`] orders what comes before it against what comes after it, per target;
/// [`Ctx::quiet`] returns when everything issued before has taken effect.
pub struct Ctx {
    engines: Engines,
    /// The driver of this PE's channel.
    pub(crate) adapter: Arc<Adapter>,
}

impl Ctx {
    pub(crate) fn new(adapter: Arc<Adapter>) -> Ctx {
        Ctx { engines: Engines::new(adapter.clone()), adapter }
    }

    /// Undoes [`Ctx::without_shortcut`] and [`Ctx::with_threads`].
    pub(crate) fn as_at_first(&mut self) {
        self.engines.direct.as_at_first();
    }

    pub(crate) fn without_shortcut(&mut self) {
        self.engines.direct.without_shortcut();
    }

    pub(crate) fn with_threads(&mut self) {
        self.engines.direct.with_threads();
    }

    /// Writes `len` bytes at `src` to `dst` of `pe`. Returns when `src` may be reused.
    ///
    /// # Safety
    /// `src` is readable for `len` bytes. It may overlap the destination, which then holds what it held before.
    #[inline]
    pub unsafe fn put(&self, class: Class, pe: usize, dst: Place, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.put(Transfer { class, pe, place: dst, len }, src, Mode::Blocking) }
    }

    /// Like [`Ctx::put`], but may return before `src` may be reused if `src` is symmetric memory;
    /// [`Ctx::quiet`] ends that.
    ///
    /// # Safety
    /// As [`Ctx::put`], and `src` stays valid and unchanged until the next quiet.
    #[inline]
    pub unsafe fn put_nbi(&self, class: Class, pe: usize, dst: Place, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.put(Transfer { class, pe, place: dst, len }, src, Mode::Nonblocking) }
    }

    /// Reads `len` bytes at `src` of `pe` into `dst`.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes. It may overlap the source, whose former contents it then holds.
    #[inline]
    pub unsafe fn get(&self, class: Class, pe: usize, dst: *mut u8, src: Place, len: usize) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.get(Transfer { class, pe, place: src, len }, dst, Mode::Blocking) }
    }

    /// Like [`Ctx::get`], but the data is there only after the next quiet.
    ///
    /// # Safety
    /// As [`Ctx::get`], and `dst` stays valid until the next quiet.
    #[inline]
    pub unsafe fn get_nbi(&self, class: Class, pe: usize, dst: *mut u8, src: Place, len: usize) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.get(Transfer { class, pe, place: src, len }, dst, Mode::Nonblocking) }
    }

    /// Writes blocks that lie apart. Returns when `src` may be reused.
    ///
    /// # Safety
    /// As [`Ctx::put`] for every block.
    pub unsafe fn put_strided(
        &self,
        class: Class,
        pe: usize,
        dst: Place,
        src: *const u8,
        blocks: Strided,
    ) -> Result<()> {
        if blocks.is_empty() {
            return self.engines.check(pe);
        }
        let to = Transfer { class, pe, place: dst, len: blocks.block };
        // SAFETY: the caller promises what the callee asks for.
        if unsafe { self.engines.direct.put_strided(to, src, blocks) } {
            return Ok(());
        }
        for i in 0..blocks.count {
            let to = Transfer { place: forward(dst, i * blocks.to_step), ..to };
            // SAFETY: the caller vouches for every block.
            unsafe { self.engines.put_far(to, src.add(i * blocks.from_step), Mode::Blocking)? };
        }
        Ok(())
    }

    /// Reads blocks that lie apart and returns when they are there. Where that takes fewer flits than a request for each
    /// block, what lies between them is read, too, and dropped; else all requests are on their way at once.
    ///
    /// # Safety
    /// As [`Ctx::get`] for every block. After an error, blocks may still arrive until the next quiet.
    pub unsafe fn get_strided(&self, class: Class, pe: usize, dst: *mut u8, src: Place, blocks: Strided) -> Result<()> {
        let Strided { count, block, to_step, from_step } = blocks;
        if blocks.is_empty() {
            return self.engines.check(pe);
        }
        if blocks.is_worth_the_gaps() {
            // SAFETY: the caller promises what the callee asks for.
            return unsafe { self.get_spans(class, pe, dst, src, blocks) };
        }
        let mode = if count == 1 { Mode::Blocking } else { Mode::Nonblocking };
        for i in 0..count {
            let from = Transfer { class, pe, place: forward(src, i * from_step), len: block };
            // SAFETY: the caller vouches for every block.
            unsafe { self.engines.get(from, dst.add(i * to_step), mode)? };
        }
        self.engines.gets(&|| format!("{count} gets of {block} bytes from PE {pe}"))
    }

    /// [`Ctx::get_strided`] by reading all from the first block to the last, some of them at a time.
    ///
    /// # Safety
    /// As there.
    unsafe fn get_spans(&self, class: Class, pe: usize, dst: *mut u8, src: Place, blocks: Strided) -> Result<()> {
        let Strided { count, block, to_step, from_step } = blocks;
        let most = blocks.at_once();
        let mut whole = Vec::new();
        for first in (0..count).step_by(most) {
            let here = Strided { count: most.min(count - first), ..blocks };
            let from = Transfer { class, pe, place: forward(src, first * from_step), len: here.from_extent() };
            let p = match self.engines.direct.view(from) {
                Some(p) => p,
                None => {
                    whole.resize(from.len, 0);
                    // SAFETY: the vector has as many bytes.
                    unsafe { self.engines.get_far(from, whole.as_mut_ptr(), Mode::Blocking)? };
                    whole.as_ptr()
                }
            };
            for i in 0..here.count {
                // SAFETY: the caller vouches for every block of the destination; those of the source are inside the span.
                unsafe { load(dst.add((first + i) * to_step), p.add(i * from_step), block) };
            }
        }
        Ok(())
    }

    /// [`Ctx::put`] to `dst`, an address of this PE's own heap slice or of a variable of the program, if the target is
    /// reached directly. False, and nothing done, if that is not so; then use [`Ctx::put`].
    ///
    /// # Safety
    /// As [`Ctx::put`].
    #[inline(always)]
    pub unsafe fn put_own(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.direct.put_own(class, pe, dst, src, len) }
    }

    /// [`Ctx::put_own`] of one element of `N` bytes, 4 or 8, in the heap. The shortest way there is: without a call, so
    /// that the caller needs no registers saved.
    #[inline(always)]
    pub fn put_element<const N: usize>(
        &self,
        class: Class,
        pe: usize,
        dst: *mut u8,
        bits: impl FnOnce() -> u64,
    ) -> bool {
        self.engines.direct.put_element::<N>(class, pe, dst, bits)
    }

    /// [`Ctx::get`] in the cases of [`Ctx::put_own`].
    ///
    /// # Safety
    /// As [`Ctx::get`].
    #[inline(always)]
    pub unsafe fn get_own(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.direct.get_own(class, pe, dst, src, len) }
    }

    /// [`Ctx::get_own`] of one element of `N` bytes, 4 or 8.
    #[inline(always)]
    pub fn get_element<const N: usize>(&self, class: Class, pe: usize, src: *const u8) -> Option<u64> {
        self.engines.direct.get_element::<N>(class, pe, src)
    }

    /// [`Ctx::amo`] on an element of `N` bytes in the cases of [`Ctx::put_own`].
    #[inline(always)]
    pub fn amo_element<const N: usize>(&self, class: Class, pe: usize, at: *mut u8, amo: Amo) -> Option<u64> {
        self.engines.direct.amo_element::<N>(class, pe, at, amo)
    }

    /// One atomic on the word at `at` of `pe`. Returns the old value if that is asked for, else 0.
    #[inline]
    pub fn amo(&self, class: Class, pe: usize, at: Place, amo: Amo) -> Result<u64> {
        self.engines.amo(class, pe, at, amo)
    }

    /// Puts and atomics issued before are delivered to each target before those issued after.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        self.engines.fence()
    }

    /// Returns when everything issued before has taken effect at its target, and every get has
    /// delivered its data.
    #[inline]
    pub fn quiet(&self) -> Result<()> {
        self.engines.quiet()
    }

    /// A mark behind all that has been issued so far.
    pub(crate) fn posted(&self) -> u64 {
        self.engines.posted()
    }

    /// After an error: the destinations of gets issued behind a mark that have not delivered may go, unless they are symmetric
    /// memory.
    pub(crate) fn give_up_gets(&self, since: u64) {
        self.engines.give_up_gets(since);
    }

    /// [`Ctx::quiet`] by a barrier that completes what this PE has in the network.
    pub(crate) fn quiet_by(&self, barrier: impl FnOnce() -> Result<()>) -> Result<()> {
        self.engines.quiet_by(barrier)
    }

    /// [`Ctx::quiet`] with respect to one target (the form of paper 001).
    pub fn quiet_pe(&self, pe: usize) -> Result<()> {
        self.engines.quiet_pe(pe)
    }

    /// Counts a put of `len` bytes to `pe` that went another way.
    pub(crate) fn count_put(&self, class: Class, pe: usize, place: Place, len: usize) {
        self.engines.direct.count(Transfer { class, pe, place, len }, Traffic::put(len));
    }

    /// Counts what a library above this one has written to memory of `pe` ([`Class::Put`]), read from it ([`Class::Get`]), or
    /// changed there and fetched ([`Class::Amo`]), by itself: as if it had gone by this context. Nothing, if there is no such PE.
    pub fn count_copy(&self, class: Class, pe: usize, len: usize) {
        let traffic = match class {
            Class::Get => Traffic::get(len),
            Class::Amo => Traffic::amo(len, false, true),
            _ => Traffic::put(len),
        };
        if self.engines.check(pe).is_ok() {
            let place = Place { region: Region::Heap, offset: 0 };
            self.engines.direct.count(Transfer { class, pe, place, len }, traffic);
        }
    }

    /// [`Ctx::put`] by the adapter, however `pe` is reached: what a packet carries, its last word included, is stored as
    /// `angara_abi::copy::store_ending` does.
    ///
    /// # Safety
    /// As [`Ctx::put`].
    pub(crate) unsafe fn put_posted(
        &self,
        class: Class,
        pe: usize,
        dst: Place,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.engines.put_far(Transfer { class, pe, place: dst, len }, src, Mode::Blocking) }
    }

    /// Posts a collective descriptor with its data in the bounce region.
    pub(crate) fn post_collective(&self, d: &Descriptor, data: &[u8], pe: usize) -> Result<u32> {
        self.engines.post_collective(d, data, pe)
    }

    /// Refuses a target or a range that cannot be written.
    pub(crate) fn check_range_to(&self, pe: usize, place: Place, len: usize) -> Result<()> {
        self.engines.check_range_to(Transfer { class: Class::Put, pe, place, len })
    }

    pub(crate) fn profile(&self) -> Profile {
        self.engines.profile()
    }

    /// How `pe` is reached now.
    pub fn reach(&self, pe: usize) -> Reach {
        self.adapter.memory.peers.reach(pe)
    }
}
