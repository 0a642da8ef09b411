//! Event queues: what the program writes itself, and completed insertions of addresses.

use super::parents::FabricObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Least number of events a queue takes; beyond it, who writes is told to come again.
const EVENTS_MAX: usize = 1 << 16;
/// The event stays in the queue.
const PEEK_EVENT: u64 = PEEK;

#[repr(C)]
pub(super) struct EqObject {
    fid: FidEq,
    pub(super) users: Users,
    _fabric: Users,
    events: Mutex<VecDeque<(u32, Vec<u8>)>>,
    written: Condvar,
}

impl EqObject {
    fn push(&self, event: u32, bytes: Vec<u8>) -> Outcome {
        let mut events = self.events.lock().unwrap_or_else(|e| e.into_inner());
        if events.len() >= EVENTS_MAX {
            return Err(errno::EAGAIN);
        }
        events.push_back((event, bytes));
        self.written.notify_one();
        Ok(())
    }

    pub(super) fn tell(&self, event: u32, entry: EqEntry) {
        let words = [entry.fid as u64, entry.context as u64, entry.data];
        let told = self.push(event, words.iter().flat_map(|word| word.to_ne_bytes()).collect());
        if told.is_err() {
            crate::log::warn("an event queue is full; an event is lost");
        }
    }
}

static EQ_FI: FiOps = fi_ops(close, no_bind, no_control);
static EQ_OPS: OpsEq = OpsEq { size: size_of::<OpsEq>(), read, readerr, write, sread, strerror };

pub(super) unsafe extern "C" fn open(
    fabric: *mut FidFabric,
    _attr: *mut c_void,
    out: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let fid = FidEq { fid: Fid { fclass: CLASS_EQ, context, ops: &EQ_FI }, ops: &EQ_OPS };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let fabric = unsafe { FabricObject::of(fabric) }.users.clone();
        let (users, events, written) = (Users::default(), Mutex::default(), Condvar::new());
        let object = EqObject { fid, users, _fabric: fabric, events, written };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { &*fid.cast::<EqObject>() }.users.none()?;
        // SAFETY: made by `open`, and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<EqObject>()) });
        Ok(())
    })
}

/// # Safety
/// See the module.
unsafe fn take(
    eq: *mut FidEq,
    (event, buf, len): (*mut u32, *mut c_void, usize),
    limit: Option<Duration>,
    flags: u64,
) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { &*eq.cast::<EqObject>() };
        let mut events = object.events.lock().unwrap_or_else(|e| e.into_inner());
        let empty = |events: &mut VecDeque<_>| events.is_empty();
        events = match limit {
            Some(limit) => object.written.wait_timeout_while(events, limit, empty).unwrap_or_else(|e| e.into_inner()).0,
            None => object.written.wait_while(events, empty).unwrap_or_else(|e| e.into_inner()),
        };
        let (kind, bytes) = events.front().ok_or(errno::EAGAIN)?;
        if bytes.len() > len {
            return Err(errno::ETOOSMALL);
        }
        // SAFETY: passed on: `buf` has `len` bytes.
        unsafe {
            *event = *kind;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len());
        }
        let taken = bytes.len() as isize;
        if flags & PEEK_EVENT == 0 {
            events.pop_front();
        }
        Ok(taken)
    })
}

unsafe extern "C" fn read(eq: *mut FidEq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { take(eq, (event, buf, len), Some(Duration::ZERO), flags) }
}

unsafe extern "C" fn sread(
    eq: *mut FidEq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { take(eq, (event, buf, len), u64::try_from(timeout).ok().map(Duration::from_millis), flags) }
}

/// Nothing here reports errors by event queues.
unsafe extern "C" fn readerr(_: *mut FidEq, _: *mut c_void, _: u64) -> isize {
    -(errno::EAGAIN as isize)
}

unsafe extern "C" fn write(eq: *mut FidEq, event: u32, buf: *const c_void, len: usize, _flags: u64) -> isize {
    guard(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, bytes) = unsafe { (&*eq.cast::<EqObject>(), std::slice::from_raw_parts(buf.cast::<u8>(), len)) };
        object.push(event, bytes.to_vec())?;
        Ok(len as isize)
    })
}

unsafe extern "C" fn strerror(
    _: *mut FidEq,
    error: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { give_text(&super::cq::describe(error), buf, len) }
}
