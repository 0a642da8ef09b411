//! How a process waits for memory that another one writes, and how the writer wakes it.
//!
//! The sleep protocol makes a put free of fences. *Sleeper:* read `event`; raise `sleepers`;
//! run a heavy barrier on every registered process (`membarrier(GLOBAL_EXPEDITED)`); check the
//! condition again; sleep on the futex `event` for at most [`SLEEP_MAX`]. *Writer:* plain stores;
//! compiler fence; read `sleepers`; if it is not 0, bump `event` and wake. Either the heavy
//! barrier makes the writer's stores visible to the sleeper's check, or the writer's later load
//! sees the raised `sleepers`. The time limit covers writers that never registered.

use super::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Longest uninterrupted sleep at first. Never optional: raw stores through `shmem_ptr` wake nobody.
pub const SLEEP_MAX: Duration = Duration::from_millis(1);
/// A wait that has lasted sleeps for one part of so many of that, but no longer than this: thousands of PEs that wait for the
/// last one take its core from it with every look.
const SLEEP_PART: u32 = 64;
const SLEEP_MOST: Duration = Duration::from_millis(16);

/// The words a PE sleeps on, in memory every writer of the job maps.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct WaitCell {
    /// Futex word: counts wake-ups.
    event: AtomicU32,
    /// Processes that sleep on the cell, or are about to.
    sleepers: AtomicU32,
    /// Fills two cache lines, so that cells share none.
    reserved: [u32; 30],
}

/// The same where every writer notifies with a fence, and only a dead one does not: beyond the next tick of the scheduler, so
/// that going to sleep does not set the core's timer, which takes microseconds in a virtual machine.
const SLEEP_MAX_FENCED: Duration = Duration::from_millis(20);
const SLEEP_PART_FENCED: u32 = 8;
const SLEEP_MOST_FENCED: Duration = Duration::from_millis(500);

/// The two kernel services of the protocol, replaceable by a model checker.
pub trait Kernel {
    /// Orders this process's earlier stores before its later loads *and* acts as a full barrier
    /// in every other registered process.
    fn heavy_fence(&self);
    /// Sleeps while `*word == value`, at most for `limit`.
    fn futex_wait(&self, word: &AtomicU32, value: u32, limit: Duration);
    /// The longest sleep of a wait that has lasted so long.
    fn sleep_max(&self, lasted: Duration) -> Duration {
        (lasted / SLEEP_PART).clamp(SLEEP_MAX, SLEEP_MOST)
    }
    /// Wakes everyone sleeping on `word`.
    fn futex_wake(&self, word: &AtomicU32);
    /// Keeps the compiler from moving the writer's stores below its load of `sleepers`.
    fn light_fence(&self);
}

impl WaitCell {
    /// A cell nobody sleeps on, outside shared memory.
    #[cfg(all(test, loom))]
    pub(crate) fn detached() -> WaitCell {
        WaitCell { event: AtomicU32::new(0), sleepers: AtomicU32::new(0), reserved: [0; 30] }
    }

    /// The writer's side, after its stores.
    #[inline]
    pub fn notify(&self, kernel: &impl Kernel) {
        kernel.light_fence();
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake(kernel);
        }
    }

    #[cold]
    fn wake(&self, kernel: &impl Kernel) {
        self.event.fetch_add(1, Ordering::SeqCst);
        kernel.futex_wake(&self.event);
    }

    /// The sleeper's side. Costs nothing until it sleeps.
    pub fn sleeper<'c, K: Kernel>(&'c self, kernel: &'c K) -> Sleeper<'c, K> {
        Sleeper { cell: self, kernel, counted: false }
    }
}

/// One wait on a [`WaitCell`], of any number of sleeps. It stays counted from the first sleep on,
/// so that only that one pays for the heavy fence: a writer that comes later finds it counted.
pub struct Sleeper<'c, K: Kernel> {
    /// The cell slept on.
    cell: &'c WaitCell,
    /// Fences and futexes, real or modelled.
    kernel: &'c K,
    /// This wait is among the cell's sleepers.
    counted: bool,
}

impl<K: Kernel> Sleeper<'_, K> {
    /// Returns at once if `ready`, else after a wake-up or [`Kernel::sleep_max`]; the wait has lasted so long.
    pub fn sleep(&mut self, lasted: Duration, ready: impl FnOnce() -> bool) {
        let seen = self.cell.event.load(Ordering::SeqCst);
        if !self.counted {
            self.counted = true;
            self.cell.sleepers.fetch_add(1, Ordering::SeqCst);
            self.kernel.heavy_fence();
        }
        if !ready() {
            self.kernel.futex_wait(&self.cell.event, seen, self.kernel.sleep_max(lasted));
        }
    }
}

impl<K: Kernel> Drop for Sleeper<'_, K> {
    fn drop(&mut self) {
        if self.counted {
            self.cell.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// [`Kernel`] of a cell all whose writers can pay for a fence: it saves the sleepers the heavy one, which
/// interrupts every core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced<K>(pub K);

impl<K: Kernel> Kernel for Fenced<K> {
    fn heavy_fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn futex_wait(&self, word: &AtomicU32, value: u32, limit: Duration) {
        self.0.futex_wait(word, value, limit);
    }
    fn sleep_max(&self, lasted: Duration) -> Duration {
        (lasted / SLEEP_PART_FENCED).clamp(SLEEP_MAX_FENCED, SLEEP_MOST_FENCED)
    }
    fn futex_wake(&self, word: &AtomicU32) {
        self.0.futex_wake(word);
    }
    fn light_fence(&self) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
mod linux {
    use super::*;
    use rustix::thread::futex;
    use std::cell::Cell;
    use std::ops::RangeInclusive;
    use std::sync::OnceLock;
    use std::time::Instant;

    const _: () = assert!(size_of::<WaitCell>() == 128);
    // SAFETY: `repr(C)`; two atomics and padding that is never read.
    unsafe impl crate::shm::Shared for WaitCell {}

    /// membarrier(2) commands (not wrapped by rustix).
    const MEMBARRIER_GLOBAL_EXPEDITED: i32 = 1 << 1;
    const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

    fn membarrier(command: i32) -> bool {
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Registers this process for heavy fences. Call before the first store others wait for.
    /// False where the kernel or a seccomp filter forbids it: sleeping then relies on [`SLEEP_MAX`].
    pub fn register() -> bool {
        static DONE: OnceLock<bool> = OnceLock::new();
        *DONE.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED))
    }

    /// The real kernel.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Linux;

    impl Linux {
        /// Sleeps while the word has this value, without a limit: for who knows that whoever may have to wake it does.
        pub fn futex_wait_unlimited(&self, word: &AtomicU32, value: u32) {
            // Every outcome (woken, changed, interrupted) means: look again.
            let _ = futex::wait(word, futex::Flags::empty(), value, None);
        }
    }

    impl Kernel for Linux {
        fn heavy_fence(&self) {
            membarrier(MEMBARRIER_GLOBAL_EXPEDITED);
            std::sync::atomic::fence(Ordering::SeqCst);
        }
        fn futex_wait(&self, word: &AtomicU32, value: u32, limit: Duration) {
            let limit = futex::Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
            // Every outcome (woken, changed, timed out, interrupted) means: look again.
            let _ = futex::wait(word, futex::Flags::empty(), value, Some(&limit));
        }
        fn futex_wake(&self, word: &AtomicU32) {
            let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
        }
        #[inline]
        fn light_fence(&self) {
            crate::order::before_a_look_for_sleepers();
        }
    }

    /// Pauses before the first yield when the machine has a core for every PE.
    const SPINS: u32 = 200;
    /// A wait that ends with so few yields might have ended while spinning.
    const SHORT: u32 = 2;
    /// A yield that took longer means that another thread computes on this core: the wait goes on asleep. With more PEs
    /// than cores a yield comes back only after the other PEs of the core have had their turn.
    const SLOW_YIELD: Duration = Duration::from_micros(50);
    const SLOW_YIELD_CROWDED: Duration = Duration::from_millis(1);
    /// On a core of its own, a PE whose yield took longer than this, about a slice of the scheduler, has met another
    /// program, which will still compute when the next wait begins. Interruptions by machine or kernel are shorter.
    const SLICE: Duration = Duration::from_micros(200);
    /// With more PEs than cores the other thread may be a PE that the others wait for. If so, yields are quick again
    /// once it has come; another program makes one slow again within this many waits.
    const WARY_WAITS: u32 = 64;
    /// Beside another program this many waits go straight to the futex, but for no longer than so much each: 64
    /// PEs that all sleep in a barrier need a millisecond for what yielding does in 60 us. Few at first, because right after
    /// the start launcher, daemon and page faults look like another program and are soon gone; twice as many each time it is
    /// still there.
    const FUTEX_WAITS: RangeInclusive<u32> = 8..=256;
    const FUTEX_EACH: Duration = Duration::from_micros(40);
    /// Yields before sleeping anyway.
    const YIELDS: u32 = 256;
    /// When two threads take turns on a core, one of them always asleep, the kernel sees a single runnable thread and
    /// leaves both there even beside an idle core. So after this long the one that waits moves to another core by
    /// itself; again after twice the time, as the kernel may have its reasons.
    const TURNS: Duration = Duration::from_micros(100);
    const TURNS_MAX: Duration = Duration::from_millis(64);
    /// After this long without turns, the thread counts as moved.
    const AWAY: Duration = Duration::from_millis(2);

    thread_local! {
        /// Pauses that have paid lately: half as many after each wait they did not end. Whoever this thread waits for may
        /// need its core, like a daemon that must send what was posted.
        static SPIN_BUDGET: Cell<u32> = const { Cell::new(SPINS) };
        static OUTLOOK: Cell<Outlook> = const { Cell::new(Outlook::CALM) };
        static FUTEX_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
        static TAKING_TURNS: Cell<Option<Turns>> = const { Cell::new(None) };
    }

    /// This thread takes turns with whom it waits for.
    #[derive(Clone, Copy, Debug)]
    struct Turns {
        /// When it goes to another core.
        next: Instant,
        /// How long it has taken turns before that.
        lasted: Duration,
        /// When it took one last.
        seen: Instant,
    }

    impl Turns {
        fn begin(now: Instant) -> Turns {
            Turns { next: now + TURNS, lasted: TURNS, seen: now }
        }

        /// Tells whether to go now, and what to remember.
        fn go_on(self, now: Instant) -> (bool, Turns) {
            if now > self.seen + AWAY {
                (false, Turns::begin(now))
            } else if now < self.next {
                (false, Turns { seen: now, ..self })
            } else {
                let lasted = (2 * self.lasted).min(TURNS_MAX);
                (true, Turns { next: now + lasted, lasted, seen: now })
            }
        }
    }

    /// Leaves the core of whom this thread waits for, if it is time to and there is another one for it.
    #[cold]
    fn step_aside() {
        let now = Instant::now();
        let (go, turns) = TAKING_TURNS.get().unwrap_or_else(|| Turns::begin(now)).go_on(now);
        TAKING_TURNS.set(Some(turns));
        if !go {
            return;
        }
        let Ok(all) = rustix::thread::sched_getaffinity(None) else { return };
        let mut others = all;
        others.unset(rustix::thread::sched_getcpu());
        // At worst it stays where it is.
        if others.count() > 0 && rustix::thread::sched_setaffinity(None, &others).is_ok() {
            let _ = rustix::thread::sched_setaffinity(None, &all);
        }
    }

    /// Expectation of a thread for its core, from the duration of its yields.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Outlook {
        /// Waits that go straight to the futex.
        asleep: u32,
        /// Waits in which another slow yield means another program.
        wary: u32,
        /// How many waits went straight to the futex last.
        spell: u32,
    }

    impl Outlook {
        const CALM: Outlook = Outlook { asleep: 0, wary: 0, spell: 0 };

        /// After a yield that took so long.
        fn slow(self, took: Duration, crowded: bool) -> Outlook {
            let another_program = if crowded { self.wary > 0 } else { took > SLICE };
            if !another_program {
                return Outlook { asleep: 0, wary: WARY_WAITS, ..self };
            }
            let spell = (2 * self.spell).clamp(*FUTEX_WAITS.start(), *FUTEX_WAITS.end());
            Outlook { asleep: spell, wary: WARY_WAITS, spell }
        }
        /// After a wait in which all yields were quick.
        fn quick(self) -> Outlook {
            let wary = self.wary.saturating_sub(1);
            Outlook { wary, spell: if wary == 0 { 0 } else { self.spell }, ..self }
        }
        /// How long waits may go straight to the futex.
        fn spell_lasts(self) -> Duration {
            FUTEX_EACH * self.spell
        }
        /// After a sleep; `over`: waits have gone straight to the futex for long enough.
        fn slept(self, over: bool) -> Outlook {
            Outlook { asleep: if over { 0 } else { self.asleep.saturating_sub(1) }, ..self }
        }
    }

    /// Waits until `ready` (which is not asked again once it said yes), spinning, yielding and
    /// sleeping as measurements advise: spin briefly if that has paid lately (not at all when `crowded`: more PEs than
    /// cores), then timed yields, then the futex.
    /// `kernel` is the one the cell's writers notify with. While `in_the_way`, whoever is waited for can only go on if this
    /// thread leaves the core: then it sleeps at once, because a yield is no more than advice to the scheduler.
    /// `give_up` is asked between sleeps ([`Kernel::sleep_max`]) and ends the wait with its error.
    pub fn wait_until<E>(
        cell: &WaitCell,
        kernel: &impl Kernel,
        crowded: bool,
        in_the_way: impl Fn() -> bool,
        mut ready: impl FnMut() -> bool,
        mut give_up: impl FnMut() -> Option<E>,
    ) -> Result<(), E> {
        let in_the_way = in_the_way()
            && (crowded || {
                step_aside();
                in_the_way()
            });
        if !crowded && !in_the_way {
            let spins = SPIN_BUDGET.get();
            for _ in 0..spins {
                if ready() {
                    SPIN_BUDGET.set(SPINS);
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            SPIN_BUDGET.set(spins / 2);
        }
        let slow = if crowded { SLOW_YIELD_CROWDED } else { SLOW_YIELD };
        let (mut yields, mut slept, mut slowed) = (0, None, false);
        let mut before = Instant::now();
        let mut sleeper = cell.sleeper(kernel);
        loop {
            if ready() {
                if yields <= SHORT && slept.is_none() {
                    SPIN_BUDGET.set((2 * SPIN_BUDGET.get() + 1).min(SPINS));
                }
                if yields > 0 && !slowed {
                    OUTLOOK.set(OUTLOOK.get().quick());
                }
                return Ok(());
            }
            let outlook = OUTLOOK.get();
            if outlook.asleep == 0 && yields < YIELDS && !in_the_way && !slowed {
                yields += 1;
                rustix::thread::sched_yield();
                let after = Instant::now();
                if after - before > slow {
                    slowed = true;
                    OUTLOOK.set(outlook.slow(after - before, crowded));
                    FUTEX_SINCE.set(Some(after));
                }
                before = after;
            } else {
                let over = FUTEX_SINCE.get().is_some_and(|since| since.elapsed() > outlook.spell_lasts());
                OUTLOOK.set(outlook.slept(over));
                if slept.is_some()
                    && let Some(e) = give_up()
                {
                    return Err(e);
                }
                let first = *slept.get_or_insert(before);
                // `ready` may act (a post into a queue that had no room), so its answer is final.
                let mut done = false;
                sleeper.sleep(before.saturating_duration_since(first), || {
                    done = ready();
                    done
                });
                if done {
                    return Ok(());
                }
                before = Instant::now();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TURN: Duration = Duration::from_millis(3);

        #[test]
        fn a_pe_that_was_waited_for_is_not_taken_for_another_program() {
            let mut outlook = Outlook::CALM;
            for _ in 0..5 {
                outlook = outlook.slow(TURN, true);
                assert_eq!(outlook.asleep, 0, "the wait itself goes on asleep, those after it do not");
                for _ in 0..1000 {
                    outlook = outlook.quick();
                }
            }
        }

        #[test]
        fn another_program_on_the_core_is_noticed_and_not_for_ever() {
            let mut outlook = Outlook::CALM.slow(TURN, true).quick().quick().slow(TURN, true);
            for wanted in [8, 16, 32, 64, 128, 256, 256] {
                assert_eq!(outlook.asleep, wanted, "ever longer while it is still there");
                for _ in 0..wanted {
                    outlook = outlook.slept(false);
                }
                assert_eq!(outlook.asleep, 0);
                assert_eq!(outlook.slow(TURN, true).slept(true).asleep, 0, "long enough");
                outlook = outlook.slow(TURN, true);
            }
            outlook = outlook.slept(true);
            for _ in 0..WARY_WAITS {
                outlook = outlook.quick();
            }
            assert_eq!(outlook, Outlook::CALM, "it has gone");
        }

        #[test]
        fn a_limit_of_more_than_a_second_is_a_limit() {
            let (word, begun) = (AtomicU32::new(7), Instant::now());
            Linux.futex_wait(&word, 7, Duration::from_millis(1_100));
            assert!(begun.elapsed() >= Duration::from_millis(1_000), "it came back at once");
        }

        #[test]
        fn a_long_wait_takes_few_looks() {
            // A minute asleep; of memory that raw stores change, and of words that are written with a fence.
            fn looks(kernel: &impl Kernel) -> u32 {
                let (mut lasted, mut looks) = (Duration::ZERO, 0);
                while lasted < Duration::from_secs(60) {
                    lasted += kernel.sleep_max(lasted);
                    looks += 1;
                }
                looks
            }
            assert!((3_000..5_000).contains(&looks(&Linux)), "{}", looks(&Linux));
            assert!((100..200).contains(&looks(&Fenced(Linux))), "{}", looks(&Fenced(Linux)));
            let late = |lasted_ms| Linux.sleep_max(Duration::from_millis(lasted_ms));
            assert_eq!((late(10), late(640), late(9_000)), (SLEEP_MAX, Duration::from_millis(10), SLEEP_MOST));
        }

        #[test]
        fn who_takes_turns_goes_to_another_core_ever_more_rarely() {
            let start = Instant::now();
            let (mut turns, mut gone) = (Turns::begin(start), Vec::new());
            for us in (0..1_000_000).step_by(50) {
                let (go, next) = turns.go_on(start + Duration::from_micros(us));
                turns = next;
                if go {
                    gone.push(us);
                }
            }
            assert_eq!(gone[..5], [100, 300, 700, 1500, 3100]);
            assert!(gone.windows(2).all(|w| w[1] - w[0] <= 64_050), "{gone:?}");
            let again = turns.go_on(start + Duration::from_millis(1005)).1;
            assert_eq!(again.lasted, TURNS, "it has been elsewhere: from the beginning");
        }

        #[test]
        fn a_moment_without_the_core_is_no_program_where_every_pe_has_one() {
            let moment = Duration::from_micros(100);
            assert_eq!(Outlook::CALM.slow(moment, false).slow(moment, false).asleep, 0);
            assert_eq!(Outlook::CALM.slow(TURN, false).asleep, 8);
        }
    }
}
#[cfg(not(loom))]
pub use linux::{Linux, register, wait_until};
