//! Counters.

use super::parents::DomainObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::process::{Helper, provider, wait_for, wake};
use crate::provider::Provider;
use crate::provider::objects::Counter;
use std::time::Duration;

#[repr(C)]
pub(super) struct CntrObject {
    fid: FidCntr,
    pub(super) id: u32,
    wait_obj: i32,
    /// Where it may be slept on.
    helper: Option<Helper>,
    pub(super) users: Users,
    _domain: Users,
}

impl CntrObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidCntr) -> &'a CntrObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<CntrObject>() }
    }
}

/// Value and errors of a counter.
pub(super) type Seen = (u64, u64);

static CNTR_FI: FiOps = fi_ops(close, no_bind, control);
static CNTR_OPS: OpsCntr = OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

pub(super) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CntrAttr,
    out: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let wait_obj = unsafe { attr.as_ref() }.map_or(WAIT_UNSPEC, |attr| attr.wait_obj);
        let bell = super::waitobj::bell(wait_obj)?;
        let helper = bell.descriptor().map(|_| Helper::for_sleepers()).transpose()?;
        let id = provider().state.objects.counters.insert(Counter { bell, ..Counter::default() });
        let fid = FidCntr { fid: Fid { fclass: CLASS_CNTR, context, ops: &CNTR_FI }, ops: &CNTR_OPS };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let domain = unsafe { DomainObject::of(domain) }.users.clone();
        let object = CntrObject { fid, id, wait_obj, helper, users: Users::default(), _domain: domain };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { CntrObject::of(fid.cast()) }.users.none()?;
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<CntrObject>()) };
        provider().state.objects.counters.remove(object.id);
        drop(object.helper);
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { CntrObject::of(fid.cast()) };
        let descriptor = provider().state.objects.counters.get(object.id).and_then(|counter| counter.bell.descriptor());
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { super::waitobj::control(command, arg, object.wait_obj, descriptor) }
    })
}

/// `fi_trywait` of a counter: it is not slept on before the program has read how far it is.
///
/// # Safety
/// See the module.
pub(super) unsafe fn try_wait(fid: *mut FidCntr) -> Outcome {
    // SAFETY: the caller promises what the callee asks for.
    let id = unsafe { CntrObject::of(fid) }.id;
    provider().may_sleep_on_counter(id)?;
    wake();
    Ok(())
}

/// # Safety
/// See the module.
unsafe fn with(cntr: *mut FidCntr, progress: bool, f: impl FnOnce(&mut Counter) -> u64) -> u64 {
    let mut value = 0;
    guarded(|| {
        // SAFETY: the caller promises what the callee asks for.
        let id = unsafe { CntrObject::of(cntr) }.id;
        let mut provider = provider();
        if progress {
            provider.progress();
        }
        value = provider.state.objects.counters.get_mut(id).map_or(0, |counter| {
            let value = f(counter);
            if counter.has_changed() {
                counter.bell.tell();
            }
            value
        });
        Ok(())
    });
    value
}

unsafe extern "C" fn read(cntr: *mut FidCntr) -> u64 {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        with(cntr, true, |counter| {
            counter.read.0 = counter.value;
            counter.value
        })
    }
}

unsafe extern "C" fn readerr(cntr: *mut FidCntr) -> u64 {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        with(cntr, true, |counter| {
            counter.read.1 = counter.errors;
            counter.errors
        })
    }
}

unsafe extern "C" fn add(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        with(cntr, false, |counter| {
            counter.value = counter.value.wrapping_add(value);
            0
        })
    };
    0
}

unsafe extern "C" fn set(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { with(cntr, false, |counter| std::mem::replace(&mut counter.value, value)) };
    0
}

unsafe extern "C" fn adderr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        with(cntr, false, |counter| {
            counter.errors = counter.errors.wrapping_add(value);
            0
        })
    };
    0
}

unsafe extern "C" fn seterr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { with(cntr, false, |counter| std::mem::replace(&mut counter.errors, value)) };
    0
}

unsafe extern "C" fn wait(cntr: *mut FidCntr, threshold: u64, timeout: c_int) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let id = unsafe { CntrObject::of(cntr) }.id;
        let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
        let before = provider().state.objects.counters.get(id).map_or(0, |counter| counter.errors);
        let ready = |provider: &mut Provider| {
            if provider.state.broken.is_some() {
                return Some(Err(errno::EIO));
            }
            match provider.state.objects.counters.get(id) {
                None => Some(Err(errno::EINVAL)),
                Some(counter) if counter.value >= threshold => Some(Ok(())),
                Some(counter) if counter.errors != before => Some(Err(errno::EAVAIL)),
                Some(_) => None,
            }
        };
        wait_for(limit, ready).unwrap_or(Err(libc::ETIMEDOUT))
    })
}
