//! Tables of functions that objects have. A field of type [`Absent`] is one that this provider does not have: its function
//! answers `-FI_ENOSYS` to any arguments, which the C calling convention lets the caller clean up.

use super::structs::*;
use libc::{c_char, c_int, c_void, iovec, size_t, ssize_t};

type Ep = *mut FidEp;
type Ptr = *mut c_void;
type Src = *const c_void;
type Desc = *mut *mut c_void;
type Iov = *const iovec;
type Text = *const c_char;

pub(crate) type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
pub(crate) type OpenFabric = unsafe extern "C" fn(*const FabricAttr, *mut *mut FidFabric, Ptr) -> c_int;

#[repr(C)]
pub(crate) struct FiProvider {
    pub(crate) version: u32,
    pub(crate) fi_version: u32,
    pub(crate) context: [usize; 4],
    pub(crate) name: *const c_char,
    pub(crate) getinfo: GetInfo,
    pub(crate) fabric: OpenFabric,
    pub(crate) cleanup: unsafe extern "C" fn(),
}

#[repr(C)]
pub(crate) struct FidFabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsFabric,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct OpsFabric {
    pub(crate) size: size_t,
    pub(crate) domain: unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, Ptr) -> c_int,
    pub(crate) passive_ep: Absent,
    pub(crate) eq_open: unsafe extern "C" fn(*mut FidFabric, *mut EqAttr, *mut *mut FidEq, Ptr) -> c_int,
    pub(crate) wait_open: Absent,
    pub(crate) trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
    pub(crate) domain2: unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, u64, Ptr) -> c_int,
}

#[repr(C)]
pub(crate) struct FidDomain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsDomain,
    pub(crate) mr: *const OpsMr,
}

#[repr(C)]
pub(crate) struct OpsDomain {
    pub(crate) size: size_t,
    pub(crate) av_open: unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, Ptr) -> c_int,
    pub(crate) cq_open: unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, Ptr) -> c_int,
    pub(crate) endpoint: unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, Ptr) -> c_int,
    pub(crate) scalable_ep: Absent,
    pub(crate) cntr_open: unsafe extern "C" fn(*mut FidDomain, *mut CntrAttr, *mut *mut FidCntr, Ptr) -> c_int,
    pub(crate) poll_open: unsafe extern "C" fn(*mut FidDomain, Ptr, *mut *mut FidPoll) -> c_int,
    pub(crate) stx_ctx: Absent,
    pub(crate) srx_ctx: Absent,
    pub(crate) query_atomic: unsafe extern "C" fn(*mut FidDomain, c_int, c_int, *mut AtomicAttr, u64) -> c_int,
    pub(crate) query_collective: Absent,
    pub(crate) endpoint2: unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, u64, Ptr) -> c_int,
}

#[repr(C)]
pub(crate) struct OpsMr {
    pub(crate) size: size_t,
    pub(crate) reg: unsafe extern "C" fn(*mut Fid, Src, size_t, u64, u64, u64, u64, *mut *mut FidMr, Ptr) -> c_int,
    pub(crate) regv: unsafe extern "C" fn(*mut Fid, Iov, size_t, u64, u64, u64, u64, *mut *mut FidMr, Ptr) -> c_int,
    pub(crate) regattr: unsafe extern "C" fn(*mut Fid, *const MrAttr, u64, *mut *mut FidMr) -> c_int,
}

#[repr(C)]
pub(crate) struct FidMr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: Ptr,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct FidAv {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsAv,
}

#[repr(C)]
pub(crate) struct OpsAv {
    pub(crate) size: size_t,
    pub(crate) insert: unsafe extern "C" fn(*mut FidAv, Src, size_t, *mut u64, u64, Ptr) -> c_int,
    pub(crate) insertsvc: unsafe extern "C" fn(*mut FidAv, Text, Text, *mut u64, u64, Ptr) -> c_int,
    pub(crate) insertsym: Absent,
    pub(crate) remove: unsafe extern "C" fn(*mut FidAv, *mut u64, size_t, u64) -> c_int,
    pub(crate) lookup: unsafe extern "C" fn(*mut FidAv, u64, Ptr, *mut size_t) -> c_int,
    pub(crate) straddr: unsafe extern "C" fn(*mut FidAv, Src, *mut c_char, *mut size_t) -> *const c_char,
    pub(crate) av_set: Absent,
}

#[repr(C)]
pub(crate) struct FidEq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsEq,
}

#[repr(C)]
pub(crate) struct OpsEq {
    pub(crate) size: size_t,
    pub(crate) read: unsafe extern "C" fn(*mut FidEq, *mut u32, Ptr, size_t, u64) -> ssize_t,
    pub(crate) readerr: unsafe extern "C" fn(*mut FidEq, Ptr, u64) -> ssize_t,
    pub(crate) write: unsafe extern "C" fn(*mut FidEq, u32, Src, size_t, u64) -> ssize_t,
    pub(crate) sread: unsafe extern "C" fn(*mut FidEq, *mut u32, Ptr, size_t, c_int, u64) -> ssize_t,
    pub(crate) strerror: unsafe extern "C" fn(*mut FidEq, c_int, Src, *mut c_char, size_t) -> *const c_char,
}

#[repr(C)]
pub(crate) struct FidCq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsCq,
}

#[repr(C)]
pub(crate) struct OpsCq {
    pub(crate) size: size_t,
    pub(crate) read: unsafe extern "C" fn(*mut FidCq, Ptr, size_t) -> ssize_t,
    pub(crate) readfrom: unsafe extern "C" fn(*mut FidCq, Ptr, size_t, *mut u64) -> ssize_t,
    pub(crate) readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> ssize_t,
    pub(crate) sread: unsafe extern "C" fn(*mut FidCq, Ptr, size_t, Src, c_int) -> ssize_t,
    pub(crate) sreadfrom: unsafe extern "C" fn(*mut FidCq, Ptr, size_t, *mut u64, Src, c_int) -> ssize_t,
    pub(crate) signal: unsafe extern "C" fn(*mut FidCq) -> c_int,
    pub(crate) strerror: unsafe extern "C" fn(*mut FidCq, c_int, Src, *mut c_char, size_t) -> *const c_char,
}

#[repr(C)]
pub(crate) struct FidCntr {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsCntr,
}

#[repr(C)]
pub(crate) struct OpsCntr {
    pub(crate) size: size_t,
    pub(crate) read: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub(crate) readerr: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub(crate) add: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub(crate) set: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub(crate) wait: unsafe extern "C" fn(*mut FidCntr, u64, c_int) -> c_int,
    pub(crate) adderr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub(crate) seterr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
}

#[repr(C)]
pub(crate) struct FidPoll {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsPoll,
}

#[repr(C)]
pub(crate) struct OpsPoll {
    pub(crate) size: size_t,
    pub(crate) poll: unsafe extern "C" fn(*mut FidPoll, *mut Ptr, c_int) -> c_int,
    pub(crate) poll_add: unsafe extern "C" fn(*mut FidPoll, *mut Fid, u64) -> c_int,
    pub(crate) poll_del: unsafe extern "C" fn(*mut FidPoll, *mut Fid, u64) -> c_int,
}

#[repr(C)]
pub(crate) struct FidEp {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsEp,
    pub(crate) cm: *const OpsCm,
    pub(crate) msg: *const OpsMsg,
    pub(crate) rma: *const OpsRma,
    pub(crate) tagged: *const OpsTagged,
    pub(crate) atomic: *const OpsAtomic,
    pub(crate) collective: Ptr,
}

#[repr(C)]
pub(crate) struct OpsEp {
    pub(crate) size: size_t,
    pub(crate) cancel: unsafe extern "C" fn(*mut Fid, Ptr) -> ssize_t,
    pub(crate) getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, Ptr, *mut size_t) -> c_int,
    pub(crate) setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, Src, size_t) -> c_int,
    pub(crate) tx_ctx: Absent,
    pub(crate) rx_ctx: Absent,
    pub(crate) rx_size_left: Absent,
    pub(crate) tx_size_left: Absent,
}

#[repr(C)]
pub(crate) struct OpsCm {
    pub(crate) size: size_t,
    pub(crate) setname: unsafe extern "C" fn(*mut Fid, Ptr, size_t) -> c_int,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, Ptr, *mut size_t) -> c_int,
    pub(crate) getpeer: Absent,
    pub(crate) connect: Absent,
    pub(crate) listen: Absent,
    pub(crate) accept: Absent,
    pub(crate) reject: Absent,
    pub(crate) shutdown: Absent,
    pub(crate) join: Absent,
}

#[repr(C)]
pub(crate) struct OpsMsg {
    pub(crate) size: size_t,
    pub(crate) recv: unsafe extern "C" fn(Ep, Ptr, size_t, Ptr, u64, Ptr) -> ssize_t,
    pub(crate) recvv: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, Ptr) -> ssize_t,
    pub(crate) recvmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> ssize_t,
    pub(crate) send: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, Ptr) -> ssize_t,
    pub(crate) sendv: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, Ptr) -> ssize_t,
    pub(crate) sendmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> ssize_t,
    pub(crate) inject: unsafe extern "C" fn(Ep, Src, size_t, u64) -> ssize_t,
    pub(crate) senddata: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, Ptr) -> ssize_t,
    pub(crate) injectdata: unsafe extern "C" fn(Ep, Src, size_t, u64, u64) -> ssize_t,
}

#[repr(C)]
pub(crate) struct OpsTagged {
    pub(crate) size: size_t,
    pub(crate) recv: unsafe extern "C" fn(Ep, Ptr, size_t, Ptr, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) recvv: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) recvmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> ssize_t,
    pub(crate) send: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, Ptr) -> ssize_t,
    pub(crate) sendv: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, u64, Ptr) -> ssize_t,
    pub(crate) sendmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> ssize_t,
    pub(crate) inject: unsafe extern "C" fn(Ep, Src, size_t, u64, u64) -> ssize_t,
    pub(crate) senddata: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) injectdata: unsafe extern "C" fn(Ep, Src, size_t, u64, u64, u64) -> ssize_t,
}

#[repr(C)]
pub(crate) struct OpsRma {
    pub(crate) size: size_t,
    pub(crate) read: unsafe extern "C" fn(Ep, Ptr, size_t, Ptr, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) readv: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) readmsg: unsafe extern "C" fn(Ep, *const MsgRma, u64) -> ssize_t,
    pub(crate) write: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) writev: unsafe extern "C" fn(Ep, Iov, Desc, size_t, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) writemsg: unsafe extern "C" fn(Ep, *const MsgRma, u64) -> ssize_t,
    pub(crate) inject: unsafe extern "C" fn(Ep, Src, size_t, u64, u64, u64) -> ssize_t,
    pub(crate) writedata: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, u64, u64, Ptr) -> ssize_t,
    pub(crate) injectdata: unsafe extern "C" fn(Ep, Src, size_t, u64, u64, u64, u64) -> ssize_t,
}

type Count = *mut size_t;

#[repr(C)]
pub(crate) struct OpsAtomic {
    pub(crate) size: size_t,
    pub(crate) write: unsafe extern "C" fn(Ep, Src, size_t, Ptr, u64, u64, u64, c_int, c_int, Ptr) -> ssize_t,
    pub(crate) writev: unsafe extern "C" fn(Ep, *const Ioc, Desc, size_t, u64, u64, u64, c_int, c_int, Ptr) -> ssize_t,
    pub(crate) writemsg: unsafe extern "C" fn(Ep, *const MsgAtomic, u64) -> ssize_t,
    pub(crate) inject: unsafe extern "C" fn(Ep, Src, size_t, u64, u64, u64, c_int, c_int) -> ssize_t,
    pub(crate) readwrite:
        unsafe extern "C" fn(Ep, Src, size_t, Ptr, Ptr, Ptr, u64, u64, u64, c_int, c_int, Ptr) -> ssize_t,
    pub(crate) readwritev: ReadWriteV,
    pub(crate) readwritemsg: unsafe extern "C" fn(Ep, *const MsgAtomic, *const Ioc, Desc, size_t, u64) -> ssize_t,
    pub(crate) compwrite: CompWrite,
    pub(crate) compwritev: CompWriteV,
    pub(crate) compwritemsg: CompWriteMsg,
    pub(crate) writevalid: unsafe extern "C" fn(Ep, c_int, c_int, Count) -> c_int,
    pub(crate) readwritevalid: unsafe extern "C" fn(Ep, c_int, c_int, Count) -> c_int,
    pub(crate) compwritevalid: unsafe extern "C" fn(Ep, c_int, c_int, Count) -> c_int,
}

type CIoc = *const Ioc;
pub(crate) type ReadWriteV =
    unsafe extern "C" fn(Ep, CIoc, Desc, size_t, CIoc, Desc, size_t, u64, u64, u64, c_int, c_int, Ptr) -> ssize_t;
pub(crate) type CompWrite =
    unsafe extern "C" fn(Ep, Src, size_t, Ptr, Src, Ptr, Ptr, Ptr, u64, u64, u64, c_int, c_int, Ptr) -> ssize_t;
#[rustfmt::skip]
pub(crate) type CompWriteV = unsafe extern "C" fn(
    Ep, CIoc, Desc, size_t, CIoc, Desc, size_t, CIoc, Desc, size_t, u64, u64, u64, c_int, c_int, Ptr,
) -> ssize_t;
#[rustfmt::skip]
pub(crate) type CompWriteMsg = unsafe extern "C" fn(
    Ep, *const MsgAtomic, CIoc, Desc, size_t, CIoc, Desc, size_t, u64,
) -> ssize_t;

/// Stands in every [`Absent`] field.
pub(crate) unsafe extern "C" fn absent() -> ssize_t {
    -(libc::ENOSYS as ssize_t)
}
