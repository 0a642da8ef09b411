//! The clock that a program reads in virtual time. A preloaded library owns it, because only such a one comes before
//! libc; the driver finds it there and moves it on.

use super::doubts::Doubts;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Name of the function of the preloaded library that returns its [`ProgramClock`].
pub const SYMBOL: &std::ffi::CStr = c"angara_program_clock";
/// Name of its function that makes the clock of one of several PEs in a process: a number to an address.
pub const PE_SYMBOL: &std::ffi::CStr = c"angara_clock_pe";
/// Name of its function that says whose turn it is: what the former has returned, or null.
pub const TURN_SYMBOL: &std::ffi::CStr = c"angara_clock_turn";
/// Part of the name of the preloaded library's file.
pub const PRELOADED: &str = "libangara_clock";
/// The same of those that wrap calls of MPI, each with a name that an MPI library has which has all of its names; nothing if all
/// libraries have them: the names of MPI 3.1, of 4.0, of 4.1, and those with counts of 64 bits.
pub const PRELOADED_FOR_MPI: [(&str, Option<&str>); 4] = [
    ("libangara_mpi", None),
    ("libangara_mpi_4", Some("MPI_Session_init")),
    ("libangara_mpi_41", Some("MPI_Buffer_flush")),
    ("libangara_mpi_large", Some("MPI_Send_c")),
];
/// Set where the processor's time stamp counter tells virtual time, too.
pub const ENV_TSC: &std::ffi::CStr = c"ANGARA_TSC";
/// The seed of the random numbers that a program asks the system for, where one decides.
pub const ENV_SEED: &std::ffi::CStr = c"ANGARA_SEED";
/// Raised when the structure changes.
const VERSION: u32 = 8;
/// Cost of reading a clock, in picoseconds: about what the vDSO takes. Ours.
pub const READ_COST: u64 = 25_000;
/// Cost of a yield, in picoseconds. Our choice.
pub const YIELD_COST: u64 = 100_000;

/// Looks that take no time in a call that returns at once. Ours.
const FREE_LOOKS: u32 = 16;
/// Calls in a row that may take no time. Ours.
const TIMELESS_CALLS: u32 = 256;

/// The clock that the preloaded library has, if it is there and known.
pub fn preloaded() -> Option<&'static ProgramClock> {
    // SAFETY: a name that ends with 0.
    let f = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
    if f.is_null() {
        return None;
    }
    // SAFETY: the name is that of the preloaded library's function, which takes nothing and returns its static clock.
    let clock = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> &'static ProgramClock>(f)() };
    clock.is_known().then_some(clock)
}

/// Function called when the program looks at a clock, or a timer is due.
pub type Hook = extern "C" fn();
/// Lets this PE stand still until a time, or until it goes on for another reason.
pub type Stand = extern "C" fn(u64);

/// Returns the place where the calling thread counts how deep it is inside the library; valid as long as the thread.
pub type Inside = extern "C" fn() -> *mut u32;
/// Returns when the first of the process's threads that sleep or wait with a deadline is due; the end of time if none
/// is.
pub type FirstDue = extern "C" fn() -> u64;
/// Returns true if no other thread of the process runs.
pub type IsQuiet = extern "C" fn() -> bool;
/// Returns the place where the calling thread keeps the call it is in; valid as long as the thread.
pub type OfThread = extern "C" fn() -> *mut Call;

/// The call of a message-passing library that a thread is in, as the library that wraps these calls says. Inside, looks,
/// yields and reads of clocks take no time. Threads of the library itself have real time.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The thread is in a call.
    pub inside: bool,
    /// It returns only when something has come, and no other thread makes calls at the same time.
    pub blocks: bool,
    /// Looks so far, in one that returns at once: after some of them it waits all the same, and they take time.
    pub looks: u32,
    /// Its name, which ends with 0, or null.
    pub name: *const std::ffi::c_char,
    /// The thread is the program's, not one of a library.
    pub takes_part: bool,
    /// It has made a call before.
    pub is_known: bool,
    /// Which of the process's calls this is, or the thread's last one was: what is known of one says nothing of another.
    pub number: u32,
    /// When it began, in picoseconds.
    pub began: u64,
    /// Calls in a row so far in which no time has passed.
    pub timeless: u32,
}

impl Call {
    /// Call of a thread of a library.
    pub const NONE: Call = Call {
        inside: false,
        blocks: false,
        looks: 0,
        name: std::ptr::null(),
        takes_part: false,
        is_known: false,
        number: 0,
        began: 0,
        timeless: 0,
    };
    /// Call of a program's thread that is outside all calls.
    pub const OUTSIDE: Call = Call { takes_part: true, ..Call::NONE };
}

/// Functions of the driver for the library that wraps the calls of a message-passing library. Each takes what is stated
/// there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Virtual time begins for this PE, at the same instant for all that have called `meet`.
    pub begin: Hook,
    /// This PE shall begin no earlier than it is now by its clock. All do so before any begins.
    pub meet: Hook,
    /// The PE's part of the run ends: its time does not count any more.
    pub end: Hook,
    /// The PE is outside virtual time from now on ...
    pub pause: Hook,
    /// ... until all PEs that are outside have come back.
    pub resume: Hook,
    /// The program calls a routine: its name, which stays.
    pub called: extern "C" fn(*const std::ffi::c_char),
    /// The same for one that looks whether something has come.
    pub looks: extern "C" fn(*const std::ffi::c_char),
    /// The routine returns.
    pub returns: Hook,
}

/// Functions of the preloaded library for the threads of the process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// See there.
    pub inside: Inside,
    /// See there.
    pub first_due: FirstDue,
    /// See there.
    pub is_quiet: IsQuiet,
    /// See there.
    pub call: OfThread,
    /// See there.
    pub order: Order,
}

/// The order of threads that make calls of a message-passing library, where several may: one at a time has the turn.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The calling thread waits for its turn, unless it has it.
    pub take: Hook,
    /// It gives its turn up and stands: for a message, or until others have come as far. True if it is to tell the data plane that
    /// the process stands; false if it is its turn again, to look.
    pub rest: extern "C" fn(bool) -> bool,
    /// The process has stood, as the former said it was to; returns when it is the calling thread's turn.
    pub has_led: Hook,
    /// True if no other thread goes on before time passes.
    pub others_rest: extern "C" fn() -> bool,
    /// Several threads may make calls from now on ...
    pub begin: Hook,
    /// ... and none does any more.
    pub end: Hook,
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
    /// A hook, or 0 as well: a thread has begun to wait, until a time that may come before all others.
    sooner: AtomicUsize,
    /// Another one, or 0: what the program has computed until it looks at a clock is to pass first.
    compute: AtomicUsize,
    /// When the next of the program's timers is due.
    due: AtomicU64,
    /// Hook that sends its signal then, or 0.
    ring: AtomicUsize,
    /// The PE begins virtual time when it is told to, not when it attaches.
    late: AtomicBool,
    /// Threads that have made calls.
    callers: AtomicU32,
    /// Calls so far.
    calls: AtomicU32,
    /// Threads make calls in order.
    turns: AtomicBool,
    /// What threads have done so far that another one may wait for.
    changes: AtomicU32,
    /// Hook for a thread that yields in a call that blocks, or 0.
    yields: AtomicUsize,
    /// What makes times of this process doubtful: [`Doubts`] as bits.
    doubts: AtomicU32,
    /// The [`Driver`], or null while the process is in no job whose time begins late.
    driver: AtomicPtr<Driver>,
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
            // Until the program begins.
            real: AtomicBool::new(threads.is_some()),
            threads,
            now: AtomicU64::new(0),
            stand_at: AtomicU64::new(u64::MAX),
            stand: AtomicUsize::new(0),
            sooner: AtomicUsize::new(0),
            compute: AtomicUsize::new(0),
            due: AtomicU64::new(u64::MAX),
            ring: AtomicUsize::new(0),
            late: AtomicBool::new(false),
            callers: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            turns: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            yields: AtomicUsize::new(0),
            doubts: AtomicU32::new(0),
            driver: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
    /// True if it has the layout that this crate knows.
    pub fn is_known(&self) -> bool {
        self.version == VERSION
    }

    /// Picoseconds since the program began.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
    /// N picoseconds pass; the time then.
    #[inline]
    pub fn pass(&self, ps: u64) -> u64 {
        self.now.fetch_add(ps, Ordering::Relaxed).saturating_add(ps)
    }
    /// It is `time` now, and the PE may run until `stand_at`.
    pub fn go_on(&self, time: u64, stand_at: u64) {
        self.now.store(time, Ordering::Relaxed);
        self.stand_at.store(stand_at, Ordering::Relaxed);
    }
    /// The PE may run until then.
    pub fn may_run_until(&self, time: u64) {
        self.stand_at.store(time, Ordering::Relaxed);
    }
    /// The PE may run until then at most.
    pub fn must_stand_by(&self, time: u64) {
        self.stand_at.fetch_min(time, Ordering::Relaxed);
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

    /// True if the calling thread shall read the real clocks.
    pub fn is_real(&self) -> bool {
        self.real.load(Ordering::Relaxed)
            // SAFETY: the thread's own place.
            || self.inside().is_some_and(|inside| unsafe { *inside } > 0)
            || self.late.load(Ordering::Relaxed) && !self.call().takes_part
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
    /// All of this process reads the real clocks from now on: its program has not begun, or it is a child of the program.
    pub fn becomes_real(&self) {
        self.real.store(true, Ordering::Relaxed);
    }
    /// The program begins, and reads this clock.
    pub fn becomes_virtual(&self) {
        self.real.store(false, Ordering::Relaxed);
    }

    /// Time at which the first of the process's threads that sleep or wait with a deadline is due; the end of time if none
    /// does. The process is due then, whatever else it stands for.
    pub fn first_due(&self) -> u64 {
        self.threads.map_or(u64::MAX, |threads| (threads.first_due)())
    }
    /// True if no other thread of the process runs.
    pub fn is_quiet(&self) -> bool {
        self.threads.is_none_or(|threads| (threads.is_quiet)())
    }

    /// The call that the calling thread is in.
    #[inline]
    pub fn call(&self) -> Call {
        // SAFETY: the thread's own place.
        self.threads.map_or(Call::NONE, |threads| unsafe { *(threads.call)() })
    }
    /// From now on the calling thread is in this one.
    pub fn set_call(&self, call: Call) {
        if let Some(threads) = self.threads {
            // SAFETY: the thread's own place.
            unsafe { *(threads.call)() = call };
        }
    }
    /// The calling thread is the program's, outside of all calls.
    pub fn takes_part(&self) {
        self.set_call(Call { is_known: self.call().is_known, ..Call::OUTSIDE });
    }
    /// The calling thread makes a call of this name; false if it is in one already.
    pub fn begin_call(&self, name: *const std::ffi::c_char, blocks: bool) -> bool {
        let before = self.call();
        if before.inside {
            return false;
        }
        if !before.is_known {
            self.callers.fetch_add(1, Ordering::SeqCst);
        }
        let is_alone = self.takes_turns() || self.callers.load(Ordering::SeqCst) == 1;
        if blocks && !is_alone {
            self.doubts(Doubts::THREADS);
        }
        let blocks = blocks && is_alone;
        let (number, began) = (self.calls.fetch_add(1, Ordering::Relaxed), self.now());
        self.set_call(Call {
            inside: true,
            blocks,
            looks: 0,
            name,
            takes_part: true,
            is_known: true,
            number,
            began,
            ..before
        });
        true
    }
    /// The end of what [`ProgramClock::begin_call`] began.
    pub fn end_call(&self) {
        let Call { number, began, timeless, .. } = self.call();
        let timeless = if began == self.now() { timeless.saturating_add(1) } else { 0 };
        self.set_call(Call { is_known: true, number, timeless, ..Call::OUTSIDE });
        self.changes_something();
    }

    /// Threads of the process make calls one at a time, in order.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.turns.load(Ordering::Relaxed)
    }
    /// See there.
    pub fn set_turns(&self, on: bool) {
        self.turns.store(on, Ordering::SeqCst);
    }
    /// The functions of the order, where threads make calls in one.
    #[inline]
    pub fn order(&self) -> Option<&Order> {
        self.threads.as_ref().filter(|_| self.takes_turns()).map(|threads| &threads.order)
    }
    /// The calling thread goes on with its turn, where threads have turns.
    #[inline]
    pub fn takes_its_turn(&self) {
        if let Some(order) = self.order() {
            (order.take)();
        }
    }
    /// Several threads may make calls from now on, or none any more.
    pub fn may_have_callers(&self, several: bool) {
        if let Some(Threads { order, .. }) = &self.threads {
            if several { (order.begin)() } else { (order.end)() }
        }
    }
    /// The calling thread has done something that another one may wait for.
    #[inline]
    pub fn changes_something(&self) {
        if self.takes_turns() {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }
    /// How often threads have.
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }
    /// Calls this when a thread yields in a call that blocks, where threads have turns: it has no lock of its library then.
    pub fn on_yield(&self, hook: Hook) {
        self.yields.store(hook as usize, Ordering::Release);
    }
    /// The calling thread yields.
    pub fn yields(&self) {
        if self.takes_turns() && self.call().blocks {
            call(&self.yields);
        }
    }
    /// The calling thread makes one call after the other without any time passing: it may wait for something, and nothing would
    /// ever come.
    pub fn is_timeless(&self) -> bool {
        self.call().timeless > TIMELESS_CALLS
    }
    /// True if the calling thread is in a call inside which nothing takes time.
    #[inline]
    pub fn is_in_call(&self) -> bool {
        self.call().inside
    }
    /// True if a look of the calling thread at what has come takes no time.
    pub fn looks_for_nothing(&self) -> bool {
        let call = self.call();
        if call.inside && !call.blocks {
            self.set_call(Call { looks: call.looks.saturating_add(1), ..call });
        }
        call.inside && (call.blocks || call.looks < FREE_LOOKS)
    }
    /// Times of this process are doubtful from now on, for these reasons.
    pub fn doubts(&self, reasons: Doubts) {
        self.doubts.fetch_or(reasons.bits(), Ordering::Relaxed);
    }
    /// Why times of this process are doubtful so far.
    pub fn doubted(&self) -> Doubts {
        Doubts::from_bits(self.doubts.load(Ordering::Relaxed))
    }
    /// A PE that attaches from now on begins virtual time when it is told to.
    pub fn begins_late(&self) {
        self.late.store(true, Ordering::Release);
    }
    /// See there.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Acquire)
    }
    /// Sets the driver to call from now on.
    pub fn set_driver(&self, driver: &'static Driver) {
        self.driver.store(std::ptr::from_ref(driver).cast_mut(), Ordering::Release);
    }
    /// Returns the driver to call, if this is a PE whose time begins late.
    pub fn driver(&self) -> Option<&'static Driver> {
        // SAFETY: null, or what `set_driver` was given.
        unsafe { self.driver.load(Ordering::Acquire).as_ref() }
    }

    /// The process is a PE from now on: time that it sleeps passes for others, too.
    pub fn attach(&self, stand: Stand, sooner: Hook, stand_at: u64) {
        self.stand_at.store(stand_at, Ordering::Relaxed);
        self.sooner.store(sooner as usize, Ordering::Release);
        self.stand.store(stand as usize, Ordering::Release);
    }
    /// From now on `compute` lets pass what the program has computed.
    pub fn computes(&self, compute: Hook) {
        self.compute.store(compute as usize, Ordering::Release);
    }
    /// True from [`ProgramClock::attach`] to [`ProgramClock::detach`].
    pub fn has_begun(&self) -> bool {
        self.stand.load(Ordering::Acquire) != 0
    }
    /// It is none any more.
    pub fn detach(&self) {
        self.compute.store(0, Ordering::Release);
        self.sooner.store(0, Ordering::Release);
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
    /// A thread of the process waits, and what [`ProgramClock::first_due`] says may have changed: if the PE stands, it is due
    /// then.
    pub fn waits(&self) {
        call(&self.sooner);
    }
    /// Lets pass what the program has computed, if that takes time.
    pub fn pass_computing(&self) {
        call(&self.compute);
    }
}

fn call(hook: &AtomicUsize) {
    let hook = hook.load(Ordering::Acquire);
    if hook != 0 {
        // SAFETY: only `attach`, `computes`, `on_yield` and `set_due` write anything but 0, and they write a `Hook`.
        let hook: Hook = unsafe { std::mem::transmute::<usize, Hook>(hook) };
        hook();
    }
}
