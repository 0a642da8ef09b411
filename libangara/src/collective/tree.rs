//! The collective subnet: reductions and broadcasts carried out by the routers.
//!
//! There are 16 trees, and each holds 16 reduce packets at once, told apart by ReduceId. A vector
//! longer than one packet (256 bytes) is cut into packets that follow each other through the
//! tree. This driver, not the program, numbers them: the s-th reduce packet of a tree takes
//! ReduceId s mod 16 and is posted only when packet s − 16 is known to be finished, which is
//! collision-free because every participant posts in the same order.
//!
//! Operands are 32- and 64-bit integers; sum wraps around. Results land in the library's
//! internal area of each receiver and are copied from there.

use super::area::INTERNAL_FREE;
use crate::ctx::Ctx;
use crate::driver::{Adapter, reached};
use crate::error::{Error, Result};
use angara_abi::channel::status;
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{Descriptor, Op, Place, Region, flags};
pub use angara_abi::packet::{ReduceElem, ReduceOp};
use angara_abi::{PAYLOAD_MAX, REDUCES, TREES};
use angara_protocol::msg::{AdapterReply, AdapterRequest};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// An integer the routers can reduce.
pub trait Element: Copy + private::Sealed {
    /// Its code in a packet.
    const ELEM: ReduceElem;
}

mod private {
    pub trait Sealed {
        fn bytes(self) -> [u8; 8];
        fn from_bytes(bytes: &[u8]) -> Self;
    }
}

macro_rules! element {
    ($($t:ty => $elem:ident),*) => {$(
        impl private::Sealed for $t {
            fn bytes(self) -> [u8; 8] {
                let mut b = [0; 8];
                b[..size_of::<$t>()].copy_from_slice(&self.to_le_bytes());
                b
            }
            fn from_bytes(bytes: &[u8]) -> $t {
                let mut b = [0; size_of::<$t>()];
                b.copy_from_slice(bytes);
                <$t>::from_le_bytes(b)
            }
        }
        impl Element for $t {
            const ELEM: ReduceElem = ReduceElem::$elem;
        }
    )*};
}
element!(i32 => I32, u32 => U32, i64 => I64, u64 => U64);

/// One reduce packet not known to be finished: where its result goes (operation, offset, bytes)
/// if it comes to this PE.
type Reduce = Option<(Arc<Mutex<Sum>>, usize, usize)>;

/// Result of one operation, filled packet by packet.
struct Sum {
    bytes: Vec<u8>,
    missing: usize,
}

/// All counts start at 0 when the daemon loads the tree, and so do its own in the status page.
#[derive(Default)]
struct TreeState {
    /// Reduce packets posted.
    sent: u64,
    /// The latest of them, as far as they are not known to be finished.
    window: VecDeque<Reduce>,
    /// Broadcast packets, and how many had passed when another PE last originated one.
    broadcasts: u32,
    foreign: u32,
    /// Opened by this PE, which has to close it.
    mine: bool,
}

/// State of each tree, as this PE knows it.
pub(crate) struct Trees([Mutex<TreeState>; TREES]);

impl Default for Trees {
    fn default() -> Trees {
        Trees(std::array::from_fn(|_| Mutex::new(TreeState::default())))
    }
}

impl Trees {
    fn lock(&self, id: u8) -> MutexGuard<'_, TreeState> {
        self.0[id as usize].lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn open(&self, adapter: &Adapter, root: usize, pes: &[usize]) -> Result<u8> {
        if let Some(&pe) = pes.iter().chain([&root]).find(|&&pe| pe >= adapter.n_pes()) {
            return Err(Error::invalid(format!("PE {pe} cannot take part: the job has {} PEs", adapter.n_pes())));
        }
        let pes = pes.iter().map(|&pe| pe as u32).collect();
        match adapter.ask(&AdapterRequest::TreeOpen { root: root as u32, pes })?.0 {
            AdapterReply::Tree { tree } if (tree as usize) < TREES => {
                *self.lock(tree) = TreeState { mine: true, ..TreeState::default() };
                Ok(tree)
            }
            other => Err(Error::Daemon(format!("unexpected answer to tree-open: {other:?}"))),
        }
    }

    /// Closes every tree that this PE has opened. No PE may be using one.
    pub(crate) fn close_all(&self, adapter: &Adapter) -> Result<()> {
        (0..TREES as u8).try_for_each(|id| self.close(adapter, id))
    }

    pub(crate) fn close(&self, adapter: &Adapter, id: u8) -> Result<()> {
        if id as usize >= TREES {
            return Err(Error::invalid(format!("tree {id}: there are {TREES} trees")));
        }
        let TreeState { mine, .. } = std::mem::take(&mut *self.lock(id));
        if mine {
            adapter.ask(&AdapterRequest::TreeClose { tree: id })?;
        }
        Ok(())
    }
}

/// A tree of the collective subnet. Every participant calls the same operations in the same order.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    /// The one context of the PE.
    ctx: &'a Ctx,
    /// Trees of its job.
    trees: &'a Trees,
    /// TreeId, below 16.
    id: u8,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(ctx: &'a Ctx, trees: &'a Trees, id: u8) -> Tree<'a> {
        Tree { ctx, trees, id }
    }
    /// TreeId.
    pub fn id(&self) -> u8 {
        self.id
    }

    fn adapter(&self) -> &'a Adapter {
        &self.ctx.adapter
    }
    fn lock(&self) -> MutexGuard<'a, TreeState> {
        self.trees.lock(self.id)
    }

    /// Combines `values` of all participants elementwise; every participant gets the result.
    pub fn all_reduce<T: Element>(&self, op: ReduceOp, values: &[T]) -> Result<Vec<T>> {
        self.all_reduce_nb(op, values)?.wait()
    }

    /// [`Tree::all_reduce`] without waiting.
    pub fn all_reduce_nb<T: Element>(&self, op: ReduceOp, values: &[T]) -> Result<Pending<'a, T>> {
        let pending = self.reduce_bytes(op, T::ELEM, None, &to_bytes(values))?;
        Ok(Pending { tree: *self, sum: pending, element: std::marker::PhantomData })
    }

    /// Combines `values` of all participants; only PE `to` gets the result, the others an empty
    /// vector, as soon as their contributions are on their way.
    pub fn reduce<T: Element>(&self, op: ReduceOp, to: usize, values: &[T]) -> Result<Vec<T>> {
        self.reduce_nb(op, to, values)?.wait()
    }

    /// [`Tree::reduce`] without waiting.
    pub fn reduce_nb<T: Element>(&self, op: ReduceOp, to: usize, values: &[T]) -> Result<Pending<'a, T>> {
        let pending = self.reduce_bytes(op, T::ELEM, Some(to), &to_bytes(values))?;
        Ok(Pending { tree: *self, sum: pending, element: std::marker::PhantomData })
    }

    /// [`Tree::all_reduce`] on raw elements, for callers that carry their type at run time.
    /// `buffer` holds this PE's elements and receives the result.
    pub fn all_reduce_raw(&self, op: ReduceOp, elem: ReduceElem, buffer: &mut [u8]) -> Result<()> {
        self.all_reduce_raw_nb(op, elem, buffer)?.wait(buffer)
    }

    /// [`Tree::all_reduce_raw`] without waiting; `source` may be reused at once.
    pub fn all_reduce_raw_nb(&self, op: ReduceOp, elem: ReduceElem, source: &[u8]) -> Result<PendingRaw<'a>> {
        Ok(PendingRaw { tree: *self, sum: self.reduce_bytes(op, elem, None, source)? })
    }

    fn reduce_bytes(&self, op: ReduceOp, elem: ReduceElem, to: Option<usize>, bytes: &[u8]) -> Result<Arc<Mutex<Sum>>> {
        if !bytes.len().is_multiple_of(elem.bytes()) {
            return Err(Error::invalid(format!("{} bytes are not whole elements of {}", bytes.len(), elem.bytes())));
        }
        if let Some(pe) = to {
            self.adapter().check_target(pe)?;
        }
        let here = to.is_none_or(|pe| pe == self.adapter().memory.me);
        let wanted = if here { bytes.len() } else { 0 };
        let sum = Arc::new(Mutex::new(Sum { bytes: vec![0; wanted], missing: wanted }));
        let mut state = self.lock();
        for (i, packet) in bytes.chunks(PAYLOAD_MAX).enumerate() {
            let at = i * PAYLOAD_MAX;
            self.post(&mut state, op, elem, to, packet, here.then(|| (sum.clone(), at, packet.len())))?;
        }
        Ok(sum)
    }

    /// Posts one reduce packet in its turn.
    fn post(
        &self,
        state: &mut TreeState,
        op: ReduceOp,
        elem: ReduceElem,
        to: Option<usize>,
        packet: &[u8],
        into: Reduce,
    ) -> Result<()> {
        let room = || {
            self.progress(state);
            state.window.len() < REDUCES
        };
        self.adapter().wait(WaitsFor::Tree, room, &|| self.waiting("room for a reduction"))?;
        let reduce = (state.sent % REDUCES as u64) as u8;
        let target = self.adapter().pe_entry(to.unwrap_or(self.adapter().memory.me));
        let base = Descriptor {
            len: packet.len() as u32,
            dst: target.coords,
            endpoint: target.endpoint,
            flags: if to.is_none() { flags::ALL } else { 0 },
            remote: Some(self.result_place(reduce)),
            tree: self.id,
            reduce,
            reduce_op: op,
            elem,
            ..Descriptor::new(Op::Reduce)
        };
        self.ctx.post_collective(&base, packet, to.unwrap_or(self.adapter().memory.me))?;
        state.sent += 1;
        state.window.push_back(into);
        Ok(())
    }

    fn result_place(&self, reduce: u8) -> Place {
        let index = self.id as usize * REDUCES + reduce as usize;
        Place { region: Region::Heap, offset: (INTERNAL_FREE + index * PAYLOAD_MAX) as u64 }
    }

    /// Takes finished reductions out of the window. The status page counts them in sequence,
    /// those included whose result went to another PE.
    fn progress(&self, state: &mut TreeState) {
        let Ok(channel) = self.adapter().channel() else { return };
        let now = channel.status_u32(status::TREE_RESULTS + 4 * self.id as usize).load(Ordering::Acquire);
        let first = state.sent - state.window.len() as u64;
        let finished = (now.wrapping_sub(first as u32) as usize).min(state.window.len());
        if !reached(now, first as u32) {
            return;
        }
        for (i, reduce) in state.window.drain(..finished).enumerate() {
            let Some((sum, at, len)) = reduce else { continue };
            let id = ((first + i as u64) % REDUCES as u64) as u8;
            let from = self.adapter().memory.local(self.result_place(id));
            let mut sum = lock(&sum);
            // SAFETY: the result slot lies in this PE's internal area and holds `len` ≤ 256 bytes;
            // `at + len` bytes were allocated for the result.
            unsafe { angara_abi::copy::load(sum.bytes[at..at + len].as_mut_ptr(), from, len) };
            sum.missing -= len;
        }
    }

    fn done(&self, sum: &Mutex<Sum>) -> bool {
        if lock(sum).missing == 0 {
            return true;
        }
        self.progress(&mut self.lock());
        lock(sum).missing == 0
    }

    /// Before a test whether something is there.
    fn look(&self) {
        // Where the job has ended the next call that communicates says so.
        let _ = self.adapter().look();
    }

    fn finish(&self, sum: &Mutex<Sum>) -> Result<()> {
        self.adapter().wait(WaitsFor::Tree, || self.done(sum), &|| self.waiting("the result of a reduction"))
    }

    fn waiting(&self, what: &str) -> String {
        format!("{what} on tree {}", self.id)
    }

    /// Writes `len` bytes at `src` of PE `from`, the root or not, to `place` of every participant;
    /// returns when they are here. Called by all participants; `src` matters only at `from`.
    ///
    /// One-sided like a put: nothing keeps a fast originator from overwriting `place` again before
    /// a slow participant has read it.
    ///
    /// # Safety
    /// At PE `from`, `src` is readable for `len` bytes.
    pub unsafe fn broadcast(&self, from: usize, place: Place, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises what the callee asks for.
        let arrival = unsafe { self.broadcast_nb(from, place, src, len)? };
        arrival.wait()
    }

    /// [`Tree::broadcast`] without waiting; `src` may be reused at once.
    ///
    /// # Safety
    /// As [`Tree::broadcast`].
    pub unsafe fn broadcast_nb(&self, from: usize, place: Place, src: *const u8, len: usize) -> Result<Arrival<'a>> {
        self.adapter().check_target(from)?;
        if len > 0 {
            self.ctx.check_range_to(self.adapter().memory.me, place, len)?;
        }
        let mine = from == self.adapter().memory.me;
        let packets = len.div_ceil(PAYLOAD_MAX) as u32;
        let mut state = self.lock();
        if mine && len > 0 {
            // Arrivals are only counted, so broadcasts must pass the root in the agreed order:
            // what others originated earlier has passed it when it is here.
            let earlier = state.foreign;
            self.adapter().wait(WaitsFor::Tree, || self.arrived(earlier), &|| self.waiting("earlier broadcasts"))?;
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(src, len) };
            for (i, packet) in bytes.chunks(PAYLOAD_MAX).enumerate() {
                let remote = Place { offset: place.offset + (i * PAYLOAD_MAX) as u64, ..place };
                let me = self.adapter().pe_entry(from);
                let base = Descriptor {
                    len: packet.len() as u32,
                    dst: me.coords,
                    endpoint: me.endpoint,
                    remote: Some(remote),
                    tree: self.id,
                    ..Descriptor::new(Op::Bcast)
                };
                self.ctx.post_collective(&base, packet, from)?;
            }
        }
        state.broadcasts = state.broadcasts.wrapping_add(packets);
        if !mine {
            state.foreign = state.broadcasts;
        }
        Ok(Arrival { tree: *self, due: state.broadcasts })
    }

    /// Broadcast packets number `due` and all before it are in this PE's memory.
    fn arrived(&self, due: u32) -> bool {
        let Ok(channel) = self.adapter().channel() else { return true };
        let now = channel.status_u32(status::TREE_BCASTS + 4 * self.id as usize).load(Ordering::Acquire);
        reached(now, due)
    }
}

/// A reduction on its way.
#[must_use = "a reduction is finished by wait or test"]
pub struct Pending<'a, T> {
    /// The tree it runs on.
    tree: Tree<'a>,
    /// Counts of arrivals, shared with the tree.
    sum: Arc<Mutex<Sum>>,
    /// Type of an element.
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Pending<'_, T> {
    /// True if the result is here.
    pub fn test(&self) -> bool {
        self.tree.look();
        self.tree.done(&self.sum)
    }
    /// Waits for the result: empty if it goes to another PE.
    pub fn wait(self) -> Result<Vec<T>> {
        self.tree.finish(&self.sum)?;
        Ok(lock(&self.sum).bytes.chunks(size_of::<T>()).map(T::from_bytes).collect())
    }
}

/// A reduction of raw elements on its way.
#[must_use = "a reduction is finished by wait or test"]
pub struct PendingRaw<'a> {
    /// The tree it runs on.
    tree: Tree<'a>,
    /// Counts of arrivals, shared with the tree.
    sum: Arc<Mutex<Sum>>,
}

impl PendingRaw<'_> {
    /// True if the result is here.
    pub fn test(&self) -> bool {
        self.tree.look();
        self.tree.done(&self.sum)
    }
    /// Waits for the result and copies it to `into`, which is as long as the source was.
    ///
    /// # Panics
    /// If it is not.
    pub fn wait(self, into: &mut [u8]) -> Result<()> {
        self.tree.finish(&self.sum)?;
        into.copy_from_slice(&lock(&self.sum).bytes);
        Ok(())
    }
}

/// A broadcast on its way.
#[must_use = "a broadcast is finished by wait or test"]
pub struct Arrival<'a> {
    /// The tree it runs on.
    tree: Tree<'a>,
    /// How many broadcasts have arrived once it has.
    due: u32,
}

impl Arrival<'_> {
    /// True if the data is here.
    pub fn test(&self) -> bool {
        self.tree.look();
        self.tree.arrived(self.due)
    }
    /// Waits until the data is here.
    pub fn wait(self) -> Result<()> {
        self.tree.adapter().wait(WaitsFor::Tree, || self.tree.arrived(self.due), &|| self.tree.waiting("a broadcast"))
    }
}

fn to_bytes<T: Element>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|v| v.bytes().into_iter().take(size_of::<T>())).collect()
}

fn lock(sum: &Mutex<Sum>) -> MutexGuard<'_, Sum> {
    sum.lock().unwrap_or_else(|e| e.into_inner())
}
