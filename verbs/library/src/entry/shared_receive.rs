//! Shared receive queues.

use super::events::{self, Subject};
use super::guard::{code, pointer};
use super::objects::{SrqObject, SrqOwn, context, pd, srq};
use super::requests::{each, receive_request};
use crate::abi::constants::*;
use crate::abi::structs::*;
use angara_hca::{Errno, Result, SrqAttributes};
use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int, c_void};

/// # Safety
/// See [`crate::entry`].
unsafe fn create(of: *mut ibv_pd, user: *mut c_void, sizes: *mut ibv_srq_attr) -> Result<*mut ibv_srq> {
    // SAFETY: see the module.
    let (own, context_at, asked) = unsafe { (pd(of), (*of).context, *sizes) };
    let adapter = own.adapter;
    // A limit is set later: what is here does not count.
    let attributes = SrqAttributes { wr: asked.max_wr, sge: asked.max_sge, limit: 0 };
    let (id, made) = adapter.with(|hca| {
        let id = hca.create_srq(own.id, attributes)?;
        Ok::<_, Errno>((id, hca.query_srq(id).unwrap_or(attributes)))
    })?;
    let base = ibv_srq {
        context: context_at,
        srq_context: user,
        pd: of,
        handle: id.0,
        mutex: PTHREAD_MUTEX_INITIALIZER,
        cond: PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let object = Box::into_raw(Box::<SrqObject>::new_uninit()).cast::<SrqObject>();
    // SAFETY: see the module.
    let queue = unsafe { &context(context_at).events };
    let events = events::register(adapter, Subject::Srq(id), object.expose_provenance(), queue);
    // SAFETY: there is room for it; see the module.
    unsafe {
        object.write(SrqObject { srq: base, own: SrqOwn { adapter, id, events } });
        ((*sizes).max_wr, (*sizes).max_sge) = (made.wr, made.sge);
    }
    Ok(object.cast())
}

/// `ibv_create_srq`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_srq(of: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: see the module.
    pointer(|| unsafe { create(of, (*attr).srq_context, &raw mut (*attr).attr) })
}

/// `create_srq_ex` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn create_srq_ex(_: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: see the module.
        unsafe {
            let mask = (*attr).comp_mask;
            let is_basic = mask & SRQ_MASK_TYPE == 0 || (*attr).srq_type == SRQ_TYPE_BASIC;
            if !is_basic || mask & !(SRQ_MASK_TYPE | SRQ_MASK_PD) != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            if mask & SRQ_MASK_PD == 0 || (*attr).pd.is_null() {
                return Err(Errno::INVAL);
            }
            create((*attr).pd, (*attr).srq_context, &raw mut (*attr).attr)
        }
    })
}

/// `get_srq_num` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn get_srq_num(of: *mut ibv_srq, to: *mut u32) -> c_int {
    // SAFETY: see the module.
    unsafe { *to = (*of).handle };
    0
}

/// `ibv_modify_srq`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn modify_srq(of: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    code(|| {
        if mask & !(SRQ_MAX_WR | SRQ_LIMIT) != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: see the module.
        let (own, to) = unsafe { (srq(of), *attr) };
        let wr = (mask & SRQ_MAX_WR != 0).then_some(to.max_wr);
        let limit = (mask & SRQ_LIMIT != 0).then_some(to.srq_limit);
        own.adapter.with(|hca| hca.modify_srq(own.id, wr, limit))
    })
}

/// `ibv_query_srq`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_srq(of: *mut ibv_srq, to: *mut ibv_srq_attr) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { srq(of) };
        let now = own.adapter.with(|hca| hca.query_srq(own.id))?;
        // SAFETY: see the module.
        unsafe { *to = ibv_srq_attr { max_wr: now.wr, max_sge: now.sge, srq_limit: now.limit } };
        Ok(())
    })
}

/// `ibv_destroy_srq`, which waits until its events are acknowledged.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn destroy_srq(of: *mut ibv_srq) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { srq(of) };
        own.adapter.with(|hca| hca.destroy_srq(own.id))?;
        events::unregister(own.adapter, Subject::Srq(own.id));
        // SAFETY: made by `create`, and destroyed once.
        drop(unsafe { Box::from_raw(of.cast::<SrqObject>()) });
        Ok(())
    })
}

/// `post_srq_recv` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn post_srq_recv(
    of: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { srq(of) };
        own.adapter.with(|hca| {
            // SAFETY: see the module.
            let post = |wr: &ibv_recv_wr| hca.post_srq_receive(own.id, unsafe { receive_request(wr) }?);
            // SAFETY: see the module.
            unsafe { each(first, bad, |wr| wr.next, post) }
        })
    })
}
