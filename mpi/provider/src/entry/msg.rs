//! Messages without tags.

use super::parents::EpObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::Msg;
use crate::process::provider;
use crate::provider::{Receive, SendCall};

type Ep = *mut FidEp;
type Src = *const c_void;
type Ptr = *mut c_void;
type Desc = *mut *mut c_void;

pub(super) static OPS: OpsMsg =
    OpsMsg { size: size_of::<OpsMsg>(), recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata };

/// # Safety
/// See the module.
#[inline(always)]
pub(super) unsafe fn send_it(ep: Ep, flags: Option<u64>, make: impl FnOnce() -> Outcome<SendCall>) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { EpObject::of(ep) };
        let mut call = make()?;
        call.flags |= flags.unwrap_or_else(|| object.tx_flags());
        if call.flags & INJECT != 0 && call.memory.len() > crate::INJECT_MAX {
            return Err(errno::EMSGSIZE);
        }
        provider().send(object.id, call).map(|()| 0)
    })
}

/// # Safety
/// See the module.
#[inline(always)]
pub(super) unsafe fn receive_it(ep: Ep, flags: Option<u64>, make: impl FnOnce() -> Outcome<Receive>) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { EpObject::of(ep) };
        let mut call = make()?;
        call.flags |= flags.unwrap_or_else(|| object.rx_flags());
        provider().receive(object.id, call).map(|()| 0)
    })
}

/// A message of one piece.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(super) unsafe fn plain(buf: Src, len: usize, to: u64, context: Ptr) -> SendCall {
    // SAFETY: passed on. It is only read.
    let memory = unsafe { UserMemory::new(buf.cast_mut().cast(), len) };
    SendCall { memory, to, tag: None, data: None, context: context as usize, flags: 0, silent: false }
}

unsafe extern "C" fn recv(ep: Ep, buf: Ptr, len: usize, _: Ptr, from: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, None, || {
            let memory = UserMemory::new(buf.cast(), len);
            Ok(Receive { memory, from, tagged: None, context: context as usize, flags: 0 })
        })
    }
}

unsafe extern "C" fn recvv(ep: Ep, iov: *const iovec, _: Desc, count: usize, from: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, None, || {
            let memory = pieces(iov, count)?;
            Ok(Receive { memory, from, tagged: None, context: context as usize, flags: 0 })
        })
    }
}

unsafe extern "C" fn recvmsg(ep: Ep, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, Some(flags), || {
            let msg = &*msg;
            let memory = pieces(msg.msg_iov, msg.iov_count)?;
            Ok(Receive { memory, from: msg.addr, tagged: None, context: msg.context as usize, flags: 0 })
        })
    }
}

unsafe extern "C" fn send(ep: Ep, buf: Src, len: usize, _: Ptr, to: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { send_it(ep, None, || Ok(plain(buf, len, to, context))) }
}

unsafe extern "C" fn sendv(ep: Ep, iov: *const iovec, _: Desc, count: usize, to: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, None, || Ok(SendCall { memory: pieces(iov, count)?, ..plain(std::ptr::null(), 0, to, context) }))
    }
}

unsafe extern "C" fn sendmsg(ep: Ep, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, Some(flags), || {
            let msg = &*msg;
            let memory = pieces(msg.msg_iov, msg.iov_count)?;
            let data = (flags & REMOTE_CQ_DATA != 0).then_some(msg.data);
            Ok(SendCall { memory, data, ..plain(std::ptr::null(), 0, msg.addr, msg.context) })
        })
    }
}

unsafe extern "C" fn inject(ep: Ep, buf: Src, len: usize, to: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { send_it(ep, Some(INJECT), || Ok(SendCall { silent: true, ..plain(buf, len, to, std::ptr::null_mut()) })) }
}

unsafe extern "C" fn senddata(ep: Ep, buf: Src, len: usize, _: Ptr, data: u64, to: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { send_it(ep, None, || Ok(SendCall { data: Some(data), ..plain(buf, len, to, context) })) }
}

unsafe extern "C" fn injectdata(ep: Ep, buf: Src, len: usize, data: u64, to: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, Some(INJECT), || {
            Ok(SendCall { data: Some(data), silent: true, ..plain(buf, len, to, std::ptr::null_mut()) })
        })
    }
}
