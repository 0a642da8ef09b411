//! Address vectors.

use super::form::Form;
use super::parents::DomainObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::address::{Address, Name};
use crate::process::{provider, wait_for};
use crate::provider::objects::{Addresses, Target};
use angara::mailbox::Peer;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The insertion says of each address whether it is one.
const SYNC_ERR: u64 = 1 << 58;
const AV_COMPLETE: u32 = 5;
/// How long somebody with a name is waited for, and how often it is looked whether it is there.
const NAMED: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

#[repr(C)]
pub(super) struct AvObject {
    fid: FidAv,
    pub(super) id: u32,
    form: Form,
    /// Where completed insertions are told, if the program asked for that.
    eq: OnceLock<(*const super::eq::EqObject, Users)>,
    tells: bool,
    pub(super) users: Users,
    _domain: Users,
}

impl AvObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidAv) -> &'a AvObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<AvObject>() }
    }
}

static AV_FI: FiOps = fi_ops(close, bind, no_control);
static AV_OPS: OpsAv =
    OpsAv { size: size_of::<OpsAv>(), insert, insertsvc, insertsym: absent, remove, lookup, straddr, av_set: absent };

pub(super) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut AvAttr,
    out: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let attr = unsafe { attr.as_ref() };
        // A name would share the vector between processes.
        if attr.is_some_and(|attr| !attr.name.is_null()) {
            return Err(errno::ENOSYS);
        }
        if let Some(attr) = attr.filter(|attr| !matches!(attr.kind, 0 | AV_MAP | AV_TABLE)) {
            crate::log::info(&format!("address vectors of type {} are not offered", attr.kind));
            return Err(errno::EINVAL);
        }
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let domain = unsafe { DomainObject::of(domain) };
        let id = provider().state.objects.avs.insert(Addresses::default());
        let fid = FidAv { fid: Fid { fclass: CLASS_AV, context, ops: &AV_FI }, ops: &AV_OPS };
        let tells = attr.is_some_and(|attr| attr.flags & COMPLETION != 0);
        let (form, eq, users, _domain) = (domain.form, OnceLock::new(), Users::default(), domain.users.clone());
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(Box::new(AvObject { fid, id, form, eq, tells, users, _domain })).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { AvObject::of(fid.cast()) }.users.none()?;
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<AvObject>()) };
        provider().state.objects.avs.remove(object.id);
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, _: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (object, class) = unsafe { (AvObject::of(fid.cast()), (*other).fclass) };
        if class != CLASS_EQ {
            return Err(errno::EINVAL);
        }
        let eq = other.cast_const().cast::<super::eq::EqObject>();
        // SAFETY: libfabric has callers pass open objects; the class says which kind it is.
        let users = unsafe { &*eq }.users.clone();
        object.eq.set((eq, users)).map_err(|_| errno::EINVAL)
    })
}

/// Returns whom an address names. Whoever has a name may still be about to take it: a while.
fn find(address: Address) -> Outcome<(Peer, u32)> {
    match address {
        Address::Endpoint { job, seat, generation, ep } => {
            let provider = provider();
            if job != provider.state.here.job_name {
                crate::log::warn(&format!("{address} is an address of another job"));
                return Err(errno::EINVAL);
            }
            let is_seat = (seat as usize) < provider.state.here.job.n_pes();
            if is_seat { Ok((Peer { seat, generation }, ep)) } else { Err(errno::EINVAL) }
        }
        Address::Name(name) => find_name(name),
    }
}

fn find_name(name: Name) -> Outcome<(Peer, u32)> {
    // Nobody ever takes a name without a service.
    let end = Instant::now() + if name.service == 0 { Duration::ZERO } else { NAMED };
    loop {
        if let Some(found) = provider().state.resolve_name(name) {
            return Ok(found);
        }
        if Instant::now() >= end {
            break;
        }
        if wait_for(Some(AGAIN), |provider| provider.state.broken.is_some().then_some(())).is_some() {
            return Err(errno::EIO);
        }
    }
    crate::log::warn(&format!(
        "{name}: no endpoint of the domain has that name after {} s: start its server, in this domain, first",
        NAMED.as_secs()
    ));
    Err(errno::EADDRNOTAVAIL)
}

/// Inserts addresses. Returns how many were good.
///
/// # Safety
/// See the module.
unsafe fn insert_all(
    av: *mut FidAv,
    all: impl Iterator<Item = Option<Address>>,
    out: *mut u64,
    errors: Option<*mut c_int>,
) -> usize {
    let mut good = 0;
    // SAFETY: the caller promises what the callee asks for.
    let object = unsafe { AvObject::of(av) };
    for (i, address) in all.enumerate() {
        let number = address.ok_or(errno::EINVAL).and_then(find).and_then(|(peer, ep)| {
            let state = &mut provider().state;
            let target = Target { peer, ep, source: state.peers.sources.number(peer, ep) };
            state.objects.avs.get_mut(object.id).map(|av| av.insert(target)).ok_or(errno::EINVAL)
        });
        good += usize::from(number.is_ok());
        // SAFETY: the caller promises what the callee asks for.
        unsafe {
            if !out.is_null() {
                *out.add(i) = number.unwrap_or(ADDR_NOTAVAIL);
            }
            if let Some(errors) = errors {
                *errors.add(i) = number.err().unwrap_or(0);
            }
        }
    }
    good
}

unsafe extern "C" fn insert(
    av: *mut FidAv,
    addr: *const c_void,
    count: usize,
    out: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let errors = (flags & SYNC_ERR != 0 && !context.is_null()).then_some(context.cast::<c_int>());
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe {
            let (form, mut at) = (AvObject::of(av).form, addr);
            let all = (0..count).map(|_| {
                let (address, len) = form.read(at);
                at = at.byte_add(len);
                address
            });
            Ok(tell(av, insert_all(av, all, out, errors), context))
        }
    }) as c_int
}

unsafe extern "C" fn insertsvc(
    av: *mut FidAv,
    node: *const c_char,
    service: *const c_char,
    out: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let errors = (flags & SYNC_ERR != 0 && !context.is_null()).then_some(context.cast::<c_int>());
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe {
            let found = crate::lookup::address(text(node).as_deref(), text(service).as_deref(), false);
            let found = found.inspect_err(|why| crate::log::warn(why)).ok();
            Ok(tell(av, insert_all(av, std::iter::once(found), out, errors), context))
        }
    }) as c_int
}

/// Returns what an insertion of `good` addresses returns. Where the program asked for that, its event queue is told
/// instead.
///
/// # Safety
/// See the module.
unsafe fn tell(av: *mut FidAv, good: usize, context: *mut c_void) -> isize {
    // SAFETY: the caller promises what the callee asks for; an event queue is closed after what is bound to it.
    unsafe {
        let object = AvObject::of(av);
        if let Some((eq, _)) = object.eq.get().filter(|_| object.tells) {
            (**eq).tell(AV_COMPLETE, EqEntry { fid: av.cast(), context, data: good as u64 });
            return 0;
        }
    }
    good as isize
}

unsafe extern "C" fn remove(av: *mut FidAv, addresses: *mut u64, count: usize, _flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (id, addresses) = unsafe { (AvObject::of(av).id, std::slice::from_raw_parts(addresses, count)) };
        let mut provider = provider();
        let av = provider.state.objects.avs.get_mut(id).ok_or(errno::EINVAL)?;
        let removed = addresses.iter().filter(|address| av.remove(**address)).count();
        if removed == count { Ok(()) } else { Err(errno::EINVAL) }
    })
}

unsafe extern "C" fn lookup(av: *mut FidAv, address: u64, out: *mut c_void, len: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let object = unsafe { AvObject::of(av) };
        let provider = provider();
        let target =
            provider.state.objects.avs.get(object.id).and_then(|av| av.target(address)).ok_or(errno::EINVAL)?;
        let Peer { seat, generation } = target.peer;
        let address = Address::Endpoint { job: provider.state.here.job_name, seat, generation, ep: target.ep };
        // SAFETY: libfabric has callers pass valid buffers: `out` has as many bytes as `len` says. What does not fit
        // is left out.
        match unsafe { object.form.give(address, out, len) } {
            Err(errno::ETOOSMALL) => Ok(()),
            given => given,
        }
    })
}

unsafe extern "C" fn straddr(av: *mut FidAv, addr: *const c_void, buf: *mut c_char, len: *mut usize) -> *const c_char {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    let address = unsafe { AvObject::of(av).form.read(addr).0 };
    let text = address.map_or_else(|| "not an address of angara".to_owned(), |a| a.to_string());
    // SAFETY: libfabric has callers pass valid buffers: `buf` has as many bytes as `len` says.
    unsafe {
        give_text(&text, buf, *len);
        *len = text.len() + 1;
    }
    buf
}
