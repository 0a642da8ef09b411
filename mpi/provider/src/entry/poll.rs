//! Poll sets: which of several queues and counters have something new.

use super::cntr::{CntrObject, Seen};
use super::cq::CqObject;
use super::parents::DomainObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::process::provider;
use std::sync::Mutex;

/// Object that a poll set looks at.
enum Watched {
    Queue(u32),
    /// A counter, with its values at the last look.
    Counter(u32, Seen),
}

struct Member {
    /// The object, to find it again.
    fid: usize,
    context: usize,
    watched: Watched,
}

#[repr(C)]
struct PollObject {
    fid: FidPoll,
    members: Mutex<Vec<Member>>,
    _domain: Users,
}

static POLL_FI: FiOps = fi_ops(close, no_bind, no_control);
static POLL_OPS: OpsPoll = OpsPoll { size: size_of::<OpsPoll>(), poll, poll_add, poll_del };

pub(super) unsafe extern "C" fn open(domain: *mut FidDomain, _attr: *mut c_void, out: *mut *mut FidPoll) -> c_int {
    guarded(|| {
        let fid = Fid { fclass: CLASS_POLL, context: std::ptr::null_mut(), ops: &POLL_FI };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let domain = unsafe { DomainObject::of(domain) }.users.clone();
        let object = PollObject { fid: FidPoll { fid, ops: &POLL_OPS }, members: Mutex::default(), _domain: domain };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: made by `open`, and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<PollObject>()) });
        Ok(())
    })
}

unsafe extern "C" fn poll(set: *mut FidPoll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    guard(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { &*set.cast::<PollObject>() };
        let mut members = object.members.lock().unwrap_or_else(|e| e.into_inner());
        let mut provider = provider();
        provider.progress();
        let state = &provider.state;
        let mut found = 0;
        for member in members.iter_mut() {
            let is_new = match &mut member.watched {
                Watched::Queue(id) => {
                    state.objects.queues.get(*id).is_some_and(|q| !q.ready.is_empty() || !q.failed.is_empty())
                }
                Watched::Counter(id, seen) => {
                    let now = state.objects.counters.get(*id).map_or(*seen, |counter| (counter.value, counter.errors));
                    std::mem::replace(seen, now) != now
                }
            };
            if is_new && found < count as isize {
                // SAFETY: libfabric has callers pass valid buffers: there is room for `count`.
                unsafe { *contexts.offset(found) = member.context as *mut c_void };
                found += 1;
            }
        }
        Ok(found)
    }) as c_int
}

unsafe extern "C" fn poll_add(set: *mut FidPoll, fid: *mut Fid, _flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, class, context) = unsafe { (&*set.cast::<PollObject>(), (*fid).fclass, (*fid).context) };
        let watched = match class {
            // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
            CLASS_CQ => Watched::Queue(unsafe { CqObject::of(fid.cast()) }.id),
            // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
            CLASS_CNTR => Watched::Counter(unsafe { CntrObject::of(fid.cast()) }.id, (0, 0)),
            _ => return Err(errno::EINVAL),
        };
        let member = Member { fid: fid as usize, context: context as usize, watched };
        object.members.lock().unwrap_or_else(|e| e.into_inner()).push(member);
        Ok(())
    })
}

unsafe extern "C" fn poll_del(set: *mut FidPoll, fid: *mut Fid, _flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { &*set.cast::<PollObject>() };
        let mut members = object.members.lock().unwrap_or_else(|e| e.into_inner());
        members.retain(|member| member.fid != fid as usize);
        Ok(())
    })
}
