//! This PE's clock where time is virtual: it passes by what the program does, and by standing still until the network
//! has come so far ([`angara_abi::clock`]).

use super::compute::Computing;
use super::hand_over::{Futexes, HandOver, SameThread};
use super::late::Late;
use super::routines::{self, Routines};
use crate::error::Result;
use crate::memory::Memory;
use angara_abi::clock::{ClockPage, Verdict, WaitsFor};
use angara_abi::doubts::Doubts;
use angara_abi::inside::Host;
use angara_abi::program_clock::{self, Driver, PRELOADED, PRELOADED_FOR_MPI, ProgramClock};
use angara_protocol::mpi::MpiCosts;
use angara_protocol::msg::Routine;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Cost of a look at memory, in picoseconds: a thread that looks in a loop must not stand still at every
/// picosecond. Ours.
pub(super) const LOOK_COST: u64 = 50_000;
/// With several threads, a look takes this fraction of the wait before it ...
const LATE: u64 = 16;
/// ... but at most this long, about as long as a stop takes on the wall: if another thread works outside the library
/// and this one waits for it, no virtual time passes. Ours.
const LOOK_MOST: u64 = 10_000_000;
/// Least cost of a call that has nothing to do, in picoseconds, for the same reason. Ours.
const IDLE_COST: u64 = 1_000;
/// Interval at which a thread that stands checks that its job still runs; the longer it stands, the longer
/// the interval.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_PART: u32 = 8;
const LOOK_LONG: Duration = Duration::from_secs(1);
/// How long on the wall threads that have slept may run before others stand still: some never rest.
const OTHERS_RUN: Duration = Duration::from_millis(20);

/// The clock of a program without the preloaded library, which only the driver sees.
static UNSEEN: ProgramClock = ProgramClock::new();
/// The clock of this process's job, for whoever sleeps.
pub(super) static CLOCK: AtomicPtr<VirtualClock> = AtomicPtr::new(std::ptr::null_mut());

/// The clock of a PE.
pub(crate) struct VirtualClock {
    pub(super) page: ClockPage,
    pub(super) program: &'static ProgramClock,
    /// The way to the data plane.
    pub(super) hand_over: Box<dyn HandOver>,
    /// The process of all PEs, if this is one of several in it.
    host: Option<&'static Host>,
    /// Picoseconds a library call takes.
    call_cost: u64,
    /// Picoseconds it may run ahead of the network.
    pub(super) ahead: u64,
    /// Cost of the program's computing, if it takes time.
    computing: Option<Computing>,
    /// Picoseconds so far that the program computed, and that calls of the library cost.
    computed: AtomicU64,
    software: AtomicU64,
    /// Costs of the routines of a library above this one, if they are recorded.
    routines: Option<Routines>,
    /// Threads that stand still, of which one tells the data plane.
    standing: Mutex<Standing>,
    /// A stand has ended.
    gone_on: Condvar,
    /// Threads that stand and might go on by themselves.
    unsure: AtomicU32,
    /// Counts changes of deadlines, for the data plane.
    deadlines: *const AtomicU32,
    /// Several threads communicate: one may wait for another without the network.
    threads: AtomicBool,
    /// Before this time nothing changes that this PE can see. 0 once it has posted something.
    sees_until: AtomicU64,
    /// Changes of deadlines when this PE stood last: until another one, nobody else is due before `sees_until`.
    deadlines_known: AtomicU32,
    /// Reading of the program's clock when the network's time is 0.
    base: AtomicU64,
    /// The PE's time is virtual. Otherwise it has not begun yet, or the PE is outside of it for a while.
    pub(super) is_on: AtomicBool,
    /// Costs of a message-passing library, if this is one of its processes.
    mpi: Option<MpiCosts>,
    /// State of a PE whose time does not begin when it attaches.
    pub(super) late: Option<Late>,
}

// SAFETY: `deadlines` is a word of the job's synchronisation page, which stays mapped as long as its driver, whose clock
// this is; it is only used as an atomic.
unsafe impl Send for VirtualClock {}
// SAFETY: `deadlines` is a word of the job's synchronisation page, which stays mapped as long as its driver, whose
// clock this is; it is only used as an atomic.
unsafe impl Sync for VirtualClock {}

/// Reasons for which threads of this process stand.
#[derive(Default)]
struct Standing {
    /// The stand of which the data plane knows, while it lasts.
    led: Option<Lead>,
    /// How many have ended, and how the last one did.
    ended: u64,
    verdict: Option<Verdict>,
    /// A thread that slept has gone on, and may still run.
    released: bool,
}

struct Lead {
    /// It waits for more than a time.
    waits: bool,
    /// When it ends in any case.
    deadline: u64,
}

impl VirtualClock {
    /// Goes on with the program's clock where it is. `deadlines` stays valid as long as the clock. `host` is the process of all PEs,
    /// where there is one.
    pub(super) fn new(
        page: ClockPage,
        computing: Option<Computing>,
        deadlines: *const AtomicU32,
        host: Option<&'static Host>,
    ) -> VirtualClock {
        let (call_cost, ahead) = (page.call_cost(), page.ahead());
        let hand_over: Box<dyn HandOver> = match host {
            None => Box::new(Futexes),
            Some(host) => Box::new(SameThread(host)),
        };
        VirtualClock {
            hand_over,
            host,
            ahead,
            computing,
            routines: page.is_noted().then(Routines::default),
            page,
            program: program_clock::preloaded().unwrap_or(&UNSEEN),
            call_cost,
            computed: AtomicU64::new(0),
            software: AtomicU64::new(0),
            standing: Mutex::default(),
            gone_on: Condvar::new(),
            unsure: AtomicU32::new(0),
            deadlines,
            threads: AtomicBool::new(false),
            sees_until: AtomicU64::new(0),
            deadlines_known: AtomicU32::new(0),
            base: AtomicU64::new(0),
            is_on: AtomicBool::new(false),
            mpi: None,
            late: None,
        }
    }

    /// Makes this process a PE from now on, for whose library above this one `driver` is. `self` must stay where it is until [`VirtualClock::leave`].
    pub(super) fn join(&mut self, memory: &Memory, driver: &'static Driver) -> Result<()> {
        let is_late = self.program.is_late();
        if is_late {
            self.late = Some(Late::new(memory, &self.page)?);
            self.mpi = MpiCosts::from_env();
        }
        CLOCK.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
        // It has begun, even if nobody could tell.
        self.program.becomes_virtual();
        if self.host.is_none() {
            release_children();
        }
        match is_late {
            true => self.program.set_driver(driver),
            false => self.begin(),
        }
        Ok(())
    }

    /// Whoever sleeps in this process stands still from now on.
    pub(super) fn begin(&self) {
        self.is_on.store(true, Ordering::Release);
        self.program.attach(sleep, waits, self.program.now() + self.ahead);
        if self.computing.as_ref().is_some_and(Computing::is_by_time) {
            self.program.computes(compute);
        }
    }

    /// True if the PE's time is virtual now.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Returns what a message-passing library costs, if this is one of its processes.
    #[inline]
    pub(super) fn mpi(&self) -> Option<&MpiCosts> {
        self.mpi.as_ref()
    }
    /// The number of the call that the calling thread is in, if that returns only when something has come.
    #[inline]
    pub(super) fn blocking_call(&self) -> Option<u32> {
        let call = self.program.call();
        call.blocks.then_some(call.number)
    }
    /// The calling thread stands from now on, and might go on by itself where nothing else can happen.
    pub(super) fn might_go_on(&self, might: bool) {
        let before = self.unsure.fetch_add(might.into(), Ordering::Relaxed);
        self.page.might_go_on(might || before > 0);
    }
    /// The end of what [`VirtualClock::might_go_on`] began.
    pub(super) fn has_stood(&self, might: bool) {
        let before = self.unsure.fetch_sub(might.into(), Ordering::Relaxed);
        self.page.might_go_on(before > u32::from(might));
    }
    /// Threads of this process make calls one at a time, in order.
    #[inline]
    pub(super) fn takes_turns(&self) -> bool {
        self.program.takes_turns()
    }
    /// The calling thread has done something that another one may wait for.
    #[inline]
    pub(super) fn changes_something(&self) {
        self.program.changes_something();
    }
    /// Calls this when a thread yields in a call that blocks.
    pub(super) fn on_yield(&self, hook: program_clock::Hook) {
        self.program.on_yield(hook);
    }
    /// Notes that a call went on by itself after `looks` looks in vain; `is_known` if it needs that number every time.
    pub(super) fn went_on_after(&self, looks: u32, is_known: bool) {
        self.page.went_on_after(looks);
        if !is_known {
            self.program.doubts(Doubts::LOOKS);
        }
    }
    /// A message-passing library looks for messages. Outside of all calls that are known, its time is doubtful.
    pub(super) fn looks_somewhere(&self) {
        let call = self.program.call();
        if call.takes_part && !call.inside && self.is_on() && self.program.driver().is_some() {
            self.program.doubts(Doubts::UNKNOWN_CALLS);
        }
    }
    /// True if a call that has just ended is one of many that took no time.
    pub(super) fn is_timeless(&self) -> bool {
        self.program.is_timeless()
    }
    /// True if a look of the calling thread at what has come takes no time.
    #[inline]
    pub(super) fn looks_for_nothing(&self) -> bool {
        self.program.looks_for_nothing()
    }
    /// The call of a message-passing library that the calling thread is in.
    pub(super) fn call_name(&self) -> Option<&'static str> {
        routines::name(self.program.call().name)
    }

    /// The process is no PE any more.
    pub(super) fn leave(&self) {
        self.program.detach();
        CLOCK.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Makes this thread's reads of clocks real from now on.
    pub(super) fn read_real(&self) {
        self.program.enter();
    }

    /// Notes that several threads communicate from now on.
    pub(super) fn with_threads(&self) {
        self.threads.store(true, Ordering::Relaxed);
    }

    /// Returns what a thread stands for that has waited for `waits_for` since a time. Where there are others, it looks
    /// again and again: any of them may do it. The longer it has waited, the longer until it looks again.
    pub(super) fn stands_for(&self, waits_for: WaitsFor, since: u64) -> WaitsFor {
        if !self.threads.load(Ordering::Relaxed) {
            return waits_for;
        }
        self.program.doubts(Doubts::THREADS);
        let waited = self.program.now().saturating_sub(since);
        self.costs(self.call_cost.max(LOOK_COST).max((waited / LATE).min(LOOK_MOST)));
        self.returns();
        // Whoever waits to stand, too, or has something to do, would not have its turn.
        rustix::thread::sched_yield();
        WaitsFor::Time
    }

    /// When a stand that begins now has begun, as [`angara_abi::note`] has it; 0 if that is not to be had for nothing.
    pub(super) fn wall(&self) -> u64 {
        self.host.map_or(0, |host| host.now.load(Ordering::Relaxed))
    }

    /// True if the program reads this clock.
    pub(super) fn is_seen(&self) -> bool {
        !std::ptr::eq(self.program, &UNSEEN)
    }

    /// Picoseconds since the program began.
    pub(super) fn now(&self) -> u64 {
        self.program.now()
    }

    /// A routine of a library above this one begins; what the program computed before has passed.
    pub(super) fn begins(&self, routine: &'static str) {
        if let Some(routines) = &self.routines {
            routines.begins(routine, self.program.now());
        }
    }
    /// Notes that it posts an operation of this number of bytes.
    pub(super) fn carries(&self, bytes: u32) {
        if let Some(routines) = &self.routines {
            routines.carries(bytes);
        }
    }
    /// Returns what routines have cost since this was asked last.
    pub(super) fn take_routines(&self) -> Vec<Routine> {
        self.routines.as_ref().map_or_else(Vec::new, Routines::take)
    }

    /// Notes that the program calls a library above this one.
    pub(super) fn called(&self) -> Result<()> {
        let ps = self.computing.as_ref().map_or(Ok(0), Computing::called)?;
        self.pass(ps);
        Ok(())
    }
    /// Notes that the time computed before that call has passed.
    pub(super) fn is_inside(&self) {
        if let Some(computing) = &self.computing {
            computing.is_inside();
        }
    }
    /// Notes that this driver is called.
    pub(super) fn entered(&self) -> Result<()> {
        let ps = self.computing.as_ref().map_or(Ok(0), Computing::entered)?;
        self.pass(ps);
        Ok(())
    }
    /// True if computing takes time.
    pub(super) fn counts_computing(&self) -> bool {
        self.computing.is_some()
    }
    /// The program ends, or rests.
    pub(super) fn write_intervals(&self) {
        if let Some(computing) = &self.computing {
            computing.write();
        }
    }

    /// Post `seq` is being made.
    #[inline]
    pub(super) fn stamp(&self, seq: u32) {
        self.sees_until.store(0, Ordering::Relaxed);
        let time = self.costs(self.call_cost);
        // No answer comes sooner.
        self.program.must_stand_by(time + self.ahead);
        self.page.stamp(seq, self.of_network(time));
        self.returns();
    }

    /// A look at memory, which takes `ps` at least.
    pub(super) fn pass_look(&self, ps: u64) {
        self.costs(self.call_cost.max(LOOK_COST).max(ps));
        self.returns();
    }

    /// Lets `ps` picoseconds pass that the program says it computes for.
    pub(super) fn pass_computing(&self, ps: u64) {
        self.pass(ps);
        self.returns();
    }

    /// Lets `ps` picoseconds pass that the program computes.
    fn pass(&self, ps: u64) {
        self.computed.fetch_add(ps, Ordering::Relaxed);
        self.program.pass(ps);
    }

    /// Lets `ps` picoseconds pass in the library. Returns the time then.
    pub(super) fn costs(&self, ps: u64) -> u64 {
        self.software.fetch_add(ps, Ordering::Relaxed);
        self.program.pass(ps)
    }

    /// An operation on this PE's own memory, or a call that has nothing to do.
    pub(super) fn pass_call(&self) {
        self.costs(self.call_cost.max(IDLE_COST));
        self.returns();
    }

    /// True if what this PE sees may be older than its clock.
    pub(super) fn is_blind(&self) -> bool {
        self.program.now() >= self.sees_until.load(Ordering::Relaxed)
    }

    /// The PE has run so far ahead of the network that it must stand.
    #[inline]
    pub(super) fn is_ahead(&self) -> bool {
        self.program.is_ahead() && !self.runs_on()
    }

    /// A PE that has run as far as it may runs on while nothing can happen without it, as a program does that looks at a clock in
    /// a loop; true if this one may. Not past the time of a thread that waits, in this process or in another.
    #[cold]
    fn runs_on(&self) -> bool {
        let now = self.program.now();
        let until = self.sees_until.load(Ordering::Relaxed).min(self.program.first_due());
        // Where threads have turns, another one's comes when this one stands.
        let others_want = || self.program.order().is_some_and(|order| !(order.others_rest)());
        if now >= until
            || self.deadlines() != self.deadlines_known.load(Ordering::Relaxed)
            || self.page.is_over()
            || others_want()
        {
            return false;
        }
        self.program.may_run_until(until.min(now + self.ahead));
        true
    }

    /// Changes of deadlines of PEs of this job so far.
    fn deadlines(&self) -> u32 {
        // SAFETY: valid as long as the clock.
        unsafe { &*self.deadlines }.load(Ordering::SeqCst)
    }

    /// Stands until all PEs have come as far.
    pub(super) fn comes_as_far(&self) {
        let verdict = self.stand_still(WaitsFor::Time, self.program.now(), || false);
        self.has_gone_on(verdict);
    }
    /// Lets the `ps` picoseconds of a call of the library pass.
    pub(super) fn takes(&self, ps: u64) {
        self.costs(ps);
        if self.is_ahead() {
            self.comes_as_far();
        }
    }

    pub(super) fn returns(&self) {
        if let Some(computing) = &self.computing {
            computing.returns();
        }
        if let Some(routines) = &self.routines {
            routines.goes_on(self.program.now());
        }
    }

    /// Stands still until what is waited for has happened, or may have; nothing if nobody will tell, as `gone` or the
    /// page says.
    pub(super) fn stand(&self, waits_for: WaitsFor, gone: impl Fn() -> bool) -> Option<Verdict> {
        let until = if waits_for == WaitsFor::Time { self.program.now() } else { u64::MAX };
        let verdict = self.stand_still(waits_for, until, gone);
        self.returns();
        self.has_gone_on(verdict);
        verdict
    }

    /// The program's timers may be due. A handler of the program may read clocks, and stand.
    fn has_gone_on(&self, verdict: Option<Verdict>) {
        if verdict.is_some() {
            self.program.passed();
        }
    }

    fn stand_still(&self, waits_for: WaitsFor, until: u64, gone: impl Fn() -> bool) -> Option<Verdict> {
        // Where threads have turns, the others rest while one of them tells that the process stands.
        let order = self.program.order();
        if order.is_some_and(|order| !(order.rest)(waits_for != WaitsFor::Time)) {
            return self.lock().verdict;
        }
        // The library's own reads of clocks are real.
        self.program.enter();
        let standing = self.lock();
        let verdict = match standing.led {
            Some(_) => self.follow(standing, waits_for, until, gone),
            None => self.lead(standing, waits_for, until, gone),
        };
        self.program.leave();
        if let Some(order) = order {
            (order.has_led)();
        }
        verdict
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Tells the data plane that this process stands, until its first thread is due at the latest.
    fn lead<'a>(
        &'a self,
        mut standing: MutexGuard<'a, Standing>,
        waits_for: WaitsFor,
        until: u64,
        gone: impl Fn() -> bool,
    ) -> Option<Verdict> {
        let waits = waits_for != WaitsFor::Time;
        standing.led = Some(Lead { waits, deadline: until.min(self.program.first_due()) });
        if waits && std::mem::take(&mut standing.released) && !self.program.takes_turns() {
            // A thread that has slept goes on now, before the event that this thread waits for.
            drop(standing);
            self.let_others_run();
            standing = self.lock();
        }
        let deadline = standing.led.as_ref().map_or(until, |led| led.deadline);
        self.page.spent(self.computed.load(Ordering::Relaxed), self.software.load(Ordering::Relaxed));
        let number = self.tells(waits_for, deadline);
        drop(standing);
        self.hand_over.tell(&self.page);
        let mut lasted = Duration::ZERO;
        let ended = loop {
            if let Some(ended) = self.page.ended(number) {
                break Some(ended);
            }
            if gone() || self.page.is_over() {
                break None;
            }
            let look = (lasted / LOOK_PART).clamp(LOOK, LOOK_LONG);
            self.hand_over.wait(&self.page, number, look);
            // At most; who is woken early looks a little more rarely than it would.
            lasted += look;
        };
        let mut standing = self.lock();
        let deadline = standing.led.take().map_or(until, |led| led.deadline);
        if let Some((time, _)) = ended {
            standing.released |= self.goes_on(time) >= deadline;
        }
        standing.ended += 1;
        standing.verdict = ended.map(|(_, verdict)| verdict);
        self.gone_on.notify_all();
        standing.verdict
    }

    /// Stands behind another thread of this process. It goes on when this one is due, and then both look again.
    fn follow(
        &self,
        mut standing: MutexGuard<'_, Standing>,
        waits_for: WaitsFor,
        until: u64,
        gone: impl Fn() -> bool,
    ) -> Option<Verdict> {
        if let Some(led) = &mut standing.led {
            // A wait that the data plane does not know of begins a stand of its own, at once.
            let until = if waits_for != WaitsFor::Time && !led.waits { 0 } else { until };
            self.is_due_by(led, until);
        }
        let number = standing.ended;
        while standing.ended == number {
            if gone() || self.page.is_over() {
                return None;
            }
            standing =
                self.gone_on.wait_timeout(standing, LOOK).map_or_else(|e| e.into_inner().0, |(standing, _)| standing);
        }
        standing.verdict
    }

    /// A time of the program as the network has it.
    fn of_network(&self, time: u64) -> u64 {
        time.saturating_sub(self.base.load(Ordering::Relaxed))
    }
    /// Picoseconds since virtual time began.
    pub(super) fn since_begin(&self) -> u64 {
        self.of_network(self.program.now())
    }
    /// It is this time by the program's clock when virtual time begins.
    pub(super) fn begins_at(&self, time: u64) {
        self.base.store(time, Ordering::Relaxed);
        self.program.go_on(time, time + self.ahead);
    }
    /// Tells that this PE stands from now on; the number of its stand.
    pub(super) fn tells(&self, waits_for: WaitsFor, deadline: u64) -> u32 {
        self.deadlines_known.store(self.deadlines(), Ordering::Relaxed);
        self.page.doubts(self.program.doubted());
        self.page.stand(self.since_begin(), waits_for, self.of_network(deadline))
    }
    /// The PE goes on at this time of the network; what the program's clock says then.
    pub(super) fn goes_on(&self, time: u64) -> u64 {
        let base = self.base.load(Ordering::Relaxed);
        let ahead = base + time + self.ahead;
        // A thread that sleeps has its turn when it is due.
        let until = if self.program.takes_turns() { ahead.min(self.program.first_due()) } else { ahead };
        self.program.go_on(base + time, until);
        self.sees_until.store(base + self.page.sees_until(), Ordering::Relaxed);
        base + time
    }

    /// The process, which stands, is due at this time at the latest.
    fn is_due_by(&self, led: &mut Lead, until: u64) {
        if until < led.deadline {
            led.deadline = until;
            self.page.set_deadline(self.of_network(until));
            // SAFETY: valid as long as the clock.
            unsafe { &*self.deadlines }.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits on the wall until no other thread runs, for a while.
    fn let_others_run(&self) {
        let until = Instant::now() + OTHERS_RUN;
        while !self.program.is_quiet() && Instant::now() < until {
            rustix::thread::sched_yield();
        }
    }
}

/// The clock of whoever sleeps, for a process that is several PEs: it is another one's turn.
pub(crate) fn change_clock(to: *mut VirtualClock) -> *mut VirtualClock {
    CLOCK.swap(to, Ordering::Relaxed)
}

/// The data plane asks where the program is: in the functions at these addresses.
pub(super) fn is_at(addresses: impl Iterator<Item = u64>) {
    // SAFETY: as in `sleep`.
    if let Some(clock) = unsafe { CLOCK.load(Ordering::Acquire).as_ref() } {
        clock.page.is_at(addresses);
    }
}

/// Programs that this process starts from now on have real time: the library is not preloaded into them.
fn release_children() {
    const PRELOAD: &str = "LD_PRELOAD";
    let Ok(all) = std::env::var(PRELOAD) else { return };
    let is_ours =
        |file: &str| file.contains(PRELOADED) || PRELOADED_FOR_MPI.iter().any(|(ours, _)| file.contains(ours));
    let others = all.split([':', ' ']).filter(|file| !file.is_empty() && !is_ours(file));
    let others = others.collect::<Vec<_>>().join(":");
    // SAFETY: while it attaches a program has no threads that look for other variables; those that the library
    // itself has started read none.
    unsafe {
        match others.is_empty() {
            true => std::env::remove_var(PRELOAD),
            false => std::env::set_var(PRELOAD, others),
        }
    }
}

/// Lets the time pass that the program has computed until it looks at a clock.
extern "C" fn compute() {
    // SAFETY: as in `sleep`.
    if let Some(clock) = unsafe { CLOCK.load(Ordering::Acquire).as_ref() }
        && let Some(computing) = &clock.computing
    {
        clock.pass(computing.until_now());
    }
}

/// A thread waits, and will tell so as one who sleeps when no other one runs. Until then the data plane has to know.
extern "C" fn waits() {
    // SAFETY: as in `sleep`.
    if let Some(clock) = unsafe { CLOCK.load(Ordering::Acquire).as_ref() } {
        let due = clock.program.first_due();
        if let Some(led) = &mut clock.lock().led {
            clock.is_due_by(led, due);
        }
    }
}

/// Stands until `until`: sleeps of the program, and its reads of clocks, end here.
extern "C" fn sleep(until: u64) {
    // SAFETY: null, or what `join` was given, which stays until `leave`.
    if let Some(clock) = unsafe { CLOCK.load(Ordering::Acquire).as_ref() } {
        if until <= clock.program.now() && clock.runs_on() {
            return;
        }
        // Where the job has ended the next call of the library says so.
        let verdict = clock.stand_still(WaitsFor::Time, until, || false);
        if verdict.is_none() {
            // Nobody lets this process go any more, and its sleeps shall end.
            clock.program.pass(until.saturating_sub(clock.program.now()));
        }
        if let Some(computing) = &clock.computing {
            computing.returns();
        }
        clock.has_gone_on(verdict);
    }
}
