//! `libangara_mpi_4.so`: preloaded beside `libangara_mpi.so` where the MPI library has the calls of MPI 4.0: sessions, partitioned
//! messages, persistent collectives.

use angara_mpi_calls::{Real, begins_session, c_name, ends_session, makes_contact, wrap};
use core::ffi::{c_int, c_void};

wrap! {
    Waits {
        Allgather_init(9) Allgatherv_init(10) Allreduce_init(8) Alltoall_init(9) Alltoallv_init(11) Alltoallw_init(11)
        Barrier_init(3) Bcast_init(7) Exscan_init(8) Gather_init(10) Gatherv_init(11) Neighbor_allgather_init(9)
        Neighbor_allgatherv_init(10) Neighbor_alltoall_init(9) Neighbor_alltoallv_init(11)
        Neighbor_alltoallw_init(11) Reduce_init(9) Reduce_scatter_block_init(8) Reduce_scatter_init(8) Scan_init(8)
        Scatter_init(10) Scatterv_init(11)
    }
    Looks {
        Parrived(3)
    }
    Starts {
        Isendrecv(12) Isendrecv_replace(9) Psend_init(9) Precv_init(9) Pready(2) Pready_range(3) Pready_list(3)
        Comm_idup_with_info(4)
    }
}

/// Calls of sessions, of N arguments.
macro_rules! session {
    ($($does:ident $name:ident($($arg:ident)*) $(with $args:tt)?;)*) => {$(
        /// # Safety
        /// As the function of the MPI library.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "MPI's names")]
        pub unsafe extern "C-unwind" fn $name($($arg: usize),*) -> c_int {
            static REAL: Real = Real::new(c_name!($name));
            type Function = unsafe extern "C-unwind" fn($(session!(@word $arg)),*) -> c_int;
            // SAFETY: the MPI library's function of this name, which has as many arguments.
            let function = unsafe { core::mem::transmute::<*mut c_void, Function>(REAL.find()) };
            // SAFETY: the caller promises what the callee asks for.
            $does(&REAL, $(&$args,)? || unsafe { function($($arg),*) })
        }
    )*};
    (@word $arg:ident) => { usize };
}

session! {
    begins_session MPI_Session_init(a b c);
    begins_session PMPI_Session_init(a b c);
    ends_session MPI_Session_finalize(a);
    ends_session PMPI_Session_finalize(a);
    makes_contact MPI_Comm_create_from_group(a b c d e) with [a, b, c, d, e];
    makes_contact PMPI_Comm_create_from_group(a b c d e) with [a, b, c, d, e];
    makes_contact MPI_Intercomm_create_from_groups(a b c d e f g h) with [a, b, c, d, e, f, g, h];
    makes_contact PMPI_Intercomm_create_from_groups(a b c d e f g h) with [a, b, c, d, e, f, g, h];
}
