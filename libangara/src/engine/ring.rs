//! The ring engine: operations become posts that the adapter carries out over the network.
//!
//! Up to 8 bytes travel inside a descriptor, up to 256 as a packet in the injection ring, more by
//! DMA. The adapter reads only memory the daemon made: data in the symmetric heap or in symmetric
//! static data is read where it lies, anything else goes through this PE's bounce region.
//!
//! Nothing is acknowledged. A fetching atomic and a get of up to 8 bytes complete when a completion word receives
//! their sequence number, other gets when the adapter shows that all reads up to them have delivered, so that any number
//! of them can be on their way; puts complete through a read that travels behind them ([`Ring::quiet`]).

use super::bounce::Bounce;
use super::{Amo, Engine, Mode, Transfer, forward};
use crate::driver::wait::For;
use crate::driver::{Adapter, OpState};
use crate::error::{Error, Result};
use crate::per_peer::PerPeer;
use angara_abi::account::{Class, READ_MAX};
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{DMA_MAX, Descriptor, Op, Place};
use angara_abi::{PAYLOAD_MAX, queue};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A put from symmetric memory up to this size is copied rather than waited for.
const COPY_MAX: usize = 64 * 1024;
/// Staging taken per chunk: whole READ_REQs and whole packets, and several chunks fit at once.
const CHUNK: usize = 4 * READ_MAX;
const _: () = assert!(CHUNK.is_multiple_of(PAYLOAD_MAX) && DMA_MAX.is_multiple_of(READ_MAX));

/// Flushes on their way at once during a quiet.
const FLUSHES: usize = 32;

pub(crate) struct Ring {
    adapter: Arc<Adapter>,
    /// Something was posted since the last quiet; keeps quiet and fence free on a direct job. Always where time is virtual:
    /// whoever calls them in a loop waits, and time must pass.
    busy: AtomicBool,
    state: Mutex<RingState>,
    /// One quiet at a time: the second one must not overlook what the first still waits for.
    quiet: Mutex<()>,
}

struct RingState {
    /// PEs with puts or atomics on their way, each once.
    touched: Vec<usize>,
    /// By PE: the period of the latest of them, 0 if there are none.
    touched_in: PerPeer<u64>,
    /// Periods end at the barriers that complete everything.
    period: u64,
    /// Something was posted since the last fence.
    unfenced: bool,
    bounce: Bounce,
}

impl Ring {
    pub(super) const COSTS: &str = "ring";

    pub(crate) fn new(adapter: Arc<Adapter>) -> Ring {
        let touched_in = PerPeer::new(adapter.n_pes());
        let state =
            RingState { touched: Vec::new(), touched_in, period: 1, unfenced: false, bounce: Bounce::default() };
        let busy = AtomicBool::new(adapter.clock().is_some());
        Ring { adapter, busy, state: Mutex::new(state), quiet: Mutex::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes that `pe` has something on its way.
    fn touch(&self, state: &mut RingState, pe: usize) {
        self.busy.store(true, Ordering::Relaxed);
        state.unfenced = true;
        if std::mem::replace(state.touched_in.of_mut(pe), state.period) == 0 {
            state.touched.push(pe);
        }
    }

    fn descriptor(&self, op: Op, class: Class, pe: usize, remote: Place) -> Descriptor {
        let entry = self.adapter.memory.job.pe(pe);
        let (dst, endpoint) = (entry.coords, entry.endpoint);
        Descriptor { class, dst, endpoint, remote: Some(remote), ..Descriptor::new(op) }
    }

    /// # Safety
    /// As [`Ring::put`].
    unsafe fn put_bounced(&self, state: &mut RingState, to: Transfer, src: *const u8) -> Result<()> {
        let Transfer { class, pe, place: dst, len } = to;
        for (at, n) in chunks(len, CHUNK) {
            let (place, end) = state.bounce.take(&self.adapter, n)?;
            let staging = self.adapter.memory.bounce.as_ptr();
            // SAFETY: `take` returned `n` bytes of staging nobody else uses; the source is
            // readable for `len` bytes.
            unsafe { angara_abi::copy::store(staging.add(place.offset as usize), src.add(at), n) };
            let to = forward(dst, at);
            let d = Descriptor { len: n as u32, local: Some(place), ..self.descriptor(Op::Put, class, pe, to) };
            let seq = self.adapter.post(&d, pe)?;
            state.bounce.put(seq, end);
        }
        Ok(())
    }

    /// Posts something answered into a result word and waits for the answer.
    fn answered(&self, post: impl FnOnce(crate::driver::Slot) -> Result<u32>, pe: usize) -> Result<u64> {
        let slot = self.adapter.wait_slot()?;
        let seq = post(slot)?;
        let change = WaitsFor::Completion(slot.completion());
        self.adapter.wait_completion((For::Adapter, change), || self.adapter.completed(slot, seq), &|| {
            format!("an answer from PE {pe} (post {seq})")
        })?;
        let value = self.adapter.result(slot);
        self.adapter.release_slot(slot);
        Ok(value)
    }

    /// Waits for every get, and is idle then unless another thread has issued something.
    fn rest(&self) -> Result<()> {
        self.gets(&|| "gets to deliver their data".to_string())?;
        // Not before: another thread's quiet may skip this only when its own operations are done, too.
        let state = self.lock();
        if state.touched.is_empty() && state.bounce.is_empty() && self.adapter.clock().is_none() {
            self.busy.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Posts `d` with `data` in the bounce region as its local place; `data` may be reused on return.
    pub(super) fn post_bounced(&self, d: &Descriptor, data: &[u8], pe: usize) -> Result<u32> {
        let mut state = self.lock();
        let (place, end) = state.bounce.take(&self.adapter, data.len())?;
        self.adapter.memory.bounce.write(place.offset as usize, data).map_err(|e| Error::layout("bounce region", e))?;
        let seq = self.adapter.post(&Descriptor { local: Some(place), ..*d }, pe)?;
        state.bounce.put(seq, end);
        Ok(seq)
    }
}

impl Engine for Ring {
    fn costs(&self) -> &'static str {
        Ring::COSTS
    }

    unsafe fn put(&self, to: Transfer, src: *const u8, mode: Mode) -> Result<()> {
        let Transfer { class, pe, place: dst, len } = to;
        let mut state = self.lock();
        self.touch(&mut state, pe);
        if len <= 8 {
            let mut bytes = [0; 8];
            // SAFETY: the source is readable for `len` ≤ 8 bytes.
            unsafe { angara_abi::copy::load(bytes.as_mut_ptr(), src, len) };
            let operand = u64::from_le_bytes(bytes);
            let d = Descriptor { len: len as u32, operand, ..self.descriptor(Op::PutInline, class, pe, dst) };
            return self.adapter.post(&d, pe).map(drop);
        }
        // A packet in the ring carries no class: the adapter counts it as a put.
        if len <= PAYLOAD_MAX && class == Class::Put {
            let mut bytes = [0; PAYLOAD_MAX];
            // SAFETY: the source is readable for `len` ≤ 256 bytes.
            unsafe { angara_abi::copy::load(bytes.as_mut_ptr(), src, len) };
            let entry = self.adapter.memory.job.pe(pe);
            let packet = crate::driver::packet::write(entry, dst, &bytes[..len])?;
            return self.adapter.push_packet(&packet, pe, len).map(drop);
        }
        let local = self.adapter.memory.locate(src, len).filter(|_| mode == Mode::Nonblocking || len > COPY_MAX);
        let Some(local) = local else {
            // SAFETY: the caller promises what the callee asks for.
            return unsafe { self.put_bounced(&mut state, to, src) };
        };
        let mut last = 0;
        for (at, n) in chunks(len, DMA_MAX) {
            let (from, place) = (forward(local, at), forward(dst, at));
            let d = Descriptor { len: n as u32, local: Some(from), ..self.descriptor(Op::Put, class, pe, place) };
            last = self.adapter.post(&d, pe)?;
        }
        drop(state);
        if mode == Mode::Blocking {
            let what = || format!("the adapter to copy a put of {len} bytes to PE {pe}");
            self.adapter.wait(WaitsFor::Copied(last), || self.adapter.copied(last), &what)?;
        }
        Ok(())
    }

    unsafe fn get(&self, from: Transfer, dst: *mut u8, mode: Mode) -> Result<()> {
        let Transfer { class, pe, place: src, len } = from;
        if mode == Mode::Blocking && len <= 8 {
            let old =
                self.answered(|slot| self.adapter.post_read(pe, Some(slot), class, src, slot.result(), len), pe)?;
            // SAFETY: the destination is writable for `len` ≤ 8 bytes.
            unsafe { angara_abi::copy::store(dst, old.to_le_bytes().as_ptr(), len) };
            return Ok(());
        }
        let own = self.adapter.memory.locate_to(dst, len);
        let mut state = self.lock();
        self.busy.store(true, Ordering::Relaxed);
        for (at, n) in chunks(len, if own.is_some() { DMA_MAX } else { CHUNK }) {
            let (local, end) = match own {
                Some(place) => (forward(place, at), None),
                None => state.bounce.take(&self.adapter, n).map(|(p, end)| (p, Some(end)))?,
            };
            let seq = self.adapter.post_read(pe, None, class, forward(src, at), local, n)?;
            // SAFETY: `at` < `len` bytes of the destination.
            let to = end.map(|_| (unsafe { dst.add(at) }, local, n));
            state.bounce.get(seq, end, to);
        }
        drop(state);
        if mode == Mode::Blocking {
            self.gets(&|| format!("a get of {len} bytes from PE {pe}"))?;
        }
        Ok(())
    }

    fn amo(&self, at: Transfer, amo: Amo) -> Result<u64> {
        let Transfer { class, pe, place, .. } = at;
        let Amo { op, width, operand, comparand, fetch } = amo;
        let d = Descriptor { amo: op, width, operand, comparand, ..self.descriptor(Op::Amo, class, pe, place) };
        if !fetch {
            self.touch(&mut self.lock(), pe);
            return self.adapter.post(&d, pe).map(|_| 0);
        }
        let old = self.answered(
            |slot| {
                let (local, completion) = (Some(slot.result()), Some(slot.completion()));
                self.adapter.post(&Descriptor { local, completion, ..d }, pe)
            },
            pe,
        )?;
        Ok(if width == 4 { old & 0xffff_ffff } else { old })
    }

    #[inline]
    fn idle(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
    }

    fn gets(&self, what: &dyn Fn() -> String) -> Result<()> {
        let (last, get) = {
            let state = self.lock();
            (state.bounce.posted(), state.bounce.last_get())
        };
        let all = || self.lock().bounce.retired(&self.adapter) >= last;
        if let Some(get) = get {
            let change = WaitsFor::Delivered(get);
            self.adapter.wait_completion((For::Adapter, change), || all() || self.adapter.delivered(get), what)?;
        }
        self.adapter.wait_completion((For::Adapter, WaitsFor::Adapter), all, what)
    }

    fn posted(&self) -> u64 {
        self.lock().bounce.posted()
    }

    fn give_up_gets(&self, since: u64) {
        self.lock().bounce.give_up(since);
    }

    fn fence(&self) -> Result<()> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.unfenced) {
            return self.adapter.call();
        }
        self.adapter.post(&Descriptor::new(Op::Fence), self.adapter.my_pe()).map(drop)
    }

    /// Flushes every touched target (or one) and waits for every get.
    fn quiet(&self, only: Option<usize>) -> Result<()> {
        let _one_at_a_time = self.quiet.lock().unwrap_or_else(|e| e.into_inner());
        let (touched, idle) = {
            let mut state = self.lock();
            let RingState { touched, touched_in, .. } = &mut *state;
            let mut take = Vec::new();
            touched.retain(|&pe| {
                let others = only.is_some_and(|only| only != pe);
                if !others {
                    *touched_in.of_mut(pe) = 0;
                    take.push(pe);
                }
                others
            });
            let idle = take.is_empty() && state.bounce.is_empty();
            (take, idle)
        };
        if idle {
            self.adapter.call()?;
        }
        for group in touched.chunks(FLUSHES) {
            let flushes = group.iter().map(|&pe| self.adapter.flush(pe)).collect::<Result<Vec<_>>>()?;
            for flush in flushes {
                flush.wait_for(&self.adapter, OpState::Complete)?;
                flush.wait(&self.adapter)?;
            }
        }
        self.rest()
    }

    fn end_period(&self) -> u64 {
        let mut state = self.lock();
        state.period += 1;
        state.period - 1
    }

    fn settle(&self, period: u64) -> Result<()> {
        let mut state = self.lock();
        let RingState { touched, touched_in, .. } = &mut *state;
        touched.retain(|&pe| {
            let touched = touched_in.of_mut(pe);
            let later = *touched > period;
            *touched *= u64::from(later);
            later
        });
        drop(state);
        self.rest()
    }
}

/// `len` split into (offset, length) of at most `max`.
fn chunks(len: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len).step_by(max).map(move |at| (at, (len - at).min(max)))
}

const _: () = assert!(queue::DMA_SLOTS > FLUSHES);
