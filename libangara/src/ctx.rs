//! Contexts: puts, gets and atomics, ordering and completion.
//!
//! One front for two engines. The state of the target, one load, decides: `Direct` copies here
//! and now, anything else takes the slow path out of line (ring, or an error that says why not).

use crate::direct;
use crate::driver::Adapter;
use crate::error::{Error, Result};
use crate::memory::Peers;
use crate::ring::Ring;
use abi::account::{Class, Traffic};
use abi::desc::{AmoOp, Place};
use abi::job::Reach;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// An ordered stream of communication. May be used from several threads.
///
/// Ordering and completion are OpenSHMEM's: a put returns when its source may be reused;
/// [`Ctx::fence`] orders what comes before it against what comes after it, per target;
/// [`Ctx::quiet`] returns when everything issued before has taken effect.
pub struct Ctx {
    peers: Peers,
    adapter: Arc<Adapter>,
    ring: Ring,
}

impl Ctx {
    pub(crate) fn new(adapter: Arc<Adapter>) -> Ctx {
        Ctx { peers: adapter.memory.peers.clone(), ring: Ring::new(adapter.clone()), adapter }
    }

    pub(crate) fn without_shortcut(&mut self) {
        self.peers.without_shortcut();
    }

    pub(crate) fn with_threads(&mut self) {
        self.peers.with_threads();
    }

    /// Writes `len` bytes at `src` to `dst` of `pe`. Returns when `src` may be reused.
    ///
    /// # Safety
    /// `src` is readable for `len` bytes and does not partly overlap the destination.
    #[inline]
    pub unsafe fn put(&self, class: Class, pe: usize, dst: Place, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.put_with(class, pe, dst, src, len, true) }
    }

    /// Like [`Ctx::put`], but may return before `src` may be reused if `src` is symmetric memory;
    /// [`Ctx::quiet`] ends that.
    ///
    /// # Safety
    /// As [`Ctx::put`], and `src` stays valid and unchanged until the next quiet.
    #[inline]
    pub unsafe fn put_nbi(&self, class: Class, pe: usize, dst: Place, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.put_with(class, pe, dst, src, len, false) }
    }

    /// Reads `len` bytes at `src` of `pe` into `dst`.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes and does not partly overlap the source.
    #[inline]
    pub unsafe fn get(&self, class: Class, pe: usize, dst: *mut u8, src: Place, len: usize) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.get_with(class, pe, dst, src, len, true) }
    }

    /// Like [`Ctx::get`], but the data is there only after the next quiet.
    ///
    /// # Safety
    /// As [`Ctx::get`], and `dst` stays valid until the next quiet.
    #[inline]
    pub unsafe fn get_nbi(&self, class: Class, pe: usize, dst: *mut u8, src: Place, len: usize) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.get_with(class, pe, dst, src, len, false) }
    }

    /// [`Ctx::put`] to `dst`, an address of this PE's own heap slice, if the target is reached directly.
    /// False, and nothing done, if that is not so; then use [`Ctx::put`].
    ///
    /// # Safety
    /// As [`Ctx::put`].
    #[inline(always)]
    pub unsafe fn put_heap(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        let Some(p) = self.peers.direct_heap(pe, dst, len) else { return false };
        // SAFETY: `direct_heap` checked the destination, the caller vouches for the source.
        unsafe { direct::store(p, src, len) };
        self.peers.count_alone(pe, class, Traffic::put(len));
        self.peers.notify(pe);
        true
    }

    /// [`Ctx::put_heap`] of one element of `N` bytes, 4 or 8. The shortest way there is: without a call, so
    /// that the caller needs no registers saved.
    #[inline(always)]
    pub fn put_element<const N: usize>(&self, class: Class, pe: usize, dst: *mut u8, bits: u64) -> bool {
        let Some(p) = self.peers.direct_element::<N>(pe, dst) else { return false };
        // SAFETY: an aligned element inside the target's slice.
        unsafe {
            if N == 8 {
                p.cast::<u64>().write_volatile(bits);
            } else {
                p.cast::<u32>().write_volatile(bits as u32);
            }
        }
        self.count_element::<N>(pe, class, Traffic::put(N));
        self.peers.notify(pe);
        true
    }

    /// [`Ctx::get_heap`] of one element of `N` bytes, 4 or 8.
    #[inline(always)]
    pub fn get_element<const N: usize>(&self, class: Class, pe: usize, src: *const u8) -> Option<u64> {
        let p = self.peers.direct_element::<N>(pe, src)?;
        // SAFETY: an aligned element inside the target's slice.
        let bits =
            unsafe { if N == 8 { p.cast::<u64>().read_volatile() } else { p.cast::<u32>().read_volatile() as u64 } };
        self.count_element::<N>(pe, class, Traffic::get(N));
        Some(bits)
    }

    #[inline(always)]
    fn count_element<const N: usize>(&self, pe: usize, class: Class, traffic: Traffic) {
        const { assert!(N == 4 || N == 8, "elements have 4 or 8 bytes") };
        if traffic == class.usual() {
            self.peers.count_usual(pe, class);
        } else {
            self.peers.count_alone(pe, class, traffic);
        }
    }

    /// [`Ctx::get`] in the cases of [`Ctx::put_heap`].
    ///
    /// # Safety
    /// As [`Ctx::get`].
    #[inline(always)]
    pub unsafe fn get_heap(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        let Some(p) = self.peers.direct_heap(pe, src, len) else { return false };
        // SAFETY: `direct_heap` checked the source, the caller vouches for the destination.
        unsafe { direct::load(dst, p, len) };
        self.peers.count_alone(pe, class, Traffic::get(len));
        true
    }

    /// [`Ctx::amo`] on an element of `N` bytes in the cases of [`Ctx::put_heap`], or of a global variable.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn amo_element<const N: usize>(
        &self,
        class: Class,
        pe: usize,
        at: *mut u8,
        op: AmoOp,
        operand: u64,
        comparand: u64,
        fetch: bool,
    ) -> Option<u64> {
        let p = match self.peers.direct_element::<N>(pe, at) {
            Some(p) => p,
            None => self.static_element::<N>(pe, at)?,
        };
        // SAFETY: inside the target's slice and aligned; others reach the word the same way.
        let old = unsafe { direct::amo(p, op, N as u8, operand, comparand) };
        self.count_element::<N>(pe, class, Traffic::amo(N, op.is_native() && !fetch, fetch));
        if op != AmoOp::Fetch {
            self.peers.notify(pe);
        }
        Some(if fetch { old } else { 0 })
    }

    /// [`Peers::direct_element`] for global variables.
    #[inline(never)]
    fn static_element<const N: usize>(&self, pe: usize, at: *const u8) -> Option<*mut u8> {
        if !self.peers.has_shortcut() || !(at as usize).is_multiple_of(N) {
            return None;
        }
        self.peers.direct(pe, self.adapter.memory.locate(at, N)?, N)
    }

    /// # Safety
    /// As [`Ctx::put`], or as [`Ctx::put_nbi`] unless `block`.
    #[inline(always)]
    unsafe fn put_with(
        &self,
        class: Class,
        pe: usize,
        dst: Place,
        src: *const u8,
        len: usize,
        block: bool,
    ) -> Result<()> {
        match self.peers.direct(pe, dst, len) {
            Some(p) => {
                // SAFETY: `direct` checked the destination, the caller vouches for the source.
                unsafe { direct::store(p, src, len) };
                self.peers.count(pe, class, Traffic::put(len));
                self.peers.notify(pe);
                Ok(())
            }
            // SAFETY: passed on.
            None => unsafe { self.put_slow(class, pe, dst, src, len, block) },
        }
    }

    /// # Safety
    /// As [`Ctx::get`], or as [`Ctx::get_nbi`] unless `block`.
    #[inline(always)]
    unsafe fn get_with(
        &self,
        class: Class,
        pe: usize,
        dst: *mut u8,
        src: Place,
        len: usize,
        block: bool,
    ) -> Result<()> {
        match self.peers.direct(pe, src, len) {
            Some(p) => {
                // SAFETY: `direct` checked the source, the caller vouches for the destination.
                unsafe { direct::load(dst, p, len) };
                self.peers.count(pe, class, Traffic::get(len));
                Ok(())
            }
            // SAFETY: passed on.
            None => unsafe { self.get_slow(class, pe, dst, src, len, block) },
        }
    }

    /// One atomic on the word of `width` (4 or 8) bytes at `at` of `pe`. Returns the old value
    /// if `fetch`, else 0.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn amo(
        &self,
        class: Class,
        pe: usize,
        at: Place,
        op: AmoOp,
        width: u8,
        operand: u64,
        comparand: u64,
        fetch: bool,
    ) -> Result<u64> {
        match self.peers.direct(pe, at, width as usize) {
            Some(p) if matches!(width, 4 | 8) && (p as usize).is_multiple_of(width as usize) => {
                // SAFETY: inside the target's slice and aligned; others reach the word the same way.
                let old = unsafe { direct::amo(p, op, width, operand, comparand) };
                let native = op.is_native() && !fetch;
                self.peers.count(pe, class, Traffic::amo(width as usize, native, fetch));
                if op != AmoOp::Fetch {
                    self.peers.notify(pe);
                }
                Ok(if fetch { old } else { 0 })
            }
            _ => self.amo_slow(class, pe, at, op, width, [operand, comparand], fetch),
        }
    }

    /// Puts and atomics issued before are delivered to each target before those issued after.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        // Direct stores are ordered by the processor (total store order); the compiler must not undo it.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if self.ring.idle() { Ok(()) } else { self.ring.fence() }
    }

    /// Returns when everything issued before has taken effect at its target, and every get has
    /// delivered its data.
    #[inline]
    pub fn quiet(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        if self.ring.idle() { Ok(()) } else { self.ring.quiet(None) }
    }

    /// [`Ctx::quiet`] with respect to one target (the form of paper 001).
    pub fn quiet_pe(&self, pe: usize) -> Result<()> {
        fence(Ordering::SeqCst);
        self.check(pe)?;
        if self.ring.idle() { Ok(()) } else { self.ring.quiet(Some(pe)) }
    }

    /// Counts an operation that went another way.
    pub(crate) fn count(&self, pe: usize, class: Class, traffic: Traffic) {
        self.peers.count(pe, class, traffic);
    }

    /// Posts a collective descriptor with its data staged.
    pub(crate) fn post_staged(&self, d: &abi::desc::Descriptor, data: &[u8], pe: usize) -> Result<u32> {
        self.ring.post_staged(d, data, pe)
    }

    fn check(&self, pe: usize) -> Result<()> {
        self.adapter.check_target(pe)
    }

    /// Refuses a target or a range that cannot be.
    fn check_range(&self, pe: usize, place: Place, len: usize) -> Result<()> {
        self.check(pe)?;
        if self.peers.address(pe, place, len).is_none() {
            let room = self.peers.window(place.region).len;
            let Place { region, offset } = place;
            let what = format!("{len} bytes at offset {offset:#x} of region {region:?}");
            return Err(Error::invalid(format!("{what} are not inside its {room} symmetric bytes")));
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_slow(
        &self,
        class: Class,
        pe: usize,
        dst: Place,
        src: *const u8,
        len: usize,
        block: bool,
    ) -> Result<()> {
        if len == 0 {
            return self.check(pe);
        }
        self.check_range(pe, dst, len)?;
        self.peers.count(pe, class, Traffic::put(len));
        // SAFETY: passed on.
        unsafe { self.ring.put(class, pe, dst, src, len, block) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn get_slow(
        &self,
        class: Class,
        pe: usize,
        dst: *mut u8,
        src: Place,
        len: usize,
        block: bool,
    ) -> Result<()> {
        if len == 0 {
            return self.check(pe);
        }
        self.check_range(pe, src, len)?;
        self.peers.count(pe, class, Traffic::get(len));
        // SAFETY: passed on.
        unsafe { self.ring.get(class, pe, dst, src, len, block) }
    }

    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn amo_slow(
        &self,
        class: Class,
        pe: usize,
        at: Place,
        op: AmoOp,
        width: u8,
        operands: [u64; 2],
        fetch: bool,
    ) -> Result<u64> {
        if !matches!(width, 4 | 8) {
            return Err(Error::invalid(format!("an atomic on {width} bytes: only 4 and 8 are possible")));
        }
        self.check_range(pe, at, width as usize)?;
        if !at.offset.is_multiple_of(width as u64) {
            let offset = at.offset;
            return Err(Error::invalid(format!("an atomic at offset {offset:#x} is not aligned to {width} bytes")));
        }
        let native = op.is_native() && !fetch;
        self.peers.count(pe, class, Traffic::amo(width as usize, native, fetch));
        self.ring.amo(class, pe, at, op, width, operands, fetch)
    }

    /// How `pe` is reached now.
    pub fn reach(&self, pe: usize) -> Reach {
        self.peers.reach(pe)
    }
}
