//! The names by which programs know the functions of `angara_verbs_library::entry`; exports.map has their versions. build.rs says why
//! this is a binary, and not a library.
#![no_main]

mod private;

use angara_verbs_library::abi::kernel::*;
use angara_verbs_library::abi::structs::*;
use angara_verbs_library::advice;
use angara_verbs_library::entry::*;
use angara_verbs_library::paths::{calls, descriptors};
use libc::{c_char, c_int, c_void, ssize_t};

/// Exports functions under names of C. Each calls the one behind `=`, which has the same arguments.
macro_rules! export {
    (as $abi:literal: $($name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)? = $to:path;)*) => {
        $(
            /// # Safety
            /// See [`angara_verbs_library::entry`].
            #[unsafe(no_mangle)]
            pub unsafe extern $abi fn $name($($arg: $kind),*) $(-> $result)? {
                #[allow(unused_unsafe)]
                // SAFETY: the caller keeps the same contract.
                unsafe {
                    $to($($arg),*)
                }
            }
        )*
    };
    ($($all:tt)*) => {
        export! { as "C": $($all)* }
    };
}

// Devices, contexts, ports.
export! {
    ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device = device::get_device_list;
    ibv_free_device_list(list: *mut *mut ibv_device) = device::free_device_list;
    ibv_get_device_name(of: *mut ibv_device) -> *const c_char = device::get_device_name;
    ibv_get_device_guid(of: *mut ibv_device) -> u64 = device::get_device_guid;
    ibv_get_device_index(of: *mut ibv_device) -> c_int = device::get_device_index;
    ibv_open_device(of: *mut ibv_device) -> *mut ibv_context = context::open_device;
    ibv_close_device(of: *mut ibv_context) -> c_int = context::close_device;
    ibv_get_async_event(of: *mut ibv_context, to: *mut ibv_async_event) -> c_int = context::get_async_event;
    ibv_ack_async_event(of: *mut ibv_async_event) = context::ack_async_event;
    ibv_query_device(of: *mut ibv_context, to: *mut ibv_device_attr) -> c_int = port::query_device;
    ibv_query_port(of: *mut ibv_context, port: u8, to: *mut ibv_port_attr) -> c_int = port::query_port;
    ibv_query_port_speed(of: *mut ibv_context, port: u32, to: *mut u64) -> c_int = port::query_port_speed;
    ibv_query_gid(of: *mut ibv_context, port: u8, index: c_int, to: *mut ibv_gid) -> c_int = port::query_gid;
    _ibv_query_gid_ex(
        of: *mut ibv_context,
        port: u32,
        index: u32,
        to: *mut ibv_gid_entry,
        flags: u32,
        len: usize,
    ) -> c_int = port::query_gid_ex;
    _ibv_query_gid_table(
        of: *mut ibv_context,
        to: *mut ibv_gid_entry,
        most: usize,
        flags: u32,
        len: usize,
    ) -> ssize_t = port::query_gid_table;
    ibv_query_pkey(of: *mut ibv_context, port: u8, index: c_int, to: *mut u16) -> c_int = port::query_pkey;
    ibv_get_pkey_index(of: *mut ibv_context, port: u8, key: u16) -> c_int = port::get_pkey_index;
    ibv_fork_init() -> c_int = context::fork_init;
    ibv_is_fork_initialized() -> c_int = context::is_fork_initialized;
    ibv_dontfork_range(at: *mut c_void, len: usize) -> c_int = context::fork_range;
    ibv_dofork_range(at: *mut c_void, len: usize) -> c_int = context::fork_range;
}

// Memory.
export! {
    ibv_alloc_pd(of: *mut ibv_context) -> *mut ibv_pd = memory::alloc_pd;
    ibv_dealloc_pd(of: *mut ibv_pd) -> c_int = memory::dealloc_pd;
    ibv_reg_mr(of: *mut ibv_pd, at: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr = memory::reg_mr;
    ibv_reg_mr_iova(
        of: *mut ibv_pd,
        at: *mut c_void,
        len: usize,
        iova: u64,
        access: u32,
    ) -> *mut ibv_mr = memory::reg_mr_iova;
    ibv_reg_mr_iova2(
        of: *mut ibv_pd,
        at: *mut c_void,
        len: usize,
        iova: u64,
        access: u32,
    ) -> *mut ibv_mr = memory::reg_mr_iova;
    ibv_reg_mr_ex(of: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr = memory::reg_mr_ex;
    ibv_rereg_mr(
        of: *mut ibv_mr,
        flags: c_int,
        to: *mut ibv_pd,
        at: *mut c_void,
        len: usize,
        access: c_int,
    ) -> c_int = memory::rereg_mr;
    ibv_dereg_mr(of: *mut ibv_mr) -> c_int = memory::dereg_mr;
}

// Completions.
export! {
    ibv_create_comp_channel(of: *mut ibv_context) -> *mut ibv_comp_channel = completion::create_comp_channel;
    ibv_destroy_comp_channel(of: *mut ibv_comp_channel) -> c_int = completion::destroy_comp_channel;
    ibv_create_cq(
        of: *mut ibv_context,
        entries: c_int,
        user: *mut c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq = completion::create_cq;
    ibv_resize_cq(of: *mut ibv_cq, entries: c_int) -> c_int = completion::resize_cq;
    ibv_destroy_cq(of: *mut ibv_cq) -> c_int = completion::destroy_cq;
    ibv_get_cq_event(
        of: *mut ibv_comp_channel,
        to: *mut *mut ibv_cq,
        user: *mut *mut c_void,
    ) -> c_int = completion::get_cq_event;
    ibv_ack_cq_events(of: *mut ibv_cq, events: u32) = completion::ack_cq_events;
}

// Queue pairs, shared receive queues, address handles.
export! {
    ibv_create_qp(of: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp = pair::create_qp;
    ibv_qp_to_qp_ex(of: *mut ibv_qp) -> *mut ibv_qp_ex = pair::qp_to_qp_ex;
    ibv_modify_qp(of: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int = pair::modify_qp;
    ibv_query_qp(
        of: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr,
    ) -> c_int = pair::query_qp;
    ibv_destroy_qp(of: *mut ibv_qp) -> c_int = pair::destroy_qp;
    ibv_query_ece(of: *mut ibv_qp, to: *mut c_void) -> c_int = pair::ece;
    ibv_set_ece(of: *mut ibv_qp, to: *mut c_void) -> c_int = pair::ece;
    ibv_query_qp_data_in_order(of: *mut ibv_qp, op: u32, flags: u32) -> c_int = pair::query_qp_data_in_order;
    ibv_create_srq(of: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq = shared_receive::create_srq;
    ibv_modify_srq(of: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int = shared_receive::modify_srq;
    ibv_query_srq(of: *mut ibv_srq, to: *mut ibv_srq_attr) -> c_int = shared_receive::query_srq;
    ibv_destroy_srq(of: *mut ibv_srq) -> c_int = shared_receive::destroy_srq;
    ibv_create_ah(of: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah = address_handle::create_ah;
    ibv_destroy_ah(of: *mut ibv_ah) -> c_int = address_handle::destroy_ah;
    ibv_init_ah_from_wc(
        of: *mut ibv_context,
        port: u8,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        to: *mut ibv_ah_attr,
    ) -> c_int = address_handle::init_ah_from_wc;
    ibv_create_ah_from_wc(
        of: *mut ibv_pd,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        port: u8,
    ) -> *mut ibv_ah = address_handle::create_ah_from_wc;
    ibv_resolve_eth_l2_from_gid(
        of: *mut ibv_context,
        attr: *mut ibv_ah_attr,
        to: *mut [u8; 6],
        vlan: *mut u16,
    ) -> c_int = address_handle::resolve_eth_l2_from_gid;
}

// Texts, rates, copies, files.
export! {
    ibv_node_type_str(number: c_int) -> *const c_char = strings::node_type_str;
    ibv_port_state_str(number: c_int) -> *const c_char = strings::port_state_str;
    ibv_event_type_str(number: c_int) -> *const c_char = strings::event_type_str;
    ibv_wc_status_str(number: c_int) -> *const c_char = strings::wc_status_str;
    ibv_rate_to_mult(rate: c_int) -> c_int = strings::rate_to_mult;
    mult_to_ibv_rate(mult: c_int) -> c_int = strings::mult_to_rate;
    ibv_rate_to_mbps(rate: c_int) -> c_int = strings::rate_to_mbps;
    mbps_to_ibv_rate(mbps: c_int) -> c_int = strings::mbps_to_rate;
    ibv_copy_ah_attr_from_kern(to: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr) = copy::ah_attr_from_kern;
    ibv_copy_qp_attr_from_kern(to: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr) = copy::qp_attr_from_kern;
    ibv_copy_path_rec_from_kern(
        to: *mut ibv_sa_path_rec,
        from: *const ib_user_path_rec,
    ) = copy::path_rec_from_kern;
    ibv_copy_path_rec_to_kern(to: *mut ib_user_path_rec, from: *const ibv_sa_path_rec) = copy::path_rec_to_kern;
    ibv_get_sysfs_path() -> *const c_char = files::get_sysfs_path;
    ibv_read_sysfs_file(
        dir: *const c_char,
        file: *const c_char,
        to: *mut c_char,
        len: usize,
    ) -> c_int = files::read_sysfs_file;
}

// Refused, whatever the arguments are.
export! {
    ibv_attach_mcast() -> c_int = refused::code;
    ibv_detach_mcast() -> c_int = refused::code;
    ibv_dealloc_dmah() -> c_int = refused::code;
    _ibv_query_comp_cntr_caps() -> c_int = refused::code;
    ibv_destroy_comp_cntr() -> c_int = refused::code;
    ibv_set_comp_cntr() -> c_int = refused::code;
    ibv_set_err_comp_cntr() -> c_int = refused::code;
    ibv_inc_comp_cntr() -> c_int = refused::code;
    ibv_inc_err_comp_cntr() -> c_int = refused::code;
    ibv_read_comp_cntr() -> c_int = refused::code;
    ibv_read_err_comp_cntr() -> c_int = refused::code;
    ibv_qp_attach_comp_cntr() -> c_int = refused::code;
    ibv_import_device() -> *mut c_void = refused::pointer;
    ibv_import_pd() -> *mut c_void = refused::pointer;
    ibv_import_mr() -> *mut c_void = refused::pointer;
    ibv_import_dm() -> *mut c_void = refused::pointer;
    ibv_reg_dmabuf_mr() -> *mut c_void = refused::pointer;
    ibv_alloc_dmah() -> *mut c_void = refused::pointer;
    ibv_alloc_buf() -> *mut c_void = refused::pointer;
    ibv_reg_buf_mr() -> *mut c_void = refused::pointer;
    ibv_create_comp_cntr() -> *mut c_void = refused::pointer;
    ibv_dm_export_dmabuf_fd() -> c_int = refused::descriptor;
    ibv_export_buf_dmabuf_fd() -> c_int = refused::descriptor;
    ibv_unimport_pd() = refused::nothing;
    ibv_unimport_mr() = refused::nothing;
    ibv_unimport_dm() = refused::nothing;
    ibv_free_buf() = refused::nothing;
}

// Functions of libc that look for files of adapters.
export! {
    open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = calls::open;
    open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = calls::open;
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = calls::openat;
    openat64(dir: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = calls::openat;
    fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE = calls::fopen;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE = calls::fopen;
    access(path: *const c_char, mode: c_int) -> c_int = calls::access;
    faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int = calls::faccessat;
    fstatat(dir: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int = calls::fstatat;
    fstatat64(dir: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int = calls::fstatat;
    statx(dir: c_int, path: *const c_char, flags: c_int, mask: u32, to: *mut libc::statx) -> c_int = calls::statx;
    stat(path: *const c_char, to: *mut libc::stat) -> c_int = calls::stat;
    stat64(path: *const c_char, to: *mut libc::stat) -> c_int = calls::stat;
    lstat(path: *const c_char, to: *mut libc::stat) -> c_int = calls::lstat;
    lstat64(path: *const c_char, to: *mut libc::stat) -> c_int = calls::lstat;
    __xstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int = calls::xstat;
    __xstat64(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int = calls::xstat;
    __lxstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int = calls::lxstat;
    __lxstat64(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int = calls::lxstat;
    realpath(path: *const c_char, to: *mut c_char) -> *mut c_char = calls::realpath;
    readlink(path: *const c_char, to: *mut c_char, len: usize) -> ssize_t = calls::readlink;
    opendir(path: *const c_char) -> *mut libc::DIR = calls::opendir;
    closedir(of: *mut libc::DIR) -> c_int = calls::closedir;
}

// Functions of libc on descriptors, in which threads may be cancelled.
export! { as "C-unwind":
    fstat(fd: c_int, to: *mut libc::stat) -> c_int = descriptors::fstat;
    fstat64(fd: c_int, to: *mut libc::stat) -> c_int = descriptors::fstat;
    __fxstat(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int = descriptors::fxstat;
    __fxstat64(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int = descriptors::fxstat;
    write(fd: c_int, from: *const c_void, len: usize) -> ssize_t = descriptors::write;
    close(fd: c_int) -> c_int = descriptors::close;
    madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int = advice::madvise;
}
