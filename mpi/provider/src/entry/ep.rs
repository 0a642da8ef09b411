//! Endpoints: opening, binding, options.

use super::form::Form;
use super::parents::{DomainObject, EpObject};
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::address::{Address, Name};
use crate::process::provider;
use crate::provider::objects::{Binding, Endpoint, Side};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

static EP_FI: FiOps = fi_ops(close, bind, control);
static EP_OPS: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: absent,
    rx_ctx: absent,
    rx_size_left: absent,
    tx_size_left: absent,
};
static CM_OPS: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname,
    getname,
    getpeer: absent,
    connect: absent,
    listen: absent,
    accept: absent,
    reject: absent,
    shutdown: absent,
    join: absent,
};

pub(super) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    info: *mut Info,
    out: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (domain, info) = unsafe { (DomainObject::of(domain), &*info) };
        // SAFETY: libfabric has callers pass valid buffers: null, or to the struct.
        let (ep, tx, rx) = unsafe { (info.ep_attr.as_ref(), info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
        if ep.is_some_and(|ep| !matches!(ep.kind, 0 | EP_RDM)) {
            return Err(errno::EINVAL);
        }
        let (tx_flags, rx_flags) = (tx.map_or(0, |tx| tx.op_flags), rx.map_or(0, |rx| rx.op_flags));
        let directed = (info.caps | rx.map_or(0, |rx| rx.caps)) & DIRECTED_RECV != 0;
        let form = Form::of(info.addr_format);
        // SAFETY: libfabric has callers pass valid buffers: as many bytes as is said.
        let name = own_name(unsafe { form.read_within(info.src_addr, info.src_addrlen) })?;
        let mut provider = provider();
        if provider.state.objects.eps.is_full() {
            return Err(errno::EMFILE);
        }
        let id = provider.state.objects.eps.insert(Endpoint::new(domain.id, directed));
        if let Err(e) = provider.state.publish(id, name) {
            provider.close_endpoint(id);
            return Err(e);
        }
        drop(provider);
        let fid = Fid { fclass: CLASS_EP, context, ops: &EP_FI };
        let fid = FidEp {
            fid,
            ops: &EP_OPS,
            cm: &CM_OPS,
            msg: &super::msg::OPS,
            rma: &super::rma::OPS,
            tagged: &super::tagged::OPS,
            atomic: &super::atomic::OPS,
            collective: std::ptr::null_mut(),
        };
        let (tx_flags, rx_flags) = (AtomicU64::new(tx_flags), AtomicU64::new(rx_flags));
        let (_domain, bound) = (domain.users.clone(), Mutex::default());
        let object = EpObject { fid, id, form, tx_flags, rx_flags, _domain, bound };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(object)).cast() };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn open2(
    domain: *mut FidDomain,
    info: *mut Info,
    out: *mut *mut FidEp,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -errno::EBADFLAGS;
    }
    // SAFETY: the caller promises what the callee asks for.
    unsafe { open(domain, info, out, context) }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<EpObject>()) };
        let mut provider = provider();
        let mut kept = provider.close_endpoint(object.id);
        drop(provider);
        crate::process::wait_for(None, |provider| (!provider.keeps(&mut kept)).then_some(()));
        crate::process::settle(&mut crate::process::provider());
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, class) = unsafe { (EpObject::of(fid.cast()), (*other).fclass) };
        let mut provider = provider();
        let ep = provider.state.objects.eps.get_mut(object.id).ok_or(errno::EINVAL)?;
        let users = match class {
            CLASS_CQ => {
                // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
                let cq = unsafe { super::cq::CqObject::of(other.cast()) };
                let binding = Some(Binding { queue: cq.id, selective: flags & SELECTIVE_COMPLETION != 0 });
                if flags & (SEND | RECV) == 0 {
                    return Err(errno::EBADFLAGS);
                }
                if flags & SEND != 0 {
                    ep.tx = binding;
                }
                if flags & RECV != 0 {
                    ep.rx = binding;
                }
                cq.users.clone()
            }
            CLASS_AV => {
                // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
                let av = unsafe { super::av::AvObject::of(other.cast()) };
                ep.av = Some(av.id);
                av.users.clone()
            }
            CLASS_CNTR => {
                // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
                let counter = unsafe { super::cntr::CntrObject::of(other.cast()) };
                for (_, side) in Side::ALL.into_iter().filter(|(flag, _)| flags & flag != 0) {
                    ep.counters[side as usize] = Some(counter.id);
                }
                counter.users.clone()
            }
            // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
            CLASS_EQ => unsafe { &*other.cast::<super::eq::EqObject>() }.users.clone(),
            CLASS_MR => return Ok(()),
            _ => return Err(errno::EINVAL),
        };
        object.bound.lock().unwrap_or_else(|e| e.into_inner()).push(users);
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { EpObject::of(fid.cast()) };
        match command {
            CONTROL_ENABLE => {
                let mut provider = provider();
                let ep = provider.state.objects.eps.get_mut(object.id).ok_or(errno::EINVAL)?;
                if ep.av.is_none() {
                    return Err(errno::ENOAV);
                }
                if ep.tx.is_none() && ep.rx.is_none() && ep.counters.iter().all(Option::is_none) {
                    return Err(errno::ENOCQ);
                }
                provider.enable(object.id);
            }
            CONTROL_GETOPSFLAG | CONTROL_SETOPSFLAG => {
                // SAFETY: libfabric's contract: a number of flags, of which one says for which side.
                let flags = unsafe { &mut *arg.cast::<u64>() };
                let side = if *flags & SEND != 0 { &object.tx_flags } else { &object.rx_flags };
                if *flags & (SEND | RECV) == 0 {
                    return Err(errno::EINVAL);
                }
                if command == CONTROL_GETOPSFLAG {
                    *flags = side.load(Ordering::Relaxed);
                } else {
                    side.store(*flags & !(SEND | RECV), Ordering::Relaxed);
                }
            }
            _ => return Err(errno::ENOSYS),
        }
        Ok(())
    })
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    guard(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let id = unsafe { EpObject::of(fid.cast()) }.id;
        provider().cancel(id, context as usize).map(|()| 0)
    })
}

unsafe extern "C" fn getopt(fid: *mut Fid, level: c_int, name: c_int, value: *mut c_void, len: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (id, room) = unsafe { (EpObject::of(fid.cast()).id, *len) };
        let answer = match (level, name) {
            (OPT_ENDPOINT, OPT_MIN_MULTI_RECV) => provider().state.objects.eps.get(id).ok_or(errno::EINVAL)?.min_multi,
            (OPT_ENDPOINT, OPT_CM_DATA_SIZE) => 0,
            _ => return Err(errno::ENOPROTOOPT),
        };
        if room < size_of::<usize>() {
            return Err(errno::ETOOSMALL);
        }
        // SAFETY: as many bytes as `len` says.
        unsafe {
            value.cast::<usize>().write_unaligned(answer);
            *len = size_of::<usize>();
        }
        Ok(())
    })
}

unsafe extern "C" fn setopt(fid: *mut Fid, level: c_int, name: c_int, value: *const c_void, len: usize) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let id = unsafe { EpObject::of(fid.cast()) }.id;
        if (level, name) != (OPT_ENDPOINT, OPT_MIN_MULTI_RECV) {
            return Err(errno::ENOPROTOOPT);
        }
        if len != size_of::<usize>() {
            return Err(errno::EINVAL);
        }
        // SAFETY: as many bytes as `len` says.
        let value = unsafe { value.cast::<usize>().read_unaligned() };
        provider().state.objects.eps.get_mut(id).ok_or(errno::EINVAL)?.min_multi = value;
        Ok(())
    })
}

/// The name that an endpoint is to have.
fn own_name(address: Option<Outcome<Address>>) -> Outcome<Name> {
    match address.transpose()? {
        None => Ok(Name::ANY),
        Some(Address::Name(name)) => Ok(name),
        // Where an endpoint is, is not for the program to choose.
        Some(Address::Endpoint { .. }) => Err(errno::EADDRNOTAVAIL),
    }
}

/// One more name; the address of the endpoint stays.
unsafe extern "C" fn setname(fid: *mut Fid, name: *mut c_void, len: usize) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass valid buffers: as many bytes as `len` says.
        let (object, address) = unsafe {
            let object = EpObject::of(fid.cast());
            (object, object.form.read_within(name, len))
        };
        provider().state.publish(object.id, own_name(address)?)
    })
}

unsafe extern "C" fn getname(fid: *mut Fid, out: *mut c_void, len: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { EpObject::of(fid.cast()) };
        let provider = provider();
        let angara::mailbox::Peer { seat, generation } = provider.state.here.me;
        let address = Address::Endpoint { job: provider.state.here.job_name, seat, generation, ep: object.id };
        // SAFETY: as many bytes as `len` says.
        unsafe { object.form.give(address, out, len) }
    })
}
