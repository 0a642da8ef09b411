//! All PEs of a job inside one process, its *host*: what the host gives the library that PEs call, and what the library
//! gives the host. Both are loaded once; the host says whose turn it is.
//!
//! The host runs the data plane and, on the same thread, one PE at a time on a stack of its own. Where a PE would sleep,
//! the library calls [`Host::stand`], which runs something else and returns when the PE may look again.

use crate::shm::Part;
use std::ffi::c_char;
use std::sync::atomic::AtomicU64;

/// Name of the function of the library that returns its [`Library`].
pub const SYMBOL: &std::ffi::CStr = c"angara_inside";
/// Raised when a structure here changes.
pub const VERSION: u32 = 2;

/// A page range of the program whose contents are symmetric, as it lies in this PE's copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Address.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// It holds variables, not constants.
    pub writable: bool,
}

/// All that belongs to a PE. The regions are those of [`crate::job`], and stay until the process ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Its number.
    pub pe: u32,
    /// PEs of the job.
    pub pes: u32,
    /// Job page.
    pub job: Part,
    /// Target table.
    pub targets: Part,
    /// Synchronisation page.
    pub sync: Part,
    /// Heap arena.
    pub heap: Part,
    /// Bytes from one slice of it to the next.
    pub heap_step: usize,
    /// Static arena: from the first variable of PE 0 on.
    pub statics: Part,
    /// Bounce region.
    pub bounce: Part,
    /// Counters.
    pub counters: Part,
    /// Register page of its node.
    pub csr: Part,
    /// Channel page, status page, injection ring, descriptor queue.
    pub channel: [Part; 4],
    /// Clock page.
    pub clock: Part,
    /// Its symmetric segments, variables first.
    pub segments: *const Segment,
    /// Their number.
    pub segment_count: usize,
}

/// What the host does for PEs. Each is called on the PE's own stack.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// [`VERSION`] of the host.
    pub version: u32,
    /// Lets others go on. Returns when this PE may go on, or shall look whether it may.
    pub stand: extern "C" fn(),
    /// Asks the daemon, which is in the same process: a request of N bytes of JSON, and room for the answer. Returns
    /// the bytes of the answer, or a negative number if there is nobody to ask any more.
    pub ask: extern "C" fn(request: *const u8, len: usize, answer: *mut u8, room: usize) -> isize,
    /// Flushes the PE's output streams.
    pub flush: extern "C" fn(),
    /// Writes to the PE's error output.
    pub complain: extern "C" fn(text: *const u8, len: usize),
    /// Ends this PE with a status, without handlers of its program.
    pub leave: extern "C" fn(status: i32) -> !,
    /// Ends this PE with a status as the program's `exit` does.
    pub exit: extern "C" fn(status: i32) -> !,
    /// Writes the line of the call that returns to this address of the program, and its function; returns how many bytes that
    /// takes.
    pub line: extern "C" fn(address: usize, to: *mut u8, room: usize) -> usize,
    /// Where the copy of a program begins that contains this address, and the name of its file; 0 if none does.
    pub find: extern "C" fn(address: usize, file: &mut *const c_char) -> usize,
    /// CLOCK_MONOTONIC in nanoseconds, not 0, as it was a moment ago: to be had for a load.
    pub now: &'static AtomicU64,
}

/// A PE as the library keeps it.
#[repr(C)]
#[derive(Debug)]
pub struct Pe {
    _opaque: [u8; 0],
}

/// What the library does for its host, on the thread of the PEs.
#[repr(C)]
#[derive(Debug)]
pub struct Library {
    /// [`VERSION`] of the library.
    pub version: u32,
    /// Makes a PE of these parts, which joins its job. `null` if it cannot, and then why, in a string that stays.
    pub join: unsafe extern "C" fn(&'static Host, &Parts, why: &mut *const c_char) -> *mut Pe,
    /// It is this PE's turn from now on, until [`Library::leave`].
    pub enter: unsafe extern "C" fn(*mut Pe),
    /// Its turn is over.
    pub leave: unsafe extern "C" fn(*mut Pe),
    /// The program of the PE whose turn it is has ended with this status, and its handlers have run.
    pub ended: extern "C" fn(status: i32),
}
