//! Atomics on memory of a peer.

use super::parents::EpObject;
use super::*;
use crate::ATOMIC_MAX;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::{AtomicAttr, MsgAtomic};
use crate::atomics::{self, Shape};
use crate::process::provider;
use crate::provider::{Access, AtomicCall};

type Ep = *mut FidEp;
type Src = *const c_void;
type Ptr = *mut c_void;
type Desc = *mut *mut c_void;
type CIoc = *const Ioc;

pub(super) static OPS: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// Datatype and operation of a call.
#[derive(Clone, Copy)]
struct What {
    datatype: i32,
    op: i32,
}

impl What {
    fn size(self) -> Outcome<usize> {
        atomics::size(self.datatype).ok_or(errno::EOPNOTSUPP)
    }
    /// Memory of `count` elements.
    ///
    /// # Safety
    /// See the module.
    unsafe fn memory(self, buf: Src, count: usize) -> Outcome<UserMemory> {
        // SAFETY: the caller promises what the callee asks for.
        Ok(unsafe { UserMemory::new(buf.cast_mut().cast(), count.saturating_mul(self.size()?)) })
    }
    /// # Safety
    /// See the module.
    unsafe fn pieces(self, ioc: CIoc, count: usize) -> Outcome<UserMemory> {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { elements(ioc, count, self.size()?) }
    }
}

/// Arguments of a call beside its flags.
struct Parts {
    access: Access,
    compare: UserMemory,
    result: Option<UserMemory>,
}

/// # Safety
/// See the module.
unsafe fn call(ep: Ep, flags: Option<u64>, what: What, make: impl FnOnce() -> Outcome<Parts>) -> isize {
    guard(|| {
        // SAFETY: the caller promises what the callee asks for.
        let object = unsafe { EpObject::of(ep) };
        let Parts { mut access, compare, result } = make()?;
        access.flags |= flags.unwrap_or_else(|| object.tx_flags());
        let What { datatype, op } = what;
        provider().atomic(object.id, AtomicCall { access, datatype, op, compare, result }).map(|()| 0)
    })
}

/// An atomic on one piece of remote memory.
fn single(len: usize, memory: UserMemory, to: u64, (addr, key): (u64, u64), context: Ptr) -> Parts {
    let remotes = vec![Remote { addr, len: len as u64, key }];
    let access = Access { memory, to, remotes, data: None, context: context as usize, flags: 0, silent: false };
    Parts { access, compare: UserMemory::nothing(), result: None }
}

/// # Safety
/// See the module.
unsafe fn message(msg: *const MsgAtomic, flags: u64) -> Outcome<(What, Access)> {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        let msg = &*msg;
        let what = What { datatype: msg.datatype, op: msg.op };
        // A read has no operand, whatever its vector says.
        let reads = atomics::shape(msg.op) == Some(Shape::Read);
        let memory = if reads { UserMemory::nothing() } else { what.pieces(msg.msg_iov, msg.iov_count)? };
        let remotes = remotes(msg.rma_iov, msg.rma_iov_count, what.size()?)?;
        let data = (flags & REMOTE_CQ_DATA != 0).then_some(msg.data);
        let context = msg.context as usize;
        Ok((what, Access { memory, to: msg.addr, remotes, data, context, flags: 0, silent: false }))
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn write(
    ep: Ep, buf: Src, count: usize, _: Ptr, to: u64, addr: u64, key: u64, datatype: c_int, op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let memory = what.memory(buf, count)?;
            Ok(single(memory.len(), memory, to, (addr, key), context))
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn writev(
    ep: Ep, ioc: CIoc, _: Desc, count: usize, to: u64, addr: u64, key: u64, datatype: c_int, op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let memory = what.pieces(ioc, count)?;
            Ok(single(memory.len(), memory, to, (addr, key), context))
        })
    }
}

unsafe extern "C" fn writemsg(ep: Ep, msg: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        guard(|| {
            let (what, access) = message(msg, flags)?;
            let parts = Parts { access, compare: UserMemory::nothing(), result: None };
            Ok(call(ep, Some(flags), what, || Ok(parts)))
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn inject(
    ep: Ep, buf: Src, count: usize, to: u64, addr: u64, key: u64, datatype: c_int, op: c_int,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, Some(INJECT), what, || {
            let memory = what.memory(buf, count)?;
            let mut parts = single(memory.len(), memory, to, (addr, key), std::ptr::null_mut());
            parts.access.silent = true;
            Ok(parts)
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn readwrite(
    ep: Ep, buf: Src, count: usize, _: Ptr, result: Ptr, _: Ptr, to: u64, addr: u64, key: u64, datatype: c_int,
    op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let (memory, result) = (what.memory(buf, count)?, what.memory(result, count)?);
            Ok(Parts { result: Some(result), ..single(memory.len(), memory, to, (addr, key), context) })
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn readwritev(
    ep: Ep, ioc: CIoc, _: Desc, count: usize, results: CIoc, _: Desc, result_count: usize, to: u64, addr: u64,
    key: u64, datatype: c_int, op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let result = what.pieces(results, result_count)?;
            let reads = atomics::shape(op) == Some(Shape::Read);
            let memory = if reads { UserMemory::nothing() } else { what.pieces(ioc, count)? };
            let len = result.len();
            Ok(Parts { result: Some(result), ..single(len, memory, to, (addr, key), context) })
        })
    }
}

#[rustfmt::skip]
unsafe extern "C" fn readwritemsg(
    ep: Ep, msg: *const MsgAtomic, results: CIoc, _: Desc, count: usize, flags: u64,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        guard(|| {
            let (what, access) = message(msg, flags)?;
            let result = Some(what.pieces(results, count)?);
            Ok(call(ep, Some(flags), what, || Ok(Parts { access, compare: UserMemory::nothing(), result })))
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn compwrite(
    ep: Ep, buf: Src, count: usize, _: Ptr, compare: Src, _: Ptr, result: Ptr, _: Ptr, to: u64, addr: u64, key: u64,
    datatype: c_int, op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let (memory, result) = (what.memory(buf, count)?, what.memory(result, count)?);
            let compare = what.memory(compare, count)?;
            Ok(Parts { compare, result: Some(result), ..single(memory.len(), memory, to, (addr, key), context) })
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn compwritev(
    ep: Ep, ioc: CIoc, _: Desc, count: usize, compares: CIoc, _: Desc, compare_count: usize, results: CIoc, _: Desc,
    result_count: usize, to: u64, addr: u64, key: u64, datatype: c_int, op: c_int, context: Ptr,
) -> isize {
    let what = What { datatype, op };
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        call(ep, None, what, || {
            let (memory, result) = (what.pieces(ioc, count)?, what.pieces(results, result_count)?);
            let compare = what.pieces(compares, compare_count)?;
            Ok(Parts { compare, result: Some(result), ..single(memory.len(), memory, to, (addr, key), context) })
        })
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "libfabric's")]
unsafe extern "C" fn compwritemsg(
    ep: Ep, msg: *const MsgAtomic, compares: CIoc, _: Desc, compare_count: usize, results: CIoc, _: Desc,
    result_count: usize, flags: u64,
) -> isize {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe {
        guard(|| {
            let (what, access) = message(msg, flags)?;
            let compare = what.pieces(compares, compare_count)?;
            let result = Some(what.pieces(results, result_count)?);
            Ok(call(ep, Some(flags), what, || Ok(Parts { access, compare, result })))
        })
    }
}

/// How many elements at once, if the operation is defined on the datatype and has one of these shapes.
fn most(datatype: i32, op: i32, shapes: &[Shape]) -> Outcome<usize> {
    let fits = atomics::shape(op).is_some_and(|shape| shapes.contains(&shape)) && atomics::is_defined(datatype, op);
    let size = atomics::size(datatype).filter(|_| fits).ok_or(errno::EOPNOTSUPP)?;
    Ok(ATOMIC_MAX / size)
}

/// # Safety
/// See the module.
unsafe fn valid(datatype: i32, op: i32, shapes: &[Shape], count: *mut usize) -> c_int {
    guarded(|| {
        let most = most(datatype, op, shapes)?;
        if count.is_null() {
            return Err(errno::EINVAL);
        }
        // SAFETY: the caller promises what the callee asks for.
        unsafe { *count = most };
        Ok(())
    })
}

unsafe extern "C" fn writevalid(_: Ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { valid(datatype, op, &[Shape::Update], count) }
}

unsafe extern "C" fn readwritevalid(_: Ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { valid(datatype, op, &[Shape::Update, Shape::Read], count) }
}

unsafe extern "C" fn compwritevalid(_: Ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: libfabric has callers pass open objects and valid buffers.
    unsafe { valid(datatype, op, &[Shape::Compare], count) }
}

pub(super) unsafe extern "C" fn query(
    _: *mut FidDomain,
    datatype: c_int,
    op: c_int,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    guarded(|| {
        let shapes: &[Shape] = match flags {
            0 => &[Shape::Update],
            FETCH_ATOMIC => &[Shape::Update, Shape::Read],
            COMPARE_ATOMIC => &[Shape::Compare],
            _ => return Err(errno::EBADFLAGS),
        };
        let count = most(datatype, op, shapes)?;
        let size = atomics::size(datatype).ok_or(errno::EOPNOTSUPP)?;
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { (*attr).count = count };
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { (*attr).size = size };
        Ok(())
    })
}
