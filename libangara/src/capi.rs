//! The C interface; `include/angara.h` documents each function.
//!
//! Every function here checks what C cannot promise, calls the Rust function of the same name,
//! turns its error into a code, keeps the text for `angara_last_error`, and lets no panic out.

use crate::driver::{Handle, OpState, packet};
use crate::error::{Error, Result};
use crate::{Amo, AmoOp, Class, Comparison, Job, Launch, Place};
use angara_abi::desc::Descriptor;
use angara_abi::packet::{Flit, ReduceElem, ReduceOp};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

const OK: c_int = 0;
const EPANIC: c_int = -10;

fn code(e: &Error) -> c_int {
    match e {
        Error::Invalid(_) => -1,
        Error::NotLaunched(_) | Error::Launcher(_) => -2,
        Error::Daemon(_) | Error::Refused(_) | Error::Connect { .. } | Error::Distrust(_) | Error::Layout { .. } => -3,
        Error::System { .. } => -4,
        Error::Unreachable { .. } => -5,
        Error::Channel { .. } => -6,
        Error::JobEnded => -7,
        Error::Timeout { .. } | Error::Deadlock { .. } => -8,
        Error::Forked => -9,
        Error::Alone { .. } => -11,
    }
}

fn remember(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
}

/// Runs `body`; its value or an error code.
pub(crate) fn run(body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(e)) => {
            remember(&e.to_string());
            code(&e)
        }
        Err(_) => {
            remember("a bug in libangara: it panicked (see standard error)");
            EPANIC
        }
    }
}

/// The job behind a handle.
///
/// # Safety
/// `a` is null or came from `angara_open` and has not been closed.
pub(crate) unsafe fn job<'a>(a: *const Job) -> Result<&'a Job> {
    // SAFETY: the caller's promise.
    unsafe { a.as_ref() }.ok_or_else(|| Error::invalid("the angara_t pointer is NULL; angara_open() failed?"))
}

pub(crate) fn pe_number(pe: c_int) -> Result<usize> {
    usize::try_from(pe).map_err(|_| Error::invalid(format!("PE {pe} does not exist")))
}

fn place(job: &Job, p: *const c_void, len: usize) -> Result<Place> {
    job.locate(p.cast(), len).ok_or_else(|| {
        Error::invalid(format!("{len} bytes at {p:p} are not symmetric memory of this PE; use memory of angara_heap()"))
    })
}

pub(crate) fn not_null<T>(p: *const T, what: &str) -> Result<()> {
    if p.is_null() { Err(Error::invalid(format!("{what} is NULL"))) } else { Ok(()) }
}

/// See `angara.h`.
#[unsafe(no_mangle)]
pub extern "C" fn angara_strerror(code: c_int) -> *const c_char {
    let text: &CStr = match code {
        OK => c"no error",
        -1 => c"an argument cannot be",
        -2 => c"not started by `angara run`",
        -3 => c"fabricd is gone, refused, or differs in version",
        -4 => c"the kernel refused something",
        -5 => c"every route to the target is dead, or the PE is gone",
        -6 => c"the injection channel is in its error state",
        -7 => c"the job is being ended",
        -8 => c"no progress within ANGARA_TIMEOUT",
        -9 => c"called in a forked child",
        -11 => c"another PE exited instead of starting again",
        -12 => c"the receiver's ring is full: receive, wait, try again",
        -13 => c"the receiver has left",
        EPANIC => c"a bug in libangara",
        _ => c"unknown error code",
    };
    text.as_ptr()
}

/// See `angara.h`.
#[unsafe(no_mangle)]
pub extern "C" fn angara_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

fn open(make: impl FnOnce() -> Result<Job>) -> *mut Job {
    let mut job = std::ptr::null_mut();
    run(|| {
        job = Arc::into_raw(Arc::new(make()?)).cast_mut();
        Ok(OK)
    });
    job
}

/// See `angara.h`.
#[unsafe(no_mangle)]
pub extern "C" fn angara_open() -> *mut Job {
    open(|| Job::attach(&Launch::from_env()?, &[]))
}

/// See `angara.h`.
#[unsafe(no_mangle)]
pub extern "C" fn angara_open_solo(heap_bytes: usize) -> *mut Job {
    open(|| Job::solo(heap_bytes, &[]))
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or came from `angara_open` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_close(a: *mut Job) {
    if !a.is_null() {
        run(|| {
            // SAFETY: made by `Arc::into_raw` in `open`; the caller gives it up. An open mailbox has a count of its own.
            drop(unsafe { Arc::from_raw(a) });
            Ok(OK)
        });
    }
}

/// Where a PE lives, as `angara_pe_t`.
#[repr(C)]
#[derive(Debug)]
pub struct PeInfo {
    /// Number of its node.
    node: u32,
    /// Coordinates of that node, X first.
    coords: [u8; 4],
    /// Its injection channel there.
    endpoint: u16,
    /// 1 once it has attached.
    attached: u16,
}

/// A posted operation, as `angara_op_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Target PE.
    pe: u32,
    /// Number of the post.
    seq: u32,
    /// Completion word it owns, or -1.
    slot: i32,
    /// 1 if it travels behind everything sent to that PE.
    flushes: u32,
}

impl OpInfo {
    fn new(handle: Handle) -> OpInfo {
        let (pe, seq, slot, flushes) = handle.into_raw();
        OpInfo { pe: pe as u32, seq, slot: slot.map_or(-1, i32::from), flushes: flushes as u32 }
    }
    fn handle(&self, job: &Job) -> Result<Handle> {
        let slot = u8::try_from(self.slot).ok().filter(|s| *s < 64);
        if self.pe as usize >= job.n_pes() || (slot.is_none() && self.slot != -1) {
            return Err(Error::invalid("this angara_op_t was not filled in by the library"));
        }
        Ok(Handle::from_raw(self.pe as usize, self.seq, slot, self.flushes != 0))
    }
}

/// One flit, as `angara_flit_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FlitWords {
    /// Bits 0 to 63.
    lo: u64,
    /// Bits 64 to 127.
    hi: u64,
}

/// Defines C functions: name, arguments, and a body that sees the job as `job`.
macro_rules! api {
    ($(fn $name:ident($job:ident $(, $arg:ident: $t:ty)* $(,)?) $body:block)*) => {$(
        /// See `angara.h`.
        ///
        /// # Safety
        /// As `angara.h` says: the handle is open, pointers are valid for what they are used for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: *const Job $(, $arg: $t)*) -> c_int {
            run(|| {
                // SAFETY: the caller's promise.
                let $job = unsafe { job(a)? };
                $body
            })
        }
    )*};
}

api! {
    fn angara_my_pe(job) { Ok(job.my_pe() as c_int) }
    fn angara_n_pes(job) { Ok(job.n_pes() as c_int) }

    fn angara_pe_info(job, pe: c_int, out: *mut PeInfo) {
        not_null(out, "out")?;
        let pe = pe_number(pe)?;
        if pe >= job.n_pes() {
            return Err(Error::invalid(format!("PE {pe} does not exist: the job has {} PEs", job.n_pes())));
        }
        let e = job.pe_entry(pe);
        let info = PeInfo { node: e.node, coords: e.coords.0, endpoint: e.endpoint, attached: e.seat.taken() as u16 };
        // SAFETY: not null; the caller's promise.
        unsafe { out.write(info) };
        Ok(OK)
    }

    fn angara_put(job, pe: c_int, dst: *mut c_void, src: *const c_void, len: usize) {
        let (pe, dst) = (pe_number(pe)?, place(job, dst, len)?);
        // SAFETY: the caller's promise.
        unsafe { job.ctx().put(Class::Put, pe, dst, src.cast(), len)? };
        Ok(OK)
    }
    fn angara_put_nbi(job, pe: c_int, dst: *mut c_void, src: *const c_void, len: usize) {
        let (pe, dst) = (pe_number(pe)?, place(job, dst, len)?);
        // SAFETY: the caller's promise.
        unsafe { job.ctx().put_nbi(Class::Put, pe, dst, src.cast(), len)? };
        Ok(OK)
    }
    fn angara_get(job, pe: c_int, dst: *mut c_void, src: *const c_void, len: usize) {
        let (pe, src) = (pe_number(pe)?, place(job, src, len)?);
        // SAFETY: the caller's promise.
        unsafe { job.ctx().get(Class::Get, pe, dst.cast(), src, len)? };
        Ok(OK)
    }
    fn angara_get_nbi(job, pe: c_int, dst: *mut c_void, src: *const c_void, len: usize) {
        let (pe, src) = (pe_number(pe)?, place(job, src, len)?);
        // SAFETY: the caller's promise.
        unsafe { job.ctx().get_nbi(Class::Get, pe, dst.cast(), src, len)? };
        Ok(OK)
    }

    fn angara_amo(
        job, pe: c_int, at: *mut c_void, op: c_int, width: c_int, operand: u64, comparand: u64, old: *mut u64,
    ) {
        let amo = u8::try_from(op).ok().and_then(AmoOp::from_bits);
        let amo = amo.ok_or_else(|| Error::invalid(format!("unknown atomic operation {op}")))?;
        let width = u8::try_from(width).unwrap_or(0);
        let (pe, at) = (pe_number(pe)?, place(job, at, width as usize)?);
        let value = job.ctx().amo(Class::Amo, pe, at, Amo { op: amo, width, operand, comparand, fetch: !old.is_null() })?;
        if !old.is_null() {
            // SAFETY: not null; the caller's promise.
            unsafe { old.write(value) };
        }
        Ok(OK)
    }

    fn angara_fence(job) { job.ctx().fence().map(|()| OK) }
    fn angara_quiet(job) { job.ctx().quiet().map(|()| OK) }
    fn angara_quiet_pe(job, pe: c_int) { job.ctx().quiet_pe(pe_number(pe)?).map(|()| OK) }
    fn angara_barrier(job, half: c_int) { job.barrier(half != 0).map(|()| OK) }

    fn angara_wait_u64(job, p: *const u64, compare: c_int, value: u64) {
        not_null(p, "the word to wait for")?;
        if !p.is_aligned() || !(0..=2).contains(&compare) {
            return Err(Error::invalid(format!("comparison {compare} on {p:p}: use ANGARA_EQ, NE or GE on an aligned word")));
        }
        // SAFETY: not null, aligned; the caller promises a live word that others store to whole.
        let word = unsafe { AtomicU64::from_ptr(p.cast_mut()) };
        let ready = || {
            let now = word.load(Ordering::Acquire);
            match compare { 0 => now == value, 1 => now != value, _ => now >= value }
        };
        let sign = ["==", "!=", ">="][compare as usize];
        let what = || format!("the word at {p:p} (now {}) to be {sign} {value}", word.load(Ordering::Relaxed));
        let with = Comparison { relation: [1, 2, 4][compare as usize], ..Comparison::at_least(value) };
        job.wait_word(p.cast(), with, ready, &what).map(|()| OK)
    }

    fn angara_csr_read(job, csr: u32, value: *mut u64) {
        not_null(value, "value")?;
        let now = job.adapter().csr_read(csr)?;
        // SAFETY: not null; the caller's promise.
        unsafe { value.write(now) };
        Ok(OK)
    }
    fn angara_csr_write(job, csr: u32, value: u64) { job.adapter().csr_write(csr, value).map(|()| OK) }

    fn angara_place(job, p: *const c_void, region: *mut u32, offset: *mut u64) {
        not_null(region, "region")?;
        not_null(offset, "offset")?;
        let at = place(job, p, 1)?;
        // SAFETY: not null; the caller's promise.
        unsafe {
            region.write(at.region as u32);
            offset.write(at.offset);
        }
        Ok(OK)
    }

    fn angara_inject(job, pe: c_int, packet: *const FlitWords, flits: usize, op: *mut OpInfo) {
        not_null(packet, "packet")?;
        if flits > angara_abi::PACKET_FLITS_MAX {
            return Err(Error::invalid(format!("a packet has 2 to 18 flits, not {flits}")));
        }
        // SAFETY: the caller's promise.
        let words = unsafe { std::slice::from_raw_parts(packet, flits) };
        let flits: Vec<Flit> = words.iter().map(|w| w.lo as Flit | (w.hi as Flit) << 64).collect();
        let handle = job.adapter().inject(pe_number(pe)?, &flits)?;
        // SAFETY: the caller's promise.
        unsafe { give(op, handle) };
        Ok(OK)
    }

    fn angara_packet_write(
        job, pe: c_int, dst: *const c_void, data: *const c_void, len: usize, packet: *mut FlitWords,
    ) {
        not_null(data, "data")?;
        not_null(packet, "packet")?;
        let pe = pe_number(pe)?;
        job.adapter().check_target(pe)?;
        let at = place(job, dst, len)?;
        if len > angara_abi::PAYLOAD_MAX {
            return Err(Error::invalid(format!("a packet carries 1 to 256 bytes, not {len}")));
        }
        // SAFETY: the caller's promise.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
        let flits = packet::write(job.pe_entry(pe), at, data)?;
        for (i, flit) in flits.iter().enumerate() {
            // SAFETY: the caller gave room for 18 flits; a packet has no more.
            unsafe { packet.add(i).write(FlitWords { lo: *flit as u64, hi: (*flit >> 64) as u64 }) };
        }
        Ok(flits.len() as c_int)
    }

    fn angara_post(job, pe: c_int, words: *const u64, op: *mut OpInfo) {
        not_null(words, "words")?;
        // SAFETY: the caller promises eight words.
        let words = unsafe { words.cast::<[u64; 8]>().read() };
        let d = Descriptor::decode(&words).map_err(|e| Error::invalid(e.to_string()))?;
        if op.is_null() && d.is_answered() {
            return Err(Error::invalid("an operation with an answer needs an angara_op_t to wait on"));
        }
        let handle = job.adapter().post_descriptor(pe_number(pe)?, &d)?;
        // SAFETY: the caller's promise.
        unsafe { give(op, handle) };
        Ok(OK)
    }

    fn angara_flush(job, pe: c_int, op: *mut OpInfo) {
        not_null(op, "op")?;
        let handle = job.adapter().flush(pe_number(pe)?)?;
        // SAFETY: not null; the caller's promise.
        unsafe { give(op, handle) };
        Ok(OK)
    }

    fn angara_state(job, op: *const OpInfo) {
        not_null(op, "op")?;
        // SAFETY: not null; the caller's promise.
        Ok(unsafe { *op }.handle(job)?.state(job.adapter()) as c_int)
    }

    fn angara_wait_state(job, op: *const OpInfo, state: c_int) {
        not_null(op, "op")?;
        use OpState::*;
        let states = [NotCalled, Called, Copied, Injected, Received, Written, Complete];
        let wanted = usize::try_from(state).ok().and_then(|s| states.get(s));
        let wanted = wanted.ok_or_else(|| Error::invalid(format!("unknown operation state {state}")))?;
        // SAFETY: not null; the caller's promise.
        unsafe { *op }.handle(job)?.wait_for(job.adapter(), *wanted).map(|()| OK)
    }

    fn angara_op_wait(job, op: *const OpInfo, value: *mut u64) {
        not_null(op, "op")?;
        // SAFETY: not null; the caller's promise.
        let result = unsafe { *op }.handle(job)?.wait(job.adapter())?;
        if !value.is_null() {
            // SAFETY: not null; the caller's promise.
            unsafe { value.write(result) };
        }
        Ok(OK)
    }

    fn angara_heads(job, ring_flits: *mut u32, descriptors: *mut u32) {
        not_null(ring_flits, "ring_flits")?;
        not_null(descriptors, "descriptors")?;
        let (ring, dma) = job.adapter().heads()?;
        // SAFETY: not null; the caller's promise.
        unsafe {
            ring_flits.write(ring);
            descriptors.write(dma);
        }
        Ok(OK)
    }

    fn angara_tree_open(job, root: c_int, pes: *const c_int, n: usize) {
        not_null(pes, "pes")?;
        // SAFETY: the caller's promise.
        let pes = unsafe { std::slice::from_raw_parts(pes, n) };
        let pes = pes.iter().map(|pe| pe_number(*pe)).collect::<Result<Vec<_>>>()?;
        Ok(job.tree_open(pe_number(root)?, &pes)? as c_int)
    }
    fn angara_tree_close(job, tree: c_int) { job.tree_close(tree_id(tree)?).map(|()| OK) }

    fn angara_tree_all_reduce(job, tree: c_int, op: c_int, elem: c_int, buffer: *mut c_void, count: usize) {
        not_null(buffer, "buffer")?;
        let code = |n: c_int| u8::try_from(n).ok();
        let reduce = code(op).and_then(ReduceOp::from_bits);
        let reduce = reduce.ok_or_else(|| Error::invalid(format!("unknown reduction {op}")))?;
        let element = code(elem).and_then(ReduceElem::from_bits);
        let element = element.ok_or_else(|| Error::invalid(format!("unknown element type {elem}")))?;
        // SAFETY: the caller promises `count` elements.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count * element.bytes()) };
        job.tree(tree_id(tree)?).all_reduce_raw(reduce, element, bytes).map(|()| OK)
    }

    fn angara_tree_broadcast(job, tree: c_int, from: c_int, dst: *mut c_void, src: *const c_void, len: usize) {
        let at = place(job, dst, len)?;
        // SAFETY: the caller's promise.
        unsafe { job.tree(tree_id(tree)?).broadcast(pe_number(from)?, at, src.cast(), len)? };
        Ok(OK)
    }
}

/// Stores a handle where the caller wants it.
///
/// # Safety
/// `op` is null or valid.
unsafe fn give(op: *mut OpInfo, handle: Handle) {
    if !op.is_null() {
        // SAFETY: the caller's promise.
        unsafe { op.write(OpInfo::new(handle)) };
    }
}

fn tree_id(tree: c_int) -> Result<u8> {
    let id = u8::try_from(tree).ok().filter(|id| (*id as usize) < angara_abi::TREES);
    id.ok_or_else(|| Error::invalid(format!("tree {tree}: there are {} trees", angara_abi::TREES)))
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_heap(a: *const Job) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { a.as_ref() }.map_or(std::ptr::null_mut(), |job| job.heap().cast())
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_heap_len(a: *const Job) -> usize {
    // SAFETY: the caller's promise.
    unsafe { a.as_ref() }.map_or(0, Job::heap_len)
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_peer(a: *const Job, p: *const c_void, pe: c_int) -> *mut c_void {
    // SAFETY: the caller's promise.
    let job = unsafe { a.as_ref() };
    let find = |job: &Job| job.peer(job.locate(p.cast(), 1)?, usize::try_from(pe).ok()?);
    job.and_then(find).map_or(std::ptr::null_mut(), |p| p.cast())
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or open; `reason` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_abort(a: *const Job, status: c_int, reason: *const c_char) {
    // SAFETY: the caller's promise.
    let (job, text) = unsafe { (a.as_ref(), (!reason.is_null()).then(|| CStr::from_ptr(reason))) };
    if let Some(job) = job {
        run(|| {
            job.abort(status, &text.map_or_else(|| "angara_abort".into(), |t| t.to_string_lossy()), false);
            Ok(OK)
        });
    }
}
