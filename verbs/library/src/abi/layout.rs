//! Where fields of the structs lie, against the headers that are installed.

use super::kernel::*;
use super::structs::*;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// A struct: its name in C, its size, and its fields with their offsets.
struct Layout {
    name: &'static str,
    size: usize,
    fields: Vec<(String, usize)>,
}

macro_rules! layouts {
    ($($name:ident $($c:literal)?: $($($field:ident).+)*;)*) => {
        fn layouts() -> Vec<Layout> {
            vec![$(Layout {
                name: [$($c,)? stringify!($name)][0],
                size: size_of::<$name>(),
                fields: vec![$((stringify!($($field).+).replace([' ', '\n'], ""), offset_of!($name, $($field).+))),*],
            }),*]
        }
    };
}

layouts! {
    ibv_device: node_type transport_type name dev_name dev_path ibdev_path;
    ibv_context_ops: _compat_query_device _compat_query_port alloc_mw bind_mw dealloc_mw poll_cq req_notify_cq
        post_srq_recv post_send post_recv;
    ibv_context: device ops cmd_fd async_fd num_comp_vectors mutex abi_compat;
    verbs_context: query_port modify_qp_rate_limit alloc_parent_domain dealloc_td alloc_td modify_cq query_rt_values
        create_cq_ex query_device_ex open_qp create_qp_ex get_srq_num create_srq_ex open_xrcd close_xrcd sz context;
    ibv_device_attr: fw_ver node_guid sys_image_guid max_mr_size page_size_cap vendor_id vendor_part_id hw_ver max_qp
        max_qp_wr device_cap_flags max_sge max_sge_rd max_cq max_cqe max_mr max_pd max_qp_rd_atom max_res_rd_atom
        max_qp_init_rd_atom atomic_cap max_mw max_ah max_srq max_srq_wr max_srq_sge max_pkeys local_ca_ack_delay
        phys_port_cnt;
    ibv_device_attr_ex: orig_attr comp_mask odp_caps completion_timestamp_mask hca_core_clock device_cap_flags_ex
        tso_caps rss_caps max_wq_type_rq packet_pacing_caps raw_packet_caps tm_caps cq_mod_caps max_dm_size
        pci_atomic_caps xrc_odp_caps phys_port_cnt_ex;
    ibv_port_attr: state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz pkey_tbl_len lid sm_lid lmc
        max_vl_num sm_sl subnet_timeout init_type_reply active_width active_speed phys_state link_layer flags
        port_cap_flags2;
    ibv_gid "union ibv_gid": raw;
    ibv_gid_entry: gid gid_index port_num gid_type ndev_ifindex;
    ibv_async_event: element event_type;
    ibv_values_ex: comp_mask raw_clock;
    ibv_parent_domain_init_attr: pd td comp_mask alloc free pd_context;
    ibv_cq_init_attr_ex: cqe cq_context channel comp_vector wc_flags comp_mask flags parent_domain;
    ibv_pd: context handle;
    ibv_td: context;
    ibv_mr: context pd addr length handle lkey rkey;
    ibv_global_route: dgid flow_label sgid_index hop_limit traffic_class;
    ibv_ah_attr: grh dlid sl src_path_bits static_rate is_global port_num;
    ibv_ah: context pd handle;
    ibv_grh: version_tclass_flow paylen next_hdr hop_limit sgid dgid;
    ibv_sge: addr length lkey;
    ibv_data_buf: addr length;
    ibv_send_wr: wr_id next sg_list num_sge opcode send_flags imm_data wr.rdma.remote_addr wr.rdma.rkey
        wr.atomic.remote_addr wr.atomic.compare_add wr.atomic.swap wr.atomic.rkey wr.ud.ah wr.ud.remote_qpn
        wr.ud.remote_qkey qp_type bind_mw;
    ibv_recv_wr: wr_id next sg_list num_sge;
    ibv_wc: wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags pkey_index slid sl dlid_path_bits;
    ibv_comp_channel: context fd refcnt;
    ibv_cq: context channel cq_context handle cqe mutex cond comp_events_completed async_events_completed;
    ibv_cq_ex: comp_mask status wr_id start_poll next_poll end_poll read_opcode read_vendor_err read_byte_len
        read_imm_data read_qp_num read_src_qp read_wc_flags read_slid read_sl read_dlid_path_bits read_completion_ts
        read_cvlan read_flow_tag read_tm_info read_completion_wallclock_ns;
    ibv_srq: context srq_context pd handle mutex cond events_completed;
    ibv_srq_attr: max_wr max_sge srq_limit;
    ibv_srq_init_attr: srq_context attr;
    ibv_srq_init_attr_ex: srq_context attr comp_mask srq_type pd xrcd cq tm_cap;
    ibv_qp_cap: max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data;
    ibv_qp_init_attr: qp_context send_cq recv_cq srq cap qp_type sq_sig_all;
    ibv_qp_init_attr_ex: qp_context send_cq recv_cq srq cap qp_type sq_sig_all comp_mask pd xrcd create_flags
        max_tso_header rwq_ind_tbl rx_hash_conf source_qpn send_ops_flags;
    ibv_qp_attr: qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags cap
        ah_attr alt_ah_attr pkey_index alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic
        min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit;
    ibv_qp: context qp_context pd send_cq recv_cq srq handle qp_num state qp_type mutex cond events_completed;
    ibv_qp_ex: qp_base comp_mask wr_id wr_flags wr_atomic_cmp_swp wr_atomic_fetch_add wr_bind_mw wr_local_inv
        wr_rdma_read wr_rdma_write wr_rdma_write_imm wr_send wr_send_imm wr_send_inv wr_send_tso wr_set_ud_addr
        wr_set_xrc_srqn wr_set_inline_data wr_set_inline_data_list wr_set_sge wr_set_sge_list wr_start wr_complete
        wr_abort wr_atomic_write;
    ib_uverbs_ah_attr: grh dlid sl src_path_bits static_rate is_global port_num;
    ib_uverbs_qp_attr: cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags ah_attr
        alt_ah_attr max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data pkey_index alt_pkey_index
        en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt
        rnr_retry alt_port_num alt_timeout;
    ib_user_path_rec: dgid sgid dlid slid raw_traffic flow_label reversible mtu pkey hop_limit traffic_class numb_path
        sl mtu_selector rate_selector rate packet_life_time_selector packet_life_time preference;
    ibv_sa_path_rec: dgid sgid dlid slid raw_traffic flow_label hop_limit traffic_class reversible numb_path pkey sl
        mtu_selector mtu rate_selector rate packet_life_time_selector packet_life_time preference;
}

/// Structs that later versions have made longer.
const GROWN: [&str; 1] = ["ibv_qp_ex"];

impl Layout {
    fn c_name(&self) -> String {
        if self.name.contains(' ') { self.name.into() } else { format!("struct {}", self.name) }
    }

    /// Lines of C that hold if the header agrees.
    fn claims(&self, out: &mut String) {
        let (name, size) = (self.c_name(), self.size);
        let same = if GROWN.contains(&self.name) { "<=" } else { "==" };
        writeln!(out, "_Static_assert(sizeof({name}) {same} {size}, \"size of {name}\");").expect("into a string");
        for (field, at) in &self.fields {
            writeln!(out, "_Static_assert(offsetof({name}, {field}) == {at}, \"{name}.{field}\");")
                .expect("into a string");
        }
    }
}

#[test]
fn fields_lie_where_the_headers_say() {
    if !Path::new("/usr/include/infiniband/sa.h").exists() || Command::new("cc").arg("--version").output().is_err() {
        println!("-- skipped: there are no headers of libibverbs, or no C compiler");
        return;
    }
    let mut source = String::from("#include <stddef.h>\n");
    for header in ["infiniband/verbs.h", "infiniband/sa.h", "rdma/ib_user_verbs.h", "rdma/ib_user_sa.h"] {
        writeln!(source, "#include <{header}>").expect("into a string");
    }
    layouts().iter().for_each(|layout| layout.claims(&mut source));
    let at = std::env::temp_dir().join(format!("angara-verbs-layout-{}.c", std::process::id()));
    std::fs::write(&at, source).expect("a program");
    let said = Command::new("cc").arg("-fsyntax-only").arg(&at).output().expect("a C compiler");
    std::fs::remove_file(&at).expect("the program goes");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
