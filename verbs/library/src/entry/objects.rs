//! What is behind the pointers that programs have: each object begins with its struct of C.

use super::events::{Acks, Queue};
use super::turn::Turn;
use crate::abi::structs::{
    ibv_ah, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_device, ibv_pd, ibv_qp, ibv_qp_ex, ibv_srq,
    verbs_context,
};
use crate::process::Adapter;
use angara_hca::{Completion, Cq, PathAttributes, Pd, Qp, SendRequest, Srq, Transport};
use rustix::fd::OwnedFd;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32};

#[repr(C)]
pub(crate) struct DeviceObject {
    pub(crate) device: ibv_device,
    /// Drivers of adapters look here for what is theirs alone, and find that it is not.
    pub(crate) zeroes: [usize; 64],
    pub(crate) adapter: &'static Adapter,
    pub(crate) index: i32,
}

#[repr(C)]
pub(crate) struct ContextObject {
    pub(crate) verbs: verbs_context,
    pub(crate) own: ContextOwn,
}

pub(crate) struct ContextOwn {
    pub(crate) adapter: &'static Adapter,
    pub(crate) events: Arc<Queue>,
    /// What stands for the device's file.
    pub(crate) _command: OwnedFd,
}

#[repr(C)]
pub(crate) struct PdObject {
    pub(crate) pd: ibv_pd,
    pub(crate) own: PdOwn,
}

pub(crate) struct PdOwn {
    pub(crate) adapter: &'static Adapter,
    pub(crate) id: Pd,
    /// The domain that this one stands for.
    pub(crate) parent_of: *mut ibv_pd,
    /// Objects that only this library knows.
    pub(crate) users: AtomicU32,
}

#[repr(C)]
pub(crate) struct ChannelObject {
    pub(crate) channel: ibv_comp_channel,
    pub(crate) queue: Arc<Queue>,
}

#[repr(C)]
pub(crate) struct CqObject {
    pub(crate) ex: ibv_cq_ex,
    pub(crate) own: CqOwn,
}

pub(crate) struct CqOwn {
    pub(crate) adapter: &'static Adapter,
    pub(crate) id: Cq,
    pub(crate) completions: Option<Arc<Acks>>,
    pub(crate) errors: Arc<Acks>,
    /// The completion that the extended functions read.
    pub(crate) current: Turn<Option<Completion>>,
}

#[repr(C)]
pub(crate) struct SrqObject {
    pub(crate) srq: ibv_srq,
    pub(crate) own: SrqOwn,
}

pub(crate) struct SrqOwn {
    pub(crate) adapter: &'static Adapter,
    pub(crate) id: Srq,
    pub(crate) events: Arc<Acks>,
}

#[repr(C)]
pub(crate) struct QpObject {
    pub(crate) ex: ibv_qp_ex,
    pub(crate) own: QpOwn,
}

pub(crate) struct QpOwn {
    pub(crate) adapter: &'static Adapter,
    pub(crate) id: Qp,
    pub(crate) transport: Transport,
    pub(crate) events: Arc<Acks>,
    /// Requests between `ibv_wr_start` and `ibv_wr_complete`.
    pub(crate) batch: Turn<Batch>,
    pub(crate) is_extended: bool,
}

/// Requests that are being made.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) requests: Vec<SendRequest>,
    /// The first mistake, which the end tells.
    pub(crate) error: Option<angara_hca::Errno>,
}

#[repr(C)]
pub(crate) struct AhObject {
    pub(crate) ah: ibv_ah,
    pub(crate) path: PathAttributes,
}

/// Gives a program a new object.
pub(crate) fn give<O, H>(object: O) -> *mut H {
    Box::into_raw(Box::new(object)).cast()
}

/// Where a context's object begins: the context is inside.
pub(crate) fn context_object(context: *mut ibv_context) -> *mut ContextObject {
    context.wrapping_byte_sub(offset_of!(ContextObject, verbs) + offset_of!(verbs_context, context)).cast()
}

/// A row of functions from a pointer of the program to what is behind it.
macro_rules! behind {
    ($($name:ident: $header:ty => $object:ident, $own:ty;)*) => {
        $(
            /// # Safety
            /// See [`crate::entry`].
            #[inline(always)]
            pub(crate) unsafe fn $name<'a>(object: *mut $header) -> &'a $own {
                // SAFETY: objects begin with what programs have, and live until they are destroyed.
                unsafe { &(*object.cast::<$object>()).own }
            }
        )*
    };
}

behind! {
    pd: ibv_pd => PdObject, PdOwn;
    cq: ibv_cq => CqObject, CqOwn;
    cq_ex: ibv_cq_ex => CqObject, CqOwn;
    srq: ibv_srq => SrqObject, SrqOwn;
    qp: ibv_qp => QpObject, QpOwn;
    qp_ex: ibv_qp_ex => QpObject, QpOwn;
}

/// # Safety
/// See [`crate::entry`].
#[inline(always)]
pub(crate) unsafe fn context<'a>(context: *mut ibv_context) -> &'a ContextOwn {
    // SAFETY: all contexts are made by `ibv_open_device`, inside an object.
    unsafe { &(*context_object(context)).own }
}

/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn device<'a>(device: *mut ibv_device) -> &'a DeviceObject {
    // SAFETY: all devices are at the beginning of an object, for ever.
    unsafe { &*device.cast::<DeviceObject>() }
}

/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn channel_queue<'a>(channel: *mut ibv_comp_channel) -> &'a Arc<Queue> {
    // SAFETY: channels are at the beginning of an object.
    unsafe { &(*channel.cast::<ChannelObject>()).queue }
}

/// How many queues use a channel.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn channel_users<'a>(channel: *mut ibv_comp_channel) -> &'a AtomicI32 {
    // SAFETY: an aligned number, which nobody else changes.
    unsafe { AtomicI32::from_ptr(&raw mut (*channel).refcnt) }
}

/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn path<'a>(ah: *mut ibv_ah) -> &'a PathAttributes {
    // SAFETY: address handles are at the beginning of an object.
    unsafe { &(*ah.cast::<AhObject>()).path }
}
