//! The driver's wait loop. Waits for memory, for a queue slot, for a completion and in a barrier come
//! through here, so that none burns a core others need, outlives its job, or hangs without saying
//! for what. The provider of libfabric polls several sources at once: its loop is its own
//! (`mpi/provider/src/process/one.rs`), and it comes here to sleep.

use super::Adapter;
use super::virtual_time::VirtualClock;
use crate::error::{Error, Result};
use angara_abi::clock::{Comparison, Verdict, WaitsFor};
use angara_abi::job::JobState;
use angara_abi::note::monotonic;
use angara_abi::wait::{Fenced, Kernel, Linux, WaitCell, wait_until};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A wait shorter than this leaves no note.
const NOTE_AFTER: Duration = Duration::from_millis(20);
/// The same of a stand, in nanoseconds.
const STAND_NOTE_AFTER: u64 = 100_000_000;
/// Values in a note are renewed so often by PEs of a job with as many PEs as this or fewer. To say what it waits for a PE
/// may look at all others: in larger jobs each does so more rarely.
const NOTE_AGAIN: Duration = Duration::from_millis(200);
const NOTE_PES: usize = 128;

/// The party that a wait depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Another PE.
    Peers,
    /// The adapter, which sees to it by itself.
    Adapter,
}

/// A wait that has reached the stage of sleeping.
struct Long {
    whom: For,
    since: Option<Instant>,
    noted: Option<Instant>,
    looks: u32,
}

/// Returns the time after which a PE of `pes` renews a note.
fn note_again(pes: usize) -> Duration {
    NOTE_AGAIN * pes.div_ceil(NOTE_PES).max(1) as u32
}

impl Adapter {
    /// Waits for `change`, something the adapter does, until `ready`. `what` names it in a timeout message.
    pub(crate) fn wait(&self, change: WaitsFor, ready: impl FnMut() -> bool, what: &dyn Fn() -> String) -> Result<()> {
        let cell = self.memory.sync.answers(self.memory.me);
        self.wait_on((For::Adapter, change), cell, &Linux, || false, ready, what)
    }

    /// Waits for a completion word, or until reads have delivered, as `change` says. The adapter writes both.
    pub(crate) fn wait_completion(
        &self,
        (whom, change): (For, WaitsFor),
        ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        let cell = self.memory.sync.completions(self.memory.me);
        // The daemon cannot answer while this thread looks whether it has.
        let in_the_way = || {
            // SAFETY: takes nothing and touches no memory of ours.
            let core = unsafe { libc::sched_getcpu() };
            self.memory.job.daemon_core().load(Ordering::Relaxed) == core as u32 + 1
        };
        self.wait_on((whom, change), cell, &Fenced(Linux), in_the_way, ready, what)
    }

    /// Waits for this PE's memory, which peers and the adapter write: all of it, or what `change` names.
    pub(crate) fn wait_memory(
        &self,
        change: WaitsFor,
        ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        let cell = self.memory.peers.cell(self.memory.me);
        self.wait_on((For::Peers, change), cell, &Linux, || false, ready, what)
    }

    /// A write to `len` bytes at `p` of this PE, or to any if these are not symmetric. Where time is not virtual nobody asks.
    pub(crate) fn write_to(&self, p: *const u8, len: usize) -> WaitsFor {
        let place = self.clock().and_then(|_| self.memory.locate(p, len));
        place.map_or(WaitsFor::Memory, |place| WaitsFor::Bytes(place, len as u64))
    }

    /// Waits in the on-host barrier. Only its last PE writes what the others wait for; with more PEs than
    /// cores it pays a fence, because many may sleep and a heavy fence of each interrupts all cores.
    pub(crate) fn wait_barrier(&self, ready: impl FnMut() -> bool, what: &dyn Fn() -> String) -> Result<()> {
        let cell = self.memory.sync.barrier_cell();
        if self.memory.geometry.crowded {
            self.wait_on((For::Peers, WaitsFor::Adapter), cell, &Fenced(Linux), || false, ready, what)
        } else {
            self.wait_on((For::Peers, WaitsFor::Adapter), cell, &Linux, || false, ready, what)
        }
    }

    /// Tells those in [`Adapter::wait_barrier`], after the store they wait for.
    pub(crate) fn notify_barrier(&self) {
        let cell = self.memory.sync.barrier_cell();
        if self.memory.geometry.crowded { cell.notify(&Fenced(Linux)) } else { cell.notify(&Linux) }
    }

    /// A write after which the integer at `p` compares so, or any if it is not symmetric. As [`Adapter::write_to`].
    pub(crate) fn comes_to(&self, p: *const u8, with: Comparison) -> WaitsFor {
        let place = self.clock().and_then(|_| self.memory.locate(p, with.width.into()));
        place.map_or(WaitsFor::Memory, |place| WaitsFor::Word(place, with))
    }

    /// The same, sleeping on `cell` whose writers notify by `kernel`; in virtual time, standing until `change`.
    pub(crate) fn wait_on(
        &self,
        (whom, change): (For, WaitsFor),
        cell: &WaitCell,
        kernel: &impl Kernel,
        in_the_way: impl Fn() -> bool,
        mut ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        if ready() {
            return Ok(());
        }
        if self.guard.forked() {
            return Err(Error::Forked);
        }
        if self.clock().is_some() {
            return self.stand_until(change, ready, what);
        }
        let mut long = Long { whom, since: None, noted: None, looks: 0 };
        let result =
            wait_until(cell, kernel, self.memory.geometry.crowded, in_the_way, ready, || self.give_up(&mut long, what));
        if long.noted.is_some() {
            self.memory.sync.note(self.memory.me).clear();
        }
        result
    }

    /// Where time is virtual: waits until `ready`.
    fn stand_until(
        &self,
        waits_for: WaitsFor,
        mut ready: impl FnMut() -> bool,
        what: &dyn Fn() -> String,
    ) -> Result<()> {
        let Some(clock) = self.clock() else { return Ok(()) };
        let begun = clock.now();
        loop {
            let since = clock.now();
            let verdict = self.stand_for(clock, clock.stands_for(waits_for, begun), Some(what))?;
            if ready() {
                return Ok(());
            }
            if verdict == Verdict::Deadlock {
                let deadlock = || Error::Deadlock { what: what(), ns: since / 1000 };
                return Err(self.channel_error().unwrap_or_else(deadlock));
            }
        }
    }

    /// Where time is virtual: one stand, after which the caller looks itself. `what` it stands for is said where nothing can
    /// happen any more. Who `might_go_on` by itself is told so before, by `false`.
    pub(crate) fn stand_once(&self, waits_for: WaitsFor, might_go_on: bool, what: &dyn Fn() -> String) -> Result<bool> {
        let Some(clock) = self.clock() else { return Ok(true) };
        let since = clock.since_begin();
        clock.might_go_on(might_go_on);
        let verdict = self.stand_for(clock, waits_for, Some(what));
        clock.has_stood(might_go_on);
        match verdict? {
            Verdict::Go => Ok(true),
            Verdict::Doubt => Ok(false),
            Verdict::Deadlock => {
                let deadlock = || Error::Deadlock { what: what(), ns: since / 1000 };
                Err(self.channel_error().unwrap_or_else(deadlock))
            }
        }
    }

    /// Where time is virtual: lets the network come as far as this PE.
    pub(crate) fn stand(&self) -> Result<()> {
        self.clock().map_or(Ok(()), |clock| self.stand_for(clock, WaitsFor::Time, None).map(drop))
    }

    /// One stand. Nobody lets a PE go whose channel is in error, or whose job has ended.
    /// One that takes long by the clock on the wall leaves a note of `what` it waits for.
    fn stand_for(
        &self,
        clock: &VirtualClock,
        waits_for: WaitsFor,
        what: Option<&dyn Fn() -> String>,
    ) -> Result<Verdict> {
        clock.entered()?;
        let (looks, since, noted) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let again = note_again(self.n_pes()).as_nanos() as u64;
        let note = self.memory.sync.note(self.memory.me);
        let gone = || {
            match (looks.get(), what) {
                // Of several PEs of one process nobody looks before the host asks for a note.
                (0, _) => since.set(clock.wall()),
                (_, None) => {}
                (_, Some(_)) if since.get() == 0 => since.set(monotonic()),
                (_, Some(what)) => {
                    let now = monotonic();
                    let is_long = now.saturating_sub(since.get()) >= STAND_NOTE_AFTER;
                    if is_long && now.saturating_sub(noted.get()) >= again {
                        noted.set(now);
                        // The data plane, not the number of looks, knows which PE waits in vain.
                        note.write(since.get(), &what(), 0);
                    }
                }
            }
            looks.set(looks.get() + 1);
            self.has_ended() || self.channel_error().is_some()
        };
        let stood = clock.stand(waits_for, gone);
        if noted.get() != 0 {
            note.clear();
        }
        match stood {
            Some(verdict) => Ok(verdict),
            None => Err(self.channel_error().unwrap_or(Error::JobEnded)),
        }
    }

    /// Before a look at memory or at how far a post has come. Whoever looks in a loop waits, so where time is virtual it
    /// passes, and what is seen then is what is there at that time.
    pub(crate) fn look(&self) -> Result<()> {
        self.look_after(0)
    }

    /// [`Adapter::look`] that takes `ps` at least, where time is virtual.
    #[inline]
    pub(crate) fn look_after(&self, ps: u64) -> Result<()> {
        let Some(clock) = self.clock().filter(|clock| !clock.looks_for_nothing()) else { return Ok(()) };
        clock.entered()?;
        clock.pass_look(ps);
        if clock.is_blind() { self.stand() } else { Ok(()) }
    }

    /// A call that changes only this PE's memory, or nothing at all. Where time is virtual it passes.
    pub(crate) fn call(&self) -> Result<()> {
        let Some(clock) = self.clock() else { return Ok(()) };
        clock.entered()?;
        clock.pass_call();
        if clock.is_ahead() { self.stand() } else { Ok(()) }
    }

    /// Leaves a note that this PE has waited so long for `what`, for whoever asks the daemon. For layers above that look in a
    /// loop of their own instead of waiting here.
    pub fn note_wait(&self, waited: Duration, what: &str) {
        let since = monotonic().saturating_sub(waited.as_nanos() as u64).max(1);
        self.memory.sync.note(self.memory.me).write(since, what, 0);
    }

    /// The wait of [`Adapter::note_wait`] is over.
    pub fn no_wait(&self) {
        self.memory.sync.note(self.memory.me).clear();
    }

    fn has_ended(&self) -> bool {
        self.memory.job.state() == JobState::Ended
    }

    /// Asked about once per millisecond of waiting: why to stop. Leaves a note of what this PE waits for.
    fn give_up(&self, long: &mut Long, what: &dyn Fn() -> String) -> Option<Error> {
        let now = Instant::now();
        let start = *long.since.get_or_insert(now);
        if now - start > NOTE_AFTER && long.noted.is_none_or(|at| now - at > note_again(self.n_pes())) {
            long.noted = Some(now);
            let waited = (now - start).as_nanos() as u64;
            long.looks += u32::from(long.whom == For::Peers);
            let since = monotonic().saturating_sub(waited).max(1);
            self.memory.sync.note(self.memory.me).write(since, &what(), long.looks);
        }
        if let Some(error) = self.channel_error() {
            return Some(error);
        }
        if self.memory.job.state() == JobState::Ended {
            return Some(Error::JobEnded);
        }
        if self.guard.connection().is_some_and(|c| c.is_closed()) {
            // The daemon ends a job before it closes the connection.
            return Some(match self.memory.job.state() {
                JobState::Ended => Error::JobEnded,
                JobState::Running => Error::Daemon("it was stopped or it crashed: see its log".into()),
            });
        }
        let limit = self.timeout.filter(|limit| now - start > *limit)?;
        Some(Error::Timeout { what: what(), seconds: limit.as_secs_f64() })
    }
}
