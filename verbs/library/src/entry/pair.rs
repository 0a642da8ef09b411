//! Queue pairs.

use super::events::{self, Subject};
use super::guard::{code, pointer};
use super::objects::{Batch, QpObject, QpOwn, context, cq, pd, qp, srq};
use super::requests::{ah_attr_of, is_set, path_of, transport_of};
use super::turn::Turn;
use super::work::*;
use crate::abi::constants::*;
use crate::abi::structs::*;
use angara_hca::{Attributes, Caps, Errno, Init, Result, Transport, mask};
use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int, c_void};
use std::ptr::null_mut;

fn caps_of(of: &ibv_qp_cap) -> Caps {
    Caps {
        send_wr: of.max_send_wr,
        recv_wr: of.max_recv_wr,
        send_sge: of.max_send_sge,
        recv_sge: of.max_recv_sge,
        inline_data: of.max_inline_data,
    }
}

fn cap_of(of: &Caps) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: of.send_wr,
        max_recv_wr: of.recv_wr,
        max_send_sge: of.send_sge,
        max_recv_sge: of.recv_sge,
        max_inline_data: of.inline_data,
    }
}

/// # Safety
/// See [`crate::entry`]. `attr` has at least the fields of its type.
unsafe fn create(of: *mut ibv_pd, attr: *mut ibv_qp_init_attr, is_extended: bool) -> Result<*mut ibv_qp> {
    // SAFETY: see the module.
    let (own, context_at, send_cq, recv_cq, srq_at, user, cap, qp_type, signal_all) = unsafe {
        let a = attr;
        let (cap, kind, all) = ((*a).cap, (*a).qp_type, (*a).sq_sig_all);
        (pd(of), (*of).context, (*a).send_cq, (*a).recv_cq, (*a).srq, (*a).qp_context, cap, kind, all)
    };
    let transport = transport_of(qp_type)?;
    if send_cq.is_null() || recv_cq.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: see the module.
    let (send, recv, shared) = unsafe { (cq(send_cq), cq(recv_cq), (!srq_at.is_null()).then(|| srq(srq_at))) };
    let adapter = own.adapter;
    let is_ours = |other| std::ptr::eq(other, adapter);
    if !is_ours(send.adapter) || !is_ours(recv.adapter) || shared.is_some_and(|shared| !is_ours(shared.adapter)) {
        return Err(Errno::INVAL);
    }
    let init = Init {
        pd: own.id,
        transport,
        send_cq: send.id,
        recv_cq: recv.id,
        srq: shared.map(|shared| shared.id),
        signal_all: is_set(signal_all),
        caps: caps_of(&cap),
    };
    let (id, caps) = adapter.with(|hca| {
        let id = hca.create_qp(init)?;
        Ok::<_, Errno>((id, hca.query_qp(id).map_or(init.caps, |(_, init)| init.caps)))
    })?;
    let base = ibv_qp {
        context: context_at,
        qp_context: user,
        pd: of,
        send_cq,
        recv_cq,
        srq: srq_at,
        handle: id.0,
        qp_num: id.0,
        state: 0,
        qp_type,
        mutex: PTHREAD_MUTEX_INITIALIZER,
        cond: PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let object = Box::into_raw(Box::<QpObject>::new_uninit()).cast::<QpObject>();
    // SAFETY: see the module.
    let queue = unsafe { &context(context_at).events };
    let events = events::register(adapter, Subject::Pair(id), object.expose_provenance(), queue);
    let own = QpOwn { adapter, id, transport, events, batch: Turn::new(Batch::default(), false), is_extended };
    // SAFETY: there is room for it; see the module.
    unsafe {
        object.write(QpObject { ex: extended(base), own });
        (*attr).cap = cap_of(&caps);
    }
    Ok(object.cast())
}

/// `ibv_create_qp`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_qp(of: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: see the module.
    pointer(|| unsafe { create(of, attr, false) })
}

/// Operations that a service has.
fn operations(of: Transport) -> u64 {
    let sends = send_ops::SEND | send_ops::SEND_IMM;
    let writes = send_ops::WRITE | send_ops::WRITE_IMM;
    match of {
        Transport::Ud => sends,
        Transport::Uc => sends | writes,
        Transport::Rc => sends | writes | send_ops::READ | send_ops::COMPARE_SWAP | send_ops::FETCH_ADD,
    }
}

/// `create_qp_ex` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn create_qp_ex(_: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: see the module.
        let (comp_mask, of, transport) = unsafe { ((*attr).comp_mask, (*attr).pd, transport_of((*attr).qp_type)?) };
        let has = |bit| comp_mask & bit != 0;
        if comp_mask & !(QP_MASK_PD | QP_MASK_SEND_OPS | QP_MASK_CREATE_FLAGS) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if !has(QP_MASK_PD) || of.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the mask says that they are there.
        let (ops, flags) = unsafe {
            let ops = if has(QP_MASK_SEND_OPS) { (*attr).send_ops_flags } else { 0 };
            (ops, if has(QP_MASK_CREATE_FLAGS) { (*attr).create_flags } else { 0 })
        };
        if flags != 0 || ops & !operations(transport) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // SAFETY: the long struct begins with the fields of the short one.
        unsafe { create(of, attr.cast(), has(QP_MASK_SEND_OPS)) }
    })
}

/// `ibv_qp_to_qp_ex`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn qp_to_qp_ex(of: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: see the module.
    if unsafe { qp(of) }.is_extended { of.cast() } else { null_mut() }
}

/// `ibv_destroy_qp`, which waits until its events are acknowledged.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn destroy_qp(of: *mut ibv_qp) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { qp(of) };
        own.adapter.with(|hca| hca.destroy_qp(own.id))?;
        events::unregister(own.adapter, Subject::Pair(own.id));
        // SAFETY: made by `create`, and destroyed once.
        drop(unsafe { Box::from_raw(of.cast::<QpObject>()) });
        Ok(())
    })
}

fn attributes(of: &ibv_qp_attr) -> Attributes {
    Attributes {
        state: of.qp_state,
        cur_state: of.cur_qp_state,
        path_mtu: of.path_mtu,
        path_mig_state: of.path_mig_state,
        qkey: of.qkey,
        rq_psn: of.rq_psn,
        sq_psn: of.sq_psn,
        dest_qp: of.dest_qp_num,
        access: of.qp_access_flags,
        caps: caps_of(&of.cap),
        path: path_of(&of.ah_attr),
        alt_path: path_of(&of.alt_ah_attr),
        pkey_index: of.pkey_index,
        alt_pkey_index: of.alt_pkey_index,
        sqd_async_notify: of.en_sqd_async_notify != 0,
        sq_draining: of.sq_draining != 0,
        max_rd_atomic: of.max_rd_atomic,
        max_dest_rd_atomic: of.max_dest_rd_atomic,
        min_rnr_timer: of.min_rnr_timer,
        port: of.port_num,
        timeout: of.timeout,
        retry_cnt: of.retry_cnt,
        rnr_retry: of.rnr_retry,
        alt_port: of.alt_port_num,
        alt_timeout: of.alt_timeout,
        rate_limit: of.rate_limit,
    }
}

fn attr_of(of: &Attributes, caps: &Caps) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: of.state,
        cur_qp_state: of.cur_state,
        path_mtu: of.path_mtu,
        path_mig_state: of.path_mig_state,
        qkey: of.qkey,
        rq_psn: of.rq_psn,
        sq_psn: of.sq_psn,
        dest_qp_num: of.dest_qp,
        qp_access_flags: of.access,
        cap: cap_of(caps),
        ah_attr: ah_attr_of(&of.path),
        alt_ah_attr: ah_attr_of(&of.alt_path),
        pkey_index: of.pkey_index,
        alt_pkey_index: of.alt_pkey_index,
        en_sqd_async_notify: of.sqd_async_notify.into(),
        sq_draining: of.sq_draining.into(),
        max_rd_atomic: of.max_rd_atomic,
        max_dest_rd_atomic: of.max_dest_rd_atomic,
        min_rnr_timer: of.min_rnr_timer,
        port_num: of.port,
        timeout: of.timeout,
        retry_cnt: of.retry_cnt,
        rnr_retry: of.rnr_retry,
        alt_port_num: of.alt_port,
        alt_timeout: of.alt_timeout,
        rate_limit: of.rate_limit,
    }
}

/// The attributes that a mask names: programs need not have set the others, nor, in old ones, have room for the last.
///
/// # Safety
/// See [`crate::entry`].
unsafe fn asked(attr: *const ibv_qp_attr, asked: u32) -> Attributes {
    let mut all = ibv_qp_attr::default();
    let len = if asked & mask::RATE_LIMIT != 0 {
        size_of::<ibv_qp_attr>()
    } else {
        std::mem::offset_of!(ibv_qp_attr, rate_limit)
    };
    // SAFETY: programs have at least as many bytes, which are numbers.
    unsafe { std::ptr::copy_nonoverlapping(attr.cast::<u8>(), (&raw mut all).cast::<u8>(), len) };
    attributes(&all)
}

/// `ibv_modify_qp`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn modify_qp(of: *mut ibv_qp, attr: *mut ibv_qp_attr, bits: c_int) -> c_int {
    code(|| {
        let bits = bits as u32;
        // SAFETY: see the module.
        let (own, to) = unsafe { (qp(of), asked(attr, bits)) };
        own.adapter.with(|hca| hca.modify_qp(own.id, bits, &to))?;
        if bits & mask::STATE != 0 {
            // SAFETY: see the module.
            unsafe { (*of).state = to.state };
        }
        Ok(())
    })
}

/// `ibv_query_qp`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_qp(
    of: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    bits: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { qp(of) };
        let (now, made_of) = own.adapter.with(|hca| hca.query_qp(own.id))?;
        // SAFETY: see the module.
        unsafe {
            *attr = attr_of(&now, &made_of.caps);
            // Programs read the field as what they have set or asked for; UCX posts where it is RTS.
            if bits as u32 & mask::STATE != 0 {
                (*of).state = now.state;
            }
            *init = ibv_qp_init_attr {
                qp_context: (*of).qp_context,
                send_cq: (*of).send_cq,
                recv_cq: (*of).recv_cq,
                srq: (*of).srq,
                cap: cap_of(&made_of.caps),
                qp_type: (*of).qp_type,
                sq_sig_all: made_of.signal_all.into(),
            };
        }
        Ok(())
    })
}

/// `ibv_query_ece` and `ibv_set_ece`: `EOPNOTSUPP`, since a connection manager would send on what it is given.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn ece(_: *mut ibv_qp, _: *mut c_void) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_query_qp_data_in_order`: nothing is promised.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_qp_data_in_order(_: *mut ibv_qp, _: u32, _: u32) -> c_int {
    0
}

/// Every pair has all functions; [`qp_to_qp_ex`] says whether a program may know.
fn extended(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: 0,
        wr_local_inv: 0,
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: 0,
        wr_send_tso: 0,
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: 0,
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: 0,
        wr_flush: 0,
    }
}
