//! Completion queues.

use super::parents::DomainObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::process::{Helper, provider, stand_if_it_is_to, wait_for, wake};
use crate::provider::Provider;
use crate::provider::objects::{Done, Queue};
use std::time::Duration;

#[repr(C)]
pub(super) struct CqObject {
    fid: FidCq,
    pub(super) id: u32,
    format: i32,
    /// Bytes of an entry.
    size: usize,
    threshold: bool,
    api_version: u32,
    wait_obj: i32,
    /// Where it may be slept on.
    helper: Option<Helper>,
    pub(super) users: Users,
    _domain: Users,
}

impl CqObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidCq) -> &'a CqObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<CqObject>() }
    }
}

static CQ_FI: FiOps = fi_ops(close, no_bind, control);
static CQ_OPS: OpsCq = OpsCq { size: size_of::<OpsCq>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

pub(super) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CqAttr,
    out: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (attr, domain) = unsafe { (&mut *attr, DomainObject::of(domain)) };
        let bell = super::waitobj::bell(attr.wait_obj)?;
        let format = if attr.format == 0 { CQ_CONTEXT } else { attr.format };
        let size = match format {
            CQ_CONTEXT => 8,
            CQ_MSG => 24,
            CQ_DATA => 40,
            CQ_TAGGED => 48,
            _ => return Err(errno::ENOSYS),
        };
        attr.format = format;
        let helper = bell.descriptor().map(|_| Helper::for_sleepers()).transpose()?;
        let id = provider().state.objects.queues.insert(Queue { bell, ..Queue::default() });
        let fid = FidCq { fid: Fid { fclass: CLASS_CQ, context, ops: &CQ_FI }, ops: &CQ_OPS };
        let threshold = attr.wait_cond == CQ_COND_THRESHOLD;
        let (users, api_version, _domain) = (Users::default(), domain.api_version, domain.users.clone());
        let wait_obj = attr.wait_obj;
        let object = CqObject { fid, id, format, size, threshold, api_version, wait_obj, helper, users, _domain };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { CqObject::of(fid.cast()) }.users.none()?;
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<CqObject>()) };
        provider().state.objects.queues.remove(object.id);
        drop(object.helper);
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { CqObject::of(fid.cast()) };
        let descriptor = provider().state.objects.queues.get(object.id).and_then(|queue| queue.bell.descriptor());
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { super::waitobj::control(command, arg, object.wait_obj, descriptor) }
    })
}

/// `fi_trywait` of a queue.
///
/// # Safety
/// See the module.
pub(super) unsafe fn try_wait(fid: *mut FidCq) -> Outcome {
    // SAFETY: the caller promises what the callee asks for.
    let id = unsafe { CqObject::of(fid) }.id;
    provider().may_sleep_on_queue(id)?;
    wake();
    Ok(())
}

/// Where completions are written.
struct Out {
    buf: *mut u8,
    /// How many there is room for.
    count: usize,
    sources: *mut u64,
}

impl CqObject {
    /// Takes what is there.
    ///
    /// # Safety
    /// `out` has room as it says.
    #[inline]
    unsafe fn take(&self, provider: &mut Provider, out: &Out) -> Option<Outcome<isize>> {
        let Some(queue) = provider.state.objects.queues.get_mut(self.id) else { return Some(Err(errno::EINVAL)) };
        if !queue.failed.is_empty() {
            return Some(Err(errno::EAVAIL));
        }
        if queue.ready.is_empty() {
            return None;
        }
        let mut taken = 0;
        while taken < out.count
            && let Some(done) = queue.ready.pop_front()
        {
            // SAFETY: the caller promises what the callee asks for.
            unsafe {
                self.write(&done, out.buf.add(taken * self.size));
                if !out.sources.is_null() {
                    *out.sources.add(taken) = done.source;
                }
            }
            taken += 1;
        }
        provider.state.goes_on();
        Some(Ok(taken as isize))
    }

    /// # Safety
    /// There is room for an entry at `at`.
    #[inline]
    unsafe fn write(&self, done: &Done, at: *mut u8) {
        // SAFETY: the caller promises what the callee asks for; entries of the formats are beginnings of the longest
        // one.
        unsafe {
            let at = at.cast::<CqEntry>();
            (&raw mut (*at).op_context).write(done.context as *mut c_void);
            if self.format >= CQ_MSG {
                (&raw mut (*at).flags).write(done.flags);
                (&raw mut (*at).len).write(done.len);
            }
            if self.format >= CQ_DATA {
                (&raw mut (*at).buf).write(done.buf as *mut c_void);
                (&raw mut (*at).data).write(done.data);
            }
            if self.format >= CQ_TAGGED {
                (&raw mut (*at).tag).write(done.tag);
            }
        }
    }
}

/// # Safety
/// See the module.
#[inline(always)]
unsafe fn read_now(cq: *mut FidCq, out: Out) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        unsafe {
            let object = CqObject::of(cq);
            let mut provider = provider();
            // An empty read is still progress.
            if provider.state.objects.queues.get(object.id).is_none_or(|queue| queue.ready.is_empty()) || out.count == 0
            {
                provider.progress();
            }
            match object.take(&mut provider, &out) {
                Some(taken) => taken,
                None if provider.state.broken.is_some() => Err(errno::EIO),
                None => {
                    stand_if_it_is_to(provider);
                    Err(errno::EAGAIN)
                }
            }
        }
    })
}

/// # Safety
/// See the module.
unsafe fn read_waiting(cq: *mut FidCq, out: Out, cond: *const c_void, timeout: c_int) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { CqObject::of(cq) };
        let least = if object.threshold { (cond as usize).clamp(1, out.count.max(1)) } else { 1 };
        let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
        let ready = |provider: &mut Provider| {
            let queue = provider.state.objects.queues.get_mut(object.id)?;
            if std::mem::take(&mut queue.signalled) {
                return Some(Err(errno::EAGAIN));
            }
            if queue.failed.is_empty() && queue.ready.len() < least {
                return provider.state.broken.is_some().then_some(Err(errno::EIO));
            }
            // SAFETY: the caller promises what the callee asks for.
            unsafe { object.take(provider, &out) }
        };
        wait_for(limit, ready).unwrap_or(Err(errno::EAGAIN))
    })
}

unsafe extern "C" fn read(cq: *mut FidCq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { read_now(cq, Out { buf: buf.cast(), count, sources: std::ptr::null_mut() }) }
}

unsafe extern "C" fn readfrom(cq: *mut FidCq, buf: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { read_now(cq, Out { buf: buf.cast(), count, sources }) }
}

unsafe extern "C" fn sread(
    cq: *mut FidCq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { read_waiting(cq, Out { buf: buf.cast(), count, sources: std::ptr::null_mut() }, cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut FidCq,
    buf: *mut c_void,
    count: usize,
    sources: *mut u64,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller promises what the callee asks for.
    unsafe { read_waiting(cq, Out { buf: buf.cast(), count, sources }, cond, timeout) }
}

unsafe extern "C" fn readerr(cq: *mut FidCq, out: *mut CqErrEntry, _flags: u64) -> isize {
    guard(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { CqObject::of(cq) };
        let mut provider = provider();
        let queue = provider.state.objects.queues.get_mut(object.id).ok_or(errno::EINVAL)?;
        let failed = queue.failed.pop_front().ok_or(errno::EAGAIN)?;
        if failed.fault.error != errno::ENOMSG {
            provider.state.goes_on();
        }
        let done = failed.done;
        // SAFETY: libfabric has callers pass valid buffers: The last field came with 1.5.
        unsafe {
            (*out).op_context = done.context as *mut c_void;
            (*out).flags = done.flags;
            (*out).len = done.len;
            (*out).buf = done.buf as *mut c_void;
            (*out).data = done.data;
            (*out).tag = done.tag;
            (*out).olen = failed.excess;
            (*out).err = failed.fault.error;
            (*out).prov_errno = failed.fault.cause;
            if object.api_version >= version(1, 5) {
                (*out).err_data_size = 0;
            }
        }
        Ok(1)
    })
}

unsafe extern "C" fn signal(cq: *mut FidCq) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let id = unsafe { CqObject::of(cq) }.id;
        let mut provider = provider();
        let queue = provider.state.objects.queues.get_mut(id).ok_or(errno::EINVAL)?;
        queue.signalled = true;
        queue.bell.tell();
        Ok(())
    })
}

unsafe extern "C" fn strerror(
    _: *mut FidCq,
    error: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { give_text(&describe(error), buf, len) }
}

/// Returns what an error of a completion means here.
pub(super) fn describe(error: i32) -> String {
    match error {
        errno::ETRUNC => "the message was longer than the buffer of the receive".into(),
        errno::ENOKEY => "the target has no memory of that key".into(),
        error if error < errno::EOTHER => std::io::Error::from_raw_os_error(error).to_string(),
        error => format!("error {error} of libfabric"),
    }
}
