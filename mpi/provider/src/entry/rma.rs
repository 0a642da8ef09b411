//! Writes to and reads from memory of a peer.

use super::parents::EpObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::MsgRma;
use crate::process::provider;
use crate::provider::Access;

type Ep = *mut FidEp;
type Src = *const c_void;
type Ptr = *mut c_void;
type Desc = *mut *mut c_void;

pub(super) static OPS: OpsRma =
    OpsRma { size: size_of::<OpsRma>(), read, readv, readmsg, write, writev, writemsg, inject, writedata, injectdata };

/// # Safety
/// See the module.
unsafe fn access(ep: Ep, flags: Option<u64>, writes: bool, make: impl FnOnce() -> Outcome<Access>) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { EpObject::of(ep) };
        let mut call = make()?;
        call.flags |= flags.unwrap_or_else(|| object.tx_flags());
        if call.flags & INJECT != 0 && call.memory.len() > crate::INJECT_MAX {
            return Err(errno::EMSGSIZE);
        }
        let mut provider = provider();
        if writes { provider.write(object.id, call) } else { provider.read(object.id, call) }.map(|()| 0)
    })
}

/// An access to one piece of remote memory.
pub(super) fn single(memory: UserMemory, to: u64, (addr, key): (u64, u64), context: Ptr) -> Access {
    let remotes = vec![Remote { addr, len: memory.len() as u64, key }];
    Access { memory, to, remotes, data: None, context: context as usize, flags: 0, silent: false }
}

/// # Safety
/// See the module.
unsafe fn message(msg: *const MsgRma, flags: u64) -> Outcome<Access> {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        let msg = &*msg;
        Ok(Access {
            memory: pieces(msg.msg_iov, msg.iov_count)?,
            to: msg.addr,
            remotes: remotes(msg.rma_iov, msg.rma_iov_count, 1)?,
            data: (flags & REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context as usize,
            flags: 0,
            silent: false,
        })
    }
}

#[rustfmt::skip]
unsafe extern "C" fn read(
    ep: Ep, buf: Ptr, len: usize, _: Ptr, from: u64, addr: u64, key: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { access(ep, None, false, || Ok(single(UserMemory::new(buf.cast(), len), from, (addr, key), context))) }
}

#[rustfmt::skip]
unsafe extern "C" fn readv(
    ep: Ep, iov: *const iovec, _: Desc, count: usize, from: u64, addr: u64, key: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { access(ep, None, false, || Ok(single(pieces(iov, count)?, from, (addr, key), context))) }
}

unsafe extern "C" fn readmsg(ep: Ep, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { access(ep, Some(flags), false, || message(msg, 0)) }
}

#[rustfmt::skip]
unsafe extern "C" fn write(
    ep: Ep, buf: Src, len: usize, _: Ptr, to: u64, addr: u64, key: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        access(ep, None, true, || Ok(single(UserMemory::new(buf.cast_mut().cast(), len), to, (addr, key), context)))
    }
}

#[rustfmt::skip]
unsafe extern "C" fn writev(
    ep: Ep, iov: *const iovec, _: Desc, count: usize, to: u64, addr: u64, key: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { access(ep, None, true, || Ok(single(pieces(iov, count)?, to, (addr, key), context))) }
}

unsafe extern "C" fn writemsg(ep: Ep, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { access(ep, Some(flags), true, || message(msg, flags)) }
}

unsafe extern "C" fn inject(ep: Ep, buf: Src, len: usize, to: u64, addr: u64, key: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        access(ep, Some(INJECT), true, || {
            let memory = UserMemory::new(buf.cast_mut().cast(), len);
            Ok(Access { silent: true, ..single(memory, to, (addr, key), std::ptr::null_mut()) })
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn writedata(
    ep: Ep, buf: Src, len: usize, _: Ptr, data: u64, to: u64, addr: u64, key: u64, context: Ptr,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        access(ep, None, true, || {
            let memory = UserMemory::new(buf.cast_mut().cast(), len);
            Ok(Access { data: Some(data), ..single(memory, to, (addr, key), context) })
        })
    }
}

#[rustfmt::skip]
unsafe extern "C" fn injectdata(
    ep: Ep, buf: Src, len: usize, data: u64, to: u64, addr: u64, key: u64,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        access(ep, Some(INJECT), true, || {
            let memory = UserMemory::new(buf.cast_mut().cast(), len);
            Ok(Access { data: Some(data), silent: true, ..single(memory, to, (addr, key), std::ptr::null_mut()) })
        })
    }
}
