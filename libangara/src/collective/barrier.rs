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

use super::host::{Host, announce};
use super::tree::RESULT_BYTES;
use crate::driver::Adapter;
use crate::driver::wait::For;
use crate::engine::Profile;
use crate::error::{Error, Result};
use crate::job::{INTERNAL_FREE, Job};
use angara_abi::account::Class;
use angara_abi::clock::{Comparison, WaitsFor};
use angara_abi::desc::{Descriptor, Op, Place, Region, flags};
use angara_abi::job::Barrier;
use angara_abi::wait::Linux;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Where dissemination flags lie in the heap slice: one u64 per round.
const FLAGS: u64 = (INTERNAL_FREE + RESULT_BYTES) as u64;

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

impl Job {
    /// Names the routine that will wait in barriers from now on, for whoever asks what a PE waits for.
    #[inline]
    pub fn entering(&self, routine: &'static &'static str) {
        self.barriers.routine.store(std::ptr::from_ref(routine).cast_mut(), Ordering::Relaxed);
    }

    /// Enters the job's barrier and returns when this PE may leave: with `half` a half-barrier,
    /// else a full one; guarantees in the table of this module's documentation. The family is
    /// [`angara_abi::job::Geometry::barrier`]; one thread per PE may be in a barrier at a time.
    pub fn barrier(&self, half: bool) -> Result<()> {
        if self.adapter.guard.forked() {
            return Err(Error::Forked);
        }
        if self.geometry().open {
            return Err(Error::invalid("an open job has no barrier: its seats come and go"));
        }
        let barriers = &self.barriers;
        match barriers.family {
            family if family.by_adapter() => {
                // Stores on this host are not flushed by specials, posts are; on a mixed job both
                // must be done before the first special leaves.
                if barriers.mixed {
                    self.ctx().quiet()?;
                }
                self.adapter_barrier(half)
            }
            family => {
                if barriers.far {
                    self.ctx().quiet()?;
                }
                if family == Barrier::Dissemination { self.dissemination() } else { self.counter() }
            }
        }
    }

    /// [`crate::Ctx::quiet`] of the job's own context and a full barrier. Where the adapters' barrier completes everything
    /// that is in the network (guarantee 5), nothing is flushed before it.
    pub fn quiet_barrier(&self) -> Result<()> {
        let barriers = &self.barriers;
        if barriers.family.by_adapter() && !barriers.mixed {
            return self.ctx().quiet_by(|| self.barrier(false));
        }
        self.ctx().quiet()?;
        self.barrier(false)
    }

    /// The adapters' barrier; which of theirs, they know from the job.
    fn adapter_barrier(&self, half: bool) -> Result<()> {
        let adapter = &self.adapter;
        let slot = adapter.wait_slot()?;
        let me = adapter.pe_entry(self.my_pe());
        let d = Descriptor {
            flags: if half { flags::HALF } else { 0 },
            dst: me.coords,
            endpoint: me.endpoint,
            completion: Some(slot.completion()),
            ..Descriptor::new(Op::Barrier)
        };
        let seq = adapter.post(&d, self.my_pe())?;
        let change = WaitsFor::Completion(slot.completion());
        adapter.wait_completion((For::Peers, change), || adapter.completed(slot, seq), &|| self.missing())?;
        adapter.release_slot(slot);
        Ok(())
    }

    /// Central sense-reversing counters in the synchronisation page.
    fn counter(&self) -> Result<()> {
        self.barriers.host.barrier(&self.adapter, || Ok(()), &|| self.missing())
    }

    /// True if [`Job::meet`] is possible; the same answer on all PEs.
    pub fn can_meet(&self) -> bool {
        self.barriers.family == Barrier::Counter && !self.barriers.far
    }

    /// A barrier in which the last PE to arrive runs `last` while all the others wait.
    pub fn meet(&self, last: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.can_meet() {
            return Err(Error::invalid("PEs meet only at the on-host counter; use a barrier"));
        }
        if self.adapter.guard.forked() {
            return Err(Error::Forked);
        }
        self.barriers.host.barrier(&self.adapter, last, &|| self.missing())
    }

    /// ⌈log2 n⌉ rounds; in round r this PE tells PE me + 2^r and hears from PE me − 2^r.
    fn dissemination(&self) -> Result<()> {
        let (me, n) = (self.my_pe(), self.n_pes());
        let count = self.barriers.entered.fetch_add(1, Ordering::Relaxed) + 1;
        // A PE that sleeps in here must not be woken by every put to its memory. Flags stored by
        // PEs of this host wake it through the cell that only waits like this one use; flags that
        // come through the ring are memory like any other.
        let (memory, one_host) = (&self.adapter.memory, !self.barriers.far);
        let cell = if one_host { memory.sync.answers(me) } else { memory.peers.cell(me) };
        let mut round = 0;
        while 1usize << round < n {
            let place = Place { region: Region::Heap, offset: FLAGS + 8 * round };
            let to = (me + (1 << round)) % n;
            match memory.peers.direct(to, place, 8).filter(|_| one_host) {
                Some(flag) => {
                    // SAFETY: an aligned word of the target's slice, accessed by single stores and loads.
                    unsafe { AtomicU64::from_ptr(flag.cast()) }.store(count, Ordering::Release);
                    self.ctx().count_put(Class::Sync, to, place, 8);
                    memory.sync.answers(to).notify(&Linux);
                }
                // SAFETY: the source is a local of 8 bytes; the flag lies in the internal area.
                None => unsafe { self.ctx().put(Class::Sync, to, place, (&raw const count).cast(), 8)? },
            }
            // SAFETY: as above, in this PE's slice, which lives as long as the job.
            let flag = unsafe { AtomicU64::from_ptr(self.local(place).cast()) };
            // A fast PE may already have announced its next barrier.
            self.adapter.wait_on(
                (For::Peers, WaitsFor::Word(place, Comparison::at_least(count))),
                cell,
                &Linux,
                || false,
                || flag.load(Ordering::Acquire) >= count,
                &|| self.missing(),
            )?;
            round += 1;
        }
        Ok(())
    }

    fn missing(&self) -> String {
        let job = &self.adapter.memory.job;
        let life = self.adapter.life();
        let here = |pe: usize| Some(job.pe(pe).seat).is_some_and(|seat| seat.taken() && seat.life() >= life);
        let gone: Vec<usize> = (0..self.n_pes()).filter(|&pe| !here(pe)).collect();
        let routine = self.barriers.routine();
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
