//! Opened devices and their asynchronous events.

use super::events::{self, Queue, count_acked};
use super::guard::{code, count, pointer, value};
use super::objects::{ContextObject, ContextOwn, context, context_object, device};
use super::{completion, memory, objects, pair, port, refused, shared_receive, work};
use crate::abi::constants::{ABI_IS_EXTENDED, VALUES_RAW_CLOCK, event};
use crate::abi::structs::*;
use angara_hca::{Errno, Network};
use libc::{PTHREAD_MUTEX_INITIALIZER, c_int, timespec};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::sync::Arc;

/// The functions that `verbs.h` calls by itself.
fn ops() -> ibv_context_ops {
    ibv_context_ops {
        _compat_query_device: Some(port::query_device),
        _compat_query_port: Some(port::query_port),
        _compat_pd_mr: [0; 5],
        alloc_mw: Some(refused::alloc_mw),
        bind_mw: 0,
        dealloc_mw: 0,
        _compat_create_cq: 0,
        poll_cq: Some(completion::poll_cq),
        req_notify_cq: Some(completion::req_notify_cq),
        _compat_cq_srq: [0; 7],
        post_srq_recv: Some(shared_receive::post_srq_recv),
        _compat_qp: [0; 4],
        post_send: Some(work::post_send),
        post_recv: Some(work::post_recv),
        _compat_ah: [0; 5],
    }
}

fn table(of: *mut ibv_device, cmd_fd: c_int, async_fd: c_int) -> verbs_context {
    let context = ibv_context {
        device: of,
        ops: ops(),
        cmd_fd,
        async_fd,
        num_comp_vectors: 1,
        mutex: PTHREAD_MUTEX_INITIALIZER,
        abi_compat: ABI_IS_EXTENDED,
    };
    verbs_context {
        query_port: Some(port::query_port_of),
        _memory_counters_flows: [0; 12],
        modify_qp_rate_limit: 0,
        alloc_parent_domain: Some(memory::alloc_parent_domain),
        dealloc_td: Some(memory::dealloc_td),
        alloc_td: Some(memory::alloc_td),
        modify_cq: 0,
        _tags_wq: [0; 6],
        query_rt_values: Some(query_rt_values),
        create_cq_ex: Some(completion::create_cq_ex),
        r#priv: 0,
        query_device_ex: Some(port::query_device_ex),
        _flows: [0; 4],
        open_qp: 0,
        create_qp_ex: Some(pair::create_qp_ex),
        get_srq_num: Some(shared_receive::get_srq_num),
        create_srq_ex: Some(shared_receive::create_srq_ex),
        open_xrcd: 0,
        close_xrcd: 0,
        _abi_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context,
    }
}

/// `ibv_open_device`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn open_device(of: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: see the module.
        let adapter = unsafe { device(of) }.adapter;
        // Programs close it on exec, or look whether it is readable, nothing else.
        let command: OwnedFd = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let events = Arc::new(Queue::new()?);
        events::open(adapter, &events);
        let verbs = table(of, command.as_raw_fd(), events.fd());
        let object: *mut ContextObject =
            objects::give(ContextObject { verbs, own: ContextOwn { adapter, events, _command: command } });
        // SAFETY: the object is there.
        Ok(unsafe { &raw mut (*object).verbs.context })
    })
}

/// `ibv_close_device`. Objects that are still there stay: programs end like this.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn close_device(of: *mut ibv_context) -> c_int {
    code(|| {
        // SAFETY: made by `open_device`, and closed once.
        let object = unsafe { Box::from_raw(context_object(of)) };
        events::close(&object.own.events);
        Ok(())
    })
}

/// `ibv_get_async_event`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_async_event(of: *mut ibv_context, to: *mut ibv_async_event) -> c_int {
    count(|| {
        // SAFETY: see the module.
        let queue = unsafe { context(of) }.events.clone();
        let notice = queue.take()?;
        // SAFETY: see the module.
        unsafe {
            (*to).element = notice.element;
            (*to).event_type = notice.kind;
        }
        Ok(0)
    })
}

/// `ibv_ack_async_event`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn ack_async_event(of: *mut ibv_async_event) {
    value((), || {
        // SAFETY: see the module; an event's element is what its type says, which is not destroyed before this.
        unsafe {
            let element = (*of).element;
            match (*of).event_type {
                event::CQ_ERR => {
                    let cq: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(element);
                    count_acked(&raw mut (*cq).async_events_completed, 1);
                    objects::cq(cq).errors.acked(1);
                }
                event::SRQ_ERR | event::SRQ_LIMIT_REACHED => {
                    let srq: *mut ibv_srq = std::ptr::with_exposed_provenance_mut(element);
                    count_acked(&raw mut (*srq).events_completed, 1);
                    objects::srq(srq).events.acked(1);
                }
                event::QP_LAST_WQE_REACHED | 1..event::DEVICE_FATAL => {
                    let qp: *mut ibv_qp = std::ptr::with_exposed_provenance_mut(element);
                    count_acked(&raw mut (*qp).events_completed, 1);
                    objects::qp(qp).events.acked(1);
                }
                _ => {}
            }
        }
    });
}

/// `query_rt_values` of the context: what completions are stamped with.
///
/// # Safety
/// See [`crate::entry`].
unsafe extern "C" fn query_rt_values(of: *mut ibv_context, to: *mut ibv_values_ex) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let (context, asked) = unsafe { (context(of), (*to).comp_mask) };
        if asked & !VALUES_RAW_CLOCK != 0 {
            return Err(Errno::INVAL);
        }
        let now = context.adapter.with(|hca| hca.network().now());
        let clock =
            timespec { tv_sec: (now / 1_000_000_000) as libc::time_t, tv_nsec: (now % 1_000_000_000) as libc::c_long };
        // SAFETY: see the module.
        unsafe { (*to).raw_clock = clock };
        Ok(())
    })
}

/// `ibv_fork_init`, and others about forks: nothing is pinned, so that parents need nothing.
pub extern "C" fn fork_init() -> c_int {
    0
}

/// `ibv_dontfork_range` and `ibv_dofork_range`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn fork_range(_: *mut libc::c_void, _: usize) -> c_int {
    0
}

/// `ibv_is_fork_initialized`.
pub extern "C" fn is_fork_initialized() -> c_int {
    crate::abi::constants::FORK_UNNEEDED
}
