//! The direct engine: the caller's own thread does what an adapter would do.
//!
//! The state of the target, one load, says whether it may. What is not reached this way is left to others: each
//! function says whether it has done the operation.

use super::{Amo, Strided, Transfer};
use crate::driver::Adapter;
use crate::memory::Peers;
use angara_abi::account::{Class, Traffic};
use angara_abi::copy::{self, peek, poke};
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::order;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Operations on memory that this process has mapped.
pub(crate) struct Direct {
    /// Memory of all PEs that are reached directly, and the counters.
    peers: Peers,
    adapter: Arc<Adapter>,
}

impl Direct {
    /// Costs where each PE has a core of its own.
    pub(super) const ALONE: &str = "direct";
    /// Costs where PEs share cores.
    pub(super) const CROWDED: &str = "crowded";

    /// Returns what tables of measured costs call it.
    pub(super) fn costs(&self) -> &'static str {
        if self.adapter.memory.geometry.crowded { Direct::CROWDED } else { Direct::ALONE }
    }

    pub(super) fn new(adapter: Arc<Adapter>) -> Direct {
        Direct { peers: adapter.memory.peers.clone(), adapter }
    }

    /// Undoes [`Direct::without_shortcut`] and [`Direct::with_threads`].
    pub(crate) fn as_at_first(&mut self) {
        self.peers = self.adapter.memory.peers.clone();
    }

    pub(crate) fn without_shortcut(&mut self) {
        self.peers.without_shortcut();
    }

    pub(crate) fn with_threads(&mut self) {
        self.peers.with_threads();
    }

    /// Counts an operation on `at.pe`, which must be below the number of PEs.
    #[inline(always)]
    pub(crate) fn count(&self, at: Transfer, traffic: Traffic) {
        self.peers.count(at.pe, at.class, traffic);
    }

    /// # Safety
    /// As [`crate::Ctx::put`].
    #[inline(always)]
    pub(super) unsafe fn put(&self, to: Transfer, src: *const u8) -> bool {
        let Some(p) = self.peers.direct_to(to.pe, to.place, to.len) else { return false };
        let p = self.own_view(to.pe, to.place, to.len, p);
        // SAFETY: `direct_to` checked the destination, the caller vouches for the source.
        unsafe { store(p, src, to.len) };
        self.count(to, Traffic::put(to.len));
        self.peers.notify(to.pe);
        true
    }

    /// # Safety
    /// As [`crate::Ctx::get`].
    #[inline(always)]
    pub(super) unsafe fn get(&self, from: Transfer, dst: *mut u8) -> bool {
        let Some(p) = self.peers.direct(from.pe, from.place, from.len) else { return false };
        let p = self.own_view(from.pe, from.place, from.len, p);
        // SAFETY: `direct` checked the source, the caller vouches for the destination.
        unsafe { load(dst, p, from.len) };
        self.count(from, Traffic::get(from.len));
        true
    }

    /// The old value if that was asked for, else 0.
    #[inline(always)]
    pub(super) fn amo(&self, at: Transfer, amo: Amo) -> Option<u64> {
        let Amo { op, width, operand, comparand, fetch } = amo;
        let p = match op {
            AmoOp::Fetch => self.peers.direct(at.pe, at.place, at.len),
            _ => self.peers.direct_to(at.pe, at.place, at.len),
        };
        let p = p.filter(|p| matches!(width, 4 | 8) && (*p as usize).is_multiple_of(width as usize))?;
        // SAFETY: inside the target's slice and aligned; others reach the word the same way.
        let old = unsafe { atomic(p, op, width, operand, comparand) };
        self.count(at, amo.traffic());
        if op != AmoOp::Fetch {
            self.peers.notify(at.pe);
        }
        Some(if fetch { old } else { 0 })
    }

    /// [`Direct::put`] to this PE's own memory; the range has been checked, and the put counted.
    ///
    /// # Safety
    /// As [`crate::Ctx::put`].
    pub(super) unsafe fn put_here(&self, to: Transfer, src: *const u8) {
        // SAFETY: the range is inside; the caller vouches for the source.
        unsafe { store(self.here(to), src, to.len) }
    }

    /// [`Direct::get`] from this PE's own memory, likewise.
    ///
    /// # Safety
    /// As [`crate::Ctx::get`].
    pub(super) unsafe fn get_here(&self, from: Transfer, dst: *mut u8) {
        // SAFETY: the range is inside; the caller vouches for the destination.
        unsafe { load(dst, self.here(from), from.len) }
    }

    /// [`Direct::amo`] on this PE's own memory, likewise; the word is aligned.
    pub(super) fn amo_here(&self, at: Transfer, amo: Amo) -> u64 {
        let Amo { op, width, operand, comparand, fetch } = amo;
        // SAFETY: the word is inside and aligned; others reach it the same way.
        let old = unsafe { atomic(self.here(at), op, width, operand, comparand) };
        if fetch { old } else { 0 }
    }

    /// This PE's address of its own bytes.
    fn here(&self, at: Transfer) -> *mut u8 {
        let p = self.peers.address(at.pe, at.place, at.len).expect("the range has been checked");
        self.own_view(at.pe, at.place, at.len, p)
    }

    /// Writes blocks, each of them `to.len` bytes long.
    ///
    /// # Safety
    /// As [`crate::Ctx::put`] for every block.
    pub(crate) unsafe fn put_strided(&self, to: Transfer, src: *const u8, blocks: Strided) -> bool {
        let extent = blocks.to_extent();
        let Some(p) = self.peers.direct_to(to.pe, to.place, extent) else { return false };
        let p = self.own_view(to.pe, to.place, extent, p);
        for i in 0..blocks.count {
            // SAFETY: `direct_to` checked the destination, the caller vouches for the source.
            unsafe { store(p.add(i * blocks.to_step), src.add(i * blocks.from_step), to.len) };
            self.count(to, Traffic::put(to.len));
        }
        self.peers.notify(to.pe);
        true
    }

    /// Where the bytes of `from` are to be read, by [`load`]; they count as read.
    pub(crate) fn view(&self, from: Transfer) -> Option<*const u8> {
        let p = self.peers.direct(from.pe, from.place, from.len)?;
        self.count(from, Traffic::get(from.len));
        Some(self.own_view(from.pe, from.place, from.len, p))
    }

    /// [`crate::Ctx::put`] to `dst`, an address of this PE's own heap slice or of a variable of the program, if the
    /// target is reached directly. False, and nothing done, if that is not so.
    ///
    /// # Safety
    /// As [`crate::Ctx::put`].
    #[inline(always)]
    pub(crate) unsafe fn put_own(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        let Some(p) = self.direct_own(pe, dst, len) else { return false };
        // SAFETY: `direct_own` checked the destination, the caller vouches for the source.
        unsafe { store(p, src, len) };
        self.peers.count_alone(pe, class, Traffic::put(len));
        self.peers.notify(pe);
        true
    }

    #[inline(always)]
    fn direct_own(&self, pe: usize, p: *const u8, len: usize) -> Option<*mut u8> {
        self.peers.direct_heap(pe, p, len).or_else(|| self.peers.direct_variable(pe, p, len))
    }

    /// [`Direct::put_own`] of one element of `N` bytes, 4 or 8, in the heap. The shortest way there is: without a call,
    /// so that the caller needs no registers saved.
    #[inline(always)]
    pub(crate) fn put_element<const N: usize>(
        &self,
        class: Class,
        pe: usize,
        dst: *mut u8,
        bits: impl FnOnce() -> u64,
    ) -> bool {
        let Some(p) = self.peers.direct_element::<N>(pe, dst) else { return false };
        // Not earlier: who names no destination often names no source, either, and shall read which.
        let bits = bits();
        // SAFETY: an aligned element inside the target's slice.
        unsafe {
            if N == 8 {
                order::Watched::set(p.cast::<u64>(), bits);
            } else {
                order::Watched::set(p.cast::<u32>(), bits as u32);
            }
        }
        self.count_element::<N>(pe, class, Traffic::put(N));
        self.peers.notify(pe);
        true
    }

    /// [`Direct::get_own`] of one element of `N` bytes, 4 or 8.
    #[inline(always)]
    pub(crate) fn get_element<const N: usize>(&self, class: Class, pe: usize, src: *const u8) -> Option<u64> {
        let p = self.peers.direct_element::<N>(pe, src)?;
        // SAFETY: an aligned element inside the target's slice.
        let bits = unsafe {
            if N == 8 { order::Watched::look(p.cast::<u64>()) } else { order::Watched::look(p.cast::<u32>()).into() }
        };
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

    /// [`crate::Ctx::get`] in the cases of [`crate::Ctx::put_own`].
    ///
    /// # Safety
    /// As [`crate::Ctx::get`].
    #[inline(always)]
    pub(crate) unsafe fn get_own(&self, class: Class, pe: usize, dst: *mut u8, src: *const u8, len: usize) -> bool {
        let Some(p) = self.direct_own(pe, src, len) else { return false };
        // SAFETY: `direct_own` checked the source, the caller vouches for the destination.
        unsafe { load(dst, p, len) };
        self.peers.count_alone(pe, class, Traffic::get(len));
        true
    }

    /// [`crate::Ctx::amo`] on an element of `N` bytes in the cases of [`Direct::put_own`], or of a global variable.
    #[inline(always)]
    pub(crate) fn amo_element<const N: usize>(&self, class: Class, pe: usize, at: *mut u8, amo: Amo) -> Option<u64> {
        debug_assert_eq!(amo.width as usize, N);
        let Amo { op, operand, comparand, fetch, .. } = amo;
        let p = match self.peers.direct_element::<N>(pe, at) {
            Some(p) => p,
            None => self.static_element::<N>(pe, at, op == AmoOp::Fetch)?,
        };
        // SAFETY: inside the target's slice and aligned; others reach the word the same way.
        let old = unsafe { atomic(p, op, N as u8, operand, comparand) };
        self.count_element::<N>(pe, class, amo.traffic());
        if op != AmoOp::Fetch {
            self.peers.notify(pe);
        }
        Some(if fetch { old } else { 0 })
    }

    /// [`Peers::direct_element`] for global variables.
    #[inline(never)]
    fn static_element<const N: usize>(&self, pe: usize, at: *const u8, read_only: bool) -> Option<*mut u8> {
        if !self.peers.has_shortcut() || !(at as usize).is_multiple_of(N) {
            return None;
        }
        if let Some(p) = self.peers.direct_variable(pe, at, N) {
            return Some(p);
        }
        let place = self.adapter.memory.locate(at, N)?;
        if read_only { self.peers.direct(pe, place, N) } else { self.peers.direct_to(pe, place, N) }
    }

    /// Where this PE finds `len` bytes of its own: globals where the program has them. The arena, which `p` lies in, is
    /// another view of the same memory, and whether ranges overlap shows only in addresses of one view.
    #[inline(always)]
    fn own_view(&self, pe: usize, place: Place, len: usize, p: *mut u8) -> *mut u8 {
        if pe != self.adapter.memory.me || place.region != Region::Static {
            return p;
        }
        let memory = &self.adapter.memory;
        let own = memory.local(place);
        if memory.locate(own, len) == Some(place) { own } else { p }
    }
}

/// [`copy::store`] out of line: the inlined path of a put then needs no registers saved.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn store_bulk(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { copy::store(dst, src, len) }
}

/// [`copy::load`] out of line.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn load_bulk(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { copy::load(dst, src, len) }
}

/// Copies into a peer: aligned elements are stored whole.
///
/// # Safety
/// As [`copy::store`].
#[inline(always)]
unsafe fn store(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for; both pointers are valid for `len` bytes.
    unsafe {
        match len {
            8 => poke::<u64>(dst, peek(src)),
            4 => poke::<u32>(dst, peek(src)),
            _ => store_bulk(dst, src, len),
        }
    }
}

/// Copies from a peer: aligned elements are loaded whole.
///
/// # Safety
/// As [`copy::load`].
#[inline(always)]
pub(crate) unsafe fn load(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises what the callee asks for; both pointers are valid for `len` bytes.
    unsafe {
        match len {
            8 => poke::<u64>(dst, peek(src)),
            4 => poke::<u32>(dst, peek(src)),
            _ => load_bulk(dst, src, len),
        }
    }
}

macro_rules! atomic {
    ($name:ident, $atomic:ty, $int:ty) => {
        /// One lock-prefixed operation; returns the old value.
        ///
        /// # Safety
        /// `p` is aligned and valid for the word, which is only accessed atomically or by
        /// single aligned loads and stores.
        #[inline(always)]
        unsafe fn $name(p: *mut u8, op: AmoOp, operand: u64, comparand: u64) -> u64 {
            // SAFETY: the caller guarantees alignment and validity.
            let word = unsafe { <$atomic>::from_ptr(p as *mut $int) };
            let v = operand as $int;
            let old = match op {
                AmoOp::Add => word.fetch_add(v, SeqCst),
                AmoOp::Xor => word.fetch_xor(v, SeqCst),
                AmoOp::And => word.fetch_and(v, SeqCst),
                AmoOp::Or => word.fetch_or(v, SeqCst),
                AmoOp::Swap => word.swap(v, SeqCst),
                AmoOp::CompareSwap => {
                    word.compare_exchange(comparand as $int, v, SeqCst, SeqCst).unwrap_or_else(|old| old)
                }
                AmoOp::Fetch => word.load(SeqCst),
            };
            old as u64
        }
    };
}
atomic!(atomic_u32, AtomicU32, u32);
atomic!(atomic_u64, AtomicU64, u64);

/// An atomic on the word of `width` (4 or 8) bytes at `p`; returns the old value.
///
/// # Safety
/// `p` is a multiple of `width` and valid for it.
#[inline(always)]
unsafe fn atomic(p: *mut u8, op: AmoOp, width: u8, operand: u64, comparand: u64) -> u64 {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { if width == 4 { atomic_u32(p, op, operand, comparand) } else { atomic_u64(p, op, operand, comparand) } }
}
