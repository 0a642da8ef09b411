//! Event queues: what the program writes itself, and completed insertions of addresses.

use super::parents::FabricObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::provider::Bell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
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
    wait_obj: i32,
    events: Mutex<Events>,
    written: Condvar,
}

struct Events {
    all: VecDeque<(u32, Vec<u8>)>,
    bell: Bell,
}

impl EqObject {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn push(&self, event: u32, bytes: Vec<u8>) -> Outcome {
        let mut events = self.events();
        if events.all.len() >= EVENTS_MAX {
            return Err(errno::EAGAIN);
        }
        events.all.push_back((event, bytes));
        events.bell.tell();
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

static EQ_FI: FiOps = fi_ops(close, no_bind, control);
static EQ_OPS: OpsEq = OpsEq { size: size_of::<OpsEq>(), read, readerr, write, sread, strerror };

pub(super) unsafe extern "C" fn open(
    fabric: *mut FidFabric,
    attr: *mut EqAttr,
    out: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let fid = FidEq { fid: Fid { fclass: CLASS_EQ, context, ops: &EQ_FI }, ops: &EQ_OPS };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (attr, fabric) = unsafe { (attr.as_ref(), FabricObject::of(fabric).users.clone()) };
        let wait_obj = attr.map_or(WAIT_UNSPEC, |attr| attr.wait_obj);
        let events = Mutex::new(Events { all: VecDeque::new(), bell: super::waitobj::bell(wait_obj)? });
        let object =
            EqObject { fid, users: Users::default(), _fabric: fabric, wait_obj, events, written: Condvar::new() };
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

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { &*fid.cast::<EqObject>() };
        let descriptor = object.events().bell.descriptor();
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { super::waitobj::control(command, arg, object.wait_obj, descriptor) }
    })
}

/// `fi_trywait` of a queue. What is written to it comes from calls of the program: nobody has to make progress.
///
/// # Safety
/// See the module.
pub(super) unsafe fn try_wait(eq: *mut FidEq) -> Outcome {
    // SAFETY: the caller promises what the callee asks for.
    let object = unsafe { &*eq.cast::<EqObject>() };
    let mut events = object.events();
    if events.bell.descriptor().is_some() && !events.all.is_empty() {
        return Err(errno::EAGAIN);
    }
    events.bell.arm()
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
        let mut events = object.events();
        let empty = |events: &mut Events| events.all.is_empty();
        events = match limit {
            Some(limit) => object.written.wait_timeout_while(events, limit, empty).unwrap_or_else(|e| e.into_inner()).0,
            None => object.written.wait_while(events, empty).unwrap_or_else(|e| e.into_inner()),
        };
        let (kind, bytes) = events.all.front().ok_or(errno::EAGAIN)?;
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
            events.all.pop_front();
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
