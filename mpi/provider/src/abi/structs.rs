//! Structs that pass between libfabric and a provider, as API 1.17 has them. Later versions append to some of them; what is
//! given out is allocated with room for that, and what is taken is read up to here.

use libc::{c_char, c_int, c_void, iovec, size_t, ssize_t};

/// A function that this provider does not offer.
pub(crate) type Absent = unsafe extern "C" fn() -> ssize_t;

/// Head of every object.
#[repr(C)]
pub(crate) struct Fid {
    pub(crate) fclass: size_t,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const FiOps,
}

#[repr(C)]
pub(crate) struct FiOps {
    pub(crate) size: size_t,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub(crate) ops_open: Absent,
    pub(crate) tostr: Absent,
    pub(crate) ops_set: Absent,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: size_t,
    pub(crate) size: size_t,
    pub(crate) iov_limit: size_t,
    pub(crate) rma_iov_limit: size_t,
    pub(crate) tclass: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: size_t,
    pub(crate) size: size_t,
    pub(crate) iov_limit: size_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EpAttr {
    pub(crate) kind: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: size_t,
    pub(crate) msg_prefix_size: size_t,
    pub(crate) max_order_raw_size: size_t,
    pub(crate) max_order_war_size: size_t,
    pub(crate) max_order_waw_size: size_t,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: size_t,
    pub(crate) rx_ctx_cnt: size_t,
    pub(crate) auth_key_size: size_t,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DomainAttr {
    pub(crate) domain: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: size_t,
    pub(crate) cq_data_size: size_t,
    pub(crate) cq_cnt: size_t,
    pub(crate) ep_cnt: size_t,
    pub(crate) tx_ctx_cnt: size_t,
    pub(crate) rx_ctx_cnt: size_t,
    pub(crate) max_ep_tx_ctx: size_t,
    pub(crate) max_ep_rx_ctx: size_t,
    pub(crate) max_ep_stx_ctx: size_t,
    pub(crate) max_ep_srx_ctx: size_t,
    pub(crate) cntr_cnt: size_t,
    pub(crate) mr_iov_limit: size_t,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: size_t,
    pub(crate) max_err_data: size_t,
    pub(crate) mr_cnt: size_t,
    pub(crate) tclass: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FabricAttr {
    pub(crate) fabric: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: size_t,
    pub(crate) dest_addrlen: size_t,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut TxAttr,
    pub(crate) rx_attr: *mut RxAttr,
    pub(crate) ep_attr: *mut EpAttr,
    pub(crate) domain_attr: *mut DomainAttr,
    pub(crate) fabric_attr: *mut FabricAttr,
    pub(crate) nic: *mut c_void,
}

#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: size_t,
    pub(crate) ep_per_node: size_t,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: size_t,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct EqAttr {
    pub(crate) size: size_t,
    pub(crate) flags: u64,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct CntrAttr {
    pub(crate) events: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

/// Entry of a completion queue of format `FI_CQ_FORMAT_TAGGED`; the other formats are beginnings of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CqEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: size_t,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: size_t,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: size_t,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: size_t,
}

#[repr(C)]
pub(crate) struct EqEntry {
    pub(crate) fid: *mut Fid,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct MrAttr {
    pub(crate) mr_iov: *const iovec,
    pub(crate) iov_count: size_t,
    pub(crate) access: u64,
    pub(crate) offset: u64,
    pub(crate) requested_key: u64,
    pub(crate) context: *mut c_void,
    pub(crate) auth_key_size: size_t,
    pub(crate) auth_key: *mut u8,
    pub(crate) iface: c_int,
    pub(crate) device: u64,
}

#[repr(C)]
pub(crate) struct Msg {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: size_t,
    pub(crate) addr: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct MsgTagged {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: size_t,
    pub(crate) addr: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RmaIov {
    pub(crate) addr: u64,
    pub(crate) len: size_t,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct MsgRma {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: size_t,
    pub(crate) addr: u64,
    pub(crate) rma_iov: *const RmaIov,
    pub(crate) rma_iov_count: size_t,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// Address and number of elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Ioc {
    pub(crate) addr: *mut c_void,
    pub(crate) count: size_t,
}

#[repr(C)]
pub(crate) struct MsgAtomic {
    pub(crate) msg_iov: *const Ioc,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: size_t,
    pub(crate) addr: u64,
    pub(crate) rma_iov: *const RmaIov,
    pub(crate) rma_iov_count: size_t,
    pub(crate) datatype: c_int,
    pub(crate) op: c_int,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct AtomicAttr {
    pub(crate) count: size_t,
    pub(crate) size: size_t,
}
