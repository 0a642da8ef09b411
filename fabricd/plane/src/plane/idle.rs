//! How long a thread without work stays awake.

use std::time::{Duration, Instant};

/// Pauses before the first yield when there is a core to spare.
const SPINS: u32 = 200;
/// Pauses between yields where the last one found nobody else on the core: they take about as long as it did.
const SPINS_ALONE: u32 = 8;
/// A yield that took longer has let somebody else work.
const QUICK_YIELD: Duration = Duration::from_micros(2);

/// Cores this process may run on.
fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

/// How long there has been nothing to do.
pub(super) struct Idle {
    /// Pauses since the last work or yield.
    spins: u32,
    /// The last yield found nobody else on the core.
    alone: bool,
    /// There has been a yield since the last work.
    yielded: bool,
    pub(super) since: Option<Instant>,
    /// Slept since the last work: a timeout alone is no reason to stay awake.
    pub(super) slept: bool,
    pub(super) kept: Instant,
    pub(super) cores: usize,
    pub(super) fenced: bool,
}

impl Idle {
    pub(super) fn new(now: Instant) -> Idle {
        Idle {
            spins: 0,
            alone: false,
            yielded: false,
            since: None,
            slept: false,
            kept: now,
            cores: cores(),
            fenced: angara_abi::wait::register(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.spins = 0;
        self.yielded = false;
        self.since = None;
        self.slept = false;
    }

    /// Tells whether to pause and look again rather than to let others have the core. `crowded`: more threads than
    /// cores.
    pub(super) fn may_spin(&mut self, crowded: bool) -> bool {
        let most = match (self.yielded || crowded, self.alone) {
            (false, _) => SPINS,
            (true, true) => SPINS_ALONE,
            (true, false) => 0,
        };
        self.spins += 1;
        self.spins <= most
    }

    /// After a yield that took so long.
    pub(super) fn yielded(&mut self, took: Duration) {
        self.yielded = true;
        self.alone = took < QUICK_YIELD;
        self.spins = 0;
    }
}
