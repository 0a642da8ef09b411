//! The ways to another PE's memory, and the one place that chooses between them.
//!
//! [`Direct`] does an operation with the caller's own thread, mostly inlined into it. What that does not reach goes to
//! an [`Engine`], which is [`ring`]. Another kind of time or transport is another file beside it, and is chosen in
//! [`Engines::far`]. Who chooses algorithms by what carries them asks for the [`Profile`].

mod bounce;
mod direct;
mod profile;
mod ring;
mod transfer;

pub use profile::Profile;
pub use transfer::{Amo, Strided};
pub(crate) use transfer::{Mode, Transfer, forward};

use crate::driver::Adapter;
use crate::error::{Error, Result};
use angara_abi::account::{Class, Traffic};
use angara_abi::desc::{AmoOp, Descriptor, Place};
use angara_abi::order;
pub(crate) use direct::{Direct, load};
use ring::Ring;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// The engine for PEs that are not reached directly.
///
/// When an operation comes here, its PE and range have been checked, it has been counted, and it is at least one byte
/// long. Source and destination do not overlap.
pub(crate) trait Engine {
    /// Returns what tables of measured costs call it.
    fn costs(&self) -> &'static str;
    /// Writes `to.len` bytes at `src`.
    ///
    /// # Safety
    /// As [`crate::Ctx::put`], or as [`crate::Ctx::put_nbi`] if it does not block.
    unsafe fn put(&self, to: Transfer, src: *const u8, mode: Mode) -> Result<()>;
    /// Reads `from.len` bytes into `dst`.
    ///
    /// # Safety
    /// As [`crate::Ctx::get`], or as [`crate::Ctx::get_nbi`] if it does not block.
    unsafe fn get(&self, from: Transfer, dst: *mut u8, mode: Mode) -> Result<()>;
    /// An atomic on the aligned word `at`; returns its old value if that was asked for, else 0.
    fn amo(&self, at: Transfer, amo: Amo) -> Result<u64>;
    /// Nothing was issued since the last quiet, so there is nothing to order or to wait for.
    fn idle(&self) -> bool;
    /// Returns when every get issued so far has delivered its data; `what` names them in a timeout message.
    fn gets(&self, what: &dyn Fn() -> String) -> Result<()>;
    /// A mark behind all that has been issued so far.
    fn posted(&self) -> u64;
    /// Nothing arrives any more of gets issued behind a mark that have not delivered, but in symmetric memory.
    fn give_up_gets(&self, since: u64);
    /// Orders what was issued before what will be, per target.
    fn fence(&self) -> Result<()>;
    /// Returns when everything issued before, to one PE or to all, has taken effect and every get has delivered.
    fn quiet(&self, only: Option<usize>) -> Result<()>;
    /// Begins another period of operations; the one that ends now.
    fn end_period(&self) -> u64;
    /// A barrier has completed everything issued until the end of a period: what is left of quiet is done.
    fn settle(&self, period: u64) -> Result<()>;
}

/// All engines of a context.
pub(crate) struct Engines {
    pub(crate) direct: Direct,
    adapter: Arc<Adapter>,
    ring: Ring,
}

impl Engines {
    pub(crate) fn new(adapter: Arc<Adapter>) -> Engines {
        Engines { direct: Direct::new(adapter.clone()), ring: Ring::new(adapter.clone()), adapter }
    }

    /// The engine for what is not reached directly.
    #[inline(always)]
    fn far(&self) -> &impl Engine {
        &self.ring
    }

    /// # Safety
    /// As [`Engine::put`].
    #[inline(always)]
    pub(crate) unsafe fn put(&self, to: Transfer, src: *const u8, mode: Mode) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        if unsafe { self.direct.put(to, src) } {
            return Ok(());
        }
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.put_far(to, src, mode) }
    }

    /// # Safety
    /// As [`Engine::get`].
    #[inline(always)]
    pub(crate) unsafe fn get(&self, from: Transfer, dst: *mut u8, mode: Mode) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        if unsafe { self.direct.get(from, dst) } {
            return Ok(());
        }
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.get_far(from, dst, mode) }
    }

    #[inline(always)]
    pub(crate) fn amo(&self, class: Class, pe: usize, place: Place, amo: Amo) -> Result<u64> {
        let at = Transfer { class, pe, place, len: amo.width as usize };
        match self.direct.amo(at, amo) {
            Some(old) => Ok(old),
            None => self.amo_far(at, amo),
        }
    }

    /// [`Engines::put`] of what is not reached directly, and its errors.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn put_far(&self, to: Transfer, src: *const u8, mode: Mode) -> Result<()> {
        if to.len == 0 {
            return self.check(to.pe);
        }
        self.check_range_to(to)?;
        self.direct.count(to, Traffic::put(to.len));
        if self.is_own(to.pe) {
            self.adapter.call()?;
            // SAFETY: the range was checked, the caller vouches for the source.
            unsafe { self.direct.put_here(to, src) };
            return Ok(());
        }
        if self.overlaps(to, src) {
            // The adapter reads while it writes.
            let mut whole = vec![0; to.len];
            // SAFETY: the caller vouches for the source; the copy stays until the engine has its own.
            return unsafe {
                angara_abi::copy::load(whole.as_mut_ptr(), src, to.len);
                self.far().put(to, whole.as_ptr(), Mode::Blocking)
            };
        }
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.far().put(to, src, mode) }
    }

    /// [`Engines::get`] of what is not reached directly, and its errors.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn get_far(&self, from: Transfer, dst: *mut u8, mode: Mode) -> Result<()> {
        if from.len == 0 {
            return self.check(from.pe);
        }
        self.check_range(from)?;
        self.direct.count(from, Traffic::get(from.len));
        if self.is_own(from.pe) {
            self.adapter.look()?;
            // SAFETY: the range was checked, the caller vouches for the destination.
            unsafe { self.direct.get_here(from, dst) };
            return Ok(());
        }
        if self.overlaps(from, dst) {
            let mut whole = vec![0; from.len];
            // SAFETY: the caller vouches for the destination.
            return unsafe {
                self.far().get(from, whole.as_mut_ptr(), Mode::Blocking)?;
                angara_abi::copy::store(dst, whole.as_ptr(), from.len);
                Ok(())
            };
        }
        // SAFETY: the caller promises what the callee asks for.
        unsafe { self.far().get(from, dst, mode) }
    }

    #[cold]
    #[inline(never)]
    fn amo_far(&self, at: Transfer, amo: Amo) -> Result<u64> {
        let Amo { op, width, .. } = amo;
        if !matches!(width, 4 | 8) {
            return Err(Error::invalid(format!("an atomic on {width} bytes: only 4 and 8 are possible")));
        }
        match op {
            AmoOp::Fetch => self.check_range(at)?,
            _ => self.check_range_to(at)?,
        }
        if !at.place.offset.is_multiple_of(width as u64) {
            let offset = at.place.offset;
            return Err(Error::invalid(format!("an atomic at offset {offset:#x} is not aligned to {width} bytes")));
        }
        self.direct.count(at, amo.traffic());
        if self.is_own(at.pe) {
            if amo.fetch {
                self.adapter.look()?
            } else {
                self.adapter.call()?
            };
            return Ok(self.direct.amo_here(at, amo));
        }
        self.far().amo(at, amo)
    }

    /// [`Engine::gets`] of all engines.
    pub(crate) fn gets(&self, what: &dyn Fn() -> String) -> Result<()> {
        if self.far().idle() { Ok(()) } else { self.far().gets(what) }
    }

    /// [`Engine::posted`] of all engines.
    pub(crate) fn posted(&self) -> u64 {
        self.far().posted()
    }

    /// [`Engine::give_up_gets`] of all engines.
    pub(crate) fn give_up_gets(&self, since: u64) {
        self.far().give_up_gets(since);
    }

    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        order::between_puts();
        if self.far().idle() { Ok(()) } else { self.far().fence() }
    }

    #[inline]
    pub(crate) fn quiet(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        if self.far().idle() { Ok(()) } else { self.far().quiet(None) }
    }

    /// Quiet, by a barrier of the adapters, which completes everything in the network.
    pub(crate) fn quiet_by(&self, barrier: impl FnOnce() -> Result<()>) -> Result<()> {
        fence(Ordering::SeqCst);
        if self.far().idle() {
            return barrier();
        }
        let period = self.far().end_period();
        barrier()?;
        self.far().settle(period)
    }

    pub(crate) fn quiet_pe(&self, pe: usize) -> Result<()> {
        fence(Ordering::SeqCst);
        self.check(pe)?;
        if self.far().idle() { Ok(()) } else { self.far().quiet(Some(pe)) }
    }

    /// Posts a collective descriptor with its data in the bounce region. Only adapters do collectives.
    pub(crate) fn post_collective(&self, d: &Descriptor, data: &[u8], pe: usize) -> Result<u32> {
        self.ring.post_bounced(d, data, pe)
    }

    /// Refuses a target that cannot be reached.
    pub(crate) fn check(&self, pe: usize) -> Result<()> {
        self.adapter.check_target(pe)
    }

    /// Refuses a target or a range that cannot be written.
    pub(crate) fn check_range_to(&self, to: Transfer) -> Result<()> {
        self.check_range(to)?;
        let Transfer { place, len, .. } = to;
        if !self.adapter.memory.peers.is_writable(place, len) {
            let what = format!("{len} bytes at offset {:#x} of region {:?}", place.offset, place.region);
            return Err(Error::invalid(format!("{what} are constants, which peers can read and not write")));
        }
        Ok(())
    }

    /// Refuses a target or a range that cannot be.
    fn check_range(&self, at: Transfer) -> Result<()> {
        let Transfer { pe, place, len, .. } = at;
        self.check(pe)?;
        let peers = &self.adapter.memory.peers;
        if peers.address(pe, place, len).is_none() {
            let room = peers.window(place.region).len;
            let Place { region, offset } = place;
            let what = format!("{len} bytes at offset {offset:#x} of region {region:?}");
            return Err(Error::invalid(format!("{what} are not inside its {room} symmetric bytes")));
        }
        Ok(())
    }

    /// True if an operation on `pe` is one on this PE's own memory, where time is virtual: it needs no network, but
    /// whoever does it in a loop waits, and time must pass.
    fn is_own(&self, pe: usize) -> bool {
        pe == self.adapter.memory.me && self.adapter.clock().is_some()
    }

    /// True if the bytes of `at` share memory with as many at `p` of this process.
    fn overlaps(&self, at: Transfer, p: *const u8) -> bool {
        let memory = &self.adapter.memory;
        if at.pe != memory.me {
            return false;
        }
        match memory.locate(p, at.len) {
            // Globals have two views, and `p` may lie in either.
            Some(Place { region, offset }) => {
                region == at.place.region && offset.abs_diff(at.place.offset) < at.len as u64
            }
            None => (memory.local(at.place) as usize).abs_diff(p as usize) < at.len,
        }
    }
}
