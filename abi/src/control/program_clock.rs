//! The clock that a program reads in virtual time. A preloaded library owns it, because only such a one comes before
//! libc; the driver finds it there and moves it on.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Name of the function of the preloaded library that returns its [`ProgramClock`].
pub const SYMBOL: &std::ffi::CStr = c"angara_program_clock";
/// What is in the name of the preloaded library's file.
pub const PRELOADED: &str = "libangara_clock";
/// Set where the processor's time stamp counter tells virtual time, too.
pub const ENV_TSC: &std::ffi::CStr = c"ANGARA_TSC";
/// The seed of the random numbers that a program asks the system for, where one decides.
pub const ENV_SEED: &std::ffi::CStr = c"ANGARA_SEED";
/// Raised when the structure changes.
const VERSION: u32 = 5;
/// What reading a clock takes, in picoseconds: about what the vDSO takes. Ours.
pub const READ_COST: u64 = 25_000;
/// What a yield takes, in picoseconds. Ours.
pub const YIELD_COST: u64 = 100_000;

/// What is called where the program looks at a clock, or a timer is due.
pub type Hook = extern "C" fn();
/// Lets this PE stand still until a time, or until it goes on for another reason.
pub type Stand = extern "C" fn(u64);

/// Where the calling thread counts how deep it is inside the library. The place is its own, and stays as long as it.
pub type Inside = extern "C" fn() -> *mut u32;
/// When the first of the process's threads that sleep or wait with a deadline is due; the end of time if none does.
pub type FirstDue = extern "C" fn() -> u64;
/// Whether no other thread of the process runs.
pub type IsQuiet = extern "C" fn() -> bool;

/// What the preloaded library knows of the process's threads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// See there.
    pub inside: Inside,
    /// See there.
    pub first_due: FirstDue,
    /// See there.
    pub is_quiet: IsQuiet,
}

/// A process's clock.
#[repr(C)]
#[derive(Debug)]
pub struct ProgramClock {
    version: u32,
    /// The process is no PE and no PE's program: whoever asks gets real time.
    real: AtomicBool,
    /// The process's threads; nothing if nobody reads this clock.
    threads: Option<Threads>,
    /// Picoseconds since the program began.
    now: AtomicU64,
    /// Time from which the PE must stand before it goes on.
    stand_at: AtomicU64,
    /// A [`Stand`], or 0 while the process is in no job.
    stand: AtomicUsize,
    /// Another one, or 0: what the program has computed until it looks at a clock is to pass first.
    compute: AtomicUsize,
    /// When the next of the program's timers is due.
    due: AtomicU64,
    /// What is called then.
    ring: AtomicUsize,
}

impl Default for ProgramClock {
    fn default() -> ProgramClock {
        ProgramClock::new()
    }
}

impl ProgramClock {
    /// At time 0, without a program that reads it.
    pub const fn new() -> ProgramClock {
        ProgramClock::of(None)
    }
    /// At time 0, for the program whose threads these are.
    pub const fn of(threads: Option<Threads>) -> ProgramClock {
        ProgramClock {
            version: VERSION,
            real: AtomicBool::new(false),
            threads,
            now: AtomicU64::new(0),
            stand_at: AtomicU64::new(u64::MAX),
            stand: AtomicUsize::new(0),
            compute: AtomicUsize::new(0),
            due: AtomicU64::new(u64::MAX),
            ring: AtomicUsize::new(0),
        }
    }
    /// Whether it has the layout that this crate knows.
    pub fn is_known(&self) -> bool {
        self.version == VERSION
    }

    /// Picoseconds since the program began.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
    /// So many picoseconds pass; the time then.
    #[inline]
    pub fn pass(&self, ps: u64) -> u64 {
        self.now.fetch_add(ps, Ordering::Relaxed).saturating_add(ps)
    }
    /// It is `time` now, and the PE may run until `stand_at`.
    pub fn go_on(&self, time: u64, stand_at: u64) {
        self.now.store(time, Ordering::Relaxed);
        self.stand_at.store(stand_at, Ordering::Relaxed);
    }
    /// The next of the program's timers is due `at`: `ring` sends its signal.
    pub fn set_due(&self, at: u64, ring: Hook) {
        self.ring.store(ring as usize, Ordering::Release);
        self.due.store(at, Ordering::Relaxed);
    }
    /// Picoseconds until the next timer is due, if there is one.
    pub fn until_due(&self) -> Option<u64> {
        let due = self.due.load(Ordering::Relaxed);
        (due != u64::MAX).then(|| due.saturating_sub(self.now()))
    }
    /// The program's own code goes on: signals of the timers whose time has come are sent.
    #[inline]
    pub fn passed(&self) {
        if self.now() >= self.due.load(Ordering::Relaxed) {
            call(&self.ring);
        }
    }

    /// The PE has run as far as it may.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.now() >= self.stand_at.load(Ordering::Relaxed)
    }

    /// Whether the calling thread shall read the real clocks.
    pub fn is_real(&self) -> bool {
        // SAFETY: the thread's own place.
        self.real.load(Ordering::Relaxed) || self.inside().is_some_and(|inside| unsafe { *inside } > 0)
    }
    /// From now on the calling thread reads the real clocks, until [`ProgramClock::leave`]. Calls nest.
    pub fn enter(&self) {
        if let Some(inside) = self.inside() {
            // SAFETY: the thread's own place.
            unsafe { *inside += 1 };
        }
    }
    /// The end of what [`ProgramClock::enter`] began.
    pub fn leave(&self) {
        if let Some(inside) = self.inside() {
            // SAFETY: the thread's own place.
            unsafe { *inside -= 1 };
        }
    }
    fn inside(&self) -> Option<*mut u32> {
        self.threads.map(|threads| (threads.inside)())
    }
    /// All of this process reads the real clocks from now on: it is a child of the program.
    pub fn becomes_real(&self) {
        self.real.store(true, Ordering::Relaxed);
    }

    /// Time at which the first of the process's threads that sleep or wait with a deadline is due; the end of time if none
    /// does. The process is due then, whatever else it stands for.
    pub fn first_due(&self) -> u64 {
        self.threads.map_or(u64::MAX, |threads| (threads.first_due)())
    }
    /// Whether no other thread of the process runs.
    pub fn is_quiet(&self) -> bool {
        self.threads.is_none_or(|threads| (threads.is_quiet)())
    }

    /// The process is a PE from now on: time that it sleeps passes for others, too.
    pub fn attach(&self, stand: Stand, stand_at: u64) {
        self.stand_at.store(stand_at, Ordering::Relaxed);
        self.stand.store(stand as usize, Ordering::Release);
    }
    /// From now on `compute` lets pass what the program has computed.
    pub fn computes(&self, compute: Hook) {
        self.compute.store(compute as usize, Ordering::Release);
    }
    /// It is none any more.
    pub fn detach(&self) {
        self.compute.store(0, Ordering::Release);
        self.stand.store(0, Ordering::Release);
        self.stand_at.store(u64::MAX, Ordering::Relaxed);
    }
    /// Stands still until a time or, if this is a PE, until it goes on for another reason: then some other thread has
    /// something to do first.
    pub fn stand_until(&self, time: u64) {
        match self.stand.load(Ordering::Acquire) {
            0 => drop(self.now.fetch_max(time, Ordering::Relaxed)),
            stand => {
                // SAFETY: only `attach` writes anything but 0, and it writes a `Stand`.
                let stand: Stand = unsafe { std::mem::transmute::<usize, Stand>(stand) };
                stand(time);
            }
        }
    }
    /// Lets pass what the program has computed, if that takes time.
    pub fn pass_computing(&self) {
        call(&self.compute);
    }
}

fn call(hook: &AtomicUsize) {
    let hook = hook.load(Ordering::Acquire);
    if hook != 0 {
        // SAFETY: only `computes` and `set_due` write anything but 0, and they write a `Hook`.
        let hook: Hook = unsafe { std::mem::transmute::<usize, Hook>(hook) };
        hook();
    }
}
