//! Litmus tests of [`order`] on the processor at hand, by the names of the field: message passing (MP), a chain of three
//! threads (WRC: write to read causality), load buffering (LB: what a mailbox's credit needs).
//!
//! Threads go through many cells of memory at once, one round in each. What the operations exclude may never come up. The
//! same threads without the operations show whether this processor reorders at all: x86-64 does not, in these tests.
#![cfg(not(loom))]

use angara_abi::order::{self, Watched};
use angara_abi::random::SplitMix;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CELLS: usize = 256;
/// Looks for the other threads before each round. One that does not run now is not waited for: it catches up.
const LOOKS: usize = 100;
/// Pauses of a thread before a round, at most: threads are to meet in other places every time.
const LATE: u64 = 6;

/// A word on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Word(AtomicU64);

impl Word {
    fn put(&self) {
        // SAFETY: a live word.
        unsafe { Watched::set(self.0.as_ptr(), 1) };
    }
    fn look(&self) -> u64 {
        // SAFETY: a live word.
        unsafe { Watched::look(self.0.as_ptr()) }
    }
    fn come<const KEPT: bool>(&self) -> u64 {
        // SAFETY: a live word.
        if KEPT { u64::from(unsafe { order::seen(self.0.as_ptr(), |now| now == 1) }) } else { self.look() }
    }
    fn read<const KEPT: bool>(&self) -> u64 {
        // SAFETY: a live word.
        if KEPT { unsafe { order::read(self.0.as_ptr()) } } else { self.look() }
    }
}

fn fence<const KEPT: bool>() {
    if KEPT {
        order::between_puts();
    }
}

fn publish<const KEPT: bool>() {
    if KEPT {
        order::publish();
    }
}

/// Memory of one round, and what its threads have read.
#[derive(Default)]
struct Cell {
    x: Word,
    y: Word,
    found: [Word; 3],
    /// Threads that have begun the round.
    begun: Word,
}

impl Cell {
    fn found(&self, which: usize, value: u64) {
        self.found[which].0.store(value, Ordering::Relaxed);
    }
}

struct Litmus<const READS: usize> {
    name: &'static str,
    threads: &'static [fn(&Cell)],
    forbidden: [u64; READS],
}

const fn passing<const KEPT: bool>() -> Litmus<2> {
    fn writer<const KEPT: bool>(cell: &Cell) {
        cell.x.put();
        fence::<KEPT>();
        cell.y.put();
    }
    fn reader<const KEPT: bool>(cell: &Cell) {
        cell.found(0, cell.y.come::<KEPT>());
        cell.found(1, cell.x.look());
    }
    Litmus { name: "MP", threads: &[writer::<KEPT>, reader::<KEPT>], forbidden: [1, 0] }
}

/// Message passing where the daemon writes and a signal is fetched.
const fn signal<const KEPT: bool>() -> Litmus<2> {
    fn writer<const KEPT: bool>(cell: &Cell) {
        cell.x.put();
        publish::<KEPT>();
        cell.y.put();
    }
    fn reader<const KEPT: bool>(cell: &Cell) {
        cell.found(0, cell.y.read::<KEPT>());
        cell.found(1, cell.x.look());
    }
    Litmus { name: "MP, signal", threads: &[writer::<KEPT>, reader::<KEPT>], forbidden: [1, 0] }
}

const fn chain<const KEPT: bool>() -> Litmus<3> {
    fn writer(cell: &Cell) {
        cell.x.put();
    }
    fn middle<const KEPT: bool>(cell: &Cell) {
        let come = cell.x.come::<KEPT>();
        fence::<KEPT>();
        cell.y.put();
        cell.found(0, come);
    }
    fn reader<const KEPT: bool>(cell: &Cell) {
        cell.found(1, cell.y.come::<KEPT>());
        cell.found(2, cell.x.look());
    }
    Litmus { name: "WRC", threads: &[writer, middle::<KEPT>, reader::<KEPT>], forbidden: [1, 1, 0] }
}

const fn credit<const KEPT: bool>() -> Litmus<2> {
    fn receiver<const KEPT: bool>(cell: &Cell) {
        let slot = cell.x.look();
        publish::<KEPT>();
        cell.y.put();
        cell.found(0, slot);
    }
    fn sender<const KEPT: bool>(cell: &Cell) {
        let come = cell.y.come::<KEPT>();
        cell.x.put();
        cell.found(1, come);
    }
    Litmus { name: "LB", threads: &[receiver::<KEPT>, sender::<KEPT>], forbidden: [1, 1] }
}

/// Message passing of a writer that waits with its data until the reader has looked.
const LATE_DATA: Litmus<2> = {
    fn writer(cell: &Cell) {
        cell.y.put();
        while cell.found[1].look() == 0 {
            std::thread::yield_now();
        }
        cell.x.put();
    }
    fn reader(cell: &Cell) {
        while cell.y.come::<true>() == 0 {
            std::thread::yield_now();
        }
        cell.found(0, cell.x.look());
        cell.found(1, 1);
    }
    Litmus { name: "data behind its flag", threads: &[writer, reader], forbidden: [0, 1] }
};

/// Where threads meet, again and again.
struct Meeting {
    threads: usize,
    come: AtomicUsize,
    ended: AtomicBool,
}

impl Meeting {
    fn meet(&self) {
        let until = (self.come.fetch_add(1, Ordering::AcqRel) / self.threads + 1) * self.threads;
        let mut looks = 0u32;
        while self.come.load(Ordering::Acquire) < until {
            looks += 1;
            if looks < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Goes through all cells once, beside all other threads; false if they have ended.
    fn round(&self, cells: &[Cell], thread: fn(&Cell), random: &mut SplitMix) -> bool {
        self.meet();
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        for cell in cells {
            cell.begun.0.fetch_add(1, Ordering::Relaxed);
            (0..LOOKS).take_while(|_| cell.begun.look() < self.threads as u64).for_each(|_| std::hint::spin_loop());
            (0..random.below(LATE)).for_each(|_| std::hint::spin_loop());
            thread(cell);
        }
        self.meet();
        true
    }
}

/// Each CPU that this thread may run on, by itself.
fn cpus() -> Vec<CpuSet> {
    let all = sched_getaffinity(None).expect("the CPUs of this thread");
    let each = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
    each.map(|cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        one
    })
    .collect()
}

impl<const READS: usize> Litmus<READS> {
    /// Runs for this long, at least once through all cells; prints what came up, and returns how often what is forbidden did.
    fn run(&self, time: Duration, how: &str) -> u64 {
        let cells: Vec<Cell> = (0..CELLS).map(|_| Cell::default()).collect();
        let meeting = Meeting { threads: self.threads.len(), come: AtomicUsize::new(0), ended: AtomicBool::new(false) };
        let cpus = cpus();
        let pin = |thread: usize| {
            // Without a CPU of its own a thread still runs, only less often beside the others.
            let _ = sched_setaffinity(None, &cpus[thread % cpus.len()]);
            SplitMix(thread as u64)
        };
        let lead = || {
            let (mut random, begun, mut outcomes) = (pin(0), Instant::now(), BTreeMap::<[u64; READS], u64>::new());
            while meeting.round(&cells, self.threads[0], &mut random) {
                for cell in &cells {
                    *outcomes.entry(std::array::from_fn(|i| cell.found[i].look())).or_default() += 1;
                    for word in [&cell.x, &cell.y, &cell.begun].into_iter().chain(&cell.found) {
                        word.0.store(0, Ordering::Relaxed);
                    }
                }
                meeting.ended.store(begun.elapsed() >= time, Ordering::Release);
            }
            outcomes
        };
        let follow = &|number: usize| {
            let mut random = pin(number);
            while meeting.round(&cells, self.threads[number], &mut random) {}
        };
        let outcomes = std::thread::scope(|scope| {
            (1..self.threads.len()).for_each(|number| drop(scope.spawn(move || follow(number))));
            scope.spawn(lead).join().expect("the first thread")
        });
        let forbidden = outcomes.get(&self.forbidden).copied().unwrap_or(0);
        let rounds: u64 = outcomes.values().sum();
        println!("{} {how}: {rounds} rounds, {forbidden} times {:?}; {outcomes:?}", self.name, self.forbidden);
        forbidden
    }
}

fn try_both<const READS: usize>(kept: &Litmus<READS>, left_out: &Litmus<READS>) -> Option<&'static str> {
    let time = std::env::var("LITMUS_MS").map_or(50, |ms| ms.parse().expect("LITMUS_MS is a number of milliseconds"));
    let time = Duration::from_millis(time);
    left_out.run(time, "without the operations");
    (kept.run(time, "with the operations") > 0).then_some(kept.name)
}

/// One after the other: two that share cores would hardly ever run at the same time as their own threads.
#[test]
fn this_processor_shows_nothing_that_the_operations_exclude() {
    let found = [
        try_both(&passing::<true>(), &passing::<false>()),
        try_both(&signal::<true>(), &signal::<false>()),
        try_both(&chain::<true>(), &chain::<false>()),
        try_both(&credit::<true>(), &credit::<false>()),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "this processor showed what is forbidden in {found:?}");
}

#[test]
fn a_flag_before_its_data_is_found() {
    assert_eq!(LATE_DATA.run(Duration::ZERO, "in one round"), CELLS as u64);
}
