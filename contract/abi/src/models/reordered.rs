//! A checker for what loom does not try: a load that is made after a later store of its thread, and so returns what was
//! stored in answer to that store. x86-64 excludes it, aarch64 does not.
//!
//! Threads are straight lines of steps, which the operations of [`crate::order`] note while they run. All orders of the steps
//! are tried that fences, acquire loads and the order of steps on one word allow. The memory is one for all, because on
//! aarch64, too, a store that another processor sees is there for every other one. Dependencies order nothing here, though
//! hardware heeds some. A thread that loads what it has itself stored has no model here, and is refused.

use crate::memory::sync::Ordering;
use crate::order::Watched;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A step of a thread.
#[derive(Clone, Copy)]
enum Step {
    /// Goes on as noted only if it returns what is `wanted`. If nothing is, its value is a result.
    Load {
        word: usize,
        wanted: Option<u64>,
        acquire: bool,
    },
    Store {
        word: usize,
        value: u64,
    },
    Fence(Ordering),
}

thread_local! {
    static NOTED: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
}

fn note(step: Step) -> bool {
    NOTED.with_borrow_mut(|noted| noted.as_mut().map(|steps| steps.push(step)).is_some())
}

/// Notes a fence if a thread is noted now.
pub(crate) fn fence_noted(order: Ordering) -> bool {
    note(Step::Fence(order))
}

/// A word of memory, by its number.
pub(super) struct Word {
    number: usize,
    wanted: Option<u64>,
}

impl Word {
    pub(super) const fn new(number: usize) -> Word {
        Word { number, wanted: None }
    }

    /// The same in a thread that goes on if the word has this value.
    pub(super) const fn wanted(&self, value: u64) -> Word {
        Word { number: self.number, wanted: Some(value) }
    }

    /// An atomic load with acquire.
    pub(super) fn acquire(&self) {
        self.load(true);
    }

    fn load(&self, acquire: bool) -> u64 {
        assert!(note(Step::Load { word: self.number, wanted: self.wanted, acquire }), "no thread is noted");
        self.wanted.unwrap_or(0)
    }

    pub(super) fn set(&self, value: u64) {
        assert!(note(Step::Store { word: self.number, value }), "no thread is noted");
    }
}

impl Watched for Word {
    type Value = u64;
    unsafe fn look(p: *const Word) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { &*p }.load(false)
    }
    unsafe fn set(p: *mut Word, value: u64) {
        // SAFETY: the caller's contract.
        unsafe { &*p }.set(value);
    }
}

fn noted(thread: &dyn Fn()) -> Vec<Step> {
    NOTED.set(Some(Vec::new()));
    thread();
    NOTED.take().unwrap_or_default()
}

fn is_ordered(steps: &[Step], first: usize, second: usize) -> bool {
    let (a, b) = (steps[first], steps[second]);
    let is_load = matches!(a, Step::Load { .. });
    let is_store = matches!(b, Step::Store { .. });
    let fenced = steps[first..second].iter().any(|step| match step {
        Step::Fence(Ordering::Release) => is_store,
        Step::Fence(Ordering::Acquire) => is_load,
        Step::Fence(Ordering::AcqRel) => is_load || is_store,
        Step::Fence(_) => true,
        _ => false,
    });
    match (a, b) {
        (Step::Store { word, .. }, Step::Load { word: same, .. }) if word == same => {
            panic!("step {second} loads what step {first} of its thread has stored")
        }
        (
            Step::Load { word, .. } | Step::Store { word, .. },
            Step::Load { word: w, .. } | Step::Store { word: w, .. },
        ) if word == w => true,
        (Step::Load { acquire: true, .. }, _) => true,
        _ => fenced,
    }
}

/// Steps of all threads that touch memory, and for each the set of those that must come before it.
struct Steps {
    steps: Vec<Step>,
    before: Vec<u64>,
}

impl Steps {
    fn of(threads: &[&dyn Fn()]) -> Steps {
        let mut all = Steps { steps: Vec::new(), before: Vec::new() };
        for thread in threads {
            let steps = noted(thread);
            let mut at: Vec<(usize, usize)> = Vec::new();
            for (i, step) in steps.iter().enumerate().filter(|(_, step)| !matches!(step, Step::Fence(_))) {
                let earlier = at.iter().filter(|(earlier, _)| is_ordered(&steps, *earlier, i));
                all.before.push(earlier.map(|(_, number)| 1 << number).sum());
                at.push((i, all.steps.len()));
                all.steps.push(*step);
            }
        }
        all
    }

    /// Tries every step that may come next.
    fn walk(&self, done: u64, memory: &[u64], loaded: &[u64], ends: &mut BTreeSet<(Vec<u64>, Vec<u64>)>) {
        if done.count_ones() as usize == self.steps.len() {
            let is_result = |step: &Step| matches!(step, Step::Load { wanted: None, .. });
            let results = self.steps.iter().zip(loaded).filter(|(step, _)| is_result(step)).map(|(_, value)| *value);
            ends.insert((results.collect(), memory.to_vec()));
            return;
        }
        for (i, step) in self.steps.iter().enumerate() {
            if done & 1 << i != 0 || self.before[i] & !done != 0 {
                continue;
            }
            let (mut memory, mut loaded) = (memory.to_vec(), loaded.to_vec());
            match *step {
                Step::Load { word, wanted: Some(value), .. } if memory[word] != value => continue,
                Step::Load { word, wanted: None, .. } => loaded[i] = memory[word],
                Step::Store { word, value } => memory[word] = value,
                Step::Load { .. } | Step::Fence(_) => {}
            }
            self.walk(done | 1 << i, &memory, &loaded, ends);
        }
    }
}

/// Runs threads in every order, from this memory. Returns what loads returned of which nothing was wanted, and the memory at
/// the end.
pub(super) fn ends(memory: &[u64], threads: &[&dyn Fn()]) -> BTreeSet<(Vec<u64>, Vec<u64>)> {
    let steps = Steps::of(threads);
    let mut ends = BTreeSet::new();
    steps.walk(0, memory, &vec![0; steps.steps.len()], &mut ends);
    ends
}
