//! `libangara_mpi_large.so`: preloaded beside `libangara_mpi.so` where the MPI library has calls with counts of 64 bits.

use angara_mpi_calls::wrap;

wrap! {
    Waits {
        Send_c(6) Ssend_c(6) Bsend_c(6) Rsend_c(6) Recv_c(7) Sendrecv_c(12) Sendrecv_replace_c(9) Mrecv_c(5)
        Bcast_c(5) Gather_c(8) Gatherv_c(9) Scatter_c(8) Scatterv_c(9) Allgather_c(7) Allgatherv_c(8)
        Alltoall_c(7) Alltoallv_c(9) Alltoallw_c(9) Reduce_c(7) Allreduce_c(6)
        Reduce_scatter_c(6) Reduce_scatter_block_c(6) Scan_c(6) Exscan_c(6)
        Neighbor_allgather_c(7) Neighbor_allgatherv_c(8) Neighbor_alltoall_c(7) Neighbor_alltoallv_c(9)
        Neighbor_alltoallw_c(9) Buffer_detach_c(2)
        Allgather_init_c(9) Allgatherv_init_c(10) Allreduce_init_c(8) Alltoall_init_c(9) Alltoallv_init_c(11)
        Alltoallw_init_c(11) Bcast_init_c(7) Exscan_init_c(8) Gather_init_c(10) Gatherv_init_c(11)
        Neighbor_allgather_init_c(9) Neighbor_allgatherv_init_c(10) Neighbor_alltoall_init_c(9)
        Neighbor_alltoallv_init_c(11) Neighbor_alltoallw_init_c(11) Reduce_init_c(9) Reduce_scatter_block_init_c(8)
        Reduce_scatter_init_c(8) Scan_init_c(8) Scatter_init_c(10) Scatterv_init_c(11)
        File_read_all_c(5) File_read_at_all_c(6) File_write_all_c(5) File_write_at_all_c(6)
        File_read_ordered_c(5) File_write_ordered_c(5) File_read_all_begin_c(4) File_read_at_all_begin_c(5)
        File_write_all_begin_c(4) File_write_at_all_begin_c(5) File_read_ordered_begin_c(4)
        File_write_ordered_begin_c(4)
    }
    Windows {
        Win_create_c(6) Win_allocate_c(6)
    }
    Shares {
        Win_allocate_shared_c(6)
    }
    Starts {
        Isend_c(7) Issend_c(7) Ibsend_c(7) Irsend_c(7) Irecv_c(7) Imrecv_c(5)
        Isendrecv_c(12) Isendrecv_replace_c(9)
        Ibcast_c(6) Igather_c(9) Igatherv_c(10) Iscatter_c(9) Iscatterv_c(10) Iallgather_c(8) Iallgatherv_c(9)
        Ialltoall_c(8) Ialltoallv_c(10) Ialltoallw_c(10) Ireduce_c(8) Iallreduce_c(7) Ireduce_scatter_c(7)
        Ireduce_scatter_block_c(7) Iscan_c(7) Iexscan_c(7)
        Ineighbor_allgather_c(8) Ineighbor_allgatherv_c(9) Ineighbor_alltoall_c(8) Ineighbor_alltoallv_c(10)
        Ineighbor_alltoallw_c(10)
        Put_c(8) Get_c(8) Accumulate_c(9) Get_accumulate_c(12) Rput_c(9) Rget_c(9) Raccumulate_c(10)
        Rget_accumulate_c(13)
        File_read_c(5) File_read_at_c(6) File_read_shared_c(5) File_write_c(5) File_write_at_c(6)
        File_write_shared_c(5) File_iread_c(5) File_iread_at_c(6) File_iread_all_c(5) File_iread_at_all_c(6)
        File_iread_shared_c(5) File_iwrite_c(5) File_iwrite_at_c(6) File_iwrite_all_c(5) File_iwrite_at_all_c(6)
        File_iwrite_shared_c(5)
    }
}
