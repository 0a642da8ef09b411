//! Notes of every call, for timelines: what it was about, when it began and when it ended.
//!
//! A job whose calls are noted is one that is told of every call ([`crate::rt::runtime::TOLD`]). All others find their state
//! before they come here, so they pay nothing.

use super::accesses;
use super::recorder::Recorder;
use crate::ctypes::*;
use crate::rt::group::Group;
use crate::rt::process::pe;
use crate::rt::transfer::Transfer;
use crate::rt::{Runtime, told_state, try_state, untold_state};
use angara::Comparison;
use angara_protocol::calls::{
    Action, Blocks, CallFile, ENV_CALLS, ENV_SITES, Head, Meeting, Members, Memory, file_name, wall_now,
};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;

/// Returns the notes of the PE whose turn it is, if its calls are noted.
fn recorder() -> Option<&'static Recorder> {
    pe::this().recorder.get()
}

thread_local! {
    /// Calls that this thread is in.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// Calls that this thread is in from now on, because the turn of another PE begins on it. Returns those that it was in.
pub(crate) fn change_depth(calls: u8) -> u8 {
    DEPTH.replace(calls)
}

/// Runs a routine of the library, and notes it where calls are noted: `what` turns its result into the noted action.
/// In the shortest routines both closures own what they need, which keeps it in registers.
#[inline(always)]
pub(crate) fn call<R>(
    name: Name,
    what: impl FnOnce(&Runtime, &R) -> Action,
    body: impl FnOnce(&'static Runtime) -> R,
) -> R {
    match untold_state() {
        Some(s) => body(s),
        None => told(name, what, body),
    }
}

#[cold]
#[inline(never)]
fn told<R>(name: Name, what: impl FnOnce(&Runtime, &R) -> Action, body: impl FnOnce(&'static Runtime) -> R) -> R {
    let s = told_state(name);
    match recorder() {
        Some(recorder) => around(recorder, s, name, what, || body(s)),
        None => body(s),
    }
}

/// Notes a routine that consists of others, which are noted, too.
#[inline(always)]
pub(crate) fn compound<R>(name: Name, body: impl FnOnce() -> R) -> R {
    match untold_state() {
        Some(_) => body(),
        None => told_compound(name, body),
    }
}

#[cold]
#[inline(never)]
fn told_compound<R>(name: Name, body: impl FnOnce() -> R) -> R {
    match (recorder(), try_state()) {
        (Some(recorder), Some(s)) => around(recorder, s, name, |_, _| Action::Other, body),
        _ => body(),
    }
}

/// Returns the folder for notes, if calls are to be noted.
fn directory() -> Option<OsString> {
    angara_protocol::trust::var_os(ENV_CALLS).filter(|directory| !directory.is_empty())
}

/// Returns whether calls are to be noted.
pub(crate) fn wanted() -> bool {
    directory().is_some()
}

/// Starts the notes of this PE, if they are wanted and have not begun. Errors: what cannot be written.
pub(crate) fn start(job: &angara::Job) -> Result<(), String> {
    let Some(directory) = directory() else { return Ok(()) };
    if recorder().is_some() {
        return Ok(());
    }
    let head = Head {
        pe: job.my_pe() as u32,
        pes: job.n_pes() as u32,
        node: job.pe_entry(job.my_pe()).node,
        pid: std::process::id(),
        virtual_time: job.adapter().virtual_now().is_some(),
    };
    let path = Path::new(&directory).join(file_name(head.pe));
    let notes = CallFile::start(&path, &head).map_err(|e| format!("cannot note calls in {}: {e}", path.display()))?;
    let sites = angara_protocol::trust::var_os(ENV_SITES).is_some();
    if sites {
        accesses::watch();
    }
    let _ = pe::this().recorder.set(Recorder { pe: head.pe, sites, notes: Mutex::new(notes) });
    Ok(())
}

/// Returns the time in nanoseconds, of virtual time or of the clock that all processes of the host share.
pub(crate) fn now(job: &angara::Job) -> u64 {
    match job.adapter().virtual_now() {
        Some(ps) => ps / 1000,
        None => wall_now(),
    }
}

/// Notes the routine that has started the job since `begun`, if calls are noted.
pub(crate) fn started(s: &Runtime, name: Name, begun: u64) {
    if let Some(recorder) = recorder() {
        recorder.note(name, 0, (begun, now(&s.job)), met(Meeting::Barrier, &s.world()));
    }
}

/// Notes `body`, which the routine `name` does.
fn around<R>(
    recorder: &Recorder,
    s: &Runtime,
    name: Name,
    what: impl FnOnce(&Runtime, &R) -> Action,
    body: impl FnOnce() -> R,
) -> R {
    let depth = DEPTH.get();
    if recorder.sites && depth == 0 {
        recorder.note_accesses(accesses::take_all(s), now(&s.job));
    }
    DEPTH.set(depth.saturating_add(1));
    let start = now(&s.job);
    let result = body();
    let end = now(&s.job);
    DEPTH.set(depth);
    let action = what(s, &result);
    if recorder.sites {
        lend(&action);
    }
    recorder.note(name, depth, (start, end), action);
    result
}

/// Notes which private memory transfers still work with after their call.
fn lend(action: &Action) {
    match *action {
        Action::Put { local: Memory::Private(at), blocks, blocking: false, .. }
        | Action::Get { local: Memory::Private(at), blocks, blocking: false, .. } => {
            let last = blocks.count.saturating_sub(1).saturating_mul(blocks.local_step);
            accesses::lend(at as usize, last.saturating_add(blocks.block) as usize);
        }
        Action::Quiet { pe: None, .. } | Action::Meet { meeting: Meeting::Barrier, .. } => accesses::give_back(),
        _ => {}
    }
}

impl Runtime {
    /// Returns the memory that a call names by its address.
    pub(crate) fn memory(&self, p: *const u8) -> Memory {
        match self.job.locate(p, 1) {
            Some(place) => Memory::Symmetric(place),
            None => Memory::Private(p as u64),
        }
    }
}

/// Returns the low bits of a context, by which notes tell contexts apart.
pub(crate) fn context(ctx: shmem_ctx_t) -> u16 {
    ctx as u16
}

/// Arguments of a transfer to note: a put of `dest`, or a get into it.
pub(crate) struct Moved {
    pub(crate) ctx: shmem_ctx_t,
    pub(crate) pe: int,
    pub(crate) dest: *const u8,
    pub(crate) source: *const u8,
    pub(crate) blocks: Blocks,
    pub(crate) blocking: bool,
}

impl Moved {
    /// Returns the PE of the job that the transfer was with; it was checked by the transfer.
    fn pe(&self, s: &Runtime, name: Name) -> u32 {
        s.target(name, self.ctx, self.pe) as u32
    }

    pub(crate) fn put(self, s: &Runtime, name: Name) -> Action {
        let Moved { ctx, dest, source, blocks, blocking, .. } = self;
        let value = match (blocks.count, blocks.block) {
            // SAFETY: the source of a put that was made is readable, here and below.
            (1, 4) => Some(u64::from(unsafe { source.cast::<u32>().read_unaligned() })),
            // SAFETY: the source of a put that was made is readable, here and below.
            (1, 8) => Some(unsafe { source.cast::<u64>().read_unaligned() }),
            _ => None,
        };
        let (remote, local) = (s.memory(dest), s.memory(source));
        Action::Put { ctx: context(ctx), pe: self.pe(s, name), remote, local, blocks, blocking, value }
    }

    pub(crate) fn get(self, s: &Runtime, name: Name) -> Action {
        let Moved { ctx, dest, source, blocks, blocking, .. } = self;
        let (remote, local) = (s.memory(source), s.memory(dest));
        Action::Get { ctx: context(ctx), pe: self.pe(s, name), remote, local, blocks, blocking }
    }
}

/// How a wait or a test ended.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    test: bool,
    satisfied: bool,
}

impl Answer {
    pub(crate) const WAITED: Answer = Answer { test: false, satisfied: true };

    /// A test said this.
    pub(crate) fn tested(satisfied: bool) -> Answer {
        Answer { test: true, satisfied }
    }
}

/// Returns what is noted of a wait for, or a test of, `count` variables from `at` on.
pub(crate) fn waited(
    s: &Runtime,
    at: *const u8,
    count: usize,
    comparison: Comparison,
    Answer { test, satisfied }: Answer,
) -> Action {
    Action::Wait { at: s.memory(at), count: count as u64, comparison, satisfied, test }
}

/// Returns what is noted of a collective that moves nothing.
pub(crate) fn met(meeting: Meeting, group: &Group) -> Action {
    moved(meeting, group, 0, (Memory::Private(0), 0), (Memory::Private(0), 0))
}

/// Returns what is noted of a collective with `dest_len` bytes at a destination and `source_len` at a source.
pub(crate) fn moved(
    meeting: Meeting,
    group: &Group,
    root: int,
    (dest, dest_len): (Memory, u64),
    (source, source_len): (Memory, u64),
) -> Action {
    let Group { start, stride, size, stream } = *group;
    let members = Members { start: start as u32, stride: stride as i32, size: size as u32, stream: stream as u32 };
    Action::Meet { meeting, members, root: root as u32, dest, dest_len, source, source_len, work: None }
}

/// Returns what is noted of a collective of `what`, of which every PE has `there` blocks at its destination and `here` at
/// its source.
pub(crate) fn exchanged(
    s: &Runtime,
    (meeting, group, root): (Meeting, &Group, int),
    what: Transfer,
    (there, here): (usize, usize),
) -> Action {
    let len = (what.nelems * what.size) as u64;
    let (dest, source) = (s.memory(what.dest), s.memory(what.source));
    moved(meeting, group, root, (dest, len * there as u64), (source, len * here as u64))
}
