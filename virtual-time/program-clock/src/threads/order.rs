//! Threads of a program that make calls of a message-passing library, or look at clocks, do so one at a time and in order,
//! where several may call the library at once. Otherwise cores and load would decide which of them comes first, and every time
//! after that.
//!
//! One thread has the *turn*. It keeps it, inside the library and outside, until it rests: until it stands for a message,
//! sleeps, ends, or waits for another thread, which only the kernel knows. Then the turn is the first thread's that wants it,
//! in the order in which threads were made, once no thread before that one runs any more. When all threads rest, one of them
//! tells the data plane that the process stands. After that all who stood for a message look again, one after the other.
//!
//! A thread that computes is waited for, up to a limit: it may be about to call. Nothing here allocates while it is locked but
//! for the list of threads; whoever is in here reads the real clocks, handlers of signals too.

use super::quiet::Status;
use super::turns;
use crate::program::program;
use angara_abi::doubts::Doubts;
use angara_abi::program_clock::Order;
use libc::{c_int, c_void, pthread_key_t, pthread_t};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// For the driver and for those that wrap calls.
pub(crate) const ORDER: Order = Order { take, rest, has_led, others_rest, begin, end };

/// Times on the wall after which the thread that is next looks again whether others run: at first, and at most.
const SLICES: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(1)];
/// The same of all others, who are woken when they are next.
const OTHERS: Duration = Duration::from_millis(100);
/// A thread that runs for longer than that without a call is waited for no more, until its next call. From then on those of its
/// process have a part of that, down to the least: they seem to wait in loops. Ours.
const LIMIT: Duration = Duration::from_secs(5);
const LIMIT_PART: u32 = 8;
const LIMIT_LEAST: Duration = Duration::from_millis(1);
/// Nobody has the turn. Numbers of threads begin behind it.
const NOBODY: u64 = 0;

/// Whose turn it is. Written with [`LIST`] locked.
static TURN: AtomicU64 = AtomicU64::new(NOBODY);
/// Threads that are about to have the list.
static ENTERING: AtomicU32 = AtomicU32::new(0);
static LIST: Mutex<List> =
    Mutex::new(List { threads: Vec::new(), last: NOBODY, leads: false, stands: 0, limit: LIMIT });

thread_local! {
    static ME: Cell<u64> = const { Cell::new(NOBODY) };
}

/// The program's threads in the order in which they were made.
struct List {
    threads: Vec<Thread>,
    /// The last number that was given.
    last: u64,
    /// A thread tells the data plane that the process stands, or is about to: nobody else goes on.
    leads: bool,
    /// How often the process has stood.
    stands: u64,
    /// How long a thread that runs is waited for.
    limit: Duration,
}

struct Thread {
    number: u64,
    /// libc's number.
    handle: pthread_t,
    status: Status,
    state: State,
    /// What wakes it when it is next.
    wake: Arc<Condvar>,
    /// How often it had given up its core when it was seen to wait.
    seen: Option<u64>,
    /// It has run for too long: nobody waits for it.
    left_alone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It runs, or waits for something that only the kernel knows of.
    Runs,
    /// It waits for its turn.
    Wants,
    /// It stands for a message, and has seen this number of changes.
    Stands { changes: u32 },
    /// It waits until others have come as far.
    Passes,
    /// It waits for the end of the thread of this number.
    Joins { number: u64 },
    /// It sleeps until this time, or waits until then at most.
    Sleeps { until: u64 },
}

impl Thread {
    /// It may run, for all that is known. One that sleeps may have been answered, and not have gone on yet.
    fn may_run(&self) -> bool {
        matches!(self.state, State::Runs | State::Sleeps { .. }) && !self.left_alone
    }
    /// It goes on before any time passes, once it has its turn.
    fn comes(&self) -> bool {
        match self.state {
            State::Wants => true,
            // Another thread has done something since it has looked.
            State::Stands { changes } => changes != program().changes(),
            State::Sleeps { until } => until <= program().now(),
            State::Runs | State::Passes | State::Joins { .. } => false,
        }
    }
    /// Which of those that rest tells that the process stands: who needs the least time to pass, and of several the first one.
    fn leads(&self) -> Option<(u8, u64)> {
        let kind = match self.state {
            State::Passes => 0,
            State::Stands { .. } => 1,
            State::Sleeps { .. } => 2,
            State::Runs | State::Wants | State::Joins { .. } => return None,
        };
        Some((kind, self.number))
    }
}

/// The list. Whoever has it reads the real clocks.
struct Locked(Option<MutexGuard<'static, List>>);

impl Locked {
    fn new() -> Locked {
        program().enter();
        // Whoever waits for this lock seems to wait for another thread.
        ENTERING.fetch_add(1, Ordering::SeqCst);
        let list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
        ENTERING.fetch_sub(1, Ordering::SeqCst);
        Locked(Some(list))
    }
    fn list(&mut self) -> &mut List {
        self.0.as_mut().expect("it is there but inside `wait`")
    }
    fn wait(&mut self, wake: &Condvar, limit: Duration) {
        let list = self.0.take().expect("it is there but inside `wait`");
        let waited = wake.wait_timeout(list, limit);
        self.0 = Some(waited.map_or_else(|e| e.into_inner().0, |(list, _)| list));
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0 = None;
        program().leave();
    }
}

/// A thread waits for others.
struct Wait {
    me: u64,
    wake: Arc<Condvar>,
    slice: Duration,
    began: Instant,
}

impl Wait {
    fn begin(locked: &mut Locked, me: u64) -> Wait {
        let wake = locked.list().thread(me).map(|thread| Arc::clone(&thread.wake)).unwrap_or_default();
        Wait { me, wake, slice: SLICES[0], began: Instant::now() }
    }
    fn goes_on(&mut self, locked: &mut Locked) {
        if locked.list().next() != Some(self.me) {
            locked.wait(&self.wake, OTHERS);
            (self.slice, self.began) = (SLICES[0], Instant::now());
            return;
        }
        self.looks_again(locked);
    }
    fn looks_again(&mut self, locked: &mut Locked) {
        locked.wait(&self.wake, self.slice);
        self.slice = (self.slice * 2).min(SLICES[1]);
        locked.list().leaves_alone(self.began.elapsed());
    }
}

impl List {
    fn add(&mut self) -> u64 {
        self.last += 1;
        self.threads.push(Thread {
            number: self.last,
            handle: 0,
            status: Status::UNKNOWN,
            state: State::Runs,
            wake: Arc::default(),
            seen: None,
            left_alone: false,
        });
        self.last
    }
    /// The calling thread has this number.
    fn begins(&mut self, number: u64) {
        ME.set(number);
        if let Some(thread) = self.thread(number) {
            thread.status = Status::own();
        }
    }
    fn is_asleep(&mut self, number: u64) -> bool {
        self.thread(number).is_some_and(|thread| matches!(thread.state, State::Sleeps { .. }))
    }
    fn thread(&mut self, number: u64) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.number == number)
    }
    fn set(&mut self, number: u64, state: State) {
        if let Some(thread) = self.thread(number) {
            (thread.state, thread.seen, thread.left_alone) = (state, None, false);
        }
        if state != State::Runs && TURN.load(Ordering::Relaxed) == number {
            TURN.store(NOBODY, Ordering::Relaxed);
        }
        self.wakes_next();
    }

    /// The thread that is to go on next, or that is to find out whether it may. Those that sleep find out by themselves.
    fn next(&self) -> Option<u64> {
        if self.leads {
            return None;
        }
        let comes = self.threads.iter().find(|thread| thread.comes()).map(|thread| thread.number);
        comes.or_else(|| self.leader())
    }
    /// The thread that tells that the process stands, if all rest.
    fn leader(&self) -> Option<u64> {
        self.threads.iter().filter_map(Thread::leads).min().map(|(_, number)| number)
    }
    fn wakes_next(&mut self) {
        if let Some(next) = self.next()
            && let Some(next) = self.thread(next)
        {
            next.wake.notify_one();
        }
    }

    /// True if no other thread runs, and there was a moment at which all of them waited.
    fn is_quiet(&mut self, me: u64) -> bool {
        let mut is_known = true;
        for _ in 0..2 {
            for thread in self.threads.iter_mut().filter(|thread| thread.number != me && thread.may_run()) {
                let seen = thread.status.waits();
                is_known &= seen.is_some() && seen == thread.seen;
                thread.seen = seen;
                if seen.is_none() {
                    return false;
                }
            }
            if std::mem::replace(&mut is_known, true) {
                return ENTERING.load(Ordering::SeqCst) == 0;
            }
        }
        false
    }

    /// The turn is this thread's if it is nobody's and no thread before it may want it.
    fn may_take(&mut self, me: u64) -> bool {
        if self.leads || self.threads.iter().any(|thread| thread.number < me && thread.comes()) {
            return false;
        }
        // One that waits for another thread may be woken by any that runs.
        let turn = TURN.load(Ordering::Relaxed);
        let is_before = |thread: &Thread| thread.number < me || thread.number == turn;
        let waits = self.threads.iter().any(|thread| is_before(thread) && thread.may_run());
        !waits || self.is_quiet(me)
    }

    /// Nothing happens any more in this process unless time passes, and it is this thread that tells so.
    fn may_lead(&mut self, me: u64) -> bool {
        !self.leads && self.leader() == Some(me) && self.others_stay(me) && self.is_quiet(me)
    }
    /// No other thread is about to go on, for all that is known without the kernel.
    fn others_stay(&self, me: u64) -> bool {
        self.threads.iter().all(|thread| thread.number == me || !thread.comes())
    }

    /// Threads that run without end, or compute for very long, are not waited for any more.
    fn leaves_alone(&mut self, waited: Duration) {
        if waited < self.limit {
            return;
        }
        let runs = |thread: &&mut Thread| thread.state == State::Runs && thread.seen.is_none() && !thread.left_alone;
        let mut is_over = false;
        for thread in self.threads.iter_mut().filter(runs) {
            (thread.left_alone, is_over) = (true, true);
            if TURN.load(Ordering::Relaxed) == thread.number {
                TURN.store(NOBODY, Ordering::Relaxed);
            }
        }
        if is_over {
            self.limit = (self.limit / LIMIT_PART).max(LIMIT_LEAST);
            program().doubts(Doubts::THREADS);
        }
    }

    /// Takes the turn, as soon as it may be.
    fn take(locked: &mut Locked, me: u64) {
        let mut wait = Wait::begin(locked, me);
        while !locked.list().may_take(me) {
            wait.goes_on(locked);
        }
        TURN.store(me, Ordering::Relaxed);
        locked.list().set(me, State::Runs);
    }
}

/// Returns the number of the calling thread.
fn me() -> u64 {
    let me = ME.get();
    if me != NOBODY {
        return me;
    }
    let mut locked = Locked::new();
    let me = locked.list().add();
    locked.list().begins(me);
    me
}

/// Returns whether threads take turns.
#[inline]
pub(crate) fn is_on() -> bool {
    program().takes_turns()
}

/// The calling thread goes on with its turn.
#[inline]
pub(crate) extern "C" fn take() {
    if is_on() && TURN.load(Ordering::Relaxed) != ME.get() {
        waits_for_its_turn();
    }
}

#[cold]
fn waits_for_its_turn() {
    let me = me();
    let mut locked = Locked::new();
    locked.list().set(me, State::Wants);
    List::take(&mut locked, me);
}

/// The calling thread stands, for a message or until others have come as far. True if it is to tell the data plane so: then all
/// others rest, until [`has_led`]. Otherwise another one has done that, or has done something, and it is its turn to look again.
extern "C" fn rest(for_message: bool) -> bool {
    let me = me();
    let mut locked = Locked::new();
    if locked.list().is_asleep(me) {
        // `Sleep::may_pass` has said so.
        return true;
    }
    let state = if for_message { State::Stands { changes: program().changes() } } else { State::Passes };
    let stands = locked.list().stands;
    locked.list().set(me, state);
    let mut wait = Wait::begin(&mut locked, me);
    loop {
        if locked.list().stands != stands || locked.list().thread(me).is_some_and(|thread| thread.comes()) {
            locked.list().set(me, State::Wants);
            List::take(&mut locked, me);
            return false;
        }
        if locked.list().may_lead(me) {
            locked.list().leads = true;
            return true;
        }
        wait.goes_on(&mut locked);
    }
}

/// The process goes on; it is the turn of the first thread that may look.
extern "C" fn has_led() {
    let me = me();
    let mut locked = Locked::new();
    let list = locked.list();
    if list.is_asleep(me) {
        return;
    }
    list.leads = false;
    list.stands += 1;
    let is_over = |state| matches!(state, State::Stands { .. } | State::Passes);
    list.threads.iter_mut().filter(|thread| is_over(thread.state)).for_each(|thread| thread.state = State::Wants);
    list.set(me, State::Wants);
    List::take(&mut locked, me);
}

/// No other thread goes on before time passes. Waits until that is known: what the calling thread does next must not depend on
/// how fast others are on the wall.
extern "C" fn others_rest() -> bool {
    let me = me();
    let mut locked = Locked::new();
    let mut wait = Wait::begin(&mut locked, me);
    // It waits here with its turn, which nobody is to take from it.
    locked.list().leads = true;
    let rest = loop {
        let list = locked.list();
        if !list.others_stay(me) {
            break false;
        }
        if list.is_quiet(me) {
            break true;
        }
        wait.looks_again(&mut locked);
    };
    locked.list().leads = false;
    rest
}

/// The calling thread sleeps or waits until this time at most, while this lives.
pub(crate) struct Sleep(u64);

impl Sleep {
    /// Nothing if threads do not take turns.
    pub(crate) fn begin(until: u64) -> Option<Sleep> {
        if !is_on() {
            return None;
        }
        let me = me();
        Locked::new().list().set(me, State::Sleeps { until });
        Some(Sleep(me))
    }
    /// Nothing happens in this process before a thread that sleeps is due, and none stands for a message: this one may let
    /// time pass, and no other does until [`Sleep::has_passed`].
    pub(crate) fn may_pass(&self) -> bool {
        let mut locked = Locked::new();
        let list = locked.list();
        let may = list.may_lead(self.0);
        list.leads |= may;
        may
    }
    pub(crate) fn has_passed(&self) {
        let mut locked = Locked::new();
        locked.list().leads = false;
        locked.list().wakes_next();
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut locked = Locked::new();
        locked.list().set(self.0, State::Wants);
        List::take(&mut locked, self.0);
    }
}

/// The library was initialised for several threads, which may call it from now on.
extern "C" fn begin() {
    MAY_BEGIN.store(true, Ordering::Release);
    if HAS_THREADS.load(Ordering::Acquire) && turns::this().is_none() {
        begins_now();
    }
}

/// None does any more.
extern "C" fn end() {
    MAY_BEGIN.store(false, Ordering::Release);
    if is_on() {
        program().set_turns(false);
        let mut locked = Locked::new();
        locked.list().threads.iter_mut().for_each(|thread| thread.state = State::Runs);
        TURN.store(NOBODY, Ordering::Relaxed);
        locked.list().threads.iter().for_each(|thread| thread.wake.notify_one());
    }
}

/// The library was initialised for several threads.
static MAY_BEGIN: AtomicBool = AtomicBool::new(false);
/// The program has made a thread.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

fn begins_now() {
    let me = me();
    let mut locked = Locked::new();
    if !is_on() {
        TURN.store(me, Ordering::Relaxed);
        locked.list().set(me, State::Runs);
        program().set_turns(true);
    }
}

/// A child has one thread, and real time.
pub(crate) fn forget_all() {
    program().set_turns(false);
}

/// The calling thread makes another one of the program: the number that it is to have.
pub(crate) fn makes_thread() -> u64 {
    if turns::this().is_some() {
        return NOBODY;
    }
    me();
    HAS_THREADS.store(true, Ordering::Release);
    if MAY_BEGIN.load(Ordering::Acquire) && !is_on() {
        begins_now();
    }
    take();
    Locked::new().list().add()
}

/// It has made it: libc's handle of that thread.
pub(crate) fn thread_made(number: u64, handle: pthread_t) {
    if let Some(thread) = Locked::new().list().thread(number) {
        thread.handle = handle;
    }
}

/// The calling thread is the one of this number.
pub(crate) fn thread_begins(number: u64) {
    if number == NOBODY {
        return;
    }
    Locked::new().list().begins(number);
    // However it ends, what is kept under the key is given to its destructor.
    // SAFETY: a key, and a value that is only a number.
    unsafe { libc::pthread_setspecific(key(), number as usize as *const c_void) };
}

/// The thread of this number has ended, or was not made.
pub(crate) fn thread_ends(number: u64) {
    let mut locked = Locked::new();
    let list = locked.list();
    list.threads.retain(|thread| thread.number != number);
    let joins = list.threads.iter_mut().filter(|thread| thread.state == State::Joins { number });
    joins.for_each(|thread| thread.state = State::Runs);
    if TURN.load(Ordering::Relaxed) == number {
        TURN.store(NOBODY, Ordering::Relaxed);
    }
    locked.list().wakes_next();
}

/// The calling thread waits, by `join`, for the end of another one.
pub(crate) fn joins(handle: pthread_t, join: impl FnOnce() -> c_int) -> c_int {
    if !is_on() || program().is_real() || program().is_in_call() {
        return join();
    }
    let me = me();
    let mut locked = Locked::new();
    let other = locked.list().threads.iter().find(|thread| thread.handle == handle && thread.number != me);
    if let Some(number) = other.map(|thread| thread.number) {
        locked.list().set(me, State::Joins { number });
    }
    drop(locked);
    let result = join();
    let mut locked = Locked::new();
    if let Some(thread) = locked.list().thread(me) {
        thread.state = State::Runs;
    }
    result
}

unsafe extern "C" fn has_ended(number: *mut c_void) {
    thread_ends(number as usize as u64);
}

/// Key under which a thread keeps its number.
fn key() -> pthread_key_t {
    static KEY: OnceLock<pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place of our own, and a function that takes what is kept.
        unsafe { libc::pthread_key_create(&raw mut key, Some(has_ended)) };
        key
    })
}
