//! Messages with tags.

use super::msg::{plain, receive_it, send_it};
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::MsgTagged;
use crate::provider::{Receive, SendCall, Tagged};

type Ep = *mut FidEp;
type Src = *const c_void;
type Ptr = *mut c_void;
type Desc = *mut *mut c_void;

pub(super) static OPS: OpsTagged = OpsTagged {
    size: size_of::<OpsTagged>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

#[rustfmt::skip]
unsafe extern "C" fn recv(
    ep: Ep, buf: Ptr, len: usize, _: Ptr, from: u64, tag: u64, ignore: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, None, || {
            let memory = UserMemory::new(buf.cast(), len);
            Ok(Receive { memory, from, tagged: Some(Tagged { tag, ignore }), context: context as usize, flags: 0 })
        })
    }
}

#[rustfmt::skip]
unsafe extern "C" fn recvv(
    ep: Ep, iov: *const iovec, _: Desc, count: usize, from: u64, tag: u64, ignore: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, None, || {
            let memory = pieces(iov, count)?;
            Ok(Receive { memory, from, tagged: Some(Tagged { tag, ignore }), context: context as usize, flags: 0 })
        })
    }
}

unsafe extern "C" fn recvmsg(ep: Ep, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        receive_it(ep, Some(flags), || {
            let msg = &*msg;
            // A look has no buffer.
            let memory =
                if flags & (PEEK | DISCARD) != 0 { UserMemory::nothing() } else { pieces(msg.msg_iov, msg.iov_count)? };
            let tagged = Some(Tagged { tag: msg.tag, ignore: msg.ignore });
            Ok(Receive { memory, from: msg.addr, tagged, context: msg.context as usize, flags: 0 })
        })
    }
}

unsafe extern "C" fn send(ep: Ep, buf: Src, len: usize, _: Ptr, to: u64, tag: u64, context: Ptr) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { send_it(ep, None, || Ok(SendCall { tag: Some(tag), ..plain(buf, len, to, context) })) }
}

#[rustfmt::skip]
unsafe extern "C" fn sendv(
    ep: Ep, iov: *const iovec, _: Desc, count: usize, to: u64, tag: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, None, || {
            Ok(SendCall { memory: pieces(iov, count)?, tag: Some(tag), ..plain(std::ptr::null(), 0, to, context) })
        })
    }
}

unsafe extern "C" fn sendmsg(ep: Ep, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, Some(flags), || {
            let msg = &*msg;
            let memory = pieces(msg.msg_iov, msg.iov_count)?;
            let data = (flags & REMOTE_CQ_DATA != 0).then_some(msg.data);
            Ok(SendCall { memory, data, tag: Some(msg.tag), ..plain(std::ptr::null(), 0, msg.addr, msg.context) })
        })
    }
}

unsafe extern "C" fn inject(ep: Ep, buf: Src, len: usize, to: u64, tag: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, Some(INJECT), || {
            Ok(SendCall { tag: Some(tag), silent: true, ..plain(buf, len, to, std::ptr::null_mut()) })
        })
    }
}

#[rustfmt::skip]
unsafe extern "C" fn senddata(
    ep: Ep, buf: Src, len: usize, _: Ptr, data: u64, to: u64, tag: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { send_it(ep, None, || Ok(SendCall { tag: Some(tag), data: Some(data), ..plain(buf, len, to, context) })) }
}

unsafe extern "C" fn injectdata(ep: Ep, buf: Src, len: usize, data: u64, to: u64, tag: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        send_it(ep, Some(INJECT), || {
            Ok(SendCall { tag: Some(tag), data: Some(data), silent: true, ..plain(buf, len, to, std::ptr::null_mut()) })
        })
    }
}
