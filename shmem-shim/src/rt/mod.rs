//! Implementation of the exported routines, on bytes: the job's state, addresses, errors, and one module per
//! kind of routine.
//!
//! A routine of the API has no way to return an error, so whatever fails (a PE that does not
//! exist, an address that is not symmetric, a target every route to which is dead) ends the job
//! with one message that names PE, routine and reason: see [`die`].

pub(crate) mod accesses;
pub(crate) mod amo;
mod check;
mod collectives;
mod heap;
pub(crate) mod heterogeneous;
pub(crate) mod lock;
pub(crate) mod memory;
mod process;
mod record;
pub(crate) mod rma;
pub(crate) mod shmemx;
pub(crate) mod team;
pub(crate) mod transfer;
pub(crate) mod wait;

pub(crate) use collectives::{coll, ops, reduce};
pub(crate) use process::{exit, init};

use crate::ctypes::*;
use angara::{Error, Job};
use angara_abi::desc::Place;
use collectives::{p2p, streams, table, trees};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use team::{Group, Members};

/// A started job.
pub(crate) struct Runtime {
    pub(crate) job: Job,
    pub(crate) me: usize,
    pub(crate) n: usize,
    /// Look closer at what the program passes ([`check`]).
    pub(crate) checking: bool,
    /// Time is virtual.
    pub(crate) timed: bool,
    pub(crate) heap: Mutex<heap::Heap>,
    p2p: OnceLock<p2p::P2p>,
    pub(crate) teams: team::Table,
    pub(crate) trees: trees::Trees,
    table: table::Table,
    pub(crate) thread_level: AtomicI32,
    /// A thread of this PE is in a collective of the team of all PEs, or of any where teams have no streams.
    in_collective: AtomicBool,
    /// The other teams, by stream, that threads of this PE are in collectives of.
    in_collectives: Mutex<Vec<u64>>,
    names: streams::Names,
    /// Calls of init that no finalize has matched yet.
    pub(crate) inits: AtomicUsize,
}

/// The job between init and the last finalize. After that its state is kept until the next init: a thread may still use it.
static STATE: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// [`STATE`] of a job that is told of every call: because its time is virtual (reports say what routines cost, and what a
/// program computes between calls may take time), or because calls are noted. Whoever finds no other looks here, so that
/// others pay nothing for it.
static TOLD: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// The job, or the end of the program when there is none.
#[inline]
pub(crate) fn state(name: Name) -> &'static Runtime {
    match untold_state() {
        Some(s) => s,
        None => told_state(name),
    }
}

/// The job, if init has been called and finalize has not, and no call need be told.
#[inline]
pub(crate) fn untold_state() -> Option<&'static Runtime> {
    // SAFETY: null, or a box stored by init, which lives until the init after the next finalize.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn told_state(name: Name) -> &'static Runtime {
    match try_state() {
        Some(s) => {
            ok(name, None, s.job.called(name));
            s
        }
        None => die(name, None, init::why_no_state()),
    }
}

/// The job, if init has been called and finalize has not.
pub(crate) fn try_state() -> Option<&'static Runtime> {
    // SAFETY: null, or a box stored by init, which lives until the init after the next finalize.
    untold_state().or_else(|| unsafe { TOLD.load(Ordering::Acquire).as_ref() })
}

/// The job, for the duration of a collective.
pub(crate) struct Collective(&'static Runtime, u64);

impl std::ops::Deref for Collective {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        self.0
    }
}

impl Drop for Collective {
    fn drop(&mut self) {
        match self.1 {
            streams::WORLD => self.0.in_collective.store(false, Ordering::Release),
            stream => lock(&self.0.in_collectives).retain(|other| *other != stream),
        }
    }
}

/// The job for a collective of all PEs.
pub(crate) fn collective(s: &'static Runtime, name: Name) -> Collective {
    enter(name, s, streams::WORLD)
}

/// The job for a collective of a group.
pub(crate) fn collective_of(s: &'static Runtime, name: Name, of: impl Members) -> (Collective, Group) {
    let group = of.group(s, name);
    (enter(name, s, group.stream), group)
}

/// In each team a PE can be in one collective at a time: two threads would take each other's signals,
/// which is refused rather than left to chance.
fn enter(name: Name, s: &'static Runtime, stream: u64) -> Collective {
    s.job.entering(name);
    let free = match stream {
        streams::WORLD => !s.in_collective.swap(true, Ordering::Acquire),
        stream => {
            let mut busy = lock(&s.in_collectives);
            let free = !busy.contains(&stream);
            if free {
                busy.push(stream);
            }
            free
        }
    };
    if !free {
        die(
            name,
            None,
            "another thread of this PE is in a collective routine of the same team (allocation belongs to the \
             team of all PEs, and so do active sets to each other); let one thread at a time call them, after \
             shmem_init_thread with SHMEM_THREAD_MULTIPLE",
        );
    }
    Collective(s, stream)
}

/// Locks, also after another thread panicked: the data is plain and the panic ends the process anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the job: one line on stderr, the daemon told, exit status 1.
#[cold]
#[inline(never)]
pub(crate) fn die(name: Name, target: Option<usize>, why: impl Display) -> ! {
    let to = target.map_or(String::new(), |pe| format!(" to PE {pe}"));
    let at = check::caller().map_or(String::new(), |place| format!(" [called at {place}]"));
    let line = match try_state() {
        Some(s) => format!("angara: PE {} ({}): {name}{to}: {why}{at}\n", s.me, node(s, s.me)),
        None => format!("angara: {name}{to}: {why}{at}\n"),
    };
    // The launcher names this PE itself; the whole story is on stderr.
    exit::failed(1, &line, &format!("{name}{to} failed"))
}

/// "node 1,0,0" of `pe`.
fn node(s: &Runtime, pe: usize) -> String {
    let coords = s.job.pe_entry(pe).coords;
    let dims = s.job.geometry().shape.dims().len();
    let text: Vec<String> = coords.0[..dims].iter().map(u8::to_string).collect();
    format!("node {}", text.join(","))
}

/// Passes success on; anything else ends the job. A job that is already ending says nothing more:
/// whoever ended it has spoken.
#[inline]
pub(crate) fn ok<T>(name: Name, pe: Option<usize>, result: Result<T, Error>) -> T {
    match result {
        Ok(v) => v,
        Err(e) => fail(name, pe, e),
    }
}

#[cold]
#[inline(never)]
fn fail(name: Name, pe: Option<usize>, error: Error) -> ! {
    if let Error::JobEnded = error {
        exit::with_the_job(error.exit_status());
    }
    die(name, pe, error)
}

impl Runtime {
    /// How PEs talk in collectives. There from the first barrier of init on.
    #[inline]
    pub(crate) fn p2p(&self) -> &p2p::P2p {
        self.p2p.get().expect("set by init before any collective")
    }

    /// The place of `len` bytes at `p`, which must be symmetric. A range of no bytes may lie anywhere.
    #[inline]
    pub(crate) fn place(&self, name: Name, p: *const u8, len: usize) -> Place {
        match self.job.locate(p, len) {
            Some(place) => {
                if self.checking {
                    self.check_block(name, p, len);
                }
                place
            }
            None => self.not_symmetric(name, p, len),
        }
    }

    /// [`Runtime::place`] of bytes that shall be written.
    #[inline]
    pub(crate) fn place_to(&self, name: Name, p: *const u8, len: usize) -> Place {
        let place = self.place(name, p, len);
        if !self.job.is_writable(place, len) {
            self.constant(name, p, len);
        }
        place
    }

    /// Ends the job if a destination that need not be symmetric is a constant.
    pub(crate) fn check_written(&self, name: Name, p: *const u8, len: usize) {
        if self.job.locate(p, len).is_some_and(|place| !self.job.is_writable(place, len)) {
            self.constant(name, p, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn constant(&self, name: Name, p: *const u8, len: usize) -> ! {
        let why = "is a constant of the program: other PEs can read it, and nobody can write it; drop its `const`";
        die(name, None, format_args!("the destination {p:p} ({len} bytes) {why}"))
    }

    #[cold]
    #[inline(never)]
    fn not_symmetric(&self, name: Name, p: *const u8, len: usize) -> ! {
        let start = self.job.heap() as usize;
        let why = match self.job.locate(p, 1) {
            Some(_) if (p as usize) >= start => {
                format!(
                    "it runs over the end of the symmetric heap or of a global variable ({} heap bytes are left from there)",
                    (start + self.job.heap_len()).saturating_sub(p as usize)
                )
            }
            _ if self.heterogeneous() => heterogeneous::why_not_symmetric(p),
            _ => "it lies neither in the symmetric heap nor in a global variable of the program; \
                  use memory from shmem_malloc, or a global or static variable"
                .into(),
        };
        die(name, None, format_args!("the address {p:p} ({len} bytes) is not symmetric: {why}"))
    }

    /// `pe` of context `ctx` as a PE of the job.
    #[inline]
    pub(crate) fn target(&self, name: Name, ctx: shmem_ctx_t, pe: int) -> usize {
        if ctx == team::CTX_DEFAULT && (pe as usize) < self.n { pe as usize } else { self.target_slow(name, ctx, pe) }
    }

    #[cold]
    fn target_slow(&self, name: Name, ctx: shmem_ctx_t, pe: int) -> usize {
        let group = self.teams.of_context(self, name, ctx);
        match group.pe(pe) {
            Some(world) => world,
            None => die(
                name,
                None,
                format_args!("PE {pe} does not exist: {} PEs 0 to {}", group.noun(self.n), group.size - 1),
            ),
        }
    }
}

/// `nelems` elements of `size` bytes, in bytes.
#[inline]
pub(crate) fn bytes(name: Name, nelems: usize, size: usize) -> usize {
    match nelems.checked_mul(size) {
        Some(n) if n <= isize::MAX as usize => n,
        _ => die(name, None, format_args!("{nelems} elements of {size} bytes do not fit into the address space")),
    }
}
