//! Numbers of the libfabric interface that this provider uses, by their names there without `FI_`.

pub(crate) const MSG: u64 = 1 << 1;
pub(crate) const RMA: u64 = 1 << 2;
pub(crate) const TAGGED: u64 = 1 << 3;
pub(crate) const ATOMIC: u64 = 1 << 4;
pub(crate) const READ: u64 = 1 << 8;
pub(crate) const WRITE: u64 = 1 << 9;
pub(crate) const RECV: u64 = 1 << 10;
pub(crate) const SEND: u64 = 1 << 11;
pub(crate) const REMOTE_READ: u64 = 1 << 12;
pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const MULTI_RECV: u64 = 1 << 16;
pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
pub(crate) const MORE: u64 = 1 << 18;
pub(crate) const PEEK: u64 = 1 << 19;
pub(crate) const FENCE: u64 = 1 << 21;
pub(crate) const COMPLETION: u64 = 1 << 24;
pub(crate) const INJECT: u64 = 1 << 25;
pub(crate) const INJECT_COMPLETE: u64 = 1 << 26;
pub(crate) const TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
pub(crate) const AFFINITY: u64 = 1 << 29;
pub(crate) const MATCH_COMPLETE: u64 = 1 << 31;
pub(crate) const LOCAL_COMM: u64 = 1 << 51;
pub(crate) const REMOTE_COMM: u64 = 1 << 52;
pub(crate) const PROV_ATTR_ONLY: u64 = 1 << 54;
pub(crate) const NUMERICHOST: u64 = 1 << 55;
pub(crate) const RMA_EVENT: u64 = 1 << 56;
pub(crate) const SOURCE: u64 = 1 << 57;
pub(crate) const DISCARD: u64 = 1 << 58;
pub(crate) const DIRECTED_RECV: u64 = 1 << 59;
pub(crate) const CLAIM: u64 = 1 << 59;
pub(crate) const SELECTIVE_COMPLETION: u64 = 1 << 59;

pub(crate) const AV_MAP: i32 = 1;
pub(crate) const AV_TABLE: i32 = 2;

pub(crate) const MR_BASIC: i32 = 1;
pub(crate) const MR_SCALABLE: i32 = 2;
pub(crate) const MR_VIRT_ADDR: i32 = 1 << 4;
pub(crate) const MR_PROV_KEY: i32 = 1 << 6;

pub(crate) const PROGRESS_AUTO: i32 = 1;
pub(crate) const PROGRESS_MANUAL: i32 = 2;
pub(crate) const THREAD_SAFE: i32 = 1;
pub(crate) const RM_ENABLED: i32 = 2;
pub(crate) const EP_RDM: i32 = 3;
/// A protocol of our own: the high bit says so.
pub(crate) const PROTO_ANGARA: u32 = 1 << 31 | 0x0a;
/// An address format of our own.
pub(crate) const ADDR_ANGARA: u32 = 1 << 31 | 0x0a;
/// Addresses as text.
pub(crate) const ADDR_STR: u32 = 9;
pub(crate) const TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;

pub(crate) const ORDER_SAS: u64 = 1 << 8;
pub(crate) const ORDER_RMA: u64 = 0xff << 32;
/// RAR, RAW, WAR and WAW: what `ORDER_RMA` says of both RMA and atomics.
pub(crate) const ORDER_PAIRS: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;

pub(crate) const ADDR_UNSPEC: u64 = u64::MAX;
pub(crate) const ADDR_NOTAVAIL: u64 = u64::MAX;

pub(crate) const CLASS_FABRIC: usize = 1;
pub(crate) const CLASS_DOMAIN: usize = 2;
pub(crate) const CLASS_EP: usize = 3;
pub(crate) const CLASS_AV: usize = 11;
pub(crate) const CLASS_MR: usize = 12;
pub(crate) const CLASS_EQ: usize = 13;
pub(crate) const CLASS_CQ: usize = 14;
pub(crate) const CLASS_CNTR: usize = 15;

pub(crate) const CLASS_POLL: usize = 17;

pub(crate) const CONTROL_GETWAIT: i32 = 5;
pub(crate) const CONTROL_ENABLE: i32 = 6;
pub(crate) const CONTROL_GETWAITOBJ: i32 = 16;
pub(crate) const CONTROL_GETOPSFLAG: i32 = 2;
pub(crate) const CONTROL_SETOPSFLAG: i32 = 3;

pub(crate) const OPT_ENDPOINT: i32 = 0;
pub(crate) const OPT_MIN_MULTI_RECV: i32 = 0;
pub(crate) const OPT_CM_DATA_SIZE: i32 = 1;

pub(crate) const CQ_CONTEXT: i32 = 1;
pub(crate) const CQ_MSG: i32 = 2;
pub(crate) const CQ_DATA: i32 = 3;
pub(crate) const CQ_TAGGED: i32 = 4;
pub(crate) const WAIT_NONE: i32 = 0;
pub(crate) const WAIT_UNSPEC: i32 = 1;
pub(crate) const WAIT_FD: i32 = 3;
pub(crate) const WAIT_YIELD: i32 = 5;
pub(crate) const CQ_COND_THRESHOLD: i32 = 1;

pub(crate) const FETCH_ATOMIC: u64 = 1 << 58;
pub(crate) const COMPARE_ATOMIC: u64 = 1 << 59;

/// Errors: the system's numbers, and from 256 libfabric's own.
pub(crate) mod errno {
    pub(crate) use libc::{
        EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBUSY, ECANCELED, ECONNREFUSED, EFAULT, EINVAL, EIO, EMFILE,
        EMSGSIZE, ENODATA, ENOENT, ENOMEM, ENOMSG, ENOPROTOOPT, ENOSPC, ENOSYS, ENOTCONN, EOPNOTSUPP,
    };
    pub(crate) const EOTHER: i32 = 256;
    pub(crate) const ETOOSMALL: i32 = 257;
    pub(crate) const EOPBADSTATE: i32 = 258;
    pub(crate) const EAVAIL: i32 = 259;
    pub(crate) const EBADFLAGS: i32 = 260;
    pub(crate) const ENOCQ: i32 = 263;
    pub(crate) const ETRUNC: i32 = 265;
    pub(crate) const ENOKEY: i32 = 266;
    pub(crate) const ENOAV: i32 = 267;
}

/// A version as libfabric writes it.
pub(crate) const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
