//! What there is to ask of a device and its port.

use super::guard::{code, count, negative};
use super::objects::{ContextOwn, context};
use crate::abi::constants::*;
use crate::abi::structs::*;
use crate::process::Adapter;
use angara_hca::address::{GidType, LinkLayer, gids, guid, lid};
use angara_hca::{Errno, Network, Result, limits};
use libc::{c_char, c_int, ssize_t};

/// Copies the beginning of a struct that the program may know in an older or a newer form.
///
/// # Safety
/// There are `len` bytes at `to`.
unsafe fn give<T: Copy>(from: &T, to: *mut u8, len: usize) {
    let known = len.min(size_of::<T>());
    // SAFETY: both have as many bytes.
    unsafe {
        to.write_bytes(0, len);
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), to, known);
    }
}

/// A struct that begins as zeroes.
fn zeroed<T: Plain>() -> T {
    // SAFETY: all of its fields are numbers.
    unsafe { std::mem::zeroed() }
}

/// A struct of numbers.
///
/// # Safety
/// It is.
unsafe trait Plain {}
// SAFETY: see their fields.
unsafe impl Plain for ibv_device_attr_ex {}
// SAFETY: see its fields.
unsafe impl Plain for ibv_port_attr {}

fn device_attributes(adapter: &Adapter) -> ibv_device_attr_ex {
    let guid = guid(adapter.node()).to_be();
    let mut all: ibv_device_attr_ex = zeroed();
    let orig = &mut all.orig_attr;
    for (to, byte) in orig.fw_ver.iter_mut().zip(*b"0.1") {
        *to = byte as c_char;
    }
    (orig.node_guid, orig.sys_image_guid) = (guid, guid);
    orig.max_mr_size = u64::MAX;
    // Pages of 4 KiB, and all larger powers of two.
    orig.page_size_cap = 0xffff_f000;
    (orig.vendor_id, orig.vendor_part_id, orig.hw_ver) = (0xa26a, 1, 1);
    orig.device_cap_flags = capability::RC_RNR_NAK_GEN
        | capability::SYS_IMAGE_GUID
        | capability::PORT_ACTIVE_EVENT
        | capability::CURR_QP_STATE_MOD
        | capability::SRQ_RESIZE;
    orig.max_qp = limits::PAIRS as c_int;
    orig.max_qp_wr = limits::REQUESTS as c_int;
    (orig.max_sge, orig.max_sge_rd) = (limits::ELEMENTS as c_int, limits::ELEMENTS as c_int);
    (orig.max_cq, orig.max_cqe) = (limits::CQS as c_int, limits::CQ_ENTRIES as c_int);
    (orig.max_mr, orig.max_pd) = (limits::REGIONS as c_int, limits::PDS as c_int);
    let reads = c_int::from(limits::READS);
    (orig.max_qp_rd_atom, orig.max_qp_init_rd_atom) = (reads, reads);
    orig.max_res_rd_atom = reads * limits::PAIRS as c_int;
    orig.atomic_cap = ATOMIC_HCA;
    orig.max_ah = 1 << 20;
    orig.max_srq = limits::SRQS as c_int;
    (orig.max_srq_wr, orig.max_srq_sge) = (limits::REQUESTS as c_int, limits::ELEMENTS as c_int);
    (orig.max_pkeys, orig.local_ca_ack_delay, orig.phys_port_cnt) = (1, 15, 1);
    all.completion_timestamp_mask = u64::MAX;
    // In kHz: timestamps count nanoseconds.
    all.hca_core_clock = 1_000_000;
    all.device_cap_flags_ex = u64::from(all.orig_attr.device_cap_flags);
    all.phys_port_cnt_ex = 1;
    all
}

fn port_attributes(adapter: &'static Adapter) -> ibv_port_attr {
    let mut port: ibv_port_attr = zeroed();
    let is_up = adapter.with(|hca| hca.network().is_up());
    (port.state, port.phys_state) =
        if is_up { (PORT_ACTIVE, PHYSICAL_LINK_UP) } else { (PORT_DOWN, PHYSICAL_DISABLED) };
    (port.max_mtu, port.active_mtu) = (MTU_4096, MTU_4096);
    port.gid_tbl_len = gids(adapter.link(), adapter.node()).len() as c_int;
    port.max_msg_sz = limits::MESSAGE;
    port.pkey_tbl_len = 1;
    (port.active_width, port.active_speed) = (WIDTH_4X, SPEED_FDR);
    port.max_vl_num = 1;
    port.port_cap_flags = PORT_CM_SUP;
    match adapter.link() {
        LinkLayer::InfiniBand => {
            // The subnet's manager would be at the first node.
            (port.lid, port.sm_lid, port.link_layer) = (lid(adapter.node()), lid(0), LINK_INFINIBAND);
            port.subnet_timeout = 18;
        }
        LinkLayer::Ethernet => {
            port.link_layer = LINK_ETHERNET;
            port.port_cap_flags |= PORT_IP_BASED_GIDS;
        }
    }
    port
}

/// There is one port.
fn check_port(port: u32) -> Result<()> {
    if port == 1 { Ok(()) } else { Err(Errno::INVAL) }
}

/// `query_device_ex` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn query_device_ex(
    of: *mut ibv_context,
    input: *const u32,
    to: *mut ibv_device_attr_ex,
    len: usize,
) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let mask = if input.is_null() { 0 } else { unsafe { *input } };
        if mask != 0 || len < size_of::<ibv_device_attr>() {
            return Err(Errno::INVAL);
        }
        // SAFETY: see the module.
        unsafe { give(&device_attributes(context(of).adapter), to.cast(), len) };
        Ok(())
    })
}

/// `ibv_query_device`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_device(of: *mut ibv_context, to: *mut ibv_device_attr) -> c_int {
    code(|| {
        // SAFETY: see the module.
        unsafe { *to = device_attributes(context(of).adapter).orig_attr };
        Ok(())
    })
}

/// `query_port` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn query_port_of(
    of: *mut ibv_context,
    port: u8,
    to: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    code(|| {
        check_port(port.into())?;
        // SAFETY: see the module.
        let base = port_attributes(unsafe { context(of) }.adapter);
        let all = PortAttrLong { base, active_speed_ex: 0 };
        // SAFETY: see the module.
        unsafe { give(&all, to.cast(), len) };
        Ok(())
    })
}

/// `ibv_query_port`, whose callers know the struct without its last field, which is where padding was.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_port(of: *mut ibv_context, port: u8, to: *mut ibv_port_attr) -> c_int {
    // SAFETY: see the module.
    unsafe { query_port_of(of, port, to, size_of::<ibv_port_attr>()) }
}

/// `ibv_query_port_speed`, in 100 Mbit/s.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_port_speed(_of: *mut ibv_context, port: u32, to: *mut u64) -> c_int {
    code(|| {
        check_port(port)?;
        // SAFETY: see the module.
        unsafe { *to = SPEED_HUNDREDS };
        Ok(())
    })
}

impl ContextOwn {
    /// The GID of an index of a port.
    fn gid(&self, port: u32, index: u32) -> Result<ibv_gid_entry> {
        check_port(port)?;
        let all = gids(self.adapter.link(), self.adapter.node());
        let (raw, gid_type) = *all.get(index as usize).ok_or(Errno::INVAL)?;
        let gid_type = gid_type as u32;
        Ok(ibv_gid_entry { gid: ibv_gid { raw }, gid_index: index, port_num: port, gid_type, ndev_ifindex: 0 })
    }

    /// The index of a GID, of one type or any.
    pub(crate) fn gid_index(&self, gid: &[u8; 16], of: Option<GidType>) -> Option<u8> {
        let all = gids(self.adapter.link(), self.adapter.node());
        let is_it = |(raw, kind): &([u8; 16], GidType)| raw == gid && of.is_none_or(|of| of == *kind);
        all.iter().position(is_it).map(|index| index as u8)
    }

    /// How many GIDs there are.
    pub(crate) fn gid_count(&self) -> usize {
        gids(self.adapter.link(), self.adapter.node()).len()
    }
}

/// `ibv_query_gid`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_gid(of: *mut ibv_context, port: u8, index: c_int, to: *mut ibv_gid) -> c_int {
    count(|| {
        let index = u32::try_from(index).map_err(|_| Errno::INVAL)?;
        // SAFETY: see the module.
        unsafe { *to = context(of).gid(port.into(), index)?.gid };
        Ok(0)
    })
}

/// `_ibv_query_gid_ex`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_gid_ex(
    of: *mut ibv_context,
    port: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    flags: u32,
    len: usize,
) -> c_int {
    code(|| {
        if flags != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // SAFETY: see the module.
        unsafe { give(&context(of).gid(port, index)?, to.cast(), len) };
        Ok(())
    })
}

/// `_ibv_query_gid_table`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_gid_table(
    of: *mut ibv_context,
    to: *mut ibv_gid_entry,
    most: usize,
    flags: u32,
    len: usize,
) -> ssize_t {
    negative(|| {
        // SAFETY: see the module.
        let of = unsafe { context(of) };
        let all = of.gid_count();
        if flags != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if most < all {
            return Err(Errno::INVAL);
        }
        for index in 0..all {
            let entry = of.gid(1, index as u32)?;
            // SAFETY: there is room for `most` entries of `len` bytes.
            unsafe { give(&entry, to.cast::<u8>().add(index * len), len) };
        }
        Ok(all)
    })
}

/// `ibv_query_gid_type`, by the two types that sysfs knows.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_gid_type(of: *mut ibv_context, port: u8, index: u32, to: *mut u32) -> c_int {
    count(|| {
        // SAFETY: see the module.
        let entry = unsafe { context(of) }.gid(port.into(), index)?;
        // SAFETY: see the module.
        unsafe { *to = u32::from(entry.gid_type == GidType::RoceV2 as u32) };
        Ok(0)
    })
}

/// The only key of partitions, in network order.
const PKEY: u16 = 0xffff;

/// `ibv_query_pkey`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn query_pkey(_of: *mut ibv_context, port: u8, index: c_int, to: *mut u16) -> c_int {
    count(|| {
        check_port(port.into())?;
        if index != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: see the module.
        unsafe { *to = PKEY };
        Ok(0)
    })
}

/// `ibv_get_pkey_index`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_pkey_index(_of: *mut ibv_context, port: u8, key: u16) -> c_int {
    count(|| {
        check_port(port.into())?;
        if key == PKEY { Ok(0) } else { Err(Errno::INVAL) }
    })
}
