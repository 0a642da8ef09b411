//! `libangara_mpi_large.so`: preloaded beside `libangara_mpi.so` where the MPI library has calls with counts of 64 bits.

use angara_mpi_calls::wrap;

wrap! {
    Waits {
        Send_c(6) Ssend_c(6) Bsend_c(6) Rsend_c(6) Recv_c(7) Sendrecv_c(12) Sendrecv_replace_c(9) Mrecv_c(5)
        Bcast_c(5) Gather_c(8) Gatherv_c(9) Scatter_c(8) Scatterv_c(9) Allgather_c(7) Allgatherv_c(8)
        Alltoall_c(7) Alltoallv_c(9) Alltoallw_c(9) Reduce_c(7) Allreduce_c(6)
        Reduce_scatter_c(6) Reduce_scatter_block_c(6) Scan_c(6) Exscan_c(6)
        Neighbor_allgather_c(7) Neighbor_allgatherv_c(8) Neighbor_alltoall_c(7) Neighbor_alltoallv_c(9)
        Neighbor_alltoallw_c(9) Win_create_c(6) Win_allocate_c(6) Win_allocate_shared_c(6)
    }
    Starts {
        Isend_c(7) Issend_c(7) Ibsend_c(7) Irsend_c(7) Irecv_c(7) Imrecv_c(5)
        Ibcast_c(6) Igather_c(9) Iallgather_c(8) Ialltoall_c(8) Ialltoallv_c(10) Ireduce_c(8) Iallreduce_c(7)
        Put_c(8) Get_c(8) Accumulate_c(9) Get_accumulate_c(12)
    }
}
