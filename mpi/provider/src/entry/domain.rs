//! Domains and the memory that is registered with them.

use super::form::Form;
use super::parents::{DomainObject, FabricObject};
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::process::{Helper, attach, provider};
use crate::provider::Exposure;
use crate::provider::objects::{Domain, Registered};
use std::sync::{Mutex, OnceLock};

static DOMAIN_FI: FiOps = fi_ops(close, bind, no_control);
static DOMAIN_OPS: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: super::av::open,
    cq_open: super::cq::open,
    endpoint: super::ep::open,
    scalable_ep: absent,
    cntr_open: super::cntr::open,
    poll_open: super::poll::open,
    stx_ctx: absent,
    srx_ctx: absent,
    query_atomic: super::atomic::query,
    query_collective: absent,
    endpoint2: super::ep::open2,
};
static MR_OPS: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

pub(super) unsafe extern "C" fn open(
    fabric: *mut FidFabric,
    info: *mut Info,
    out: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (attr, form, api_version, fabric) = unsafe {
            let users = FabricObject::of(fabric).users.clone();
            ((*info).domain_attr.as_ref(), Form::of((*info).addr_format), (*fabric).api_version, users)
        };
        let mr_mode = attr.map_or(0, |attr| attr.mr_mode);
        attach().map_err(|why| {
            crate::log::warn(&why);
            if crate::info::is_named() && is_first_here() {
                // Libraries say no more than the name of the error.
                angara_protocol::complain!("angara: the provider of libfabric cannot serve this process: {why}");
            }
            errno::ENODATA
        })?;
        let auto = attr.is_some_and(|a| a.control_progress == PROGRESS_AUTO || a.data_progress == PROGRESS_AUTO);
        let helper = if auto { Some(Helper::always()?) } else { None };
        let id = provider().state.objects.domains.insert(Domain { next_key: 1, ..Domain::default() });
        let fid = Fid { fclass: CLASS_DOMAIN, context, ops: &DOMAIN_FI };
        let fid = FidDomain { fid, ops: &DOMAIN_OPS, mr: &MR_OPS };
        let (users, eq) = (Users::default(), OnceLock::new());
        let object = DomainObject { fid, id, api_version, mr_mode, form, helper, users, _fabric: fabric, eq };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

/// False if a launcher says that this is not the first of its processes on this host: one of them says what is wrong.
fn is_first_here() -> bool {
    let ranks = ["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK", "SLURM_LOCALID"];
    ranks.into_iter().find_map(std::env::var_os).is_none_or(|rank| rank == "0")
}

pub(super) unsafe extern "C" fn open2(
    fabric: *mut FidFabric,
    info: *mut Info,
    out: *mut *mut FidDomain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -errno::EBADFLAGS;
    }
    // SAFETY: the caller promises what the callee asks for.
    unsafe { open(fabric, info, out, context) }
}

/// An event queue would tell of registrations, which are done when the call returns.
unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, _: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, class) = unsafe { (DomainObject::of(fid.cast()), (*other).fclass) };
        if class != CLASS_EQ {
            return Err(errno::EINVAL);
        }
        // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
        let eq = unsafe { &*other.cast::<super::eq::EqObject>() };
        object.eq.set(eq.users.clone()).map_err(|_| errno::EINVAL)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { DomainObject::of(fid.cast()) }.users.none()?;
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<DomainObject>()) };
        // Which wants the lock that is taken next.
        drop(object.helper);
        let mut provider = provider();
        provider.state.objects.domains.remove(object.id);
        crate::process::settle(&mut provider);
        Ok(())
    })
}

#[repr(C)]
struct MrObject {
    fid: FidMr,
    domain: u32,
    _domain: Users,
    /// Its counters.
    bound: Mutex<Vec<Users>>,
}

static MR_FI: FiOps = fi_ops(mr_close, mr_bind, mr_control);

/// Arguments of a registration beside its memory.
struct Wish {
    access: u64,
    key: u64,
    context: *mut c_void,
}

/// # Safety
/// See the module.
unsafe fn register(domain: *mut Fid, memory: UserMemory, wish: Wish, out: *mut *mut FidMr) -> Outcome {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    let object = unsafe { DomainObject::of(domain.cast()) };
    let basic = object.mr_mode == MR_BASIC;
    let by_address = basic || object.mr_mode & MR_VIRT_ADDR != 0;
    let mut provider = provider();
    let domain = provider.state.objects.domains.get_mut(object.id).ok_or(errno::EINVAL)?;
    let key = if basic || object.mr_mode & MR_PROV_KEY != 0 {
        domain.next_key += 1;
        domain.next_key
    } else {
        wish.key
    };
    if domain.keys.contains_key(&key) {
        return Err(errno::ENOKEY);
    }
    // Until 1.5 no access was all access.
    let access = if wish.access == 0 { REMOTE_READ | REMOTE_WRITE } else { wish.access };
    let mut region = Registered { memory, access, by_address, counters: Vec::new(), exposure: Exposure::default() };
    region.exposure = provider.state.onesided.register(object.id, key, &region);
    if let Some(domain) = provider.state.objects.domains.get_mut(object.id) {
        domain.keys.insert(key, region);
    }
    drop(provider);
    let fid = Fid { fclass: CLASS_MR, context: wish.context, ops: &MR_FI };
    let fid = FidMr { fid, mem_desc: std::ptr::null_mut(), key };
    let object = MrObject { fid, domain: object.id, _domain: object.users.clone(), bound: Mutex::default() };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { *out = Box::into_raw(Box::new(object)).cast() };
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn reg(
    domain: *mut Fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric has callers pass valid buffers: the memory is valid until it is deregistered.
    guarded(|| unsafe {
        register(domain, UserMemory::new(buf.cast_mut().cast(), len), Wish { access, key, context }, out)
    })
}

#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn regv(
    domain: *mut Fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    guarded(|| unsafe { register(domain, pieces(iov, count)?, Wish { access, key, context }, out) })
}

unsafe extern "C" fn regattr(domain: *mut Fid, attr: *const MrAttr, _flags: u64, out: *mut *mut FidMr) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass valid buffers: `iface` is there since 1.10 only, and is 0 for plain
        // memory.
        unsafe {
            let attr = &*attr;
            let wish = Wish { access: attr.access, key: attr.requested_key, context: attr.context };
            register(domain, pieces(attr.mr_iov, attr.iov_count)?, wish, out)
        }
    })
}

unsafe extern "C" fn mr_close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: made by `register`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<MrObject>()) };
        let mut provider = provider();
        if provider.close_region(object.domain, object.fid.key) {
            crate::process::settle(&mut provider);
        }
        Ok(())
    })
}

unsafe extern "C" fn mr_bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, class) = unsafe { (&*fid.cast::<MrObject>(), (*other).fclass) };
        if class == CLASS_EP {
            return Ok(());
        }
        if class != CLASS_CNTR {
            return Err(errno::EINVAL);
        }
        // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
        let counter = unsafe { super::cntr::CntrObject::of(other.cast()) };
        let mut provider = provider();
        provider.count(object.domain, object.fid.key, (counter.id, flags & (REMOTE_READ | REMOTE_WRITE)))?;
        object.bound.lock().unwrap_or_else(|e| e.into_inner()).push(counter.users.clone());
        Ok(())
    })
}

/// A registration is enabled from the beginning.
unsafe extern "C" fn mr_control(_: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
    if command == CONTROL_ENABLE { 0 } else { -errno::ENOSYS }
}
