//! Barriers, with exactly the guarantees of paper 001.
//!
//! The guarantees are about operations called before the barrier: (1) every PE has entered it;
//! (2) all data of this PE has been injected; (3) data of all PEs has been received; (4) what is
//! sent afterwards is received after what was sent before; (5) all operations this PE called are
//! complete. A *half-barrier* gives 1 and 3 (hence 4) to every participant, a *barrier* gives 1, 3
//! and 5.
//!
//! | family | half | full | what else it needs |
//! |---|---|---|---|
//! | multiphase | K phases: 1, 3, 4 | 2K phases: 1, 3, 4, 5 | nothing: specials flush every data channel of every link |
//! | all-to-all, tree, hypercube, master, counting | 1, 3, 4 | 1, 3, 4, 5 | nothing: the adapters order, acknowledge or count the packets |
//! | counter | 1; 3 and 5 for direct targets | same | targets behind the ring are made quiet before arriving, which gives 3, 4, 5 |
//! | dissemination | 1; 3 and 5 for direct targets | same | as the counter |
//!
//! The first two rows are the adapters' work; K is the longest route in use. A direct store is complete when it is
//! made, and both the arrival (a locked instruction) and the post of a descriptor come after it.

use super::area::FLAGS;
use super::host::{Host, announce};
use crate::ctx::Ctx;
use crate::driver::Adapter;
use crate::driver::wait::For;
use crate::engine::Profile;
use crate::error::{Error, Result};
use angara_abi::account::Class;
use angara_abi::clock::{Comparison, WaitsFor};
use angara_abi::desc::{Descriptor, Op, Place, Region, flags};
use angara_abi::job::Barrier;
use angara_abi::wait::Linux;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// State of a job's barriers.
pub(crate) struct Barriers {
    family: Barrier,
    /// Some targets are reached through the network.
    far: bool,
    /// ... and some directly.
    mixed: bool,
    /// Dissemination barriers entered.
    entered: AtomicU64,
    host: Host,
    /// The routine that uses the barrier, for messages; null if not told.
    routine: AtomicPtr<&'static str>,
}

impl Barriers {
    pub(crate) fn new(adapter: &Adapter, profile: Profile) -> Barriers {
        let Profile { near, far, .. } = profile;
        let family = match adapter.geometry().barrier {
            Barrier::Auto if far => Barrier::Multiphase,
            Barrier::Auto => Barrier::Counter,
            // The counter is memory of one host, and no time passes in it.
            Barrier::Counter if near && far || adapter.clock().is_some() => Barrier::Dissemination,
            // Without a channel there is no adapter to ask.
            family if family.by_adapter() && adapter.channel().is_err() => Barrier::Counter,
            family => family,
        };
        announce(adapter);
        let routine = AtomicPtr::default();
        Barriers { family, far, mixed: near && far, entered: AtomicU64::new(0), host: Host::default(), routine }
    }

    /// `shmem_malloc: `, or nothing.
    fn routine(&self) -> String {
        // SAFETY: null, or a reference that lives as long as the program.
        unsafe { self.routine.load(Ordering::Relaxed).as_ref() }.map_or(String::new(), |name| format!("{name}: "))
    }
}

/// PEs that a note names of those that have not come.
const NAMED: usize = 8;

impl Barriers {
    /// See [`crate::Job::entering`].
    #[inline]
    pub(crate) fn entering(&self, routine: &'static &'static str) {
        self.routine.store(std::ptr::from_ref(routine).cast_mut(), Ordering::Relaxed);
    }

    /// See [`crate::Job::barrier`].
    pub(crate) fn barrier(&self, ctx: &Ctx, half: bool) -> Result<()> {
        if ctx.adapter.guard.forked() {
            return Err(Error::Forked);
        }
        if ctx.adapter.memory.geometry.open {
            return Err(Error::invalid("an open job has no barrier: its seats come and go"));
        }
        match self.family {
            family if family.by_adapter() => {
                // Stores on this host are not flushed by specials, posts are; on a mixed job both
                // must be done before the first special leaves.
                if self.mixed {
                    ctx.quiet()?;
                }
                self.adapter_barrier(ctx, half)
            }
            family => {
                if self.far {
                    ctx.quiet()?;
                }
                if family == Barrier::Dissemination { self.dissemination(ctx) } else { self.counter(ctx) }
            }
        }
    }

    /// See [`crate::Job::quiet_barrier`].
    pub(crate) fn quiet_barrier(&self, ctx: &Ctx) -> Result<()> {
        if self.family.by_adapter() && !self.mixed {
            return ctx.quiet_by(|| self.barrier(ctx, false));
        }
        ctx.quiet()?;
        self.barrier(ctx, false)
    }

    /// The adapters' barrier; which of theirs, they know from the job.
    fn adapter_barrier(&self, ctx: &Ctx, half: bool) -> Result<()> {
        let adapter = &ctx.adapter;
        let slot = adapter.wait_slot()?;
        let me = adapter.pe_entry(ctx.adapter.memory.me);
        let d = Descriptor {
            flags: if half { flags::HALF } else { 0 },
            dst: me.coords,
            endpoint: me.endpoint,
            completion: Some(slot.completion()),
            ..Descriptor::new(Op::Barrier)
        };
        let seq = adapter.post(&d, ctx.adapter.memory.me)?;
        let change = WaitsFor::Completion(slot.completion());
        adapter.wait_completion((For::Peers, change), || adapter.completed(slot, seq), &|| self.missing(ctx))?;
        adapter.release_slot(slot);
        Ok(())
    }

    /// Central sense-reversing counters in the synchronisation page.
    fn counter(&self, ctx: &Ctx) -> Result<()> {
        self.host.barrier(&ctx.adapter, || Ok(()), &|| self.missing(ctx))
    }

    /// See [`crate::Job::can_meet`].
    pub(crate) fn can_meet(&self) -> bool {
        self.family == Barrier::Counter && !self.far
    }

    /// See [`crate::Job::meet`].
    pub(crate) fn meet(&self, ctx: &Ctx, last: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.can_meet() {
            return Err(Error::invalid("PEs meet only at the on-host counter; use a barrier"));
        }
        if ctx.adapter.guard.forked() {
            return Err(Error::Forked);
        }
        self.host.barrier(&ctx.adapter, last, &|| self.missing(ctx))
    }

    /// ⌈log2 n⌉ rounds; in round r this PE tells PE me + 2^r and hears from PE me − 2^r.
    fn dissemination(&self, ctx: &Ctx) -> Result<()> {
        let (me, n) = (ctx.adapter.memory.me, ctx.adapter.memory.geometry.pes);
        let count = self.entered.fetch_add(1, Ordering::Relaxed) + 1;
        // A PE that sleeps in here must not be woken by every put to its memory. Flags stored by
        // PEs of this host wake it through the cell that only waits like this one use; flags that
        // come through the ring are memory like any other.
        let (memory, one_host) = (&ctx.adapter.memory, !self.far);
        let cell = if one_host { memory.sync.answers(me) } else { memory.peers.cell(me) };
        let mut round = 0;
        while 1usize << round < n {
            let place = Place { region: Region::Heap, offset: FLAGS + 8 * round };
            let to = (me + (1 << round)) % n;
            match memory.peers.direct(to, place, 8).filter(|_| one_host) {
                Some(flag) => {
                    // SAFETY: an aligned word of the target's slice, accessed by single stores and loads.
                    unsafe { AtomicU64::from_ptr(flag.cast()) }.store(count, Ordering::Release);
                    ctx.count_put(Class::Sync, to, place, 8);
                    memory.sync.answers(to).notify(&Linux);
                }
                // SAFETY: the source is a local of 8 bytes; the flag lies in the internal area.
                None => unsafe { ctx.put(Class::Sync, to, place, (&raw const count).cast(), 8)? },
            }
            // SAFETY: as above, in this PE's slice, which lives as long as the job.
            let flag = unsafe { AtomicU64::from_ptr(memory.local(place).cast()) };
            // A fast PE may already have announced its next barrier.
            ctx.adapter.wait_on(
                (For::Peers, WaitsFor::Word(place, Comparison::at_least(count))),
                cell,
                &Linux,
                || false,
                || flag.load(Ordering::Acquire) >= count,
                &|| self.missing(ctx),
            )?;
            round += 1;
        }
        Ok(())
    }

    fn missing(&self, ctx: &Ctx) -> String {
        let job = &ctx.adapter.memory.job;
        let life = ctx.adapter.life();
        let here = |pe: usize| Some(job.pe(pe).seat).is_some_and(|seat| seat.taken() && seat.life() >= life);
        let gone: Vec<usize> = (0..ctx.adapter.memory.geometry.pes).filter(|&pe| !here(pe)).collect();
        let routine = self.routine();
        match gone.len() {
            0 => format!("{routine}all PEs to enter the barrier"),
            n => {
                let mut named: Vec<String> = gone.iter().take(NAMED).map(usize::to_string).collect();
                named.extend((n > NAMED).then(|| "...".into()));
                format!("{routine}all PEs to enter the barrier ({n} not attached: PE {})", named.join(", "))
            }
        }
    }
}
