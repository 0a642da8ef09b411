//! Completion channels and queues.

use super::events::{self, Queue, Subject, count_acked};
use super::guard::{code, count, pointer, value};
use super::objects::{self, ChannelObject, CqObject, CqOwn, channel_queue, channel_users, context, cq, cq_ex};
use super::turn::Turn;
use crate::abi::constants::*;
use crate::abi::structs::*;
use angara_hca::{Completion, Errno, Network, Opcode, Result, limits};
use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int, c_void};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// `ibv_create_comp_channel`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_comp_channel(of: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        let queue = Arc::new(Queue::new()?);
        let channel = ibv_comp_channel { context: of, fd: queue.fd(), refcnt: 0 };
        Ok(objects::give(ChannelObject { channel, queue }))
    })
}

/// `ibv_destroy_comp_channel`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn destroy_comp_channel(of: *mut ibv_comp_channel) -> c_int {
    code(|| {
        // SAFETY: see the module.
        if unsafe { channel_users(of) }.load(Ordering::Acquire) > 0 {
            return Err(Errno::BUSY);
        }
        // SAFETY: made by `create_comp_channel`, and destroyed once.
        drop(unsafe { Box::from_raw(of.cast::<ChannelObject>()) });
        Ok(())
    })
}

/// What a queue is to be.
struct Wanted {
    entries: i64,
    user: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: i64,
    alone: bool,
}

/// # Safety
/// See [`crate::entry`].
unsafe fn create(of: *mut ibv_context, wanted: Wanted) -> Result<*mut CqObject> {
    if wanted.entries < 1 || wanted.entries > i64::from(limits::CQ_ENTRIES) || wanted.vector != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: see the module.
    let (own, channel) = unsafe { (context(of), wanted.channel.as_ref().map(|_| channel_queue(wanted.channel))) };
    let adapter = own.adapter;
    let number = channel.map(|queue| queue.fd() as u64);
    let id = adapter.with(|hca| hca.create_cq(wanted.entries as u32, number))?;
    let base = ibv_cq {
        context: of,
        channel: wanted.channel,
        cq_context: wanted.user,
        handle: id.0,
        cqe: wanted.entries as c_int,
        mutex: PTHREAD_MUTEX_INITIALIZER,
        cond: PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let object = Box::into_raw(Box::<CqObject>::new_uninit()).cast::<CqObject>();
    let element = object.expose_provenance();
    let completions = channel.map(|queue| events::register(adapter, Subject::Completions(id), element, queue));
    let errors = events::register(adapter, Subject::Cq(id), element, &own.events);
    let current = Turn::new(None, wanted.alone);
    // SAFETY: there is room for it.
    unsafe { object.write(CqObject { ex: readers(base), own: CqOwn { adapter, id, completions, errors, current } }) };
    if !wanted.channel.is_null() {
        // SAFETY: see the module.
        unsafe { channel_users(wanted.channel) }.fetch_add(1, Ordering::AcqRel);
    }
    Ok(object)
}

/// `ibv_create_cq`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_cq(
    of: *mut ibv_context,
    entries: c_int,
    user: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let wanted = Wanted { entries: entries.into(), user, channel, vector: vector.into(), alone: true };
    // SAFETY: see the module.
    pointer(|| unsafe { create(of, wanted) }.map(|object| object.cast()))
}

/// `create_cq_ex` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn create_cq_ex(of: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex {
    pointer(|| {
        // SAFETY: see the module.
        let attr = unsafe { &*attr };
        let flags = if attr.comp_mask & CQ_MASK_FLAGS != 0 { attr.flags } else { 0 };
        let is_known = attr.comp_mask & !(CQ_MASK_FLAGS | CQ_MASK_PD) == 0
            && flags & !(CQ_SINGLE_THREADED | CQ_IGNORE_OVERRUN) == 0
            && attr.wc_flags & !wc::KNOWN == 0;
        if !is_known {
            return Err(Errno::OPNOTSUPP);
        }
        let wanted = Wanted {
            entries: attr.cqe.into(),
            user: attr.cq_context,
            channel: attr.channel,
            vector: attr.comp_vector.into(),
            alone: flags & CQ_SINGLE_THREADED != 0,
        };
        // SAFETY: see the module.
        unsafe { create(of, wanted) }.map(|object| object.cast())
    })
}

/// `ibv_resize_cq`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn resize_cq(of: *mut ibv_cq, entries: c_int) -> c_int {
    code(|| {
        let capacity = u32::try_from(entries).ok().filter(|n| (1..=limits::CQ_ENTRIES).contains(n));
        let capacity = capacity.ok_or(Errno::INVAL)?;
        // SAFETY: see the module.
        let own = unsafe { cq(of) };
        own.adapter.with(|hca| hca.resize_cq(own.id, capacity))?;
        // SAFETY: see the module.
        unsafe { (*of).cqe = entries };
        Ok(())
    })
}

/// `ibv_destroy_cq`, which waits until its events are acknowledged.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn destroy_cq(of: *mut ibv_cq) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let (own, channel) = unsafe { (cq(of), (*of).channel) };
        own.adapter.with(|hca| hca.destroy_cq(own.id))?;
        events::unregister(own.adapter, Subject::Completions(own.id));
        events::unregister(own.adapter, Subject::Cq(own.id));
        if !channel.is_null() {
            // SAFETY: it cannot have gone before this queue.
            unsafe { channel_users(channel) }.fetch_sub(1, Ordering::AcqRel);
        }
        // SAFETY: made by `create`, and destroyed once.
        drop(unsafe { Box::from_raw(of.cast::<CqObject>()) });
        Ok(())
    })
}

/// `ibv_get_cq_event`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_cq_event(
    of: *mut ibv_comp_channel,
    to: *mut *mut ibv_cq,
    user: *mut *mut c_void,
) -> c_int {
    count(|| {
        // SAFETY: see the module.
        let queue = unsafe { channel_queue(of) }.clone();
        let cq: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(queue.take()?.element);
        // SAFETY: see the module; a queue with an event that is not acknowledged is not destroyed.
        unsafe {
            *to = cq;
            *user = (*cq).cq_context;
        }
        Ok(0)
    })
}

/// `ibv_ack_cq_events`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn ack_cq_events(of: *mut ibv_cq, events: u32) {
    value((), || {
        // SAFETY: see the module; whoever destroys the queue waits for what follows.
        let own = unsafe {
            count_acked(&raw mut (*of).comp_events_completed, events);
            cq(of)
        };
        if let Some(acks) = own.completions.as_ref() {
            acks.acked(events);
        }
    });
}

thread_local! {
    /// Polls in vain since the last that was not.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
}

/// Polls this many in vain let others run: programs spin, and there may be fewer cores than that.
const PATIENCE: u32 = 32;

impl CqOwn {
    #[inline]
    fn poll(&self, most: usize, take: &mut dyn FnMut(&Completion)) -> Result<usize> {
        let mut one_sided = false;
        let mut take = |completion: &Completion| {
            one_sided |= matches!(
                completion.opcode,
                Opcode::RdmaWrite | Opcode::RdmaRead | Opcode::CompareSwap | Opcode::FetchAdd
            );
            take(completion);
        };
        let taken = self.adapter.poll(|hca| hca.poll(self.id, most, &mut take))?;
        if one_sided {
            self.adapter.has_seen_one_sided();
        }
        let in_vain = if taken > 0 { 0 } else { IN_VAIN.get() + 1 };
        if in_vain == PATIENCE {
            std::thread::yield_now();
        }
        IN_VAIN.set(in_vain % PATIENCE);
        Ok(taken)
    }
}

fn wc(of: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: of.wr_id,
        status: of.status as u32,
        opcode: of.opcode as u32,
        vendor_err: 0,
        byte_len: of.byte_len,
        imm_data: of.imm,
        qp_num: of.qp,
        src_qp: of.src_qp,
        wc_flags: of.flags,
        pkey_index: 0,
        slid: of.slid,
        sl: of.sl,
        dlid_path_bits: 0,
    }
}

/// `poll_cq` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn poll_cq(of: *mut ibv_cq, most: c_int, to: *mut ibv_wc) -> c_int {
    count(|| {
        let mut at = to;
        let mut take = |completion: &Completion| {
            // SAFETY: there is room for `most`.
            unsafe {
                *at = wc(completion);
                at = at.add(1);
            }
        };
        let most = usize::try_from(most).map_err(|_| Errno::INVAL)?;
        // SAFETY: see the module.
        unsafe { cq(of) }.poll(most, &mut take).map(|taken| taken as c_int)
    })
}

/// `req_notify_cq` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn req_notify_cq(of: *mut ibv_cq, solicited: c_int) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { cq(of) };
        own.adapter.with(|hca| hca.arm(own.id, solicited != 0))?;
        own.adapter.wake_agent();
        Ok(())
    })
}

/// Stands at the next completion.
///
/// # Safety
/// See [`crate::entry`].
unsafe fn next(of: *mut ibv_cq_ex) -> Result<()> {
    // SAFETY: see the module.
    let own = unsafe { cq_ex(of) };
    let mut found = None;
    own.poll(1, &mut |completion| found = Some(*completion))?;
    let found = found.ok_or(Errno::NOENT)?;
    // SAFETY: see the module.
    unsafe { ((*of).status, (*of).wr_id) = (found.status as u32, found.wr_id) };
    own.current.own(|current| *current = Some(found));
    Ok(())
}

unsafe extern "C" fn start_poll(of: *mut ibv_cq_ex, mask: *const u32) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let (own, mask) = unsafe { (cq_ex(of), mask.as_ref().copied().unwrap_or(0)) };
        if mask != 0 {
            return Err(Errno::INVAL);
        }
        own.current.begin();
        // SAFETY: see the module.
        unsafe { next(of) }.inspect_err(|_| own.current.end())
    })
}

unsafe extern "C" fn next_poll(of: *mut ibv_cq_ex) -> c_int {
    // SAFETY: see the module.
    code(|| unsafe { next(of) })
}

unsafe extern "C" fn end_poll(of: *mut ibv_cq_ex) {
    // SAFETY: see the module.
    value((), || unsafe { cq_ex(of) }.current.end());
}

/// Functions that read something of the completion at which a queue stands.
macro_rules! reads {
    ($($name:ident: $kind:ty = |$of:ident| $what:expr;)*) => {
        $(
            unsafe extern "C" fn $name(of: *mut ibv_cq_ex) -> $kind {
                // SAFETY: see the module.
                value(0, || unsafe { cq_ex(of) }.current.own(|current| current.as_ref().map_or(0, |$of| $what)))
            }
        )*
    };
}

reads! {
    read_opcode: u32 = |of| of.opcode as u32;
    read_vendor_err: u32 = |_of| 0;
    read_byte_len: u32 = |of| of.byte_len;
    read_imm_data: u32 = |of| of.imm;
    read_qp_num: u32 = |of| of.qp;
    read_src_qp: u32 = |of| of.src_qp;
    read_wc_flags: u32 = |of| of.flags;
    read_slid: u32 = |of| u32::from(of.slid);
    read_sl: u8 = |of| of.sl;
    read_dlid_path_bits: u8 = |_of| 0;
    read_completion_ts: u64 = |of| of.at;
}

/// The time of day at which a completion was made.
unsafe extern "C" fn read_wallclock(of: *mut ibv_cq_ex) -> u64 {
    value(0, || {
        // SAFETY: see the module.
        let own = unsafe { cq_ex(of) };
        let at = own.current.own(|current| current.map_or(0, |current| current.at));
        let ago = own.adapter.with(|hca| hca.network().now()).saturating_sub(at);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        now.saturating_sub(ago)
    })
}

/// Every queue has all functions: it costs nothing.
fn readers(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: None,
        read_flow_tag: None,
        read_tm_info: 0,
        read_completion_wallclock_ns: Some(read_wallclock),
    }
}
