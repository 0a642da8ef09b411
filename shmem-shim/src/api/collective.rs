//! Barriers and data-moving collectives over teams.

use crate::ctypes::*;
use crate::rt::coll;
use crate::rt::transfer::{Strides, Transfer};

api! { SYNC;
    current fn shmem_barrier_all() = coll::barrier_all();
    current fn shmem_sync_all() = coll::sync_all();
    current fn shmem_team_sync(team: shmem_team_t) -> int = coll::team_sync(team);
}

macro_rules! typed {
    ($($n:ident $T:ident),*) => { ::pastey::paste! {
        $(api! { [<LIST_ $n:upper>];
            current fn [<shmem_ $n _broadcast>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t, PE_root: int) -> int = coll::broadcast(team, Transfer::of(dest, source, nelems), PE_root);
            current fn [<shmem_ $n _collect>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t) -> int = coll::collect(team, Transfer::of(dest, source, nelems));
            current fn [<shmem_ $n _fcollect>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t) -> int = coll::fcollect(team, Transfer::of(dest, source, nelems));
            current fn [<shmem_ $n _alltoall>](team: shmem_team_t, dest: *mut $T, source: *const $T, nelems: size_t) -> int = coll::alltoall(team, Transfer::of(dest, source, nelems));
            current fn [<shmem_ $n _alltoalls>](team: shmem_team_t, dest: *mut $T, source: *const $T, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t) -> int = coll::alltoalls(team, Transfer::of(dest, source, nelems), Strides { dst, sst });
        })*
        #[cfg(test)]
        const TYPED: &[&[crate::api::Sig]] = &[$([<LIST_ $n:upper>]),*];
    }};
}
for_std_rma!(typed);

api! { MEM;
    current fn shmem_broadcastmem(team: shmem_team_t, dest: *mut void, source: *const void, nelems: size_t, PE_root: int) -> int = coll::broadcast(team, Transfer::sized(dest, source, nelems, 1), PE_root);
    current fn shmem_collectmem(team: shmem_team_t, dest: *mut void, source: *const void, nelems: size_t) -> int = coll::collect(team, Transfer::sized(dest, source, nelems, 1));
    current fn shmem_fcollectmem(team: shmem_team_t, dest: *mut void, source: *const void, nelems: size_t) -> int = coll::fcollect(team, Transfer::sized(dest, source, nelems, 1));
    current fn shmem_alltoallmem(team: shmem_team_t, dest: *mut void, source: *const void, nelems: size_t) -> int = coll::alltoall(team, Transfer::sized(dest, source, nelems, 1));
    current fn shmem_alltoallsmem(team: shmem_team_t, dest: *mut void, source: *const void, dst: ptrdiff_t, sst: ptrdiff_t, nelems: size_t) -> int = coll::alltoalls(team, Transfer::sized(dest, source, nelems, 1), Strides { dst, sst });
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[&[SYNC], TYPED, &[MEM]];
