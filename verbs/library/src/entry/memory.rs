//! Protection domains and memory regions.

use super::guard::{code, pointer, set_errno};
use super::objects::{self, PdObject, PdOwn, context, pd};
use crate::abi::constants::*;
use crate::abi::structs::*;
use angara_hca::{Errno, RegionChange, Result};
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// `ibv_alloc_pd`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn alloc_pd(of: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: see the module.
        let adapter = unsafe { context(of) }.adapter;
        let id = adapter.with(|hca| hca.alloc_pd())?;
        let own = PdOwn { adapter, id, parent_of: null_mut(), users: AtomicU32::new(0) };
        Ok(objects::give(PdObject { pd: ibv_pd { context: of, handle: id.0 }, own }))
    })
}

/// `ibv_dealloc_pd`, of parent domains, too.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn dealloc_pd(of: *mut ibv_pd) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { pd(of) };
        if own.users.load(Ordering::Acquire) > 0 {
            return Err(Errno::BUSY);
        }
        if own.parent_of.is_null() {
            own.adapter.with(|hca| hca.dealloc_pd(own.id))?;
        } else {
            // SAFETY: it cannot have gone before this one.
            unsafe { pd(own.parent_of) }.users.fetch_sub(1, Ordering::AcqRel);
        }
        // SAFETY: made by `alloc_pd` or `alloc_parent_domain`, and freed once.
        drop(unsafe { Box::from_raw(of.cast::<PdObject>()) });
        Ok(())
    })
}

/// `alloc_parent_domain` of the context: another name of a domain. The program's own allocators would not be asked for
/// anything, so that they are refused.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    of: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: see the module.
        let (base, mask) = unsafe { ((*attr).pd, (*attr).comp_mask) };
        if base.is_null() {
            return Err(Errno::INVAL);
        }
        if mask != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // SAFETY: see the module.
        let base_own = unsafe { pd(base) };
        base_own.users.fetch_add(1, Ordering::AcqRel);
        let own = PdOwn { adapter: base_own.adapter, id: base_own.id, parent_of: base, users: AtomicU32::new(0) };
        Ok(objects::give(PdObject { pd: ibv_pd { context: of, handle: base_own.id.0 }, own }))
    })
}

/// `alloc_td` of the context: a promise of the program's threads, from which nothing follows here.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn alloc_td(of: *mut ibv_context, attr: *mut u32) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: see the module.
        if unsafe { *attr } != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(objects::give(ibv_td { context: of }))
    })
}

/// `dealloc_td` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn dealloc_td(of: *mut ibv_td) -> c_int {
    // SAFETY: made by `alloc_td`, and freed once.
    drop(unsafe { Box::from_raw(of) });
    0
}

/// # Safety
/// See [`crate::entry`].
unsafe fn register(of: *mut ibv_pd, at: *mut c_void, len: usize, iova: u64, access: u32) -> Result<*mut ibv_mr> {
    // SAFETY: see the module.
    let (own, context) = unsafe { (pd(of), (*of).context) };
    let region = own.adapter.register(own.id, at.expose_provenance() as u64, len as u64, iova, access)?;
    let key = region.key;
    Ok(objects::give(ibv_mr { context, pd: of, addr: at, length: len, handle: key, lkey: key, rkey: key }))
}

/// `ibv_reg_mr`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn reg_mr(of: *mut ibv_pd, at: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr {
    // SAFETY: see the module.
    pointer(|| unsafe { register(of, at, len, at.addr() as u64, access as u32) })
}

/// `ibv_reg_mr_iova`, and `ibv_reg_mr_iova2`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn reg_mr_iova(
    of: *mut ibv_pd,
    at: *mut c_void,
    len: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    // SAFETY: see the module.
    pointer(|| unsafe { register(of, at, len, iova, access) })
}

/// `ibv_reg_mr_ex`, of memory that has an address.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn reg_mr_ex(of: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: see the module.
        let attr = unsafe { &*attr };
        if attr.comp_mask & !(REG_IOVA | REG_ADDR) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if attr.comp_mask & REG_ADDR == 0 {
            return Err(Errno::INVAL);
        }
        let iova = if attr.comp_mask & REG_IOVA != 0 { attr.iova } else { attr.addr.addr() as u64 };
        // SAFETY: see the module.
        unsafe { register(of, attr.addr, attr.length, iova, attr.access as u32) }
    })
}

/// `ibv_rereg_mr`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn rereg_mr(
    of: *mut ibv_mr,
    flags: c_int,
    to: *mut ibv_pd,
    at: *mut c_void,
    len: usize,
    access: c_int,
) -> c_int {
    let all = REREG_TRANSLATION | REREG_PD | REREG_ACCESS;
    let has = |flag| flags & flag != 0;
    let bad_range = has(REREG_TRANSLATION) && (at.is_null() || len == 0);
    let bad_access = access != 0 && !has(REREG_ACCESS);
    if flags & !all != 0 || bad_range || bad_access || (has(REREG_PD) && to.is_null()) {
        set_errno(Errno::INVAL);
        return REREG_ERR_INPUT;
    }
    let failed = code(|| {
        // SAFETY: see the module.
        let (key, own) = unsafe { ((*of).lkey, pd((*of).pd)) };
        let change = RegionChange {
            range: has(REREG_TRANSLATION).then(|| (at.expose_provenance() as u64, len as u64)),
            // SAFETY: see the module.
            pd: has(REREG_PD).then(|| unsafe { pd(to) }.id),
            access: has(REREG_ACCESS).then_some(access as u32),
        };
        let region = own.adapter.with(|hca| hca.reregister(key, change))?;
        // SAFETY: see the module.
        unsafe {
            ((*of).lkey, (*of).rkey) = (region.key, region.key);
            if has(REREG_TRANSLATION) {
                ((*of).addr, (*of).length) = (at, len);
            }
            if has(REREG_PD) {
                (*of).pd = to;
            }
        }
        Ok(())
    });
    if failed == 0 {
        return 0;
    }
    set_errno(Errno::from_raw_os_error(failed));
    REREG_ERR_CMD
}

/// `ibv_dereg_mr`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn dereg_mr(of: *mut ibv_mr) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let (key, own) = unsafe { ((*of).lkey, pd((*of).pd)) };
        own.adapter.deregister(key)?;
        // SAFETY: made by `register`, and freed once.
        drop(unsafe { Box::from_raw(of) });
        Ok(())
    })
}
