//! What the drivers of adapters (libmlx5, libefa, ...) want of libibverbs. perftest, UCX and libfabric load some of these, and
//! their constructors register them: then no more, since they find no device of theirs.
//!
//! The names are the same in all versions of the interface, which differ in structs that nobody gets to see here. So each name
//! is an alias of one of four functions, under every version; an assembler can say that, no language can. Newer drivers want
//! some more names than older ones do, which do not mind.

use angara_verbs_library::entry;
use std::arch::global_asm;

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b"
    };
}

global_asm!(
    ".macro angara_function name, to",
    "    .globl \\name",
    "    .type \\name, %function",
    "\\name:",
    concat!("    ", jump!(), " \\to"),
    "    .size \\name, . - \\name",
    ".endm",
    ".macro angara_versions of, name",
    "    .irp version, 34, 57, 59, 64, 65",
    "    .symver \\of, \\name@IBVERBS_PRIVATE_\\version",
    "    .endr",
    ".endm",
    ".text",
    "angara_function angara_refused, {refused}",
    "angara_function angara_none, {none}",
    "angara_function angara_gid_type, {gid_type}",
    "angara_function angara_opcode, {opcode}",
    "angara_versions angara_gid_type, ibv_query_gid_type",
    "angara_versions angara_opcode, ibv_wr_opcode_str",
    ".irp name, __ioctl_final_num_attrs, __verbs_log, execute_ioctl, ibv_cmd_advise_mr, ibv_cmd_alloc_dm",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_alloc_dmah, ibv_cmd_alloc_mw, ibv_cmd_alloc_pd, ibv_cmd_attach_mcast, ibv_cmd_close_xrcd",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_create_ah, ibv_cmd_create_comp_cntr, ibv_cmd_create_counters, ibv_cmd_create_cq",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_create_cq_ex, ibv_cmd_create_cq_ex2, ibv_cmd_create_flow, ibv_cmd_create_flow_action_esp",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_create_qp, ibv_cmd_create_qp_ex, ibv_cmd_create_qp_ex2, ibv_cmd_create_rwq_ind_table",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_create_srq, ibv_cmd_create_srq_ex, ibv_cmd_create_wq, ibv_cmd_dealloc_mw, ibv_cmd_dealloc_pd",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_dereg_mr, ibv_cmd_destroy_ah, ibv_cmd_destroy_comp_cntr, ibv_cmd_destroy_counters",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_destroy_cq, ibv_cmd_destroy_flow, ibv_cmd_destroy_flow_action, ibv_cmd_destroy_qp",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_destroy_rwq_ind_table, ibv_cmd_destroy_srq, ibv_cmd_destroy_wq, ibv_cmd_detach_mcast",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_export_dmabuf_fd, ibv_cmd_free_dm, ibv_cmd_free_dmah, ibv_cmd_get_context",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_inc_comp_cntr, ibv_cmd_inc_err_comp_cntr, ibv_cmd_modify_cq, ibv_cmd_modify_flow_action_esp",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_modify_qp, ibv_cmd_modify_qp_ex, ibv_cmd_modify_srq, ibv_cmd_modify_wq, ibv_cmd_open_qp",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_open_xrcd, ibv_cmd_poll_cq, ibv_cmd_post_recv, ibv_cmd_post_send, ibv_cmd_post_srq_recv",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_qp_attach_comp_cntr, ibv_cmd_query_comp_cntr_caps, ibv_cmd_query_context, ibv_cmd_query_device",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_query_device_any, ibv_cmd_query_mr, ibv_cmd_query_port, ibv_cmd_query_port_speed",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_query_qp, ibv_cmd_query_srq, ibv_cmd_read_comp_cntr, ibv_cmd_read_counters",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_read_err_comp_cntr, ibv_cmd_reg_dm_mr, ibv_cmd_reg_dmabuf_mr, ibv_cmd_reg_mr, ibv_cmd_reg_mr_ex",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_req_notify_cq, ibv_cmd_rereg_mr, ibv_cmd_resize_cq, ibv_cmd_set_comp_cntr",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_cmd_set_err_comp_cntr, ibv_dmabuf_heap_cc_shared_init, ibv_dmabuf_heap_destroy",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, ibv_dmabuf_heap_free, ibv_read_ibdev_sysfs_file, verbs_allow_disassociate_destroy, verbs_init_cq",
    "angara_versions angara_refused, \\name",
    ".endr",
    ".irp name, verbs_set_ops, verbs_uninit_context",
    "angara_versions angara_refused, \\name",
    ".endr",
    "angara_versions angara_none, _verbs_init_and_alloc_context",
    "angara_versions angara_none, ibv_dmabuf_heap_alloc",
    "angara_versions angara_none, verbs_open_device",
    refused = sym entry::refused::code,
    none = sym entry::refused::pointer,
    gid_type = sym entry::port::query_gid_type,
    opcode = sym entry::strings::wr_opcode_str,
);

/// Drivers register by a function of their version.
macro_rules! registered {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() {}
        )*
    };
}

registered! {
    verbs_register_driver_34
    verbs_register_driver_57
    verbs_register_driver_59
    verbs_register_driver_64
    verbs_register_driver_65
    ibv_register_driver
}
