//! Starting, ending and asking about the job.

use crate::ctypes::*;
use crate::rt::{init, shmemx};

api! { SETUP;
    current fn shmem_init() = init::init();
    current fn shmem_init_thread(requested: int, provided: *mut int) -> int = init::init_thread(requested, provided);
    current fn shmem_query_thread(provided: *mut int) = init::query_thread(provided);
    current fn shmem_query_initialized(initialized: *mut int) = init::query_initialized(initialized);
    current fn shmem_finalize() = init::finalize();
    current fn shmem_global_exit(status: int) -> ! = init::global_exit(status);
    current fn shmem_my_pe() -> int = init::my_pe();
    current fn shmem_n_pes() -> int = init::n_pes();
    current fn shmem_info_get_version(major: *mut int, minor: *mut int) = init::version(major, minor);
    current fn shmem_info_get_name(name: *mut char) = init::name(name);
    current fn shmem_pcontrol(level: int) = init::pcontrol(level);
    current fn shmem_wtime() -> double = shmemx::wtime();
    deprecated fn start_pes(npes: int) = init::start_pes(npes);
    deprecated fn _my_pe() -> int = init::my_pe();
    deprecated fn _num_pes() -> int = init::n_pes();
}
#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[&[SETUP]];
