//! Address handles.

use super::guard::{code, count, pointer};
use super::objects::{self, AhObject, ContextOwn, context, pd};
use super::requests::{ah_attr_of, path_of};
use crate::abi::structs::*;
use angara_hca::address::{GidType, LinkLayer, mac, node_of_gid};
use angara_hca::{Errno, PathAttributes, Result, flags};
use libc::c_int;
use std::sync::atomic::Ordering;

/// # Safety
/// See [`crate::entry`].
unsafe fn create(of: *mut ibv_pd, path: PathAttributes) -> Result<*mut ibv_ah> {
    // SAFETY: see the module.
    let (own, context_at) = unsafe { (pd(of), (*of).context) };
    // SAFETY: see the module.
    let gids = unsafe { context(context_at) }.gid_count();
    let is_global = path.is_global || own.adapter.link() == LinkLayer::InfiniBand;
    if path.port != 1 || !is_global || (path.is_global && usize::from(path.sgid_index) >= gids) {
        return Err(Errno::INVAL);
    }
    own.users.fetch_add(1, Ordering::AcqRel);
    Ok(objects::give(AhObject { ah: ibv_ah { context: context_at, pd: of, handle: 0 }, path }))
}

/// `ibv_create_ah`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_ah(of: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: see the module.
    pointer(|| unsafe { create(of, path_of(&*attr)) })
}

/// `ibv_destroy_ah`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn destroy_ah(of: *mut ibv_ah) -> c_int {
    code(|| {
        // SAFETY: made by `create`, and destroyed once.
        let object = unsafe { Box::from_raw(of.cast::<AhObject>()) };
        // SAFETY: it cannot have gone before its handles.
        unsafe { pd(object.ah.pd) }.users.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}

/// Bytes of the header in front of a datagram.
const GRH: usize = 40;
/// What follows the header, without and with UDP.
const NEXT_IB: u8 = 0x1b;
const NEXT_UDP: u8 = 17;

/// An IPv4 header in the second half: the first half says nothing then.
fn ipv4_header(grh: &[u8; GRH]) -> Option<&[u8]> {
    let header = &grh[20..];
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (header[0] == 0x45 && (sum & 0xffff) + (sum >> 16) == 0xffff).then_some(header)
}

/// An address of IPv4 as a GID.
fn mapped(address: &[u8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[10..12].copy_from_slice(&[0xff, 0xff]);
    gid[12..].copy_from_slice(&address[..4]);
    gid
}

impl ContextOwn {
    /// The way back to who sent a datagram, by the header in front of it.
    fn way_back(&self, path: &mut PathAttributes, grh: &[u8; GRH]) -> Result<()> {
        path.is_global = true;
        let index = |gid: &[u8; 16], of| self.gid_index(gid, of).ok_or(Errno::INVAL);
        if let Some(header) = ipv4_header(grh) {
            path.dgid = mapped(&header[12..16]);
            path.sgid_index = index(&mapped(&header[16..20]), Some(GidType::RoceV2))?;
            (path.hop_limit, path.traffic_class) = (header[8], header[1]);
            return Ok(());
        }
        if grh[0] >> 4 != 6 {
            return Err(Errno::INVAL);
        }
        let of = match (grh[6], self.adapter.link()) {
            (NEXT_UDP, _) => GidType::RoceV2,
            (NEXT_IB, LinkLayer::Ethernet) => GidType::RoceV1,
            (NEXT_IB, LinkLayer::InfiniBand) => GidType::Ib,
            _ => return Err(Errno::PROTONOSUPPORT),
        };
        let (from, to) = (gid_at(grh, 8), gid_at(grh, 24));
        path.dgid = from;
        path.sgid_index = index(&to, Some(of))?;
        let first = u32::from_be_bytes([grh[0], grh[1], grh[2], grh[3]]);
        (path.hop_limit, path.traffic_class, path.flow_label) = (grh[7], (first >> 20) as u8, first & 0xf_ffff);
        Ok(())
    }
}

fn gid_at(grh: &[u8; GRH], at: usize) -> [u8; 16] {
    let mut gid = [0; 16];
    gid.copy_from_slice(&grh[at..at + 16]);
    gid
}

/// # Safety
/// See [`crate::entry`].
unsafe fn way_back(of: *mut ibv_context, port: u8, wc: *mut ibv_wc, grh: *mut ibv_grh) -> Result<PathAttributes> {
    // SAFETY: see the module.
    let (own, wc) = unsafe { (context(of), *wc) };
    let (dlid, sl, src_path_bits) = (wc.slid, wc.sl, wc.dlid_path_bits);
    let mut path = PathAttributes { dlid, sl, src_path_bits, port, ..PathAttributes::default() };
    if wc.wc_flags & flags::GRH != 0 {
        if grh.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the flag says that it is there; a payload need not be aligned.
        let bytes = unsafe { grh.cast::<[u8; GRH]>().read_unaligned() };
        own.way_back(&mut path, &bytes)?;
    }
    Ok(path)
}

/// `ibv_init_ah_from_wc`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn init_ah_from_wc(
    of: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    to: *mut ibv_ah_attr,
) -> c_int {
    count(|| {
        // SAFETY: see the module.
        unsafe { *to = ah_attr_of(&way_back(of, port, wc, grh)?) };
        Ok(0)
    })
}

/// `ibv_create_ah_from_wc`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn create_ah_from_wc(
    of: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: see the module.
    pointer(|| unsafe { create(of, way_back((*of).context, port, wc, grh)?) })
}

/// `ibv_resolve_eth_l2_from_gid`: all addresses are made of numbers of nodes, so that nobody is asked.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn resolve_eth_l2_from_gid(
    _of: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    to: *mut [u8; 6],
    vlan: *mut u16,
) -> c_int {
    -code(|| {
        // SAFETY: see the module.
        let node = node_of_gid(unsafe { &(*attr).grh.dgid.raw }).ok_or(Errno::HOSTUNREACH)?;
        // SAFETY: see the module.
        unsafe {
            *to = mac(node);
            if !vlan.is_null() {
                // None.
                *vlan = 0xffff;
            }
        }
        Ok(())
    })
}
