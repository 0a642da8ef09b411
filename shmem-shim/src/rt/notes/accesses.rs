//! Reads and writes of the program itself, where `oshcc --check-races` has compiled it: the compiler then calls
//! [`crate::api::accesses`] at each load and store.
//!
//! Only memory that other PEs can reach counts, and buffers that are lent to a transfer. Between two calls of the
//! library the order of accesses does not matter, so each thread sums them up, and the next call notes them.

use super::caller::caller_address;
use crate::rt::mutex::lock;
use crate::rt::runtime::{Runtime, try_state};
use angara_abi::desc::{Place, Region};
use angara_protocol::calls::{Action, Memory};
use std::collections::HashSet;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// Lines of the program that are summed up at once; beyond that one replaces another.
const RUNS: usize = 64;
/// Sums of a thread that are held until the next call; those beyond are not noted.
const HELD: usize = 1 << 20;

/// Accesses are looked at.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Where the private buffers lie that are lent to transfers: from the first, to behind the last.
static LENT: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
/// Sums of each thread.
static LOGS: Mutex<Vec<Arc<Mutex<Log>>>> = Mutex::new(Vec::new());
/// Somebody was told that accesses are missing.
static FULL: AtomicBool = AtomicBool::new(false);
/// Heaps of other PEs that the program has asked the address of.
static REACHED: Mutex<Vec<Reached>> = Mutex::new(Vec::new());
/// There are some.
static REACHES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOG: Arc<Mutex<Log>> = {
        let log = Arc::new(Mutex::new(Log::default()));
        lock(&LOGS).push(log.clone());
        log
    };
}

/// How the program touches memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Touch {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
}

/// Bytes in a row that one place of the code has touched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Run {
    code: usize,
    start: usize,
    end: usize,
    touch: Touch,
}

struct Log {
    open: [Option<Run>; RUNS],
    done: Vec<Run>,
    /// Accesses already in `done`.
    known: HashSet<Run>,
}

impl Default for Log {
    fn default() -> Log {
        Log { open: [None; RUNS], done: Vec::new(), known: HashSet::new() }
    }
}

/// The heap of another PE in this process.
struct Reached {
    start: usize,
    len: usize,
    pe: usize,
}

/// Has accesses looked at from now on.
pub(super) fn watch() {
    WATCHED.store(true, Ordering::Relaxed);
}

/// Notes that a transfer works with `len` bytes of private memory until it is completed.
pub(super) fn lend(start: usize, len: usize) {
    LENT.0.fetch_min(start, Ordering::Relaxed);
    LENT.1.fetch_max(start.saturating_add(len), Ordering::Relaxed);
}

/// Notes that all transfers are completed.
pub(super) fn give_back() {
    LENT.0.store(usize::MAX, Ordering::Relaxed);
    LENT.1.store(0, Ordering::Relaxed);
}

/// Notes that the program knows the address of `place` of another PE.
pub(crate) fn reach(s: &Runtime, pe: usize, place: Place, address: usize) {
    if !WATCHED.load(Ordering::Relaxed) || place.region != Region::Heap || pe == s.me {
        return;
    }
    let start = address.wrapping_sub(place.offset as usize);
    let mut reached = lock(&REACHED);
    if !reached.iter().any(|r| r.start == start) {
        reached.push(Reached { start, len: heap_end(s), pe });
    }
    REACHES.store(true, Ordering::Relaxed);
}

/// Returns where offsets of the heap end.
fn heap_end(s: &Runtime) -> usize {
    s.job.heap() as usize - s.job.internal() as usize + s.job.heap_len()
}

/// Returns whose memory an address is; `None` if nobody else can reach it and it is not lent.
fn owner(s: &Runtime, address: usize) -> Option<(usize, Memory)> {
    if let Some(place) = s.job.locate(address as *const u8, 1) {
        return Some((s.me, Memory::Symmetric(place)));
    }
    if (LENT.0.load(Ordering::Relaxed)..LENT.1.load(Ordering::Relaxed)).contains(&address) {
        return Some((s.me, Memory::Private(address as u64)));
    }
    if !REACHES.load(Ordering::Relaxed) {
        return None;
    }
    let reached = lock(&REACHED);
    let of = reached.iter().find(|r| (r.start..r.start + r.len).contains(&address))?;
    let place = Place { region: Region::Heap, offset: (address - of.start) as u64 };
    Some((of.pe, Memory::Symmetric(place)))
}

/// Notes that the program touches `len` bytes; `code` is the address behind the access in its code.
#[inline]
pub(crate) fn touched(address: usize, len: usize, touch: Touch, code: usize) {
    if WATCHED.load(Ordering::Relaxed) && len > 0 {
        note(address, len, touch, code);
    }
}

/// [`touched`] by an atomic of the compiler's, from wherever it was called.
pub(crate) fn touched_atomically(address: usize, len: usize, touch: Touch) {
    if WATCHED.load(Ordering::Relaxed) && try_state().is_some_and(|s| owner(s, address).is_some()) {
        note(address, len, touch, caller_address().map_or(0, |code| code as usize));
    }
}

fn note(address: usize, len: usize, touch: Touch, code: usize) {
    let Some(s) = try_state() else { return };
    if owner(s, address).is_none() {
        return;
    }
    // Where a thread is at its end, or a signal handler has interrupted this, the access is not seen.
    let _ = LOG.try_with(|log| match log.try_lock() {
        Ok(mut log) => log.add(Run { code, start: address, end: address + len, touch }),
        Err(TryLockError::Poisoned(log)) => {
            log.into_inner().add(Run { code, start: address, end: address + len, touch })
        }
        Err(TryLockError::WouldBlock) => {}
    });
}

impl Log {
    fn add(&mut self, new: Run) {
        let slot = &mut self.open[(new.code / 4) % RUNS];
        if let Some(run) = slot
            && (run.code, run.touch) == (new.code, new.touch)
        {
            if run.start <= new.start && new.end <= run.end {
                return;
            }
            // Loops go up or down.
            if run.end == new.start {
                return run.end = new.end;
            }
            if run.start == new.end {
                return run.start = new.start;
            }
        }
        if let Some(run) = slot.replace(new)
            && self.known.insert(run)
        {
            if self.done.len() == HELD {
                if !FULL.swap(true, Ordering::Relaxed) {
                    angara_protocol::complain!(
                        "angara: more than {HELD} accesses between two calls: races may be missed"
                    );
                }
                return;
            }
            self.done.push(run);
        }
    }

    fn end(&mut self) -> Vec<Run> {
        self.known.clear();
        let mut all = take(&mut self.done);
        all.extend(self.open.iter_mut().filter_map(Option::take));
        all
    }
}

/// Returns all accesses since the last time, of all threads: where the code is, and what it did.
pub(super) fn take_all(s: &Runtime) -> Vec<(usize, Action)> {
    if !WATCHED.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let runs = |log: &Arc<Mutex<Log>>| lock(log).end();
    let runs: Vec<Run> = lock(&LOGS).iter().flat_map(runs).collect();
    let action = |run: Run| {
        let (pe, at) = owner(s, run.start)?;
        let (writes, atomic) = match run.touch {
            Touch::Read => (false, false),
            Touch::Write => (true, false),
            Touch::AtomicRead => (false, true),
            Touch::AtomicWrite => (true, true),
        };
        let len = (run.end - run.start) as u64;
        Some((run.code, Action::Access { pe: pe as u32, at, len, writes, atomic }))
    };
    runs.into_iter().filter_map(action).collect()
}
