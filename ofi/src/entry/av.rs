//! Address vectors.

use super::*;
use crate::ADDRESS_BYTES;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::core::objects::{Addresses, Target};
use crate::info::Address;
use crate::process::core;
use angara::mailbox::Peer;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The insertion says of each address whether it is one.
const SYNC_ERR: u64 = 1 << 58;
const AV_COMPLETE: u32 = 5;

#[repr(C)]
pub(super) struct AvObject {
    fid: FidAv,
    pub(super) id: u32,
    /// Where completed insertions are told, if the program asked for that.
    eq: AtomicPtr<super::eq::EqObject>,
    tells: bool,
}

impl AvObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidAv) -> &'a AvObject {
        // SAFETY: passed on.
        unsafe { &*fid.cast::<AvObject>() }
    }
}

static AV_FI: FiOps = fi_ops(close, bind, no_control);
static AV_OPS: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc: absent,
    insertsym: absent,
    remove,
    lookup,
    straddr,
    av_set: absent,
};

pub(super) unsafe extern "C" fn open(
    _domain: *mut FidDomain,
    attr: *mut AvAttr,
    out: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: see the module.
        let attr = unsafe { attr.as_ref() };
        // A name would share the vector between processes.
        if attr.is_some_and(|attr| !attr.name.is_null()) {
            return Err(errno::ENOSYS);
        }
        if let Some(attr) = attr.filter(|attr| !matches!(attr.kind, 0 | AV_MAP | AV_TABLE)) {
            crate::log::info(&format!("address vectors of type {} are not offered", attr.kind));
            return Err(errno::EINVAL);
        }
        let id = core().state.avs.insert(Addresses::default());
        let fid = FidAv { fid: Fid { fclass: CLASS_AV, context, ops: &AV_FI }, ops: &AV_OPS };
        let tells = attr.is_some_and(|attr| attr.flags & COMPLETION != 0);
        let object = Box::new(AvObject { fid, id, eq: AtomicPtr::default(), tells });
        // SAFETY: see the module.
        unsafe { *out = Box::into_raw(object).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: made by `open`, and closed once.
        let object = unsafe { Box::from_raw(fid.cast::<AvObject>()) };
        core().state.avs.remove(object.id);
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, _: u64) -> c_int {
    guarded(|| {
        // SAFETY: see the module.
        let (object, class) = unsafe { (AvObject::of(fid.cast()), (*other).fclass) };
        if class != CLASS_EQ {
            return Err(errno::EINVAL);
        }
        object.eq.store(other.cast(), Ordering::Release);
        Ok(())
    })
}

/// The address at `p`, if it is one of this job.
///
/// # Safety
/// There are the bytes of an address.
unsafe fn read(p: *const c_void, job: u64) -> Outcome<Address> {
    // SAFETY: passed on.
    let bytes = unsafe { p.cast::<[u8; ADDRESS_BYTES]>().read_unaligned() };
    let address = Address::decode(&bytes).ok_or(errno::EINVAL)?;
    if address.job != job {
        crate::log::warn(&format!("{} is an address of another job", address.text()));
        return Err(errno::EINVAL);
    }
    Ok(address)
}

unsafe extern "C" fn insert(
    av: *mut FidAv,
    addr: *const c_void,
    count: usize,
    out: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let mut good: usize = 0;
    let inserted = guarded(|| {
        // SAFETY: see the module.
        let object = unsafe { AvObject::of(av) };
        let errors = (flags & SYNC_ERR != 0 && !context.is_null()).then_some(context.cast::<c_int>());
        let mut core = core();
        let state = &mut core.state;
        let pes = state.job.n_pes() as u32;
        for i in 0..count {
            // SAFETY: see the module.
            let address = unsafe { read(addr.byte_add(i * ADDRESS_BYTES), state.job_name) };
            let address = address.and_then(|a| if a.seat < pes { Ok(a) } else { Err(errno::EINVAL) });
            let number = address.map(|Address { seat, generation, ep, .. }| {
                let peer = Peer { seat, generation };
                let target = Target { peer, ep, source: state.sources.number(peer, ep) };
                state.avs.get_mut(object.id).map(|av| av.insert(target))
            });
            let (number, error) = match number {
                Ok(Some(number)) => (number, 0),
                Ok(None) => (ADDR_NOTAVAIL, errno::EINVAL),
                Err(e) => (ADDR_NOTAVAIL, e),
            };
            good += usize::from(error == 0);
            // SAFETY: see the module.
            unsafe {
                if !out.is_null() {
                    *out.add(i) = number;
                }
                if let Some(errors) = errors {
                    *errors.add(i) = error;
                }
            }
        }
        Ok(())
    });
    if inserted != 0 {
        return inserted;
    }
    // SAFETY: see the module; an event queue is closed after what is bound to it.
    unsafe {
        let object = AvObject::of(av);
        if let Some(eq) = object.eq.load(Ordering::Acquire).as_ref().filter(|_| object.tells) {
            eq.tell(AV_COMPLETE, EqEntry { fid: av.cast(), context, data: good as u64 });
            return 0;
        }
    }
    good as c_int
}

unsafe extern "C" fn remove(av: *mut FidAv, addresses: *mut u64, count: usize, _flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: see the module.
        let (id, addresses) = unsafe { (AvObject::of(av).id, std::slice::from_raw_parts(addresses, count)) };
        let mut core = core();
        let av = core.state.avs.get_mut(id).ok_or(errno::EINVAL)?;
        let removed = addresses.iter().filter(|address| av.remove(**address)).count();
        if removed == count { Ok(()) } else { Err(errno::EINVAL) }
    })
}

unsafe extern "C" fn lookup(av: *mut FidAv, address: u64, out: *mut c_void, len: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: see the module.
        let id = unsafe { AvObject::of(av) }.id;
        let core = core();
        let target = core.state.avs.get(id).and_then(|av| av.target(address)).ok_or(errno::EINVAL)?;
        let Peer { seat, generation } = target.peer;
        let bytes = Address { job: core.state.job_name, seat, generation, ep: target.ep }.encode();
        // SAFETY: see the module: `out` has as many bytes as `len` says.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len().min(*len));
            *len = bytes.len();
        }
        Ok(())
    })
}

unsafe extern "C" fn straddr(_: *mut FidAv, addr: *const c_void, buf: *mut c_char, len: *mut usize) -> *const c_char {
    // SAFETY: see the module.
    let bytes = unsafe { addr.cast::<[u8; ADDRESS_BYTES]>().read_unaligned() };
    let text = Address::decode(&bytes).map_or_else(|| "not an address of angara".to_owned(), |a| a.text());
    // SAFETY: see the module: `buf` has as many bytes as `len` says.
    unsafe {
        give_text(&text, buf, *len);
        *len = text.len() + 1;
    }
    buf
}
