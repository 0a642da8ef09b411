//! `libangara_mpi.so`: preloaded into MPI programs by `angara run --clock virtual`, it says when virtual time begins and
//! ends, and what waits in a call. It has the names that all MPI libraries have.

use angara_mpi_calls::{Real, begins, c_name, ends, seconds, wrap};
use core::ffi::{c_int, c_void};

wrap! {
    Waits {
        Send(6) Ssend(6) Bsend(6) Rsend(6) Recv(7) Sendrecv(12) Sendrecv_replace(9)
        Wait(2) Waitall(3) Waitany(4) Waitsome(5) Probe(4) Mprobe(5) Mrecv(5) Buffer_detach(2)
        Barrier(1) Bcast(5) Gather(8) Gatherv(9) Scatter(8) Scatterv(9) Allgather(7) Allgatherv(8)
        Alltoall(7) Alltoallv(9) Alltoallw(9) Reduce(7) Allreduce(6) Reduce_scatter(6) Reduce_scatter_block(6)
        Scan(6) Exscan(6)
        Neighbor_allgather(7) Neighbor_allgatherv(8) Neighbor_alltoall(7) Neighbor_alltoallv(9) Neighbor_alltoallw(9)
        Comm_dup(2) Comm_dup_with_info(3) Comm_split(4) Comm_split_type(5) Comm_create(3) Comm_create_group(4)
        Intercomm_create(6) Intercomm_merge(3)
        Cart_create(6) Cart_sub(3) Graph_create(6) Dist_graph_create(9) Dist_graph_create_adjacent(10)
        Win_fence(2) Win_start(3) Win_complete(1) Win_post(3) Win_wait(1) Win_free(1)
        Win_lock(4) Win_unlock(2) Win_lock_all(2) Win_unlock_all(1)
        Win_flush(2) Win_flush_all(1) Win_flush_local(2) Win_flush_local_all(1)
        Comm_spawn(8) Comm_spawn_multiple(9) Comm_accept(5) Comm_connect(5) Comm_join(2) Comm_disconnect(1)
        File_open(5) File_close(1) File_set_view(6) File_set_size(2) File_preallocate(2) File_sync(1)
        File_seek_shared(3)
        File_read_all(5) File_read_at_all(6) File_write_all(5) File_write_at_all(6)
        File_read_ordered(5) File_write_ordered(5)
        File_read_all_begin(4) File_read_all_end(3) File_read_at_all_begin(5) File_read_at_all_end(3)
        File_write_all_begin(4) File_write_all_end(3) File_write_at_all_begin(5) File_write_at_all_end(3)
        File_read_ordered_begin(4) File_read_ordered_end(3) File_write_ordered_begin(4) File_write_ordered_end(3)
    }
    Windows {
        Win_create(6) Win_allocate(6) Win_create_dynamic(3)
    }
    Shares {
        Win_allocate_shared(6)
    }
    Looks {
        Test(3) Testall(4) Testany(5) Testsome(5) Iprobe(5) Improbe(6) Request_get_status(3) Win_test(2)
    }
    Starts {
        Isend(7) Issend(7) Ibsend(7) Irsend(7) Irecv(7) Imrecv(5) Start(1) Startall(2) Cancel(1)
        Ibarrier(2) Ibcast(6) Igather(9) Igatherv(10) Iscatter(9) Iscatterv(10) Iallgather(8) Iallgatherv(9)
        Ialltoall(8) Ialltoallv(10) Ialltoallw(10) Ireduce(8) Iallreduce(7) Ireduce_scatter(7)
        Ireduce_scatter_block(7) Iscan(7) Iexscan(7) Comm_idup(3)
        Ineighbor_allgather(8) Ineighbor_allgatherv(9) Ineighbor_alltoall(8) Ineighbor_alltoallv(10)
        Ineighbor_alltoallw(10)
        Put(8) Get(8) Accumulate(9) Fetch_and_op(7) Compare_and_swap(7) Rput(9) Rget(9) Raccumulate(10)
        Get_accumulate(12) Rget_accumulate(13) Comm_free(1) Win_sync(1) Request_free(1) Grequest_complete(1)
        File_read(5) File_read_at(6) File_read_shared(5) File_write(5) File_write_at(6) File_write_shared(5)
        File_iread(5) File_iread_at(6) File_iread_all(5) File_iread_at_all(6) File_iread_shared(5)
        File_iwrite(5) File_iwrite_at(6) File_iwrite_all(5) File_iwrite_at_all(6) File_iwrite_shared(5)
    }
}

/// `MPI_Init` and its kin, of N arguments.
macro_rules! begin {
    ($($name:ident($($arg:ident),*))*) => {$(
        /// # Safety
        /// As the function of the MPI library.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "MPI's names")]
        pub unsafe extern "C-unwind" fn $name($($arg: usize),*) -> c_int {
            static REAL: Real = Real::new(c_name!($name));
            type Function = unsafe extern "C-unwind" fn($(begin!(@word $arg)),*) -> c_int;
            // SAFETY: the MPI library's function of this name, which has as many arguments.
            let function = unsafe { core::mem::transmute::<*mut c_void, Function>(REAL.find()) };
            // SAFETY: the caller promises what the callee asks for.
            begins(|| unsafe { function($($arg),*) })
        }
    )*};
    (@word $arg:ident) => { usize };
}

begin! { MPI_Init(a, b) PMPI_Init(a, b) MPI_Init_thread(a, b, c, d) PMPI_Init_thread(a, b, c, d) }

macro_rules! end {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the function of the MPI library.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "MPI's names")]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            static REAL: Real = Real::new(c_name!($name));
            // SAFETY: the MPI library's function of this name, which has no arguments.
            let function = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> c_int>(REAL.find()) };
            // SAFETY: the caller promises what the callee asks for.
            ends(&REAL, || unsafe { function() })
        }
    )*};
}

end! { MPI_Finalize PMPI_Finalize }

/// Functions that return seconds: the program's, or how long one of its ticks is.
macro_rules! clock {
    ($($name:ident: $ours:expr),*) => {$(
        /// # Safety
        /// As the function of the MPI library.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "MPI's names")]
        pub unsafe extern "C" fn $name() -> f64 {
            static REAL: Real = Real::new(c_name!($name));
            let ours: Option<f64> = $ours;
            ours.unwrap_or_else(|| {
                // SAFETY: the MPI library's function of this name, which has no arguments.
                unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> f64>(REAL.find())() }
            })
        }
    )*};
}

/// What the program's clock counts by.
const TICK: f64 = 1e-9;

clock! {
    MPI_Wtime: seconds(), PMPI_Wtime: seconds(),
    MPI_Wtick: seconds().map(|_| TICK), PMPI_Wtick: seconds().map(|_| TICK)
}
