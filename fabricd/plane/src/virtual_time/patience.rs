//! PEs that neither stand nor wait: one spins on memory that others write, sleeps in the kernel, or computes for ever.
//!
//! Time stands while a PE runs. After patience the others go on without it: it is *absent*. What it posts then is posted
//! at the network's present, whatever its clock says; when it stands next it takes part again from that time on. When
//! that is, the system decides, so two such runs may differ, and that is said. Patience is lost only where
//! something can happen without the PE: if all others wait for it in vain it may compute for as long as it likes.

use crate::notice::Notice;
use crate::plane::DataPlane;
use angara_abi::clock::{ClockPage, TIME_MAX};
use angara_protocol::absence::{Patience, process_state, threads};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A PE that has been absent before is waited for so many times shorter.
const AGAIN: u32 = 100;
/// How long a thread may run while all else waits, where there is no limit.
const DOUBT: Duration = Duration::from_secs(30);
/// How long none may have run, where there are several.
const CALM: Duration = Duration::from_millis(20);

/// A lane, and how often its PE had stood when it was let go.
pub type Turn = (usize, u32);

/// A time in which nothing has been due or on its way.
pub(super) struct Doubt {
    since: Instant,
    /// Since when no thread has run.
    quiet: Option<Instant>,
}

/// PEs that are waited for, and PEs that are absent.
#[derive(Default)]
pub(super) struct Impatience {
    limit: Option<Duration>,
    /// Whose turn it is, and since when.
    turn: Option<(Turn, Instant)>,
    /// Lanes of PEs without which the others go on.
    absent: Vec<usize>,
    /// Lanes of PEs that have been absent.
    known: BTreeSet<usize>,
    /// One that is about to be is being asked where it is.
    asking: bool,
}

impl Impatience {
    pub(super) fn new(patience: Patience) -> Impatience {
        Impatience { limit: patience.0, ..Impatience::default() }
    }
    pub(super) fn is_anyone_absent(&self) -> bool {
        !self.absent.is_empty()
    }
    /// All wait, and nothing is on its way. Whether a thread of one of these processes may be about to sleep, or to end the
    /// job, all the same; for as long as it may take.
    pub(super) fn may_yet(&self, doubt: &mut Option<Doubt>, pids: impl Iterator<Item = i32>) -> bool {
        let doubt = doubt.get_or_insert_with(|| Doubt { since: Instant::now(), quiet: None });
        let (mut several, mut run) = (false, false);
        for (all, running) in pids.map(threads) {
            (several, run) = (several || all > 1, run || running > 0);
        }
        // One that writes to a pipe, or asks its daemon to end the job, does not run for a moment.
        let is_calm = !run && doubt.quiet.get_or_insert_with(Instant::now).elapsed() >= CALM;
        if run {
            doubt.quiet = None;
        }
        doubt.since.elapsed() < self.limit.unwrap_or(DOUBT) && (run || several && !is_calm)
    }
    /// Somebody has been absent, and may be again.
    fn is_in_doubt(&self) -> bool {
        !self.known.is_empty()
    }
    /// The PE of a lane is gone.
    pub(super) fn forget(&mut self, lane: usize) {
        self.absent.retain(|other| *other != lane);
        self.known.remove(&lane);
    }
    /// How long this turn of a PE has lasted, if that is too long. Time that passes for nobody does not count.
    fn too_long(&mut self, turn: Turn, passes: impl FnOnce() -> bool) -> Option<Duration> {
        let limit = if self.known.contains(&turn.0) { self.limit? / AGAIN } else { self.limit? };
        match self.turn {
            Some((same, since)) if same == turn && passes() => Some(since.elapsed()).filter(|waited| *waited >= limit),
            _ => {
                self.turn = Some((turn, Instant::now()));
                None
            }
        }
    }
}

impl DataPlane {
    pub(super) fn is_anyone_absent(&self) -> bool {
        self.virtual_time.as_ref().is_some_and(|run| run.patience.is_anyone_absent())
    }

    /// PEs have been absent: whoever runs is looked at again soon, and is not waited for without a limit.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.virtual_time.as_ref().is_some_and(|run| run.patience.is_in_doubt())
    }

    /// Looks how long the PE has run that runs, and loses patience.
    pub(crate) fn look_at_patience(&mut self) {
        // Without a coroutine that computes nothing goes on: its host ends the job.
        if self.coroutines.is_some() {
            return;
        }
        let Some(run) = self.virtual_time.as_mut().filter(|run| run.begun.is_some()) else { return };
        let Some(&index) = run.running.last().filter(|_| !run.patience.asking) else { return };
        let Some(lane) = self.lanes[index].as_ref().filter(|lane| !lane.broken) else { return };
        let Some(clock) = lane.memory.clock.as_ref().filter(|clock| clock.stands().is_none()) else { return };
        if clock.is_late() {
            return;
        }
        // A debugger has stopped it, or the user has.
        let is_stopped = || matches!(process_state(lane.pid), Some('T' | 't'));
        let turn = (index, clock.stops().load(Ordering::Relaxed));
        let Some(waited) = run.patience.too_long(turn, || !is_stopped()) else { return };
        let others = run.next_due().is_some() || run.running.len() > 1 || run.patience.is_anyone_absent();
        if !(others || self.fabric.poll_timeout().is_some() || lane.has_work()) {
            return;
        }
        if run.patience.known.contains(&index) {
            self.go_on_without(turn);
        } else {
            run.patience.asking = true;
            let (job, memory) = (lane.job.id, lane.memory.clone());
            self.notice(Notice::Patience { job, memory, turn, waited });
        }
    }

    /// The PE of a lane is absent from now on, unless it has stood meanwhile; whether it is.
    pub(crate) fn go_on_without(&mut self, (index, stands): (usize, u32)) -> bool {
        let Some(run) = &mut self.virtual_time else { return false };
        run.patience.asking = false;
        let clock = self.lanes[index].as_ref().and_then(|lane| lane.memory.clock.as_ref());
        let runs = |clock: &ClockPage| clock.stops().load(Ordering::Acquire) == stands;
        if !run.running.contains(&index) || !clock.is_some_and(runs) {
            return false;
        }
        run.running.retain(|other| *other != index);
        run.patience.absent.push(index);
        run.patience.known.insert(index);
        // What it has posted so far has its own times.
        self.take_posts(index, TIME_MAX);
        true
    }

    /// Takes what absent PEs have posted. Who of them stands takes part again.
    pub(crate) fn look_for_absent(&mut self) {
        if self.is_in_doubt() {
            self.look_at_patience();
        }
        let Some(run) = self.virtual_time.as_mut().filter(|run| run.patience.is_anyone_absent()) else { return };
        for index in std::mem::take(&mut run.patience.absent) {
            let present = self.virtual_time.as_ref().map_or(0, |run| run.present);
            let now = self.fabric.now().max(present);
            let Some(lane) = self.lanes[index].as_mut().filter(|lane| !lane.broken) else { continue };
            lane.ran.0 = lane.ran.0.max(now);
            let began = lane.ran.0;
            if let Some((said, waits_for)) = lane.memory.clock.as_ref().and_then(ClockPage::stands) {
                self.stands(index, said.max(began), waits_for);
            } else {
                self.take_posts(index, now);
                if let Some(run) = &mut self.virtual_time {
                    run.patience.absent.push(index);
                }
            }
        }
    }
}
