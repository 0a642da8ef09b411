//! A job as one of its PEs sees it: the SHMEM-like level of this crate.
//!
//! A process is one PE. It attaches once ([`Job::attach`] under a launcher, [`Job::solo`] without
//! one), then names remote memory by (PE, [`Place`]): a region and an offset that mean the same
//! on every PE. [`Job::locate`] turns an address of a symmetric object into its place.

use crate::collective::area::INTERNAL_FREE;
use crate::collective::barrier::Barriers;
use crate::ctx::Ctx;
use crate::driver::Adapter;
use crate::engine::Profile;
use crate::error::{Error, Result};
use crate::memory::StaticSegment;
use crate::tree::{Tree, Trees};
use angara_abi::account::{Class, Load, Traffic};
use angara_abi::clock::{Comparison, WaitsFor};
use angara_abi::desc::{Place, Region};
use angara_abi::inside::{Host, Parts};
use angara_abi::job::{Geometry, PeEntry, internal_bytes, large_tables};
use angara_net::Link;
use angara_net::torus::{Direction, NodeId};
use angara_protocol::launch::Launch;
use angara_protocol::msg::{AdapterReply, AdapterRequest};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One PE's view of its job. Shared by all threads of the process.
pub struct Job {
    pub(crate) adapter: Arc<Adapter>,
    /// The one context of the PE.
    ctx: Ctx,
    trees: Trees,
    barriers: Barriers,
}

impl Job {
    /// Attaches to the job `launch` names: connects to the daemon, maps everything, and registers
    /// this process for the sleep protocol. `statics` are the page ranges of this process whose
    /// contents shall be symmetric; their pages are not touched (see [`Job::static_fd`]).
    pub fn attach(launch: &Launch, statics: &[StaticSegment]) -> Result<Job> {
        Ok(Job::over(Adapter::open(launch, statics)?))
    }

    /// Attaches if a launcher started this process, else makes a job of one PE with `heap` bytes.
    pub fn from_env(heap: usize) -> Result<Job> {
        Job::start(&[], || Ok(heap))
    }

    /// [`Job::from_env`] with static segments; `heap` is only asked without a launcher. The launcher
    /// is `angara run`, or one of MPI's ([`crate::launcher`]).
    pub fn start(statics: &[StaticSegment], heap: impl FnOnce() -> Result<usize>) -> Result<Job> {
        match Launch::from_env() {
            Ok(launch) => Job::attach(&launch, statics),
            Err(angara_protocol::launch::LaunchError::NoLauncher) => match crate::launcher::launch()? {
                Some(launch) => Job::attach(&launch, statics),
                None => Job::solo(heap()?, statics),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// A job of one PE without launcher or daemon, with `heap` bytes of symmetric heap.
    pub fn solo(heap: usize, statics: &[StaticSegment]) -> Result<Job> {
        Ok(Job::over(Adapter::solo(heap, statics)?))
    }

    /// Joins a job as one of the PEs that are all in this process.
    ///
    /// # Safety
    /// The regions of `parts` are what [`angara_abi::inside::Parts`] says, and stay as long as the process.
    pub unsafe fn inside(host: &'static Host, parts: &Parts) -> Result<Job> {
        // SAFETY: the caller's promise.
        Ok(Job::over(unsafe { Adapter::inside(host, parts)? }))
    }

    pub(crate) fn over(adapter: Adapter) -> Job {
        let adapter = Arc::new(adapter);
        let ctx = Ctx::new(adapter.clone());
        let barriers = Barriers::new(&adapter, ctx.profile());
        Job { ctx, trees: Trees::default(), barriers, adapter }
    }

    /// Closes the short paths [`Ctx::put_own`] and its like: every operation then names a [`Place`],
    /// which its caller can check.
    pub fn look_closer(&mut self) {
        self.ctx.without_shortcut();
    }

    /// Several threads will use this job at once: each counts its traffic apart from the others.
    pub fn with_threads(&mut self) {
        self.ctx.with_threads();
        self.adapter.with_threads();
    }

    /// This PE.
    #[inline]
    pub fn my_pe(&self) -> usize {
        self.adapter.memory.me
    }
    /// Number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.adapter.memory.geometry.pes
    }
    /// Shape of the network, strides, barrier and collective family.
    pub fn geometry(&self) -> &Geometry {
        &self.adapter.memory.geometry
    }
    /// Node, coordinates and endpoint of `pe`.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn pe_entry(&self, pe: usize) -> PeEntry {
        self.adapter.pe_entry(pe)
    }
    /// Links between this PE's node and that of `pe` on a minimal route.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn hops(&self, pe: usize) -> u32 {
        self.geometry().shape.distance(self.pe_entry(self.my_pe()).node, self.pe_entry(pe).node)
    }
    /// The driver level of the same channel. Its posts share this job's sequence.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn slice(&self) -> *mut u8 {
        let w = self.adapter.memory.peers.window(Region::Heap);
        w.base.wrapping_add(self.my_pe() * w.stride)
    }
    /// My symmetric heap.
    pub fn heap(&self) -> *mut u8 {
        self.slice().wrapping_add(internal_bytes(self.n_pes()))
    }
    /// Bytes of [`Job::heap`].
    pub fn heap_len(&self) -> usize {
        let Geometry { heap_stride, registered, .. } = *self.geometry();
        heap_stride.saturating_sub(registered + internal_bytes(self.n_pes()))
    }
    /// Bytes of every PE that are for registered memory, and where they begin.
    pub fn registered(&self) -> (Place, usize) {
        let Geometry { heap_stride, registered, .. } = *self.geometry();
        (Place { region: Region::Heap, offset: heap_stride.saturating_sub(registered) as u64 }, registered)
    }
    /// My internal area: symmetric memory outside the program's heap. The first
    /// [`INTERNAL_FREE`] bytes are for a library on top of this one, and so are [`large_tables`].
    pub fn internal(&self) -> *mut u8 {
        self.slice()
    }

    /// Static data of `pe` in this process's mapping of the arena; null without static segments.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn static_slice(&self, pe: usize) -> *mut u8 {
        assert!(pe < self.n_pes(), "PE {pe} of {}", self.n_pes());
        let w = self.adapter.memory.peers.window(Region::Static);
        if w.len == 0 { std::ptr::null_mut() } else { w.base.wrapping_add(pe * w.stride) }
    }
    /// The memory that holds static data, to be mapped over this process's own pages: segment by
    /// segment in the order given, starting at file offset [`Job::static_offset`].
    pub fn static_fd(&self) -> Option<BorrowedFd<'_>> {
        self.adapter.memory.static_fd.as_ref().map(|fd| fd.as_fd())
    }
    /// Where my slice starts in [`Job::static_fd`].
    pub fn static_offset(&self) -> u64 {
        (self.my_pe() * self.geometry().static_stride) as u64
    }

    /// The place of a symmetric object of this process, if `len` bytes from `p` are symmetric.
    #[inline]
    pub fn locate(&self, p: *const u8, len: usize) -> Option<Place> {
        self.adapter.memory.locate(p, len)
    }
    /// True if peers may write `len` bytes at `place`, which [`Job::locate`] has found: not those of a constant.
    #[inline]
    pub fn is_writable(&self, place: Place, len: usize) -> bool {
        self.adapter.memory.peers.is_writable(place, len)
    }
    /// My own address of `place`; null if there is none.
    pub fn local(&self, place: Place) -> *mut u8 {
        self.adapter.memory.local(place)
    }
    /// Address of `place` of `pe`, if plain loads and stores reach it. After raw stores call
    /// [`Job::notify`], or the peer may notice them up to a millisecond later.
    pub fn peer(&self, place: Place, pe: usize) -> Option<*mut u8> {
        if pe == self.my_pe() && self.adapter.memory.peers.direct(pe, place, 1).is_some() {
            return Some(self.local(place));
        }
        self.adapter.memory.peers.direct(pe, place, 1)
    }

    /// Address of `place` of `pe` in this process, whichever way operations take: also where those go through the network. Of a PE
    /// on another host it is memory that nobody has.
    pub fn mapped(&self, place: Place, pe: usize) -> Option<*mut u8> {
        if pe >= self.n_pes() {
            return None;
        }
        self.adapter.memory.peers.address(pe, place, 1)
    }
    /// The memory that holds the heaps of all PEs, if another process has made it, and where the first byte of mine is in it: offset 0
    /// of [`Region::Heap`].
    pub fn heap_fd(&self) -> Option<(BorrowedFd<'_>, u64)> {
        let fd = self.adapter.memory.heap_fd.as_ref()?;
        Some((fd.as_fd(), (self.my_pe() * self.geometry().heap_stride) as u64))
    }

    /// The default context.
    #[inline]
    pub fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Waits until `ready` returns true, without keeping a core from those who need it. `ready`
    /// is asked often and must only look. Errors: the job ends, the daemon dies, the channel is
    /// in error, or nothing happened for `ANGARA_TIMEOUT` seconds; `what` then names the wait.
    #[inline]
    pub fn wait(&self, mut ready: impl FnMut() -> bool, what: &dyn Fn() -> String) -> Result<()> {
        if ready() { Ok(()) } else { self.adapter.wait_memory(WaitsFor::Memory, ready, what) }
    }

    /// [`Job::wait`] where only writes to `len` bytes at `p` can make `ready` true.
    #[inline]
    pub fn wait_at(
        &self,
        (p, len): (*const u8, usize),
        mut ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        if ready() { Ok(()) } else { self.adapter.wait_memory(self.adapter.write_to(p, len), ready, what) }
    }

    /// [`Job::wait`] where `ready` is true when the integer at `p` compares so.
    #[inline]
    pub fn wait_word(
        &self,
        p: *const u8,
        with: Comparison,
        mut ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        if ready() { Ok(()) } else { self.adapter.wait_memory(self.adapter.comes_to(p, with), ready, what) }
    }

    /// Before a look at memory that does not wait. In virtual time it takes some, so that a loop of looks ends.
    #[inline]
    pub fn look(&self) -> Result<()> {
        self.adapter.look()
    }

    /// Wakes `pe` if it sleeps, after raw stores to its memory.
    ///
    /// # Panics
    /// If there is no such PE.
    #[inline]
    pub fn notify(&self, pe: usize) {
        assert!(pe < self.n_pes(), "PE {pe} of {}", self.n_pes());
        self.adapter.memory.peers.notify(pe);
    }

    /// How the PEs of this job reach each other now.
    pub fn profile(&self) -> Profile {
        self.ctx.profile()
    }

    /// Returns what this PE has sent to `pe` in `class` so far, on either engine.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn traffic(&self, pe: usize, class: Class) -> Traffic {
        self.adapter.memory.counters.sum(pe, class)
    }

    /// Returns what the links have carried for this job so far, all PEs and classes together: the link that leaves
    /// `node` in a direction, or all links. Asks the daemon: some 100 us. Nothing without one.
    pub fn link_traffic(&self, only: Option<(NodeId, Direction)>) -> Result<Load> {
        if self.adapter.guard.connection().is_none() {
            return Ok(Load::NONE);
        }
        let only = only.map(|(node, dir)| Link { node, dir });
        match self.adapter.ask(&AdapterRequest::Links { only })?.0 {
            AdapterReply::Links { load } => Ok(load),
            other => Err(Error::Daemon(format!("unexpected answer about links: {other:?}"))),
        }
    }

    /// Asks the daemon to end the whole job with exit status `status`; the caller still has to exit. With `orderly`
    /// nothing has failed: the other PEs learn by [`Job::exit_status`] that they may end as programs do.
    pub fn abort(&self, status: i32, reason: &str, orderly: bool) {
        self.adapter.abort(status, reason, orderly);
    }
    /// Exit status of all PEs, if one has ended the whole program in order.
    pub fn exit_status(&self) -> Option<i32> {
        self.adapter.memory.job.exit_status()
    }

    /// Ends this PE's part in the job, for good or until [`Job::start_again`]. To be called behind a full barrier, as the last
    /// operation of every PE. Trees are closed; the heap and the caller's part of the internal area give their memory
    /// back and are zero from now on; static data, counts of traffic and the place in the job stay.
    pub fn rest(&self) -> Result<()> {
        self.trees.close_all(&self.adapter)?;
        let advice = if self.adapter.is_inside() { libc::MADV_DONTNEED } else { libc::MADV_REMOVE };
        let tables = large_tables(self.n_pes()).unwrap_or(0..0);
        let tables = (self.internal().wrapping_add(tables.start), tables.len());
        for (start, len) in [(self.internal(), INTERNAL_FREE), tables, (self.heap(), self.heap_len())] {
            // SAFETY: whole pages of this PE's own slice, which no PE reads or writes before the next life, and none of
            // which anything in Rust refers to.
            if len > 0 && unsafe { libc::madvise(start.cast(), len, advice) } != 0 {
                let source = std::io::Error::last_os_error();
                return Err(Error::System { what: "cannot give the symmetric heap back", source });
            }
        }
        self.adapter.rest()
    }

    /// Takes part again after [`Job::rest`], with contexts as at the beginning; returns when all PEs do.
    /// Fails if a PE has left meanwhile, before or while this one waits.
    pub fn start_again(&mut self) -> Result<()> {
        let life = self.adapter.life() + 1;
        let gone = |job: &Job| (0..job.n_pes()).find(|pe| !job.pe_entry(*pe).seat.reaches(life));
        let why = |job: &Job, error| gone(job).map_or(error, |pe| Error::Alone { pe });
        self.adapter.start().map_err(|e| why(self, e))?;
        self.ctx.as_at_first();
        // All have rested, so what is written from now on is not taken away.
        self.barrier(false).map_err(|e| why(self, e))
    }

    /// Where time is virtual, [`Job::called`] is to be told of every call.
    pub fn wants_calls(&self) -> bool {
        self.adapter.clock().is_some()
    }

    /// The program has called a routine of the library above this one: what it has computed since the last call passes,
    /// and what passes from now on is the routine's.
    pub fn called(&self, routine: &'static str) -> Result<()> {
        self.adapter.called(routine)
    }

    /// Computes for `ns` nanoseconds, as the program says: they pass in virtual time, else this thread works as long.
    pub fn compute(&self, ns: u64) -> Result<()> {
        if self.adapter.pass(ns.saturating_mul(1000).min(angara_abi::clock::TIME_MAX / 4))? {
            return Ok(());
        }
        let end = Instant::now() + Duration::from_nanos(ns);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Orderly goodbye: this process may exit from now on. Idempotent.
    pub fn detach(&self) {
        self.adapter.detach();
    }

    /// Names the routine that will wait in barriers from now on, for whoever asks what a PE waits for.
    #[inline]
    pub fn entering(&self, routine: &'static &'static str) {
        self.barriers.entering(routine);
    }

    /// Enters the job's barrier and returns when this PE may leave: with `half` a half-barrier,
    /// else a full one; guarantees in the table of `collective/barrier.rs`. The family is
    /// [`angara_abi::job::Geometry::barrier`]; one thread per PE may be in a barrier at a time.
    pub fn barrier(&self, half: bool) -> Result<()> {
        self.barriers.barrier(&self.ctx, half)
    }

    /// [`crate::Ctx::quiet`] of the job's own context and a full barrier. Where the adapters' barrier completes everything
    /// that is in the network (guarantee 5), nothing is flushed before it.
    pub fn quiet_barrier(&self) -> Result<()> {
        self.barriers.quiet_barrier(&self.ctx)
    }

    /// True if [`Job::meet`] is possible; the same answer on all PEs.
    pub fn can_meet(&self) -> bool {
        self.barriers.can_meet()
    }

    /// A barrier in which the last PE to arrive runs `last` while all the others wait.
    pub fn meet(&self, last: impl FnOnce() -> Result<()>) -> Result<()> {
        self.barriers.meet(&self.ctx, last)
    }

    /// Builds a tree over the nodes of `pes` with its root at the node of `root_pe` and loads it
    /// into the routers. Call on one PE and share the id: every participant uses it.
    pub fn tree_open(&self, root_pe: usize, pes: &[usize]) -> Result<u8> {
        if self.geometry().open {
            return Err(Error::invalid("an open job has no trees: its seats come and go"));
        }
        self.trees.open(&self.adapter, root_pe, pes)
    }
    /// Gives a tree back, after every participant is done with it. Call on one PE.
    pub fn tree_close(&self, id: u8) -> Result<()> {
        self.trees.close(&self.adapter, id)
    }
    /// The tree `id`. Participants must call its operations in the same order.
    ///
    /// # Panics
    /// If `id` is not below 16.
    pub fn tree(&self, id: u8) -> Tree<'_> {
        assert!((id as usize) < angara_abi::TREES, "tree {id}: there are {} trees", angara_abi::TREES);
        Tree::new(&self.ctx, &self.trees, id)
    }
}

impl Error {
    /// Exit status a program ended by this error should use.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::JobEnded => angara_protocol::launch::ENDED_WITH_JOB,
            _ => 1,
        }
    }
}
