//! PEs that neither stand nor wait: one spins on memory that others write, sleeps in the kernel, or computes for ever.
//!
//! Time stands while a PE runs. After patience the others go on without it: it is *absent*. What it posts then is posted
//! at the network's present, whatever its clock says; when it stands next it takes part again from that time on. When
//! that is, the system decides, so two such runs may differ, and that is said. Patience is lost only where
//! something can happen without the PE: if all others wait for it in vain it may compute for as long as it likes.

use angara_protocol::absence::{Patience, threads};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A PE that has been absent before is waited for this many times shorter.
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
    pub(super) asking: bool,
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
    #[inline]
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.known.is_empty()
    }
    /// The PE of a lane is absent from now on.
    pub(super) fn lose(&mut self, lane: usize) {
        self.absent.push(lane);
        self.known.insert(lane);
    }
    pub(super) fn has_been_absent(&self, lane: usize) -> bool {
        self.known.contains(&lane)
    }
    /// All that are absent, to be looked at one by one: who still is goes [back](Impatience::lose).
    pub(super) fn take_absent(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.absent)
    }
    /// The PE of a lane is gone.
    pub(super) fn forget(&mut self, lane: usize) {
        self.absent.retain(|other| *other != lane);
        self.known.remove(&lane);
    }
    /// How long this turn of a PE has lasted, if that is too long. Time that passes for nobody does not count.
    pub(super) fn too_long(&mut self, turn: Turn, passes: impl FnOnce() -> bool) -> Option<Duration> {
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
