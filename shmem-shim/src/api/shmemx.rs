//! Extensions declared in `shmemx.h`: where a PE lies in the torus, what it sends, and what the routers do.

use crate::ctypes::*;
use crate::rt::{init, shmemx};

api! { TORUS;
    current fn shmemx_pe_coords(pe: int, coords: *mut int) -> int = init::coords(pe, coords);
    current fn shmemx_torus_dims(dims: *mut int) -> int = init::dims(dims);
    current fn shmemx_pe_hops(pe: int) -> int = init::hops(pe);
    current fn shmemx_wtime() -> double = shmemx::wtime();
    current fn shmemx_compute(nanoseconds: uint64_t) = shmemx::compute(nanoseconds);
    current fn shmemx_link_traffic(coords: *const int, dimension: int, direction: int, packets: *mut size_t, bytes: *mut size_t) -> int = shmemx::link_traffic(coords, dimension, direction, packets, bytes);
    current fn shmemx_pe_traffic(pe: int, traffic_class: int, ops: *mut size_t, packets: *mut size_t, bytes: *mut size_t) -> int = shmemx::traffic(pe, traffic_class, ops, packets, bytes);
}
api! { ROUTERS;
    current fn shmemx_half_barrier_all() = shmemx::half_barrier_all();
    current fn shmemx_tree_open(team: shmem_team_t, PE_root: int) -> int = shmemx::tree_open(team, PE_root);
    current fn shmemx_tree_close(team: shmem_team_t, tree: int) = shmemx::tree_close(team, tree);
    current fn shmemx_tree_reduce_nb(tree: int, op: int, elem: int, source: *const void, nelems: size_t) -> long = shmemx::tree_reduce_nb(tree, op, elem, source.cast(), nelems);
    current fn shmemx_tree_broadcast_nb(tree: int, dest: *mut void, source: *const void, nelems: size_t, pe: int) -> long = shmemx::tree_broadcast_nb(tree, dest.cast(), source.cast(), nelems, pe);
    current fn shmemx_test(request: long) -> int = shmemx::test(request);
    current fn shmemx_wait(request: long, dest: *mut void) = shmemx::wait(request, dest.cast());
}

#[cfg(test)]
pub(crate) const LISTS: &[&[crate::api::Sig]] = &[TORUS, ROUTERS];
