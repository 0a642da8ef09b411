//! Copies between structs of the kernel and those of libibverbs, for librdmacm.

use crate::abi::kernel::*;
use crate::abi::structs::{ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap};

fn ah_attr(of: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    let grh = ibv_global_route {
        dgid: ibv_gid { raw: of.grh.dgid },
        flow_label: of.grh.flow_label,
        sgid_index: of.grh.sgid_index,
        hop_limit: of.grh.hop_limit,
        traffic_class: of.grh.traffic_class,
    };
    ibv_ah_attr {
        grh,
        dlid: of.dlid,
        sl: of.sl,
        src_path_bits: of.src_path_bits,
        static_rate: of.static_rate,
        is_global: of.is_global,
        port_num: of.port_num,
    }
}

/// `ibv_copy_ah_attr_from_kern`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn ah_attr_from_kern(to: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr) {
    // SAFETY: see the module.
    unsafe { *to = ah_attr(&*from) };
}

/// `ibv_copy_qp_attr_from_kern`, which leaves the state and the limit of the rate alone.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn qp_attr_from_kern(to: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr) {
    // SAFETY: see the module.
    let (to, from) = unsafe { (&mut *to, &*from) };
    *to = ibv_qp_attr {
        qp_state: to.qp_state,
        cur_qp_state: from.cur_qp_state,
        path_mtu: from.path_mtu,
        path_mig_state: from.path_mig_state,
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr: from.max_send_wr,
            max_recv_wr: from.max_recv_wr,
            max_send_sge: from.max_send_sge,
            max_recv_sge: from.max_recv_sge,
            max_inline_data: from.max_inline_data,
        },
        ah_attr: ah_attr(&from.ah_attr),
        alt_ah_attr: ah_attr(&from.alt_ah_attr),
        pkey_index: from.pkey_index,
        alt_pkey_index: from.alt_pkey_index,
        en_sqd_async_notify: from.en_sqd_async_notify,
        sq_draining: from.sq_draining,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        alt_port_num: from.alt_port_num,
        alt_timeout: from.alt_timeout,
        rate_limit: to.rate_limit,
    };
}

/// `ibv_copy_path_rec_from_kern`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn path_rec_from_kern(to: *mut ibv_sa_path_rec, from: *const ib_user_path_rec) {
    // SAFETY: see the module.
    let of = unsafe { &*from };
    let copy = ibv_sa_path_rec {
        dgid: ibv_gid { raw: of.dgid },
        sgid: ibv_gid { raw: of.sgid },
        dlid: of.dlid,
        slid: of.slid,
        raw_traffic: of.raw_traffic as i32,
        flow_label: of.flow_label,
        hop_limit: of.hop_limit,
        traffic_class: of.traffic_class,
        reversible: of.reversible as i32,
        numb_path: of.numb_path,
        pkey: of.pkey,
        sl: of.sl,
        mtu_selector: of.mtu_selector,
        mtu: of.mtu as u8,
        rate_selector: of.rate_selector,
        rate: of.rate,
        packet_life_time_selector: of.packet_life_time_selector,
        packet_life_time: of.packet_life_time,
        preference: of.preference,
    };
    // SAFETY: see the module.
    unsafe { *to = copy };
}

/// `ibv_copy_path_rec_to_kern`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn path_rec_to_kern(to: *mut ib_user_path_rec, from: *const ibv_sa_path_rec) {
    // SAFETY: see the module.
    let of = unsafe { &*from };
    let copy = ib_user_path_rec {
        dgid: of.dgid.raw,
        sgid: of.sgid.raw,
        dlid: of.dlid,
        slid: of.slid,
        raw_traffic: of.raw_traffic as u32,
        flow_label: of.flow_label,
        reversible: of.reversible as u32,
        mtu: of.mtu.into(),
        pkey: of.pkey,
        hop_limit: of.hop_limit,
        traffic_class: of.traffic_class,
        numb_path: of.numb_path,
        sl: of.sl,
        mtu_selector: of.mtu_selector,
        rate_selector: of.rate_selector,
        rate: of.rate,
        packet_life_time_selector: of.packet_life_time_selector,
        packet_life_time: of.packet_life_time,
        preference: of.preference,
    };
    // SAFETY: see the module.
    unsafe { *to = copy };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_to_the_kernel_and_back() {
        let path = ibv_sa_path_rec {
            dgid: ibv_gid { raw: [7; 16] },
            dlid: 0x102,
            flow_label: 9,
            reversible: 1,
            pkey: 0xffff,
            mtu: 5,
            rate: 3,
            preference: 8,
            ..ibv_sa_path_rec::default()
        };
        let (mut kernel, mut back) = (ib_user_path_rec::default(), ibv_sa_path_rec::default());
        // SAFETY: all are there.
        unsafe {
            path_rec_to_kern(&mut kernel, &path);
            path_rec_from_kern(&mut back, &kernel);
        }
        assert_eq!((back.dgid.raw, back.dlid, back.flow_label, back.reversible), ([7; 16], 0x102, 9, 1));
        assert_eq!((back.pkey, back.mtu, back.rate, back.preference), (0xffff, 5, 3, 8));
    }
}
