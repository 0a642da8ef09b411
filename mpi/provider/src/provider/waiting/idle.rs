//! What a look that found nothing does for others: it gives them the core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// After how many looks in vain at the mailbox a clock is asked whether it is time to look after peers.
const LOOKS: u32 = 64;
/// How often it is looked whether peers are still there.
const LOOK: Duration = Duration::from_millis(20);
/// Looks that find nothing before others get the core: where there are enough cores, and where there are not.
const SPIN: [u32; 2] = [2048, 64];
/// A yield that takes longer than a time slice has run another program, which would have the core again after each yield.
const SLICE: Duration = Duration::from_millis(1);
/// This many times after that a look in vain sleeps for so long at most: who sleeps comes at once when something comes.
const NAPS: u32 = 200;
const NAP: Duration = Duration::from_micros(200);

/// Threads that want the provider's lock while another sleeps with it.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// True if other threads wait for the state.
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) > 0
}

/// Waits for the state, and says so meanwhile.
pub(crate) fn wanting<T>(wait: impl FnOnce() -> T) -> T {
    WANTED.fetch_add(1, Ordering::Relaxed);
    let guard = wait();
    WANTED.fetch_sub(1, Ordering::Relaxed);
    guard
}

/// Looks in vain one after the other.
pub(crate) struct Idle {
    looks: u32,
    /// Those that sleep, as another program wants this core.
    naps: u32,
    /// [`SPIN`] here.
    spin: u32,
    /// Some peers are reached by the network alone.
    by_ring: bool,
    /// Looks in vain since the program slept on a descriptor, or did something else for long.
    /// Read by the helper thread, without the lock.
    awake: Arc<AtomicU32>,
    /// When it was looked last whether peers are there.
    looked: Instant,
}

/// What a look in vain does.
pub(crate) enum Next {
    LookAgain,
    Sleep(Duration),
    Yield,
}

impl Idle {
    pub(in crate::provider) fn new(pes: usize, by_ring: bool) -> Idle {
        // The daemon is one more where it carries messages.
        let busy = pes + usize::from(by_ring);
        let crowded = std::thread::available_parallelism().is_ok_and(|cores| busy > cores.get());
        // Nobody sleeps at first.
        Idle {
            looks: 0,
            naps: 0,
            spin: SPIN[usize::from(crowded)],
            by_ring,
            awake: Arc::new(AtomicU32::new(u32::MAX / 2)),
            looked: Instant::now(),
        }
    }

    /// The program means to sleep on a descriptor, or looks no more.
    pub(in crate::provider) fn sleeps(&mut self) {
        self.awake.store(0, Ordering::Relaxed);
    }

    /// How often the program has looked in vain since.
    pub(in crate::provider) fn looks_in_vain(&self) -> &Arc<AtomicU32> {
        &self.awake
    }

    #[inline]
    pub(in crate::provider) fn ends(&mut self) {
        self.looks = 0;
    }

    /// One more look in vain. Where time is virtual, nobody naps.
    pub(in crate::provider) fn one_more(&mut self, is_virtual: impl FnOnce() -> bool) -> Next {
        self.looks = self.looks.wrapping_add(1);
        // Whoever is here has the lock: nobody else changes it.
        self.awake.store(self.awake.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // A sleep would be long where a message is under way; what is in the way gets its turn.
        if self.looks < self.spin || !self.by_ring && !self.looks.is_multiple_of(16) {
            return Next::LookAgain;
        }
        if self.naps > 0 && !is_virtual() && !is_wanted() {
            self.naps -= 1;
            return Next::Sleep(NAP);
        }
        Next::Yield
    }

    /// Lets others have the core, among them programs that have nothing to do with this one.
    pub(in crate::provider) fn yields(&mut self) {
        // A clock takes as long as a yield that finds nobody else.
        let before = self.looks.is_multiple_of(16).then(Instant::now);
        std::thread::yield_now();
        if before.is_some_and(|before| before.elapsed() > SLICE) {
            self.naps = NAPS;
        }
    }

    /// A look at the clock takes as long as one at the mailbox.
    pub(in crate::provider) fn asks_a_clock(&self) -> bool {
        self.looks.is_multiple_of(LOOKS)
    }

    /// The time, if it is time to look after peers.
    pub(in crate::provider) fn is_time_to_look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if now - self.looked < LOOK {
            return None;
        }
        self.looked = now;
        Some(now)
    }
}
